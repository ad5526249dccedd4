// AG-UI with its own client: `node ag_ui.mjs all|kill URL`.
import assert from 'node:assert/strict';
import { HttpAgent } from '@ag-ui/client';
import { newestRun, reporter, tell, told, untilNewest, versionOf } from './report.mjs';

const [what, url] = process.argv.slice(2);
const { feature } = reporter('@ag-ui/client', versionOf('@ag-ui/client'));
let count = 0;
const fresh = (name) => `${name}-${process.pid}-${(count += 1)}`;
const agent = (name, more = {}) => new HttpAgent({ url: `${url}/ag-ui/demo`, threadId: fresh(name), ...more });
const say = (agent, content) => agent.addMessage({ id: fresh('message'), role: 'user', content });
const weather = {
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/** Runs the agent, and notes the events that the client accepts. */
async function run(agent, parameters = {}) {
  const events = [];
  const subscriber = { onEvent: ({ event }) => void events.push(event) };
  const result = await agent.runAgent({ runId: fresh('run'), ...parameters }, subscriber);
  return { ...result, events, outcome: events.at(-1).outcome };
}

const last = ({ messages }) => messages.at(-1);

async function all() {
  await feature('run', async () => {
    const one = agent('run');
    say(one, 'Count');
    const { events, newMessages, outcome } = await run(one);
    assert.equal(events[0].type, 'RUN_STARTED');
    assert.deepEqual([newMessages.length, last(one).role, last(one).content], [1, 'assistant', 'One, two, three.']);
    assert.equal(outcome.type, 'success');
    assert.ok(events.some(({ type }) => type === 'TEXT_MESSAGE_CONTENT'));
  });
  await feature('thread', async () => {
    const one = agent('thread');
    say(one, 'My name is Ann.');
    await run(one);
    say(one, 'How often do I say Ann?');
    await run(one);
    assert.equal(last(one).content, 'Your history has 3 messages.');
  });
  await feature('history', async () => {
    const initialMessages = [
      { id: 'a', role: 'user', content: 'My name is Ann.' },
      { id: 'b', role: 'assistant', content: 'Hello Ann.' },
    ];
    const one = agent('history', { initialMessages });
    say(one, 'How often do I say Ann?');
    await run(one);
    assert.equal(last(one).content, 'Your history has 3 messages.');
  });
  await feature('tools', async () => {
    const one = agent('tools');
    say(one, 'What is the weather?');
    const { outcome } = await run(one, { tools: [weather] });
    const [call] = last(one).toolCalls;
    assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ['get_weather', { city: 'Oslo' }]);
    assert.deepEqual(outcome, { type: 'success', pendingToolCallIds: [call.id] });
    one.addMessage({ id: fresh('result'), role: 'tool', toolCallId: call.id, content: '21 degrees' });
    await run(one, { tools: [weather] });
    assert.equal(last(one).content, 'It is 21 degrees in Oslo.');
  });
  await feature('server_tools', async () => {
    const one = agent('server tools');
    say(one, 'Calculate it');
    const { events } = await run(one);
    const types = events.map(({ type }) => type);
    for (const type of ['TOOL_CALL_START', 'TOOL_CALL_END', 'TOOL_CALL_RESULT']) assert.ok(types.includes(type), String(types));
    assert.equal(last(one).content, 'It is 42.');
  });
  await feature('interrupt', async () => {
    for (const approved of [true, false]) {
      const one = agent('interrupt');
      say(one, 'What time is it?');
      const { outcome } = await run(one);
      assert.deepEqual([outcome.type, outcome.interrupts.length], ['interrupt', 1]);
      assert.equal(one.pendingInterrupts.length, 1);
      const [{ id }] = outcome.interrupts;
      const resume = [{ interruptId: id, status: 'resolved', payload: { approved } }];
      const after = await run(one, { resume });
      assert.equal(after.outcome.type, 'success');
      assert.equal(last(one).content, approved ? 'It is late.' : 'I may not look.');
    }
  });
  await feature('state', async () => {
    const one = agent('state', { initialState: { own: 1 } });
    say(one, 'Remember that I live in Oslo.');
    await run(one);
    assert.match(JSON.stringify(one.state), /Oslo/);
    const other = agent('state');
    say(other, 'Count');
    await run(other);
    assert.match(JSON.stringify(other.state), /Oslo/, 'another thread has it from its start');
  });
  await feature('context', async () => {
    const one = agent('context');
    say(one, 'Who are you?');
    await run(one, { context: [{ description: 'Who you are', value: 'a lighthouse keeper' }] });
    assert.equal(last(one).content, 'I keep the light.');
  });
  await feature('errors', async () => {
    const one = agent('errors');
    say(one, 'Fail');
    const failed = await run(one).then(({ events }) => events.at(-1), (error) => error);
    assert.ok(failed instanceof Error || failed.type === 'RUN_ERROR', String(failed));
    assert.ok(!String(failed.message).includes('canary'), String(failed.message));
    const nobody = new HttpAgent({ url: `${url}/ag-ui/nobody`, threadId: 'x' });
    say(nobody, 'Hi');
    await assert.rejects(run(nobody), /404/);
  });
  await feature('abort', async () => {
    const one = agent('abort');
    say(one, 'Hold on');
    let heard = '';
    const subscriber = {
      onTextMessageContentEvent: ({ event }) => {
        heard += event.delta;
        one.abortRun();
      },
    };
    await one.runAgent({ runId: fresh('run') }, subscriber).catch(() => {});
    assert.equal(heard, 'Hel');
    const { id, status } = await newestRun(url);
    assert.equal(status, 'running', 'a client that leaves ends nothing');
    await fetch(`${url}/v1/runs/${id}/cancel`, { method: 'POST' });
    await untilNewest(url, 'cancelled');
  });
}

/** The server dies in the middle of an answer. The client asks for the run again under its id. */
async function kill() {
  await feature('kill', async () => {
    const one = agent('kill');
    say(one, 'Hold on');
    const runId = fresh('run');
    let heard = '';
    const types = [];
    const subscriber = {
      onEvent: ({ event }) => void types.push(event.type),
      onTextMessageContentEvent: ({ event }) => {
        heard += event.delta;
        tell(`said: ${heard}`);
      },
    };
    // The client ends as if all were well, and throws the lost connection where nobody can catch it.
    process.once('uncaughtException', (error) => tell(`lost: ${error.message}`));
    await one.runAgent({ runId }, subscriber).catch(() => {});
    assert.ok(!types.includes('RUN_FINISHED') && !types.includes('RUN_ERROR'), String(types));
    await told(); // a new server is there
    const again = new HttpAgent({ url: one.url, threadId: one.threadId, initialMessages: one.messages.filter(({ role }) => role === 'user') });
    const { outcome } = await run(again, { runId });
    assert.deepEqual([outcome.type, last(again).content], ['success', 'Hello.']);
    assert.equal(again.messages.length, 2, 'the message was sent once');
  });
}

await { all, kill }[what]();
process.exit(0);
