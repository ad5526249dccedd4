import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StrictMode, createElement } from 'react';
import { create } from 'react-test-renderer';
import { Rondo } from '../dist/index.js';
import { useThread } from '../dist/react.js';
import { EVENTS, RUN, event, json, problem, serve, stream } from './server.mjs';

globalThis.IS_REACT_ACT_ENVIRONMENT = false; // a page renders when events come, not when a test says so
// The renderer for tests says that it will go away; nothing else renders without a browser.
const { error } = console;
console.error = (first, ...rest) => String(first).includes('react-test-renderer is deprecated') || error(first, ...rest);

const THREAD = { id: 'thr_1', appId: 'a', title: 'First', headId: 'msg_2', messageCount: 2, activeRunId: null, lastSeq: 8, createdAt: 'x', updatedAt: 'x' };
const MESSAGES = [
  { id: 'msg_1', role: 'user', text: 'Hi', parentId: null, runId: 'run_1', toolCalls: [], toolResults: [], memoriesReferenced: [], createdAt: 'x' },
  { id: 'msg_2', role: 'assistant', text: 'Hello.', parentId: 'msg_1', runId: 'run_1', toolCalls: [], toolResults: [], memoriesReferenced: [], createdAt: 'x' },
];
/** The events of the next run. */
const later = (seq, name, data) => [seq, name, data];
const NEXT = [
  later(9, 'message:user', { messageId: 'msg_3', parentId: 'msg_2', text: 'More' }),
  later(10, 'run:start', { runId: 'run_2', threadId: 'thr_1', messageId: 'msg_3', model: 'm', appRevision: 'r' }),
  later(11, 'step:start', { step: 1, model: 'm' }),
  later(12, 'text:delta', { step: 1, delta: 'Of what?' }),
];

/** A server with one thread, whose channel the test writes to. */
function pages(parts = {}) {
  const channels = [];
  const waiting = [];
  const answer = (request, response, body) => {
    const path = request.url.split('?')[0];
    const part = parts[`${request.method} ${path}`];
    if (part) return part(response, body, request);
    if (path === '/v1/threads/thr_1') return json(response, THREAD);
    if (path === '/v1/threads/thr_1/messages') return json(response, { data: MESSAGES, next: null });
    if (path === '/v1/threads/thr_1/events') {
      stream(response);
      channels.push(response);
      for (const [count, resolve] of waiting) if (channels.length >= count) resolve();
      return undefined;
    }
    return problem(response, 404, 'not_found');
  };
  const followed = (count = 1) => (channels.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push([count, resolve])));
  return { answer, channels, followed };
}

/** Renders the hook, and gives what it shows last. */
async function shown(t, parts, options = { app: 'a', threadId: 'thr_1' }) {
  const page = pages(parts);
  const server = await serve(page.answer);
  const rondo = new Rondo({ baseUrl: server.url });
  let state;
  let changed = () => {};
  const Page = (props) => {
    state = useThread(rondo, props);
    queueMicrotask(() => changed());
    return null;
  };
  const view = (props) => createElement(StrictMode, null, createElement(Page, props));
  const tree = create(view(options));
  /** Waits until the page is rendered again. */
  const next = () => new Promise((resolve) => (changed = resolve));
  /** Waits until the page shows it. */
  const until = async (is) => {
    while (!state || !is(state)) await next();
    return state;
  };
  t.after(() => {
    tree.unmount();
    server.close();
  });
  return { page, server, until, next, now: () => state, render: (props) => tree.update(view(props)) };
}

const texts = (state) => state.messages.map(({ role, text }) => `${role}: ${text}`);

test('a thread is read once in strict mode, and followed', { timeout: 20_000 }, async (t) => {
  const { page, server, until } = await shown(t);
  const first = await until((state) => state.isLoaded);
  assert.deepEqual(texts(first), ['user: Hi', 'assistant: Hello.']);
  assert.equal(first.title, 'First');
  await page.followed();
  for (const one of NEXT) event(page.channels[0], ...one);
  const next = await until((state) => state.messages.at(-1).text === 'Of what?');
  assert.deepEqual([next.status, next.runId, next.messages.length], ['running', 'run_2', 4]);
  const reads = server.requests.filter(({ url }) => url === '/v1/threads/thr_1');
  assert.equal(reads.length, 1, 'effects that run twice read once');
});

test('an answer under way is shown from its beginning', { timeout: 20_000 }, async (t) => {
  const running = { ...THREAD, activeRunId: 'run_2', lastSeq: 12 };
  const { page, until } = await shown(t, {
    'GET /v1/threads/thr_1': (response) => json(response, running),
    'GET /v1/runs/run_2/events': (response) => {
      stream(response);
      for (const one of NEXT) event(response, ...one);
    },
  });
  await until((state) => state.messages.at(-1)?.text === 'Of what?');
  await page.followed();
  event(page.channels[0], 13, 'text:delta', { step: 1, delta: ' Tell me.' });
  const state = await until((state) => state.messages.at(-1)?.text === 'Of what? Tell me.');
  assert.deepEqual(texts(state), ['user: Hi', 'assistant: Hello.', 'user: More', 'assistant: Of what? Tell me.']);
});

test('the first message makes a thread, and the page goes on with it', { timeout: 20_000 }, async (t) => {
  let body;
  const { page, until, now, next, render } = await shown(
    t,
    {
      'POST /v1/apps/a/runs': (response, sent) => {
        body = JSON.parse(sent);
        stream(response, RUN);
        event(response, ...EVENTS[0]);
      },
    },
    { app: 'a' },
  );
  await until((state) => state.isLoaded);
  assert.deepEqual([now().messages, now().threadId], [[], undefined]);
  const sending = now().send('Hi');
  const started = await sending;
  assert.deepEqual([body, started], [{ message: 'Hi' }, { runId: 'run_1', threadId: 'thr_1' }]);
  await until((state) => state.threadId === 'thr_1' && state.messages.length === 2);
  await page.followed();
  const rendered = next();
  render({ app: 'a', threadId: 'thr_1' });
  await rendered;
  assert.equal(now().messages.length, 2, 'nothing is read again');
  assert.equal(page.channels.length, 1);
});

test('the page approves, rejects, answers, stops and chooses', { timeout: 20_000 }, async (t) => {
  const asked = [];
  const note = (response, body, { method, url }) => {
    asked.push(`${method} ${url} ${body}`);
    if (url.includes('reject')) problem(response, 409, 'proposal_decided');
    else json(response, {});
  };
  const { page, until, now } = await shown(t, {
    'POST /v1/proposals/prop_1/confirm': note,
    'POST /v1/proposals/prop_2/reject': note,
    'POST /v1/calls/call_9/result': note,
    'POST /v1/runs/run_2/cancel': note,
    'PUT /v1/threads/thr_1/head': note,
    'POST /v1/apps/a/runs': (response) => problem(response, 409, 'thread_busy'),
  });
  await page.followed();
  for (const one of NEXT) event(page.channels[0], ...one);
  await until((state) => state.runId === 'run_2');
  await now().approve('prop_1');
  await now().reject('prop_2'); // another client was faster
  await now().answer('call_9', { result: 3 });
  await now().stop();
  await now().choose('msg_1');
  assert.deepEqual(asked, [
    'POST /v1/proposals/prop_1/confirm ',
    'POST /v1/proposals/prop_2/reject ',
    'POST /v1/calls/call_9/result {"result":3}',
    'POST /v1/runs/run_2/cancel ',
    'PUT /v1/threads/thr_1/head {"messageId":"msg_1"}',
  ]);
  await assert.rejects(now().send('Again'), { code: 'thread_busy' });
  assert.equal((await until((state) => state.error && !state.isSending)).error.code, 'thread_busy');
});

test('a choice of another page reads the thread again, and a thread that is gone is an error', { timeout: 20_000 }, async (t) => {
  let isGone = false;
  let reads = 0;
  const { page, until } = await shown(t, {
    'GET /v1/threads/thr_1': (response) => (++reads && isGone ? problem(response, 404, 'not_found') : json(response, THREAD)),
  });
  await page.followed();
  event(page.channels[0], 9, 'thread:head', { headId: 'msg_7' });
  await page.followed(2);
  assert.equal(reads, 2);
  isGone = true;
  event(page.channels[1], 10, 'thread:head', { headId: 'msg_8' });
  assert.equal((await until((state) => state.error)).error.code, 'not_found');
});
