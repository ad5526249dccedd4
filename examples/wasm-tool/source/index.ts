// The border to the server: JSON comes in, JSON goes out. The server makes a fresh instance for each call, so
// nothing needs to be freed.

import { Reader } from "./json";
import { measure } from "./readability";

/** Room for the arguments; the server writes them there. */
export function rondo_alloc(length: i32): usize {
  return heap.alloc(length);
}

/** Answers the arguments at `pointer`: where the answer is, in the high half, and how many bytes it has, in the low. */
export function rondo_call(pointer: usize, length: i32): u64 {
  const reader = new Reader(String.UTF8.decodeUnsafe(pointer, length));
  const text = reader.textOf("text");
  const answer = text === null ? '{"error":"there is no text"}' : measure(text);
  const bytes = String.UTF8.encode(answer);
  return ((changetype<usize>(bytes) as u64) << 32) | (bytes.byteLength as u64);
}
