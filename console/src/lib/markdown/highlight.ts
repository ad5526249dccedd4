// Colours for code. Each language is one regular expression that reads from left to right, so the time is linear.

interface Language {
  keywords: string;
  /** `//`, `#` or `--`. */
  line: string[];
  block?: [string, string];
  strings: string;
}

const C_LIKE = { line: ['//'], block: ['/*', '*/'] as [string, string], strings: '"\'`' };
const LANGUAGES: Record<string, Language> = {
  rust: {
    ...C_LIKE,
    strings: '"',
    keywords: 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while',
  },
  js: {
    ...C_LIKE,
    keywords:
      'abstract any as async await boolean break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined var void while with yield',
  },
  c: {
    ...C_LIKE,
    strings: '"\'',
    keywords:
      'auto bool break case catch char class const constexpr continue default delete do double else enum extern false float for friend goto if inline int long namespace new nullptr operator private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while abstract boolean byte extends final finally implements import instanceof interface null package super synchronized throws string var record sealed async await foreach in is out override readonly',
  },
  go: { ...C_LIKE, keywords: 'any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface map nil package range return select string struct switch true type var' },
  py: {
    line: ['#'],
    strings: '"\'',
    keywords: 'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield match case',
  },
  sh: { line: ['#'], strings: '"\'', keywords: 'if then else elif fi for in do done while until case esac function return exit export local set unset echo cd sudo source' },
  sql: {
    line: ['--'],
    block: ['/*', '*/'],
    strings: "'\"",
    keywords:
      'select from where and or not null insert into values update set delete create table index view drop alter add primary key foreign references join left right inner outer full on as group by order having limit offset distinct union all case when then else end exists in is like between begin commit rollback with returning default unique integer text',
  },
  conf: { line: ['#', ';'], strings: '"\'', keywords: 'true false null yes no on off' },
  json: { line: [], strings: '"', keywords: 'true false null' },
  css: { line: [], block: ['/*', '*/'], strings: '"\'', keywords: 'important media supports keyframes import from to root' },
  html: { line: [], block: ['<!--', '-->'], strings: '"\'', keywords: 'html head body div span script style link meta title a p ul ol li table tr td th form input button img section main header footer nav svg path' },
};

const ALIASES: Record<string, string> = {
  rs: 'rust', javascript: 'js', ts: 'js', typescript: 'js', jsx: 'js', tsx: 'js', svelte: 'html', vue: 'html', xml: 'html', svg: 'html',
  cpp: 'c', 'c++': 'c', h: 'c', hpp: 'c', java: 'c', cs: 'c', csharp: 'c', kotlin: 'c', kt: 'c', swift: 'c', php: 'c', dart: 'c', scala: 'c',
  golang: 'go', python: 'py', rb: 'py', ruby: 'py', bash: 'sh', shell: 'sh', zsh: 'sh', console: 'sh', dockerfile: 'sh', postgres: 'sql', sqlite: 'sql', mysql: 'sql',
  toml: 'conf', yaml: 'conf', yml: 'conf', ini: 'conf', nginx: 'conf', scss: 'css', less: 'css', json5: 'json', jsonc: 'json', jsonl: 'json',
};

/** Longer code stays without colours. In characters. */
const MAX_CODE = 60_000;

const patterns = new Map<string, { pattern: RegExp; keywords: Set<string>; folds: boolean }>();
const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');

function compiled(name: string): { pattern: RegExp; keywords: Set<string>; folds: boolean } | undefined {
  const known = patterns.get(name);
  const language = LANGUAGES[name];
  if (known || !language) return known;
  const comments = language.line.map((mark) => `${escaped(mark)}[^\\n]*`);
  if (language.block) comments.unshift(`${escaped(language.block[0])}[^]*?(?:${escaped(language.block[1])}|$)`);
  const strings = Array.from(language.strings, (mark) => `${mark}(?:\\\\[^]|[^\\\\${mark}${mark === '`' ? '' : '\\n'}])*${mark}?`);
  const groups = [
    comments.length ? `(?<c>${comments.join('|')})` : '(?<c>(?!))',
    `(?<s>${strings.join('|')})`,
    '(?<n>\\b(?:0x[\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:e[+-]?\\d+)?)\\w*)',
    '(?<w>[\\p{L}_$][\\p{L}\\p{N}_$]*)(?<call>(?=\\())?',
  ];
  const made = { pattern: new RegExp(groups.join('|'), 'gu'), keywords: new Set(language.keywords.split(' ')), folds: name === 'sql' };
  patterns.set(name, made);
  return made;
}

/** The code as nodes: text, and spans with a class. */
export function highlight(code: string, language: string): Node[] {
  const asked = language.toLowerCase();
  const found = code.length <= MAX_CODE ? compiled(ALIASES[asked] ?? asked) : undefined;
  if (!found) return [document.createTextNode(code)];
  const nodes: Node[] = [];
  let place = 0;
  for (const match of code.matchAll(found.pattern)) {
    const groups = match.groups ?? {};
    const word = groups.w;
    let kind: string | undefined;
    if (groups.c) kind = 'c';
    else if (groups.s) kind = 's';
    else if (groups.n) kind = 'n';
    else if (word && found.keywords.has(found.folds ? word.toLowerCase() : word)) kind = 'k';
    else if (word && groups.call !== undefined) kind = 't';
    if (!kind) continue;
    if (match.index > place) nodes.push(document.createTextNode(code.slice(place, match.index)));
    const span = document.createElement('span');
    span.className = `hl-${kind}`;
    span.textContent = match[0];
    nodes.push(span);
    place = match.index + match[0].length;
  }
  if (place < code.length) nodes.push(document.createTextNode(code.slice(place)));
  return nodes;
}
