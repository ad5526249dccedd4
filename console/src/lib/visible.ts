// Makes characters visible that a reader could miss, or could take for others. Used where a person decides by reading.

export interface VisiblePart {
  text: string;
  /** Why the part stands out, if it does. */
  odd?: string;
}

const NAMES: Record<number, string> = {
  0x00a0: 'no-break space',
  0x00ad: 'soft hyphen',
  0x034f: 'joiner',
  0x061c: 'Arabic letter mark',
  0x115f: 'Hangul filler',
  0x1160: 'Hangul filler',
  0x180e: 'invisible separator',
  0x200b: 'zero width space',
  0x200c: 'zero width non-joiner',
  0x200d: 'zero width joiner',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'end of direction',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2060: 'word joiner',
  0x2066: 'left-to-right isolate',
  0x2067: 'right-to-left isolate',
  0x2068: 'first strong isolate',
  0x2069: 'end of isolate',
  0x3164: 'Hangul filler',
  0xfeff: 'byte order mark',
  0xffa0: 'Hangul filler',
};

const FOREIGN = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\u{ff21}-\u{ff5a}\u{1d400}-\u{1d7ff}\u{0261}\u{0251}]/u;
/** Letters of other alphabets that look like Latin ones. */
const LOOK_ALIKES = /^[аеорсухіјѕһԁԛԝьѵґӏАВЕКМНОРСТХУІЅЈαοενικρτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]+$/u;
const WORD = /[\p{L}\p{M}]+/gu;

/** Looks at this many characters; callers cut longer texts before. */
const MAX_CHARACTERS = 20_000;

function invisible(code: number, before: number): string | undefined {
  const named = NAMES[code];
  // Emoji are joined and shaped by these two.
  if (code === 0x200d && before > 0x2190) return undefined;
  if (named) return named;
  if ((code < 0x20 && code !== 0x0a && code !== 0x09) || (code >= 0x7f && code <= 0x9f)) return 'control character';
  if ((code >= 0x2000 && code <= 0x200a) || code === 0x202f || code === 0x205f || code === 0x3000 || code === 0x1680) return 'unusual space';
  if (code >= 0xe0000 && code <= 0xe007f) return 'hidden tag';
  if ((code >= 0xfe00 && code <= 0xfe0e) || (code >= 0xe0100 && code <= 0xe01ef)) return 'variation selector';
  if ((code >= 0x2061 && code <= 0x2065) || (code >= 0x206a && code <= 0x206f) || (code >= 0xfff0 && code <= 0xfffb)) return 'invisible character';
  return undefined;
}

/** The places of letters that only pretend to belong to their word. */
function pretenders(text: string): Set<number> {
  const places = new Set<number>();
  const isLatin = /[A-Za-z]{2}/.test(text);
  for (const match of text.matchAll(WORD)) {
    const word = match[0];
    const mixed = /[A-Za-z]/.test(word) && FOREIGN.test(word);
    const disguised = isLatin && word.length > 1 && LOOK_ALIKES.test(word);
    if (!mixed && !disguised) continue;
    let place = match.index;
    for (const letter of word) {
      if (FOREIGN.test(letter)) places.add(place);
      place += letter.length;
    }
  }
  return places;
}

export function visibleParts(whole: string): VisiblePart[] {
  const text = whole.slice(0, MAX_CHARACTERS);
  const parts: VisiblePart[] = [];
  const pretending = pretenders(text);
  let plain = '';
  let place = 0;
  let before = 0;
  const flush = (): void => {
    if (plain) parts.push({ text: plain });
    plain = '';
  };
  for (const letter of text) {
    const code = letter.codePointAt(0) ?? 0;
    const hex = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
    const hidden = invisible(code, before);
    if (hidden) {
      flush();
      parts.push({ text: hex, odd: `${hex}: ${hidden}` });
    } else if (pretending.has(place)) {
      flush();
      parts.push({ text: `${letter} ${hex}`, odd: `${hex}: a letter of another alphabet that looks like a Latin one` });
    } else plain += letter;
    place += letter.length;
    before = code;
  }
  flush();
  return parts;
}

export function hasOddCharacters(text: string): boolean {
  return visibleParts(text).some((part) => part.odd);
}

/** A text without invisible characters, for places that show plain text only, such as the title of the window. */
export function withoutHidden(text: string): string {
  return visibleParts(text)
    .filter((part) => !part.odd || !part.text.startsWith('U+'))
    .map((part) => (part.odd ? part.text.replace(/ U\+[0-9A-F]+$/, '') : part.text))
    .join('');
}
