import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { empty, fold, loaded } from '../dist/index.js';

const folder = new URL('../../vectors/', import.meta.url);
const vectors = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => ({ name, ...JSON.parse(readFileSync(new URL(name, folder), 'utf8')) }));

const all = (log, from = empty) => log.reduce(fold, from);
const isDelta = ({ type }) => ['text:delta', 'reasoning:delta', 'tool:input'].includes(type);

/** A page as the server's own fold tells of the newest run. */
function told(page, log) {
  const start = log.findLast(({ type }) => type === 'run:start');
  if (!start) return {};
  const message = page.messages.find(({ key }) => key === start.data.runId);
  if (!message) return undefined;
  const ended = message.steps.filter(({ finish }) => finish !== undefined);
  const status = (call) =>
    call.status === 'proposed' || call.status === 'open' ? 'waiting' : call.status === 'running' ? 'pending' : call.status;
  return {
    runId: message.runId,
    status: message.status,
    text: message.text,
    messageId: message.id ?? null,
    error: message.error?.code ?? null,
    calls: ended.flatMap(({ calls }) => calls.map((call) => ({ id: call.id, status: status(call) }))),
  };
}

test('there are vectors', () => assert.ok(vectors.length >= 5, String(vectors.length)));

for (const { name, log, cuts, messages } of vectors) {
  test(`${name}: a page shows at every event what the server says of the run`, () => {
    let page = empty;
    assert.equal(cuts.length, log.length);
    log.forEach((event, index) => {
      page = fold(page, event);
      assert.equal(page.seq, event.seq);
      const { seq, steps, ...expected } = cuts[index];
      assert.equal(seq, event.seq);
      const seen = told(page, log.slice(0, index + 1));
      // A message that begins a branch takes the place of the answers after its parent.
      if (!seen) return assert.equal(event.type, 'message:user');
      // The server learns of an answer that no model wrote when it is complete; a page shows it at once.
      const isPrepared = event.type === 'text:delta' && seen.text === event.data.delta && expected.text !== seen.text;
      assert.deepEqual(isPrepared ? { ...seen, text: expected.text } : seen, expected, `after event ${event.seq}`);
    });
  });

  test(`${name}: the whole log is the messages that the server lists`, () => {
    const page = all(log);
    assert.equal(page.stale, undefined);
    assert.deepEqual([page.status, page.runId, page.proposals, page.calls], ['idle', undefined, [], []]);
    const stored = page.messages.filter(({ id }) => id);
    assert.deepEqual(
      stored.map(({ id, role, text, parentId }) => ({ id, role, text, parentId })),
      messages.map(({ id, role, text, parentId }) => ({ id, role, text, parentId })),
    );
    stored.forEach((message, index) => {
      const calls = (message.steps ?? []).flatMap(({ calls }) => calls);
      const { toolCalls, toolResults, siblings } = messages[index];
      assert.deepEqual(
        calls.map(({ id, name, input }) => ({ id, name, input })),
        toolCalls.map(({ id, name, input }) => ({ id, name, input })),
      );
      const outputs = new Map(calls.map(({ id, output, status }) => [id, [output, status === 'complete']]));
      for (const { callId, result, success } of toolResults) assert.deepEqual(outputs.get(callId), [result, success]);
      assert.deepEqual(message.siblings, siblings, `the siblings of ${message.id}`);
    });
  });

  test(`${name}: events that come twice, or again from an earlier place, change nothing`, () => {
    const expected = all(log);
    assert.deepEqual(all(log.flatMap((event) => [event, event])), expected);
    for (let cut = 0; cut <= log.length; cut++) {
      const page = all(log.slice(0, cut));
      assert.equal(JSON.stringify(all(log.slice(0, cut), page)), JSON.stringify(page), `again after ${cut}`);
      assert.deepEqual(all(log.slice(Math.max(0, cut - 3)), page), expected, `resumed before ${cut}`);
    }
  });

  test(`${name}: a log without deltas is the same in the end`, () => {
    const page = all(log.filter((event) => !isDelta(event)));
    assert.deepEqual(page.messages, all(log).messages);
  });

  test(`${name}: the state is never changed, only replaced`, () => {
    const frozen = (value) => {
      if (value && typeof value === 'object' && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(frozen);
      return value;
    };
    log.reduce((page, event) => frozen(fold(page, frozen(event))), frozen(structuredClone(empty)));
  });
}

test('a snapshot stands for the events that are gone', () => {
  const { log } = vectors.find(({ name }) => name === 'tools.json');
  const { runId, threadId } = log.find(({ type }) => type === 'run:start').data;
  const half = all(log.slice(0, 8));
  const snapshot = { type: 'snapshot', seq: 3, data: { runId, threadId, status: 'running', text: 'It is' } };
  const page = fold(half, snapshot);
  assert.deepEqual([page.seq, page.status, page.stale, page.messages.at(-1).text], [3, 'running', true, 'It is']);
  const over = fold(page, { ...snapshot, data: { ...snapshot.data, status: 'completed', messageId: 'msg_9' } });
  assert.deepEqual([over.status, over.runId, over.messages.at(-1).id], ['idle', undefined, 'msg_9']);
  const alone = fold(empty, snapshot);
  assert.deepEqual([alone.messages.length, alone.threadId], [1, threadId]);
});

test('events that a client does not know are ignored, and unknown parents are told', () => {
  const page = fold(empty, { type: 'no:such', seq: 4, data: { x: 1 } });
  assert.deepEqual(page, { ...empty, seq: 4 });
  const known = fold(empty, { type: 'message:user', seq: 1, data: { messageId: 'a', parentId: null, text: 'A' } });
  const lost = fold(known, { type: 'message:user', seq: 2, data: { messageId: 'c', parentId: 'b', text: 'C' } });
  assert.equal(lost.stale, true);
});

test('a page that is opened later goes on from the messages that there are', () => {
  for (const { log, messages, thread } of vectors) {
    const last = log.at(-1).seq;
    const full = messages.map((message) => ({ ...message, runId: null, model: null, createdAt: 'x' }));
    const page = loaded({ id: thread, title: null, lastSeq: last }, full);
    const end = full.at(-1);
    const next = fold(page, { type: 'message:user', seq: last + 1, data: { messageId: 'n', parentId: end.id, text: 'New' } });
    assert.deepEqual([next.messages.length, next.stale], [full.length + 1, undefined]);
    assert.deepEqual(all(log, page).messages, page.messages, 'what was there before changes nothing');
  }
});
