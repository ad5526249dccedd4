// As much of JSON as a tool needs that takes one text: it finds a field of the outermost object, and reads its escapes.
// The server sends valid JSON only, so that nothing is checked twice.

const QUOTE: i32 = 0x22;
const BACKSLASH: i32 = 0x5c;
const SPACE: i32 = 0x20;

/** UTF-16, with nothing beyond its end. */
export class Text {
  length: i32 = 0;
  private units: StaticArray<u16>;

  constructor(capacity: i32) {
    this.units = new StaticArray<u16>(capacity);
  }

  at(index: i32): i32 {
    return <u32>index < <u32>this.length ? unchecked(this.units[index]) : 0;
  }

  push(unit: i32): void {
    unchecked((this.units[this.length++] = unit as u16));
  }

  equals(other: string): bool {
    if (this.length != other.length) return false;
    for (let i = 0; i < this.length; i++) {
      if (this.at(i) != other.charCodeAt(i)) return false;
    }
    return true;
  }
}

export class Reader {
  private index: i32 = 0;
  /** The last string that was read. */
  private text: Text;

  constructor(private json: string) {
    this.text = new Text(json.length);
  }

  /** The text of a field, or null if there is no such field or it is no text. */
  textOf(name: string): Text | null {
    let depth = 0;
    while (this.index < this.json.length) {
      const unit = this.json.charCodeAt(this.index++);
      if (unit == QUOTE) {
        this.string();
        const isKey = depth == 1 && this.passes(0x3a); // :
        if (isKey && this.text.equals(name)) return this.passes(QUOTE) ? this.string() : null;
      }
      if (unit == 0x7b || unit == 0x5b) depth++; // { [
      if (unit == 0x7d || unit == 0x5d) depth--; // } ]
    }
    return null;
  }

  /** Goes beyond this if it comes next, after spaces, and says whether it did. */
  private passes(unit: i32): bool {
    while (this.index < this.json.length && this.json.charCodeAt(this.index) <= SPACE) this.index++;
    if (this.json.charCodeAt(this.index) != unit) return false;
    this.index++;
    return true;
  }

  /** The string whose opening quote was just read. */
  private string(): Text {
    const json = this.json;
    const text = this.text;
    text.length = 0;
    while (this.index < json.length) {
      const unit = json.charCodeAt(this.index++);
      if (unit == QUOTE) break;
      text.push(unit == BACKSLASH ? this.escape() : unit);
    }
    return text;
  }

  private escape(): i32 {
    const escape = this.json.charCodeAt(this.index++);
    switch (escape) {
      case 0x62: return 0x08; // b
      case 0x66: return 0x0c; // f
      case 0x6e: return 0x0a; // n
      case 0x72: return 0x0d; // r
      case 0x74: return 0x09; // t
      case 0x75: return this.hexadecimal(); // u
      default: return escape; // " \ /
    }
  }

  private hexadecimal(): i32 {
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const digit = this.json.charCodeAt(this.index++);
      value = (value << 4) | (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57);
    }
    return value;
  }
}
