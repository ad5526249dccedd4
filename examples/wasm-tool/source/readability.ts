// How hard a text is to read: words, sentences, syllables, and what Flesch and Kincaid make of them. The formulas are
// for English; the counts are good for every language that has letters and spaces.

import { Text } from "./json";

const WORDS_PER_MINUTE: f64 = 230;

export function measure(text: Text): string {
  const counts = new Counts();
  for (let at = 0; at < text.length; ) at = counts.take(text, at);
  counts.endSentence();
  return counts.words == 0 ? '{"error":"the text has no words"}' : counts.json();
}

class Counts {
  letters: i32 = 0;
  syllables: i32 = 0;
  words: i32 = 0;
  sentences: i32 = 0;
  longestSentence: i32 = 0;
  private wordsOfSentence: i32 = 0;

  /** Counts what stands here, and says where the next thing begins. */
  take(text: Text, at: i32): i32 {
    if (isLetter(text.at(at)) || isDigit(text.at(at))) return this.word(text, at);
    if (isEnd(text, at)) this.endSentence();
    return at + 1;
  }

  endSentence(): void {
    if (this.wordsOfSentence == 0) return;
    this.sentences++;
    this.longestSentence = max(this.longestSentence, this.wordsOfSentence);
    this.wordsOfSentence = 0;
  }

  private word(text: Text, begin: i32): i32 {
    let at = begin;
    while (continuesWord(text, at)) {
      if (isLetter(text.at(at))) this.letters++;
      at++;
    }
    this.words++;
    this.wordsOfSentence++;
    this.syllables += syllables(text, begin, at);
    return at;
  }

  json(): string {
    const wordsPerSentence = (this.words as f64) / (this.sentences as f64);
    const syllablesPerWord = (this.syllables as f64) / (this.words as f64);
    const ease = 206.835 - 1.015 * wordsPerSentence - 84.6 * syllablesPerWord;
    const grade = 0.39 * wordsPerSentence + 11.8 * syllablesPerWord - 15.59;
    return (
      '{"words":' + this.words.toString() +
      ',"sentences":' + this.sentences.toString() +
      ',"syllables":' + this.syllables.toString() +
      ',"letters":' + this.letters.toString() +
      ',"longestSentenceWords":' + this.longestSentence.toString() +
      ',"wordsPerSentence":' + tenths(wordsPerSentence) +
      ',"readingEase":' + tenths(ease) +
      ',"grade":' + tenths(grade) +
      ',"readingMinutes":' + tenths((this.words as f64) / WORDS_PER_MINUTE) +
      "}"
    );
  }
}

/** A number with one digit after the point. */
function tenths(value: f64): string {
  const rounded = i64(Math.round(Math.abs(value) * 10));
  const sign = value < 0 && rounded > 0 ? "-" : "";
  return sign + (rounded / 10).toString() + "." + (rounded % 10).toString();
}

/** Groups of vowels, without a silent e at the end; at least one. */
function syllables(text: Text, begin: i32, end: i32): i32 {
  let groups = 0;
  let inGroup = false;
  for (let at = begin; at < end; at++) {
    const vowel = isVowel(text.at(at));
    if (vowel && !inGroup) groups++;
    inGroup = vowel;
  }
  if (groups > 1 && hasSilentE(text, end)) groups--;
  return max(groups, 1);
}

/** As in "cake", but not as in "table", "free" or "café". */
function hasSilentE(text: Text, end: i32): bool {
  if (lower(text.at(end - 1)) != 0x65 || isVowel(text.at(end - 2))) return false;
  return !(lower(text.at(end - 2)) == 0x6c && !isVowel(text.at(end - 3)));
}

/** A mark that ends a sentence, unless a word goes on after it, as in 3.14; or an empty line. */
function isEnd(text: Text, at: i32): bool {
  const unit = text.at(at);
  const next = text.at(at + 1);
  if (unit == 0x0a) return next == 0x0a || (next == 0x0d && text.at(at + 2) == 0x0a);
  const marks = unit == 0x2e || unit == 0x21 || unit == 0x3f || unit == 0x2026; // . ! ? …
  return marks && !isLetter(next) && !isDigit(next);
}

/** Letters and digits, an apostrophe before a letter, and the point of a number. */
function continuesWord(text: Text, at: i32): bool {
  const unit = text.at(at);
  if (isLetter(unit) || isDigit(unit)) return true;
  if (unit == 0x27 || unit == 0x2019) return isLetter(text.at(at + 1));
  const point = unit == 0x2e || unit == 0x2c;
  return point && isDigit(text.at(at - 1)) && isDigit(text.at(at + 1));
}

function isDigit(unit: i32): bool {
  return unit >= 0x30 && unit <= 0x39;
}

/** Latin, Greek, Cyrillic and the other scripts before the signs of U+2000. */
function isLetter(unit: i32): bool {
  const small = unit | 0x20;
  return (small >= 0x61 && small <= 0x7a) || (unit >= 0xc0 && unit < 0x2000 && unit != 0xd7 && unit != 0xf7);
}

/** With their accents. */
function isVowel(unit: i32): bool {
  const small = lower(unit);
  switch (small) {
    case 0x61: case 0x65: case 0x69: case 0x6f: case 0x75: case 0x79: case 0x153: return true; // a e i o u y œ
    case 0xdf: case 0xe7: case 0xf0: case 0xf1: case 0xf7: case 0xfe: return false; // ß ç ð ñ ÷ þ
    default: return small >= 0xe0 && small <= 0xff;
  }
}

function lower(unit: i32): i32 {
  const capital = (unit >= 0x41 && unit <= 0x5a) || (unit >= 0xc0 && unit <= 0xde);
  return capital ? unit | 0x20 : unit;
}
