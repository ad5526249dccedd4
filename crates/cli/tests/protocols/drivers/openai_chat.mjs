// Chat Completions with OpenAI's client for Node.js: `node openai_chat.mjs all URL`.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { PNG, reporter, tell, untilNewest, versionOf } from './report.mjs';

const [what, url] = process.argv.slice(2);
const { feature } = reporter('openai-node', versionOf('openai'));
const openai = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: 'none', maxRetries: 0 });
const model = 'demo';
const user = (content) => [{ role: 'user', content }];
const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather in a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};

async function all() {
  await feature('models', async () => {
    const ids = [];
    for await (const { id, object } of openai.models.list()) {
      assert.equal(object, 'model');
      ids.push(id);
    }
    assert.ok(ids.includes(model), String(ids));
    assert.equal((await openai.models.retrieve(model)).id, model);
  });
  await feature('whole', async () => {
    const { id, object, choices, usage } = await openai.chat.completions.create({ model, messages: user('Count') });
    assert.deepEqual([object, choices.length], ['chat.completion', 1]);
    assert.ok(id);
    const [{ message, finish_reason }] = choices;
    assert.deepEqual([message.role, message.content, finish_reason], ['assistant', 'One, two, three.', 'stop']);
    assert.ok(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  });
  await feature('stream', async () => {
    const stream = await openai.chat.completions.create({
      model,
      messages: user('Count'),
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    const ids = new Set();
    let end, usage;
    for await (const { id, choices, usage: counted } of stream) {
      ids.add(id);
      text += choices[0]?.delta.content ?? '';
      end = choices[0]?.finish_reason ?? end;
      usage = counted ?? usage;
    }
    assert.deepEqual([text, end, ids.size], ['One, two, three.', 'stop', 1]);
    assert.ok(usage.completion_tokens > 0);
  });
  await feature('stream_helper', async () => {
    const stream = openai.chat.completions.stream({ model, messages: user('Count') });
    const completion = await stream.finalChatCompletion();
    assert.equal(completion.choices[0].message.content, 'One, two, three.');
  });
  await feature('tools', async () => {
    for (const stream of [false, true]) {
      const messages = user('What is the weather?');
      const ask = async () =>
        stream
          ? (await openai.chat.completions.stream({ model, messages, tools: [weather] }).finalChatCompletion()).choices[0]
          : (await openai.chat.completions.create({ model, messages, tools: [weather] })).choices[0];
      const { message, finish_reason } = await ask();
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.tool_calls.length, 1);
      const [{ id, function: called }] = message.tool_calls;
      assert.deepEqual([called.name, JSON.parse(called.arguments)], ['get_weather', { city: 'Oslo' }]);
      messages.push(message, { role: 'tool', tool_call_id: id, content: '21 degrees' });
      assert.equal((await ask()).message.content, 'It is 21 degrees in Oslo.');
    }
  });
  await feature('run_tools', async () => {
    let asked = 0;
    const run = () => {
      asked += 1;
      return '21 degrees';
    };
    for (const stream of [false, true]) {
      const tools = [{ type: 'function', function: { ...weather.function, function: run, parse: JSON.parse } }];
      const runner = openai.chat.completions.runTools({ model, stream, messages: user('What is the weather?'), tools });
      assert.equal(await runner.finalContent(), 'It is 21 degrees in Oslo.');
    }
    assert.equal(asked, 2);
  });
  await feature('server_tools', async () => {
    const { choices } = await openai.chat.completions.create({ model, messages: user('Calculate it') });
    assert.deepEqual([choices[0].message.content, choices[0].finish_reason], ['It is 42.', 'stop']);
    assert.ok(!choices[0].message.tool_calls?.length, 'the client is not asked to run what the server runs');
  });
  await feature('approval', async () => {
    const { choices } = await openai.chat.completions.create({ model, messages: user('What time is it?') });
    assert.equal(choices[0].finish_reason, 'stop');
    assert.match(choices[0].message.content, /current_time.*confirm/s);
  });
  await feature('parse', async () => {
    const response_format = zodResponseFormat(z.object({ city: z.string(), days: z.number() }), 'trip');
    const completion = await openai.chat.completions.parse({ model, messages: user('Plan a trip as data'), response_format });
    assert.deepEqual(completion.choices[0].message.parsed, { city: 'Oslo', days: 3 });
  });
  await feature('image', async () => {
    const content = [
      { type: 'text', text: 'What is in the picture?' },
      { type: 'image_url', image_url: { url: PNG } },
    ];
    const { choices } = await openai.chat.completions.create({ model, messages: user(content) });
    assert.equal(choices[0].message.content, 'I see a picture.');
  });
  await feature('system', async () => {
    const messages = [{ role: 'system', content: 'Speak like a lighthouse keeper.' }, ...user('Who are you?')];
    const { choices } = await openai.chat.completions.create({ model, messages });
    assert.equal(choices[0].message.content, 'I keep the light.');
  });
  await feature('history', async () => {
    const messages = [...user('My name is Ann.'), { role: 'assistant', content: 'Hello Ann.' }, ...user('How often do I say Ann?')];
    const { choices } = await openai.chat.completions.create({ model, messages });
    assert.equal(choices[0].message.content, 'Your history has 3 messages.');
  });
  await feature('thread', async () => {
    const headers = { 'x-thread-id': `thread of ${process.pid}` };
    const messages = user('My name is Ann.');
    const say = async () => {
      const { data, response } = await openai.chat.completions.create({ model, messages }, { headers }).withResponse();
      messages.push(data.choices[0].message);
      return response.headers.get('x-thread-id');
    };
    const first = await say();
    messages.push(...user('How often do I say Ann?'));
    assert.equal(await say(), first);
    assert.ok(first.startsWith('thr_'), first);
    assert.equal(messages.at(-1).content, 'Your history has 3 messages.');
  });
  await feature('embeddings', async () => {
    const { data, usage } = await openai.embeddings.create({ model: 'text-embedding-3-small', input: ['one', 'two'] });
    assert.deepEqual(data.map(({ index, embedding }) => [index, embedding.length]), [[0, 4], [1, 4]]);
    assert.ok(usage.prompt_tokens > 0);
    const [{ embedding }] = (await openai.embeddings.create({ model: 'text-embedding-3-small', input: 'one', encoding_format: 'float' })).data;
    assert.deepEqual(embedding, data[0].embedding, 'base64 and numbers are the same');
  });
  await feature('errors', async () => {
    const kind = (error) => [error.constructor.name, error.status, typeof error.error.message, typeof error.error.type];
    const unknown = await openai.chat.completions.create({ model: 'nobody', messages: user('Hi') }).catch(kind);
    assert.deepEqual(unknown, ['NotFoundError', 404, 'string', 'string']);
    const wrong = await openai.chat.completions.create({ model, messages: 'Hi' }).catch(kind);
    assert.deepEqual(wrong, ['BadRequestError', 400, 'string', 'string']);
    const failed = await openai.chat.completions.create({ model, messages: user('Fail') }).catch((error) => error);
    assert.ok(failed instanceof OpenAI.APIError, String(failed));
    assert.ok(!String(failed).includes('canary'), String(failed));
    const stream = await openai.chat.completions.create({ model, messages: user('Fail'), stream: true }).then(
      async (stream) => {
        for await (const _ of stream);
      },
    ).catch((error) => error);
    assert.ok(stream instanceof OpenAI.APIError, String(stream));
  });
  await feature('cut', async () => {
    const stream = await openai.chat.completions.create({ model, messages: user('Hold on'), stream: true });
    for await (const { choices } of stream) {
      if (choices[0]?.delta.content) break; // closes the connection
    }
    await untilNewest(url, 'cancelled');
  });
}

/** The server is not there yet when the request is made. */
async function retry() {
  await feature('retry', async () => {
    const patient = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: 'none', maxRetries: 10 });
    tell('asking');
    const { choices } = await patient.chat.completions.create({ model, messages: user('Count') });
    assert.equal(choices[0].message.content, 'One, two, three.');
  });
}

await { all, retry }[what]();
process.exit(0);
