// A model provider that does what a test tells it, over Chat Completions.

import http from 'node:http';

/** A reply, made step by step: `reply().text('Hello').call('calculate', {…})`. */
export function reply() {
  const acts = [];
  const self = {
    acts,
    /** Text, in one piece or in words with a pause between them. In milliseconds. */
    text(text, pause = 0) {
      if (!pause) acts.push({ text });
      else for (const word of text.split(/(?<=[ \n])/)) acts.push({ text: word, pause });
      return self;
    },
    reasoning(text) {
      acts.push({ reasoning: text });
      return self;
    },
    call(name, input) {
      acts.push({ call: name, input: typeof input === 'string' ? input : JSON.stringify(input) });
      return self;
    },
    /** Waits until the gate is opened. */
    wait(gate) {
      acts.push({ gate });
      return self;
    },
    status(status, body) {
      acts.push({ status, body });
      return self;
    },
  };
  return self;
}

export function gate() {
  let open = () => {};
  let reach = () => {};
  const opened = new Promise((resolve) => (open = resolve));
  const reached = new Promise((resolve) => (reach = resolve));
  return { opened, reached, open, reach };
}

export async function startUpstream() {
  const script = [];
  let program = null;
  const requests = [];
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: ['gpt-6-luna', 'gpt-6.1-sol'].map((id) => ({ id, object: 'model' })) }));
      return;
    }
    const asked = JSON.parse(body);
    requests.push(asked);
    const next = script.shift() ?? program?.(asked) ?? reply().text('There is no script.');
    await perform(next.acts, asked, response).catch(() => response.destroy());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    requests,
    clear: () => (script.length = 0),
    script: (...replies) => script.push(...replies),
    /** Answers what no script answers. */
    program: (made) => (program = made),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function perform(acts, asked, response) {
  const refused = acts.find((act) => act.status);
  if (refused) {
    response.writeHead(refused.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(refused.body ?? { error: { message: 'refused', type: 'invalid_request_error' } }));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (choices, rest = {}) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: asked.model, choices, ...rest })}\n\n`);
  const delta = (part, finish = null) => send([{ index: 0, delta: part, finish_reason: finish }]);
  delta({ role: 'assistant', content: '' });
  let calls = 0;
  let words = 0;
  for (const act of acts) {
    if (act.gate) {
      act.gate.reach();
      await act.gate.opened;
    }
    if (act.pause) await new Promise((resolve) => setTimeout(resolve, act.pause));
    if (act.text !== undefined) delta({ content: act.text });
    if (act.reasoning !== undefined) delta({ reasoning_content: act.reasoning });
    if (act.call) {
      const half = Math.ceil(act.input.length / 2);
      delta({ tool_calls: [{ index: calls, id: `call_${calls}`, type: 'function', function: { name: act.call, arguments: act.input.slice(0, half) } }] });
      delta({ tool_calls: [{ index: calls, function: { arguments: act.input.slice(half) } }] });
      calls += 1;
    }
    words += (act.text ?? act.input ?? '').length;
  }
  delta({}, calls ? 'tool_calls' : 'stop');
  send([], { usage: { prompt_tokens: JSON.stringify(asked.messages).length >> 2, completion_tokens: Math.max(1, words >> 2), total_tokens: 2 } });
  response.end('data: [DONE]\n\n');
}
