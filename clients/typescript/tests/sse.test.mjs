import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SseDecoder } from '../dist/sse.js';

const TEXT = ': hello\nretry: 700\n\nevent: text:delta\nid: 7\ndata: {"a":"é€"}\n\ndata: one\ndata:two\r\ndata\r\n\r\n\rid: 9\rdata: x\r\revent: none\n\nid: 12\n\n';
const FRAMES = [
  { event: '', data: '', retry: 700 },
  { event: 'text:delta', id: '7', data: '{"a":"é€"}' },
  { event: '', data: 'one\ntwo\n' },
  { event: '', id: '9', data: 'x' },
  { event: '', id: '12', data: '' },
];

test('events are read, however they are cut into pieces', () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (let size = 1; size <= bytes.length; size++) {
    const decoder = new SseDecoder();
    const frames = [];
    for (let at = 0; at < bytes.length; at += size) frames.push(...decoder.feed(bytes.subarray(at, at + size)));
    assert.deepEqual(frames, FRAMES, `in pieces of ${size}`);
  }
});

test('an event that never ends is refused', () => {
  const decoder = new SseDecoder();
  const piece = new TextEncoder().encode(`data: ${'x'.repeat(1 << 20)}\n`);
  assert.throws(
    () => {
      for (let count = 0; count < 100; count++) decoder.feed(piece);
    },
    { name: 'RondoError', code: 'event_too_large' },
  );
});
