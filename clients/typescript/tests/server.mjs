// A server for tests that says what it is told to say. Each request gets the next answer of its script.
import { createServer } from 'node:http';

/** Starts a server. `answer(request, response, body, number)` answers the request of that number, from 0. */
export async function serve(answer) {
  const requests = [];
  const server = createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      const body = Buffer.concat(pieces).toString();
      const { method, url, headers } = request;
      requests.push({ method, url, headers, body });
      answer(request, response, body, requests.length - 1);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

export function json(response, value, status = 200, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
}

export function problem(response, status, code, headers = {}) {
  json(response, { status, code, detail: `because of ${code}`, requestId: 'r1' }, status, headers);
}

/** Begins an event stream. */
export function stream(response, headers = {}) {
  response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
  response.write('retry: 1\n\n');
}

export function event(response, id, name, data) {
  response.write(`event: ${name}\n${id === null ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`);
}

export const RUN = { 'x-run-id': 'run_1', 'x-thread-id': 'thr_1' };

/** The events of a short run, with their numbers. */
export const EVENTS = [
  [1, 'message:user', { messageId: 'msg_1', parentId: null, text: 'Hi' }],
  [2, 'run:start', { runId: 'run_1', threadId: 'thr_1', messageId: 'msg_1', model: 'm', appRevision: 'r' }],
  [3, 'step:start', { step: 1, model: 'm' }],
  [4, 'text:delta', { step: 1, delta: 'Hel' }],
  [5, 'text:delta', { step: 1, delta: 'lo.' }],
  [6, 'step:end', { step: 1, text: 'Hello.', calls: [], usage: { inputTokens: 1, outputTokens: 1 }, finish: 'stop' }],
  [7, 'stream:complete', { messageId: 'msg_2', text: 'Hello.', memoriesReferenced: [], usage: { inputTokens: 1, outputTokens: 1 } }],
  [8, 'run:end', { runId: 'run_1', status: 'completed' }],
];
