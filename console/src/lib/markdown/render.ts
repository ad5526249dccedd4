// Markdown as nodes of the page. Nothing is ever parsed as HTML: each element is made by name from a short list, and text
// is only text. So no text of a model, a tool or a document can run or load anything.

import MarkdownIt from 'markdown-it';
import { strings } from '../../strings.ts';
import { highlight } from './highlight.ts';

type Parser = InstanceType<typeof MarkdownIt>;
type Token = ReturnType<InstanceType<typeof MarkdownIt>['parse']>[number];

const parser = new MarkdownIt({ html: false, linkify: true, breaks: false, typographer: false, maxNesting: 24 });
// A bare domain is not a link: models often mean a file or a module.
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });

addFootnotes(parser);

const ELEMENTS = new Set(['p', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'strong', 'em', 's']);

/** Headings of an answer stand below those of the page. */
const HEADINGS: Record<string, string> = { h1: 'h3', h2: 'h4', h3: 'h5', h4: 'h6', h5: 'h6', h6: 'h6' };

/** Elements of one block at most; the rest is shown as plain text. */
const MAX_TOKENS = 20_000;

/** The address of a link that may be opened, or null. */
export function safeAddress(value: string | null): string | null {
  if (!value || /[\u0000-\u0020]/.test(value.trim())) return null;
  try {
    const url = new URL(value);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function renderBlock(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  let tokens: Token[];
  try {
    tokens = parser.parse(text, {});
  } catch {
    tokens = [];
  }
  if (tokens.length === 0 || tokens.length > MAX_TOKENS) {
    if (text.trim()) fragment.append(plain(text));
    return fragment;
  }
  build(tokens, fragment);
  return fragment;
}

function attribute(token: Token, name: string): string | null {
  const value = token.attrGet(name);
  return value === null ? null : String(value);
}

function plain(text: string): HTMLElement {
  const paragraph = document.createElement('p');
  paragraph.textContent = text;
  return paragraph;
}

function build(tokens: Token[], root: ParentNode & Node): void {
  const stack: Node[] = [root];
  const top = (): Node => stack[stack.length - 1] ?? root;
  for (const token of tokens) {
    if (token.hidden) continue;
    if (token.nesting === 1) {
      const made = opened(token);
      top().appendChild(made.outer);
      stack.push(made.inner);
    } else if (token.nesting === -1) {
      if (stack.length > 1) stack.pop();
    } else leaf(token, top());
  }
}

function opened(token: Token): { outer: Node; inner: Node } {
  if (token.tag === 'a') {
    const link = anchor(attribute(token, 'href'));
    return { outer: link, inner: link };
  }
  if (token.type === 'footnote_open') return footnote(token.info);
  const tag = HEADINGS[token.tag] ?? token.tag;
  const element = document.createElement(ELEMENTS.has(token.tag) ? tag : 'span');
  if (token.tag === 'p' || token.tag === 'li' || token.tag in HEADINGS) element.dir = 'auto';
  if (token.tag === 'ol') {
    const start = Number(attribute(token, 'start'));
    if (Number.isSafeInteger(start) && start > 1) element.setAttribute('start', String(start));
  }
  const align = /text-align:\s*(right|center)/.exec(attribute(token, 'style') ?? '')?.[1];
  if (align) element.className = `align-${align}`;
  if (token.tag !== 'table') return { outer: element, inner: element };
  const box = document.createElement('div');
  box.className = 'md-table';
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', strings.markdown.table);
  box.append(element);
  return { outer: box, inner: element };
}

function anchor(href: string | null): HTMLElement {
  const safe = safeAddress(href);
  if (!safe) {
    const span = document.createElement('span');
    span.className = 'md-dead-link';
    span.title = strings.markdown.deadLink;
    return span;
  }
  const link = document.createElement('a');
  link.href = safe;
  link.rel = 'noreferrer noopener';
  link.target = '_blank';
  link.title = safe;
  return link;
}

function leaf(token: Token, parent: Node): void {
  switch (token.type) {
    case 'inline':
      build(token.children ?? [], parent as HTMLElement);
      warnAboutHosts(parent as HTMLElement);
      return;
    case 'text':
    case 'text_special':
      parent.appendChild(document.createTextNode(token.content));
      return;
    case 'code_inline': {
      const code = document.createElement('code');
      code.textContent = token.content;
      parent.appendChild(code);
      return;
    }
    case 'fence':
    case 'code_block':
      parent.appendChild(codeBlock(token.content, token.info.trim().split(/\s+/)[0] ?? ''));
      return;
    case 'softbreak':
      parent.appendChild(document.createTextNode('\n'));
      return;
    case 'hardbreak':
      parent.appendChild(document.createElement('br'));
      return;
    case 'hr':
      parent.appendChild(document.createElement('hr'));
      return;
    case 'image': {
      // An image is never fetched: its address could carry data away. The reader may open it.
      const link = anchor(attribute(token, 'src'));
      link.classList.add('md-image');
      link.textContent = strings.markdown.image(token.content);
      parent.appendChild(link);
      return;
    }
    case 'footnote_ref':
      parent.appendChild(noteMark(token.content));
      return;
    default:
      parent.appendChild(document.createTextNode(token.content));
  }
}

/** A link whose words name another host shows the real one. */
function warnAboutHosts(parent: HTMLElement): void {
  if (!('querySelectorAll' in parent)) return;
  for (const link of Array.from(parent.querySelectorAll(':scope a')) as HTMLAnchorElement[]) {
    const named = /^(?:https?:\/\/)?([\w-]+(?:\.[\w-]+)+)/i.exec((link.textContent ?? '').trim())?.[1]?.toLowerCase();
    const host = link.protocol === 'mailto:' ? null : link.hostname.toLowerCase();
    if (!named || !host || named === host || host === `www.${named}` || link.dataset.host) continue;
    const real = document.createElement('span');
    real.className = 'md-host';
    real.textContent = ` (${host})`;
    link.dataset.host = host;
    link.append(real);
  }
}

export function codeBlock(content: string, language: string, colours = true): HTMLElement {
  const figure = document.createElement('figure');
  figure.className = 'md-code';
  const head = document.createElement('figcaption');
  const name = document.createElement('span');
  name.textContent = language.slice(0, 24) || 'text';
  const copy = document.createElement('button');
  copy.type = 'button';
  copy.className = 'md-copy';
  copy.textContent = strings.copy;
  const pre = document.createElement('pre');
  pre.tabIndex = 0;
  const code = document.createElement('code');
  if (colours) code.append(...highlight(content, language));
  else code.textContent = content;
  copy.addEventListener('click', () => {
    void navigator.clipboard?.writeText(code.textContent ?? '').then(() => {
      copy.textContent = strings.copied;
      setTimeout(() => (copy.textContent = strings.copy), 1500);
    });
  });
  head.append(name, copy);
  pre.append(code);
  figure.append(head, pre);
  return figure;
}

/** `[^1]` or `[^a-note]`. */
const NOTE = /^\[\^([^\]\s^]{1,40})\]/;

/**
 * `[^1]` in a text, and `[^1]: …` as a block of its own. A note is shown where it is written: a block is rendered without
 * those before and after it.
 */
function addFootnotes(markdown: Parser): void {
  markdown.inline.ruler.before('link', 'footnote_ref', (state, silent) => {
    if (state.src.charCodeAt(state.pos) !== 0x5b || state.src.charCodeAt(state.pos + 1) !== 0x5e) return false;
    const found = NOTE.exec(state.src.slice(state.pos, state.pos + 44));
    if (!found) return false;
    if (!silent) state.push('footnote_ref', '', 0).content = found[1] ?? '';
    state.pos += found[0].length;
    return true;
  });
  markdown.block.ruler.before(
    'reference',
    'footnote',
    (state, line, last, silent) => {
      const begin = (state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0);
      const text = state.src.slice(begin, state.eMarks[line]);
      const found = NOTE.exec(text);
      if (!found || text[found[0].length] !== ':') return false;
      if (silent) return true;
      // Until a blank line, or the next note.
      let next = line + 1;
      while (next < last && !state.isEmpty(next) && !/^\s*\[\^[^\]\s]+\]:/.test(state.src.slice(state.bMarks[next], state.eMarks[next]))) next += 1;
      const open = state.push('footnote_open', 'p', 1);
      open.info = found[1] ?? '';
      const inline = state.push('inline', '', 0);
      inline.content = [text.slice(found[0].length + 1), ...Array.from({ length: next - line - 1 }, (_, more) => state.src.slice(state.bMarks[line + 1 + more], state.eMarks[line + 1 + more]))].map((each) => each.trim()).join('\n');
      inline.map = [line, next];
      inline.children = [];
      state.push('footnote_close', 'p', -1);
      state.line = next;
      return true;
    },
    { alt: ['paragraph'] },
  );
}

/** The mark in the text. A click shows the note, if it is there. */
function noteMark(label: string): HTMLElement {
  const mark = document.createElement('sup');
  mark.className = 'md-note-mark';
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.setAttribute('aria-label', strings.markdown.footnote(label));
  button.addEventListener('click', () => {
    const note = button.closest('.md')?.querySelector(`[data-note="${CSS.escape(label)}"]`);
    note?.scrollIntoView({ block: 'nearest' });
  });
  mark.append(button);
  return mark;
}

function footnote(label: string): { outer: Node; inner: Node } {
  const note = document.createElement('p');
  note.className = 'md-note';
  note.dir = 'auto';
  note.dataset.note = label;
  const mark = document.createElement('sup');
  mark.textContent = label;
  const inner = document.createElement('span');
  note.append(mark, ' ', inner);
  return { outer: note, inner };
}
