// Single parts: the size of the first view, the splitter of blocks, marked characters, and hostile Markdown.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { asModule, asScript } from './bundle.mjs';
import { openBrowser } from './world.mjs';

const dist = new URL('../dist/', import.meta.url);
/** Bytes, compressed. */
const MAX_FIRST_VIEW = 150 * 1024;

test('the first view is small', () => {
  const html = readFileSync(new URL('index.html', dist), 'utf8');
  const files = [...html.matchAll(/"\.\/(_console\/[^"]+)"/g)].map((match) => match[1]);
  const sizes = ['index.html', ...files].map((file) => gzipSync(readFileSync(new URL(file, dist)), { level: 9 }).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  console.log(`first view: ${(total / 1024).toFixed(1)} KB compressed, of ${MAX_FIRST_VIEW / 1024}`);
  assert.ok(files.length > 1 && total <= MAX_FIRST_VIEW, `${total} bytes`);
});

const LONG = `# Title

A paragraph
with two lines.

- one
- two

  more of two
- three

\`\`\`js
const a = 1;

const b = 2;
\`\`\`

> a quote

| a | b |
|---|---|
| 1 | 2 |

1. first

2. second

Done.`;

test('blocks are the same however the text is cut', async () => {
  const { BlockSplitter } = await asModule('src/lib/markdown/blocks.ts');
  const split = (pieces) => {
    const splitter = new BlockSplitter();
    const blocks = pieces.flatMap((piece) => splitter.push(piece));
    return [...blocks, splitter.open].map((block) => block.text);
  };
  const whole = split([LONG]);
  const dense = (text) => text.replace(/\n+/g, '\n');
  assert.equal(dense(whole.join('')), dense(LONG), 'nothing is lost but blank lines');
  for (let cut = 0; cut <= LONG.length; cut += 1) assert.deepEqual(split([LONG.slice(0, cut), LONG.slice(cut)]), whole, `cut at ${cut}`);
  assert.deepEqual(split([...LONG]), whole);
  assert.ok(whole.length >= 7, `${whole.length} blocks`);
});

test('a block never grows without a bound', async () => {
  const { BlockSplitter } = await asModule('src/lib/markdown/blocks.ts');
  for (const piece of ['word ', 'line of text\n', '```\ncode\n']) {
    const splitter = new BlockSplitter();
    let closed = 0;
    for (let count = 0; count < 20_000; count += 1) closed += splitter.push(count === 0 || !piece.startsWith('```') ? piece : 'code\n').length;
    assert.ok(splitter.open.text.length < 40_000, `${splitter.open.text.length} characters`);
    assert.ok(closed > 1, piece);
  }
});

test('characters that deceive are marked', async () => {
  const { visibleParts, withoutHidden } = await asModule('src/lib/visible.ts');
  const odd = (text) => visibleParts(text).filter((part) => part.odd).length;
  const plain = (text) => visibleParts(text).map((part) => part.text).join('');
  assert.equal(odd('Pay 10 € to Ana 👩‍👧, naïve café, Привет, 你好'), 0);
  assert.equal(odd('pay\u202Epal'), 1);
  assert.equal(odd('a\u200Bb\u00ADc\uFEFF'), 3);
  assert.equal(odd('p\u0430ypal.com'), 1, 'a Cyrillic letter in a Latin word');
  assert.ok(odd('send it to \u0440\u0430\u0443 now') >= 3, 'a word of look-alikes');
  assert.equal(odd('\u{E0041}\u{E0042}'), 2, 'hidden tags');
  assert.equal(odd('a\u0007b'), 1);
  assert.ok(plain('x\u202Ey').includes('U+202E'));
  assert.equal(withoutHidden('a\u202Egpj.exe \u2066p\u0430y\u200B'), 'agpj.exe p\u0430y', 'the title of a window has none of them');
});

const HOSTILE = [
  '<script>window.hit = 1</script><img src=x onerror="window.hit = 1"><svg onload="window.hit=1">',
  '[click](javascript:window.hit=1) [data](data:text/html,<script>1</script>) <javascript:window.hit=1>',
  '[a](JaVaScRiPt&#58;window.hit=1) [b](\u0001javascript:window.hit=1) [c](vbscript:x)',
  '![tracker](https://evil.example/pixel.png?secret) ![x](//evil.example/a.png)',
  '[https://bank.example](https://evil.example/login)',
  '| a | b |\n|---|:-:|\n| <b onmouseover=window.hit=1>x</b> | `<i>` |',
  '```html\n<script>window.hit = 1</script>\n```',
  'A note[^1] and [^"><img src=x onerror=window.hit=1>].\n\n[^1]: <img src=x onerror="window.hit = 1"> [x](javascript:window.hit=1)',
  '<style>body{display:none}</style><iframe src="https://evil.example"></iframe><base href="https://evil.example">',
  '&lt;script&gt;window.hit=1&lt;/script&gt; <a href="javascript:window.hit=1">x</a>',
  '[ref]: javascript:window.hit=1\n[ref]\n\n' + '> '.repeat(200) + 'deep\n' + '- '.repeat(100) + 'deep',
].join('\n\n');

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser?.close());

test('hostile Markdown runs nothing and fetches nothing, cut at every byte', async () => {
  const page = await browser.newPage();
  const asked = [];
  await page.route('**/*', (route) => (asked.push(route.request().url()), route.abort()));
  await page.setContent('<!doctype html><div id="box"></div>').catch(() => {});
  await page.addScriptTag({ content: await asScript('src/lib/markdown/view.ts') });
  const found = await page.evaluate(async (text) => {
    const box = document.getElementById('box');
    const bad = new Set();
    const allowed = new Set('DIV P H3 H4 H5 H6 UL OL LI BLOCKQUOTE TABLE THEAD TBODY TR TH TD STRONG EM S SUP A SPAN CODE PRE FIGURE FIGCAPTION BUTTON BR HR'.split(' '));
    const look = () => {
      for (const element of box.querySelectorAll('*')) {
        if (!allowed.has(element.tagName)) bad.add(element.tagName);
        for (const { name, value } of element.attributes) if (/^on/.test(name) || (name === 'href' && !/^(https?|mailto):/.test(value)) || name === 'src' || name === 'style') bad.add(`${name}=${value}`);
      }
    };
    for (let cut = 0; cut <= text.length; cut += 1) {
      const view = new part.MarkdownView(box);
      view.replace(text.slice(0, cut));
      look();
      view.append(text.slice(cut));
      view.render();
      if (cut % 16 === 0) look();
    }
    look();
    const host = [...box.querySelectorAll('a')].find((link) => link.textContent.includes('bank.example'));
    return { bad: [...bad], hit: window.hit ?? null, host: host?.textContent ?? '', text: box.textContent.slice(0, 60) };
  }, HOSTILE);
  assert.deepEqual({ bad: found.bad, hit: found.hit }, { bad: [], hit: null });
  assert.ok(found.host.includes('(evil.example)'), found.host);
  assert.ok(found.text.includes('<script>'), 'markup is shown as text');
  assert.deepEqual(asked.filter((url) => !url.startsWith('about:')), []);
  await page.close();
});

test('footnotes are shown where they are written', async () => {
  const page = await browser.newPage();
  await page.setContent('<!doctype html><div id="box" class="md"></div>');
  await page.addScriptTag({ content: await asScript('src/lib/markdown/view.ts') });
  const found = await page.evaluate(() => {
    const box = document.getElementById('box');
    const view = new part.MarkdownView(box);
    for (const letter of 'Water boils[^1] at 100 °C[^sea].\n\n[^1]: It **becomes**\nsteam.\n[^sea]: At sea level.\n\nThe [^ end] and x[^2^] and [link](https://example.com).') {
      view.append(letter);
      view.render();
    }
    return { text: box.innerText, marks: [...box.querySelectorAll('.md-note-mark')].map((mark) => mark.textContent), notes: [...box.querySelectorAll('[data-note]')].map((note) => note.textContent), strong: box.querySelector('[data-note] strong')?.textContent };
  });
  assert.deepEqual(found.marks, ['1', 'sea']);
  assert.deepEqual(found.notes, ['1 It becomes\nsteam.', 'sea At sea level.']);
  assert.equal(found.strong, 'becomes');
  assert.ok(found.text.includes('The [^ end] and x[^2^] and link'), found.text);
  await page.close();
});

test('text that streams in small pieces ends as text that comes at once, and finished blocks are not touched', async () => {
  const page = await browser.newPage();
  await page.setContent('<!doctype html><div id="a"></div><div id="b"></div>');
  await page.addScriptTag({ content: await asScript('src/lib/markdown/view.ts') });
  const same = await page.evaluate((text) => {
    const [a, b] = [document.getElementById('a'), document.getElementById('b')];
    const whole = new part.MarkdownView(a);
    whole.replace(text);
    const pieces = new part.MarkdownView(b);
    let first;
    let touched = 0;
    for (const letter of text) {
      pieces.append(letter);
      pieces.render();
      if (b.children.length > 1) {
        first ??= b.children[0].firstChild;
        if (b.children[0].firstChild !== first) touched += 1;
      }
    }
    return { same: a.innerHTML === b.innerHTML, touched };
  }, LONG);
  assert.deepEqual(same, { same: true, touched: 0 });
  await page.close();
});

test('20 MB of streamed Markdown leave a page that answers', async () => {
  const page = await browser.newPage();
  await page.setContent('<!doctype html><div id="box" hidden></div>');
  await page.addScriptTag({ content: await asScript('src/lib/markdown/view.ts') });
  const client = await page.context().newCDPSession(page);
  const took = await page.evaluate(async (sample) => {
    const box = document.getElementById('box');
    const view = new part.MarkdownView(box);
    const begin = performance.now();
    let longest = 0;
    const prose = 'A sentence with **weight** and a [link](https://example.com), and more words that say nothing at all. '.repeat(60);
    const piece = `${sample}\n\n${prose}\n\n`.repeat(4);
    for (let sent = 0; sent < 20 * 1024 * 1024; sent += piece.length) {
      const at = performance.now();
      view.append(piece);
      view.render();
      longest = Math.max(longest, performance.now() - at);
      await new Promise((resolve) => setTimeout(resolve));
    }
    view.append('The very end.');
    view.render();
    return { whole: performance.now() - begin, longest, blocks: box.children.length, end: box.lastElementChild.textContent.trim() };
  }, LONG);
  await client.send('HeapProfiler.collectGarbage');
  const { usedSize } = await client.send('Runtime.getHeapUsage');
  console.log(`20 MB of Markdown: ${(took.whole / 1000).toFixed(1)} s, longest piece ${took.longest.toFixed(0)} ms, ${took.blocks} blocks, heap ${(usedSize / 1048576).toFixed(1)} MB`);
  assert.ok(took.end.endsWith('The very end.'), took.end.slice(-80));
  assert.ok(usedSize < 150 * 1024 * 1024, `${usedSize} bytes`);
  await page.close();
});
