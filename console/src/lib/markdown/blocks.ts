// Splits Markdown that is still being written into blocks. Only the last block can change when more text comes, so only
// it is rendered again.

export interface Block {
  text: string;
  /** The characters that opened the fence, if the block is a code block that is still open or was closed. */
  fence: string | null;
}

/** A block that grows beyond this is ended at a line, so that rendering it again stays cheap. In characters. */
const MAX_OPEN_CHARACTERS = 16_384;

const FENCE = /^\s{0,3}(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*\s*(`{3,}|~{3,})/;
const LIST_ITEM = /^\s{0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const QUOTE = /^\s{0,3}>/;

export class BlockSplitter {
  /** Blocks that no further text changes. */
  readonly #closed: Block[] = [];
  #open = '';
  #fence: string | null = null;
  /** The first line of the open block. */
  #head = '';
  #blankBefore = false;
  /** The line that has no end yet. */
  #line = '';
  /** The fence of the block that was just closed, so that the block is known as code. */
  #wasFence: string | null = null;

  /** Takes more text, and returns the blocks that it has finished. */
  push(text: string): Block[] {
    this.#closed.length = 0;
    let rest = this.#line + text;
    this.#line = '';
    let end = rest.indexOf('\n');
    while (end >= 0) {
      this.#take(rest.slice(0, end + 1));
      rest = rest.slice(end + 1);
      end = rest.indexOf('\n');
    }
    this.#line = rest;
    if (this.#line.length > MAX_OPEN_CHARACTERS) this.#cutLine();
    return [...this.#closed];
  }

  /** The block that can still change. */
  get open(): Block {
    // A new line may already say that the block before it is complete.
    return { text: this.#open + this.#line, fence: this.#fence ?? this.#wasFence };
  }

  #take(line: string): void {
    if (this.#fence !== null) {
      this.#open += line;
      if (this.#closes(line)) {
        this.#wasFence = this.#fence;
        this.#fence = null;
        if (/^(`|~)/.test(this.#head.trimStart()) && !/^\s/.test(this.#head)) this.#close();
      } else this.#bound();
      return;
    }
    if (line.trim() === '') {
      if (this.#open) this.#open += line;
      this.#blankBefore = this.#open !== '';
      return;
    }
    const fence = FENCE.exec(line)?.[1] ?? null;
    const starts = fence !== null && !/^\s/.test(line) && /^[`~]/.test(line);
    if ((this.#blankBefore && !this.#continues(line)) || (starts && this.#open && !this.#isContainer())) this.#close();
    this.#blankBefore = false;
    if (this.#open === '') this.#head = line;
    this.#open += line;
    if (fence !== null && !isClosedInLine(line, fence)) this.#fence = fence;
    this.#bound();
  }

  #closes(line: string): boolean {
    const bare = line.replace(/^[\s>]*/, '').trimEnd();
    const fence = this.#fence ?? '';
    return bare.length >= fence.length && bare === (fence[0] ?? '').repeat(bare.length);
  }

  #isContainer(): boolean {
    return LIST_ITEM.test(this.#head) || QUOTE.test(this.#head);
  }

  /** Whether a line after a blank one still belongs to the block. */
  #continues(line: string): boolean {
    if (LIST_ITEM.test(this.#head)) return /^\s/.test(line) || LIST_ITEM.test(line);
    return /^(\s{4}|\t)/.test(line) && /^(\s{4}|\t)/.test(this.#head);
  }

  #bound(): void {
    if (this.#open.length <= MAX_OPEN_CHARACTERS) return;
    const fence = this.#fence;
    this.#close(fence);
    if (fence !== null) {
      // The rest of a long code block goes on as a code block.
      this.#fence = fence;
      this.#head = `${fence}\n`;
      this.#open = this.#head;
    }
  }

  #cutLine(): void {
    const end = this.#line.charCodeAt(MAX_OPEN_CHARACTERS - 1) >> 10 === 0x36 ? MAX_OPEN_CHARACTERS - 1 : MAX_OPEN_CHARACTERS;
    this.#open += this.#line.slice(0, end);
    this.#line = this.#line.slice(end);
    this.#bound();
  }

  #close(fence: string | null = this.#wasFence): void {
    if (this.#open) this.#closed.push({ text: this.#open, fence });
    this.#open = '';
    this.#head = '';
    this.#fence = null;
    this.#wasFence = null;
    this.#blankBefore = false;
  }
}

/** Whether the fence closes in its line, such as ``` code ```, and so opens nothing. */
function isClosedInLine(line: string, fence: string): boolean {
  if (fence[0] !== '`') return false;
  const after = line.slice(line.indexOf(fence) + fence.length);
  return after.includes('`');
}
