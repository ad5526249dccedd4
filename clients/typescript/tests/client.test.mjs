import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Rondo, RondoError } from '../dist/index.js';
import { EVENTS, RUN, event, json, problem, serve, stream } from './server.mjs';

/** A server for one test. */
async function world(t, answer, options = {}) {
  const server = await serve(answer);
  t.after(server.close);
  return { server, rondo: new Rondo({ baseUrl: `${server.url}/`, ...options }) };
}

const types = (events) => events.map(({ type, seq }) => [seq, type]);
const ALL = EVENTS.map(([seq, type]) => [seq, type]);

async function all(run) {
  const events = [];
  for await (const one of run) events.push(one);
  return events;
}

test('a run is a loop over its events, and then it has a text and a result', async (t) => {
  const { server, rondo } = await world(
    t,
    (_, response) => {
      stream(response, RUN);
      for (const one of EVENTS) event(response, ...one);
      response.end();
    },
    { key: 'rondo_secret', user: 'ann' },
  );
  const run = rondo.app('a b').run({ message: 'Hi' });
  assert.deepEqual(types(await all(run)), ALL);
  assert.equal(await run.text(), 'Hello.');
  const result = await run.result();
  assert.deepEqual(
    [result.status, result.text, result.id, result.runId, result.threadId, run.id, run.threadId],
    ['completed', 'Hello.', 'msg_2', 'run_1', 'thr_1', 'run_1', 'thr_1'],
  );
  const [{ method, url, headers, body }] = server.requests;
  assert.deepEqual([method, url, JSON.parse(body)], ['POST', '/v1/apps/a%20b/runs', { message: 'Hi' }]);
  assert.deepEqual([headers.authorization, headers['x-rondo-user']], ['Bearer rondo_secret', 'ann']);
  assert.match(headers['idempotency-key'], /^[0-9a-f]{32}$/);
  assert.equal(server.requests.length, 1, 'what was read is not read again');
});

test('a lost connection is made again after the last event, at every place', async (t) => {
  for (let cut = 0; cut < EVENTS.length; cut++) {
    const { server, rondo } = await world(t, (request, response) => {
      stream(response, RUN);
      const after = Number(request.headers['last-event-id'] ?? 0);
      // The server sends one event again, as a proxy with a buffer might.
      const from = Math.max(0, after - 1);
      const last = request.method === 'POST' ? cut : EVENTS.length;
      for (const one of EVENTS.slice(from, last)) event(response, ...one);
      if (request.method === 'POST') response.write('event: text:delta\nid: 99\ndata: {"half'); // never whole
      setImmediate(() => (request.method === 'POST' ? response.destroy() : response.end()));
    });
    const run = rondo.app('a').run({ message: 'Hi' });
    assert.deepEqual(types(await all(run)), ALL, `cut after ${cut}`);
    assert.equal(run.state.messages[1].text, 'Hello.');
    assert.equal(server.requests[1].headers['last-event-id'], cut ? String(cut) : undefined);
    assert.equal(server.requests[1].url, '/v1/runs/run_1/events');
  }
});

test('a request without an answer is sent again under the same key', async (t) => {
  const { server, rondo } = await world(t, (request, response, _, number) => {
    if (number === 0) return request.socket.destroy();
    if (number === 1) return problem(response, 503, 'unavailable', { 'retry-after': '0' });
    stream(response, RUN);
    for (const one of EVENTS) event(response, ...one);
    response.end();
  });
  assert.equal(await rondo.app('a').run({ message: 'Hi' }).text(), 'Hello.');
  const keys = new Set(server.requests.map(({ headers }) => headers['idempotency-key']));
  assert.deepEqual([server.requests.length, keys.size], [3, 1]);
});

test('a refusal is an error with everything that the server says', async (t) => {
  const { server, rondo } = await world(t, (_, response) => problem(response, 429, 'rate_limited', { 'retry-after': '7' }));
  const run = rondo.app('a').run({ message: 'Hi' });
  const error = await run.text().catch((error) => error);
  assert.ok(error instanceof RondoError);
  const { code, status, detail, retryAfter, message, requestId } = error;
  assert.deepEqual(
    [code, status, detail, retryAfter, message, requestId],
    ['rate_limited', 429, 'because of rate_limited', 7, 'because of rate_limited', 'r1'],
  );
  await assert.rejects(all(run), { code: 'rate_limited' });
  assert.equal(server.requests.length, 1, 'a refusal is not repeated');
});

test('a stream that is refused ends, and one that is too much for now waits', async (t) => {
  const { server, rondo } = await world(t, (_, response, __, number) => {
    if (number === 0) return problem(response, 429, 'too_many_streams', { 'retry-after': '0' });
    problem(response, 404, 'not_found');
  });
  await assert.rejects(all(rondo.resume('run_1', 3)), { code: 'not_found', status: 404 });
  assert.deepEqual(
    server.requests.map(({ headers }) => headers['last-event-id']),
    ['3', '3'],
  );
});

test('a server that is gone is given up after a bounded number of attempts', async (t) => {
  const { server, rondo } = await world(t, (request) => request.socket.destroy(), { retries: 2 });
  await assert.rejects(all(rondo.resume('run_1')), { name: 'RondoError', code: 'connection_failed', status: 0 });
  assert.equal(server.requests.length, 3);
});

test('a run that failed is a result, and its text is an error', async (t) => {
  const { rondo } = await world(t, (_, response) => {
    stream(response, RUN);
    for (const one of EVENTS.slice(0, 4)) event(response, ...one);
    event(response, 5, 'run:end', { runId: 'run_1', status: 'failed', error: { code: 'provider_auth', message: 'the key is wrong' } });
    response.end();
  });
  const run = rondo.app('a').run({ message: 'Hi' });
  const { status, error, text } = await run.result();
  assert.deepEqual([status, error.code, text], ['failed', 'provider_auth', '']);
  await assert.rejects(run.text(), { code: 'provider_auth', detail: 'the key is wrong' });
});

test('a signal ends the reading, and a loop that is left closes its connection', async (t) => {
  let closed;
  const left = new Promise((resolve) => (closed = resolve));
  const { rondo } = await world(t, (_, response) => {
    stream(response, RUN);
    event(response, ...EVENTS[0]);
    response.on('close', closed);
  });
  const stop = new AbortController();
  const run = rondo.resume('run_1', 0, { signal: stop.signal });
  await assert.rejects(
    (async () => {
      for await (const _ of run) stop.abort();
    })(),
    { name: 'AbortError' },
  );
  await left;
  for await (const _ of rondo.resume('run_1')) break;
  const never = AbortSignal.abort();
  await assert.rejects(rondo.app('a').run({ message: 'Hi', signal: never }).text(), { name: 'AbortError' });
});

test('access that ends is asked for again', async (t) => {
  let tokens = 0;
  const { server, rondo } = await world(
    t,
    (_, response, __, number) => {
      stream(response, RUN);
      for (const one of EVENTS.slice(number ? 4 : 0, number ? 8 : 4)) event(response, ...one);
      if (!number) event(response, null, 'access:ended', { reason: 'expired', detail: 'get a new one' });
      response.end();
    },
    { token: async () => `t${++tokens}` },
  );
  assert.deepEqual(types(await all(rondo.app('a').run({ message: 'Hi' }))), ALL);
  assert.deepEqual(
    server.requests.map(({ headers }) => headers.authorization),
    ['Bearer t1', 'Bearer t2'],
  );
});

test('a snapshot takes the place of what was read, and may end the run', async (t) => {
  const { rondo } = await world(t, (_, response) => {
    stream(response);
    event(response, 12, 'snapshot', { runId: 'run_1', threadId: 'thr_1', status: 'completed', text: 'Hello.', messageId: 'msg_2' });
  });
  const run = rondo.resume('run_1', 40);
  assert.deepEqual(types(await all(run)), [[12, 'snapshot']]);
  assert.deepEqual([await run.text(), run.threadId, run.state.stale], ['Hello.', 'thr_1', true]);
});

test('a run that has ended, and of which everything was read, is an empty loop with a result', async (t) => {
  const { rondo } = await world(t, (request, response) => {
    if (request.headers['last-event-id'] === '8') return response.writeHead(204).end();
    stream(response);
    for (const one of EVENTS) event(response, ...one);
    response.end();
  });
  const run = rondo.resume('run_1', 8);
  assert.deepEqual(await all(run), []);
  assert.equal(await run.text(), 'Hello.');
});

const CALL = { callId: 'call_1', name: 'place', input: { exact: true }, expiresAt: '2026-01-01T00:00:00Z' };
const STEP = { step: 1, text: '', calls: [{ id: 'call_1', name: 'place', input: { exact: true } }], usage: { inputTokens: 1, outputTokens: 1 }, finish: 'tool_calls' };

/** A run that calls a tool of the client; it goes on when the call is answered. */
function calling(status, refuse) {
  let streams = [];
  return (request, response, body, number) => {
    if (request.url.endsWith('/result')) {
      if (refuse) problem(response, 409, 'call_answered');
      else json(response, { id: 'call_1', status: 'answered' });
      for (const open of streams) {
        event(open, 5, 'tool:complete', { callId: 'call_1', name: 'place', status: 'complete', output: JSON.parse(body), durationMs: 1, outside: true });
        event(open, 6, 'run:end', { runId: 'run_1', status: 'completed' });
        open.end();
      }
    } else if (request.url.startsWith('/v1/calls/')) {
      json(response, { id: 'call_1', status });
    } else {
      stream(response, RUN);
      for (const one of EVENTS.slice(0, 2)) event(response, ...one);
      event(response, 3, 'step:end', STEP);
      event(response, 4, 'call:open', CALL);
      streams.push(response);
      if (number && status !== 'open') {
        event(response, 6, 'run:end', { runId: 'run_1', status: 'completed' });
        response.end();
      }
    }
  };
}

test('calls of the client are run and answered, once', async (t) => {
  const { server, rondo } = await world(t, calling('open'));
  const made = [];
  const place = {
    description: 'Where the user is',
    parameters: { type: 'object', properties: { exact: { type: 'boolean' } } },
    run: async (input) => made.push(input) && { city: 'Oslo' },
  };
  const known = { run: () => 1 }; // the app declares it
  const result = await rondo.app('a').run({ message: 'Where?', tools: { place, known } }).result();
  assert.deepEqual(made, [{ exact: true }]);
  assert.deepEqual(result.steps[0].calls[0].output, { result: { city: 'Oslo' } });
  const { run: _, ...declaration } = place;
  assert.deepEqual(JSON.parse(server.requests[0].body).tools, [{ name: 'place', ...declaration }]);
});

test('a tool that fails tells the model why, and a tool that somebody else answered is no failure', async (t) => {
  for (const refuse of [false, true]) {
    const { server, rondo } = await world(t, calling('open', refuse));
    const tools = {
      place: {
        run: () => {
          throw new Error('no permission');
        },
      },
    };
    await rondo.app('a').run({ message: 'Where?', tools }).result();
    assert.deepEqual(JSON.parse(server.requests.find(({ url }) => url.endsWith('/result')).body), { error: 'no permission' });
  }
});

test('a result that the server refuses is told to the model', async (t) => {
  const answer = calling('open');
  const { server, rondo } = await world(t, (request, response, body, number) => {
    if (body.startsWith('{"result"')) return problem(response, 413, 'result_too_large');
    return answer(request, response, body, number);
  });
  const result = await rondo.app('a').run({ message: 'Where?', tools: { place: { run: () => 'x'.repeat(100) } } }).result();
  assert.deepEqual(result.steps[0].calls[0].output, { error: 'because of result_too_large' });
  assert.equal(server.requests.filter(({ url }) => url.endsWith('/result')).length, 2);
});

test('a call that was answered before is not made again', async (t) => {
  const { server, rondo } = await world(t, calling('answered'));
  let made = 0;
  const tools = { place: { run: () => made++ } };
  await rondo.app('a').run({ message: 'x' }).detach();
  await rondo.resume('run_1', 0, { tools }).result();
  assert.equal(made, 0);
  assert.ok(!server.requests.some(({ url }) => url.endsWith('/result')));
});

test('a list is its first page, and a loop over it has all pages', async (t) => {
  const { server, rondo } = await world(t, (request, response) => {
    const isSecond = request.url.includes('cursor=n%261');
    json(response, isSecond ? { data: [{ id: 'c' }], next: null } : { data: [{ id: 'a' }, { id: 'b' }], next: 'n&1' });
  });
  const page = await rondo.app('a').threads({ limit: 2 });
  assert.deepEqual([page.data.length, page.next], [2, 'n&1']);
  const ids = [];
  for await (const { id } of rondo.app('a').threads({ limit: 2 })) ids.push(id);
  assert.deepEqual(ids, ['a', 'b', 'c']);
  assert.equal(server.requests[2].url, '/v1/apps/a/threads?limit=2&cursor=n%261');
});

test('files keep their paths, and bodies their types', async (t) => {
  const { server, rondo } = await world(t, (_, response) => json(response, { id: 'x' }));
  const app = rondo.app('a');
  await app.files.put('trips/my plan.md', '# Plan', 3);
  await app.uploadImage(new Blob(['png'], { type: 'image/png' }), { name: 'a b.png' });
  await app.uploadDocument(new File(['text'], 'notes.md', { type: 'text/markdown' }));
  await rondo.request('PATCH /v1/threads/{thread}', { path: { thread: 'thr_1' }, body: { title: 'New' } });
  assert.deepEqual(
    server.requests.map(({ method, url, headers, body }) => [method, url, headers['content-type'], body]),
    [
      ['PUT', '/v1/apps/a/files/trips/my%20plan.md?version=3', 'text/markdown; charset=utf-8', '# Plan'],
      ['POST', '/v1/apps/a/images?name=a+b.png', 'image/png', 'png'],
      ['POST', '/v1/apps/a/documents?name=notes.md', 'text/markdown', 'text'],
      ['PATCH', '/v1/threads/thr_1', 'application/json', '{"title":"New"}'],
    ],
  );
  assert.equal(new Set(server.requests.map(({ headers }) => headers['idempotency-key'])).size, 4);
});

test('the user channel goes on after its last notice and the last event of each thread', async (t) => {
  const { server, rondo } = await world(t, (_, response, __, number) => {
    stream(response);
    if (number === 0) {
      response.write('id: 40\n\n');
      event(response, 41, 'notice:run', { appId: 'a', threadId: 'thr_1', runId: 'run_1', status: 'running' });
      event(response, null, 'text:delta', { threadId: 'thr_1', seq: 6, runId: 'run_1', data: { step: 1, delta: 'Hi' } });
      response.end();
    } else if (number === 1) {
      event(response, 41, 'notice:run', { appId: 'a', threadId: 'thr_1', runId: 'run_1', status: 'running' });
      event(response, null, 'text:delta', { threadId: 'thr_1', seq: 6, runId: 'run_1', data: { step: 1, delta: 'Hi' } });
      event(response, null, 'text:delta', { threadId: 'thr_1', seq: 7, runId: 'run_1', data: { step: 1, delta: '!' } });
      event(response, 42, 'notice:run', { appId: 'a', threadId: 'thr_1', runId: 'run_1', status: 'completed' });
    } else {
      event(response, 50, 'resync', {});
    }
  });
  const channel = rondo.events({ follow: { thr_1: 5 } });
  const seen = [];
  for await (const one of channel) {
    seen.push([one.type, one.threadId ? one.seq : one.id]);
    if (one.type === 'notice:run' && one.data.status === 'completed') channel.follow('thr_2', 0);
    if (one.type === 'resync') break;
  }
  await channel.opened;
  assert.deepEqual(seen, [
    ['notice:run', 41],
    ['text:delta', 6],
    ['text:delta', 7],
    ['notice:run', 42],
    ['resync', 50],
  ]);
  const asked = server.requests.map(({ url, headers }) => [decodeURIComponent(url), headers['last-event-id']]);
  assert.deepEqual(asked, [
    ['/v1/events?follow=thr_1:5', undefined],
    ['/v1/events?follow=thr_1:6', '41'],
    ['/v1/events?follow=thr_1:7,thr_2:0', '42'],
  ]);
});
