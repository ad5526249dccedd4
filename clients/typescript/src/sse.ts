import { RondoError } from "./error.js";

/** Characters of one event. Events of the server are much smaller. */
const MAX_EVENT = 64 * 1024 * 1024;

/** One event on the wire, or the pause that the server asks for. */
export interface Frame {
  event: string;
  id?: string;
  data: string;
  /** Milliseconds. */
  retry?: number;
}

/** Decodes server-sent events, however they are cut into pieces. */
export class SseDecoder {
  #decoder = new TextDecoder();
  #rest = "";
  #size = 0;
  #frame: Frame = { event: "", data: "" };
  #hasData = false;

  feed(bytes: Uint8Array): Frame[] {
    const frames: Frame[] = [];
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    // A lone CR at the end may be half of a line break.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    this.#size += bytes.length;
    for (const line of lines) {
      if (line === "") this.#end(frames);
      else this.#field(line, frames);
    }
    if (this.#size > MAX_EVENT) throw new RondoError("event_too_large", 0, "an event of the server is too large");
    return frames;
  }

  #end(frames: Frame[]) {
    // A number without data is no event, but it says where the stream is.
    if (this.#hasData || this.#frame.id !== undefined) frames.push({ ...this.#frame, data: this.#frame.data.slice(0, -1) });
    this.#frame = { event: "", data: "" };
    this.#hasData = false;
    this.#size = 0;
  }

  #field(line: string, frames: Frame[]) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#frame.event = value;
    else if (name === "id") this.#frame.id = value;
    else if (name === "retry" && /^\d+$/.test(value)) frames.push({ event: "", data: "", retry: Number(value) });
    else if (name === "data") {
      this.#frame.data += `${value}\n`;
      this.#hasData = true;
    }
  }
}
