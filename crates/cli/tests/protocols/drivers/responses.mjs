// Responses with OpenAI's client for Node.js: `node responses.mjs all|kill URL`.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { PNG, reporter, tell, told, versionOf } from './report.mjs';

const [what, url] = process.argv.slice(2);
const { feature } = reporter('openai-node', versionOf('openai'));
const openai = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: 'none', maxRetries: 0 });
const model = 'demo';
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false },
  strict: true,
};
const isOver = ({ status }) => !['queued', 'in_progress'].includes(status);

/** Asks for a response until it has ended. */
async function ended(id) {
  for (;;) {
    const response = await openai.responses.retrieve(id);
    if (isOver(response)) return response;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Reads a stream whose numbers must follow each other. */
async function read(stream, from = 0) {
  const events = [];
  for await (const event of stream) {
    assert.equal(event.sequence_number, from + events.length, 'no gap, and nothing twice');
    events.push(event);
  }
  return events;
}

/** Reads a stream whose numbers rise, and may leave some out. */
async function readRising(stream, after) {
  const events = [];
  for await (const event of stream) {
    assert.ok(event.sequence_number > (events.at(-1)?.sequence_number ?? after), 'nothing twice');
    events.push(event);
  }
  return events;
}

const textOf = (events) =>
  events.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta).join('');

async function all() {
  let first;
  await feature('whole', async () => {
    first = await openai.responses.create({ model, input: 'Count' });
    assert.deepEqual([first.object, first.status, first.output_text], ['response', 'completed', 'One, two, three.']);
    assert.ok(first.id.startsWith('resp_'), first.id);
    assert.ok(first.usage.input_tokens > 0 && first.usage.output_tokens > 0);
    const again = await openai.responses.retrieve(first.id);
    assert.deepEqual([again.id, again.output_text, again.status], [first.id, first.output_text, 'completed']);
  });
  await feature('stream', async () => {
    const events = await read(await openai.responses.create({ model, input: 'Count', stream: true }));
    assert.equal(events[0].type, 'response.created');
    assert.equal(textOf(events), 'One, two, three.');
    const last = events.at(-1);
    assert.deepEqual([last.type, last.response.output_text ?? last.response.output.at(-1).content[0].text], ['response.completed', 'One, two, three.']);
  });
  await feature('stream_helper', async () => {
    const final = await openai.responses.stream({ model, input: 'Count' }).finalResponse();
    assert.equal(final.output_text, 'One, two, three.');
  });
  await feature('previous', async () => {
    const one = await openai.responses.create({ model, input: 'My name is Ann.' });
    const two = await openai.responses.create({ model, input: 'How often do I say Ann?', previous_response_id: one.id });
    assert.deepEqual([two.output_text, two.previous_response_id], ['Your history has 3 messages.', one.id]);
    const other = await openai.responses.create({ model, input: 'How often do I say Ann?', previous_response_id: one.id });
    assert.equal(other.output_text, 'Your history has 3 messages.', 'a second one begins a branch');
  });
  await feature('history', async () => {
    const input = [
      { role: 'user', content: 'My name is Ann.' },
      { role: 'assistant', content: 'Hello Ann.' },
      { role: 'user', content: [{ type: 'input_text', text: 'How often do I say Ann?' }] },
    ];
    assert.equal((await openai.responses.create({ model, input })).output_text, 'Your history has 3 messages.');
  });
  await feature('system', async () => {
    const instructions = 'Speak like a lighthouse keeper.';
    assert.equal((await openai.responses.create({ model, instructions, input: 'Who are you?' })).output_text, 'I keep the light.');
  });
  await feature('tools', async () => {
    const one = await openai.responses.create({ model, input: 'What is the weather?', tools: [weather] });
    const [call] = one.output.filter(({ type }) => type === 'function_call');
    assert.deepEqual([one.status, call.name, JSON.parse(call.arguments)], ['completed', 'get_weather', { city: 'Oslo' }]);
    const output = { type: 'function_call_output', call_id: call.call_id, output: '21 degrees' };
    const two = await openai.responses.create({ model, previous_response_id: one.id, input: [output], tools: [weather] });
    assert.equal(two.output_text, 'It is 21 degrees in Oslo.');
  });
  await feature('stream_tools', async () => {
    const helper = openai.responses.stream({ model, input: 'What is the weather?', tools: [weather] });
    const one = await helper.finalResponse();
    const [call] = one.output.filter(({ type }) => type === 'function_call');
    const output = { type: 'function_call_output', call_id: call.call_id, output: '21 degrees' };
    const events = await read(await openai.responses.create({ model, previous_response_id: one.id, input: [output], tools: [weather], stream: true }));
    assert.equal(textOf(events), 'It is 21 degrees in Oslo.');
  });
  await feature('server_tools', async () => {
    const events = await read(await openai.responses.create({ model, input: 'Calculate it', stream: true }));
    const { response } = events.at(-1);
    const call = response.output.find(({ type }) => type === 'mcp_call');
    assert.deepEqual([call.name, JSON.parse(call.arguments)], ['calculate', { expression: '6*7' }]);
    assert.match(String(call.output), /42/);
    assert.equal(textOf(events), 'It is 42.');
    assert.ok(events.some(({ type }) => type === 'response.mcp_call.completed'));
  });
  await feature('approval', async () => {
    const one = await openai.responses.create({ model, input: 'What time is it?' });
    const asked = one.output.find(({ type }) => type === 'mcp_approval_request');
    assert.equal(asked.name, 'current_time');
    const answer = { type: 'mcp_approval_response', approval_request_id: asked.id, approve: true };
    const two = await openai.responses.create({ model, previous_response_id: one.id, input: [answer] });
    assert.deepEqual([two.status, two.output_text], ['completed', 'It is late.']);
  });
  await feature('parse', async () => {
    const format = zodTextFormat(z.object({ city: z.string(), days: z.number() }), 'trip');
    const response = await openai.responses.parse({ model, input: 'Plan a trip as data', text: { format } });
    assert.deepEqual(response.output_parsed, { city: 'Oslo', days: 3 });
  });
  await feature('image', async () => {
    const content = [{ type: 'input_text', text: 'What is in the picture?' }, { type: 'input_image', image_url: PNG, detail: 'auto' }];
    assert.equal((await openai.responses.create({ model, input: [{ role: 'user', content }] })).output_text, 'I see a picture.');
  });
  await feature('background', async () => {
    const begun = await openai.responses.create({ model, input: 'Count', background: true });
    assert.ok(['queued', 'in_progress', 'completed'].includes(begun.status), begun.status);
    const response = await ended(begun.id);
    assert.deepEqual([response.status, response.output_text], ['completed', 'One, two, three.']);
  });
  await feature('resume', async () => {
    const events = await read(await openai.responses.create({ model, input: 'Count', stream: true, background: true }));
    const { id } = events[0].response;
    for (const after of [0, 2, events.length - 2]) {
      const rest = await read(await openai.responses.retrieve(id, { stream: true, starting_after: after }), after + 1);
      assert.deepEqual(rest, events.slice(after + 1), `after ${after}`);
    }
    const helper = openai.responses.stream({ response_id: id, starting_after: 2 });
    assert.equal((await helper.finalResponse()).output_text, 'One, two, three.');
  });
  await feature('input_items', async () => {
    const items = [];
    for await (const item of openai.responses.inputItems.list(first.id)) items.push(item);
    assert.deepEqual(items.map(({ type, role }) => [type, role]), [['message', 'user']]);
    assert.equal(items[0].content[0].text, 'Count');
  });
  await feature('cancel', async () => {
    const stream = await openai.responses.create({ model, input: 'Hold on', stream: true, background: true });
    let id;
    for await (const event of stream) {
      id ??= event.response?.id;
      if (event.type === 'response.output_text.delta') break; // ends nothing
    }
    await openai.responses.cancel(id);
    assert.equal((await ended(id)).status, 'cancelled');
  });
  await feature('delete', async () => {
    const { id } = await openai.responses.create({ model, input: 'Count' });
    await openai.responses.delete(id);
    const gone = await openai.responses.retrieve(id).catch(({ status }) => status);
    assert.equal(gone, 404);
  });
  await feature('errors', async () => {
    const kind = (error) => [error.constructor.name, error.status];
    assert.deepEqual(await openai.responses.create({ model: 'nobody', input: 'Hi' }).catch(kind), ['NotFoundError', 404]);
    const wrong = await openai.responses.create({ model, input: 'Hi', previous_response_id: 'resp_no' }).catch(kind);
    assert.ok([400, 404].includes(wrong[1]), String(wrong));
    const failed = await openai.responses.create({ model, input: 'Fail' }).catch((error) => error);
    const isTold = failed instanceof OpenAI.APIError || (failed.status === 'failed' && failed.error?.message);
    assert.ok(isTold && !JSON.stringify(failed).includes('canary'), JSON.stringify(failed));
  });
}

/** The server dies in the middle of an answer. */
async function kill() {
  await feature('kill', async () => {
    const events = [];
    try {
      for await (const event of await openai.responses.create({ model, input: 'Hold on', stream: true, background: true })) {
        events.push(event);
        if (event.type === 'response.output_text.delta') tell(`said: ${textOf(events)}`);
      }
      assert.fail('the stream has ended');
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await told(); // a new server is there
    const { id } = events[0].response;
    const after = events.at(-1).sequence_number;
    // The model has begun again, so what the client has read is void: it gets the end, which has the whole text.
    const rest = await readRising(await openai.responses.retrieve(id, { stream: true, starting_after: after }), after);
    const last = rest.at(-1);
    const whole = await openai.responses.retrieve(id);
    assert.deepEqual([last.type, whole.status, whole.output_text], ['response.completed', 'completed', 'Hello.']);
    assert.equal(last.response.output.at(-1).content[0].text, 'Hello.');
    const replayed = await readRising(await openai.responses.retrieve(id, { stream: true }), -1);
    assert.deepEqual([textOf(replayed), replayed.at(-1)], ['Hello.', last], 'a later reader gets the text once');
    const helper = openai.responses.stream({ response_id: id, starting_after: after });
    assert.equal((await helper.finalResponse()).output_text, 'Hello.');
  });
}

await { all, kill }[what]();
process.exit(0);
