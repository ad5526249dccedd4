// A growing text on the page. Finished blocks are never touched again; the open one is rendered at most once a frame.

import { type Block, BlockSplitter } from './blocks.ts';
import { codeBlock, renderBlock } from './render.ts';

export class MarkdownView {
  readonly #element: HTMLElement;
  #splitter = new BlockSplitter();
  #open: HTMLElement | null = null;
  /** The code element of an open code block, whose text only grows. */
  #code: { element: HTMLElement; length: number } | null = null;
  #dirty = false;
  #frame = 0;
  #pending = '';

  constructor(element: HTMLElement) {
    this.#element = element;
  }

  append(text: string): void {
    this.#pending += text;
    this.#schedule();
  }

  /** Begins again with this text. */
  replace(text: string): void {
    this.#splitter = new BlockSplitter();
    this.#element.replaceChildren();
    this.#open = null;
    this.#code = null;
    this.#pending = text;
    this.render();
  }

  destroy(): void {
    cancelAnimationFrame(this.#frame);
  }

  #schedule(): void {
    if (this.#dirty) return;
    this.#dirty = true;
    // A hidden page has no frames; its text must not pile up.
    if (document.hidden) queueMicrotask(() => this.render());
    else this.#frame = requestAnimationFrame(() => this.render());
  }

  render(): void {
    this.#dirty = false;
    const text = this.#pending;
    this.#pending = '';
    for (const block of this.#splitter.push(text)) this.#finish(block);
    this.#showOpen(this.#splitter.open);
  }

  #finish(block: Block): void {
    const box = this.#box();
    box.replaceChildren(renderBlock(block.text));
    this.#open = null;
    this.#code = null;
  }

  #box(): HTMLElement {
    if (!this.#open) {
      this.#open = document.createElement('div');
      this.#open.className = 'md-block';
      this.#element.append(this.#open);
    }
    return this.#open;
  }

  #showOpen(block: Block): void {
    if (!block.text.trim()) {
      this.#open?.remove();
      this.#open = null;
      this.#code = null;
      return;
    }
    const box = this.#box();
    const code = openCode(block);
    if (code === null) {
      this.#code = null;
      box.replaceChildren(renderBlock(block.text));
    } else if (this.#code && code.content.length >= this.#code.length) {
      this.#code.element.append(code.content.slice(this.#code.length));
      this.#code.length = code.content.length;
    } else {
      const figure = codeBlock(code.content, code.language, false);
      const element = figure.querySelector('code');
      box.replaceChildren(figure);
      this.#code = element ? { element, length: code.content.length } : null;
    }
  }
}

/** The content of a code block that is still being written and stands alone. */
function openCode(block: Block): { content: string; language: string } | null {
  if (block.fence === null || !block.text.startsWith(block.fence)) return null;
  const end = block.text.indexOf('\n');
  if (end < 0) return null;
  return { content: block.text.slice(end + 1), language: block.text.slice(block.fence.length, end).trim().split(/\s+/)[0] ?? '' };
}
