// The MCP server with the protocol's own clients: `node mcp.mjs sdk|client|modern all|kill URL`.
//
// `sdk` is the client of the first generation, `client` that of the second one with the older handshake, and `modern` the
// same without a handshake (2026-07-28).
import assert from 'node:assert/strict';
import { reporter, tell, told, versionOf } from './report.mjs';

const [which, what, url] = process.argv.slice(2);
const isFirst = which === 'sdk';
const library = isFirst ? '@modelcontextprotocol/sdk' : '@modelcontextprotocol/client';
const shown = { sdk: library, client: library, modern: `${library} (2026-07-28)` }[which];
const { feature, absent } = reporter(shown, versionOf(library));
const { Client, StreamableHTTPClientTransport } = isFirst
  ? { ...(await import(`${library}/client/index.js`)), ...(await import(`${library}/client/streamableHttp.js`)) }
  : await import(library);
const elicitation = isFirst ? (await import(`${library}/types.js`)).ElicitRequestSchema : 'elicitation/create';

/** A client that is connected. `answer` answers questions to the user. */
async function connected(answer, path = '/mcp/demo') {
  const options = { capabilities: answer ? { elicitation: {} } : {} };
  if (which === 'modern') options.versionNegotiation = { mode: { pin: '2026-07-28' } };
  const client = new Client({ name: 'test', version: '1' }, options);
  if (answer) client.setRequestHandler(elicitation, answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(url + path)));
  return client;
}

async function call(client, name, args, more = {}) {
  const request = { name, arguments: args };
  const result = await (isFirst ? client.callTool(request, undefined, more) : client.callTool(request, more));
  assert.ok(!result.isError, JSON.stringify(result.content));
  return result.structuredContent;
}

const answered = ({ status, answer }) => [status, answer];

async function all() {
  const client = await connected();
  await feature('connect', async () => {
    assert.equal(client.getServerVersion().name, 'rondo');
    assert.ok(client.getServerCapabilities().tools);
    if (which === 'modern') assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
    else await client.ping();
  });
  await feature('tools', async () => {
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    for (const name of ['ask', 'start', 'get', 'answer', 'cancel', 'search_memories']) assert.ok(names.includes(name), String(names));
    assert.ok(tools.every(({ inputSchema, description }) => inputSchema.type === 'object' && description));
    const everywhere = await connected(undefined, '/mcp');
    assert.equal((await everywhere.listTools()).tools.length, tools.length);
    await everywhere.close();
  });
  await feature('ask', async () => {
    const first = await call(client, 'ask', { message: 'My name is Ann.' });
    assert.deepEqual(answered(first), ['completed', 'Hello Ann.']);
    const second = await call(client, 'ask', { message: 'How often do I say Ann?', thread: first.thread });
    assert.deepEqual(answered(second), ['completed', 'Your history has 3 messages.']);
  });
  await feature('progress', async () => {
    const told = [];
    const onprogress = ({ progress, message }) => told.push([progress, message]);
    assert.deepEqual(answered(await call(client, 'ask', { message: 'Calculate it' }, { onprogress })), ['completed', 'It is 42.']);
    assert.ok(told.length >= 1, 'nothing was told');
    assert.ok(told.every(([progress], index) => !index || progress > told[index - 1][0]), JSON.stringify(told));
  });
  await feature('start', async () => {
    const { run } = await call(client, 'start', { message: 'Count' });
    assert.deepEqual(answered(await call(client, 'get', { run, waitSeconds: 20 })), ['completed', 'One, two, three.']);
  });
  await feature('cancel', async () => {
    const { run } = await call(client, 'start', { message: 'Hold on' });
    await call(client, 'cancel', { run });
    assert.equal((await call(client, 'get', { run, waitSeconds: 20 })).status, 'cancelled');
  });
  await feature('approval', async () => {
    for (const approve of [true, false]) {
      const asked = [];
      const asking = await connected(async (request) => {
        asked.push(request.params.message);
        return { action: 'accept', content: { approve } };
      });
      const result = await call(asking, 'ask', { message: 'What time is it?' });
      assert.deepEqual(answered(result), ['completed', approve ? 'It is late.' : 'I may not look.']);
      assert.equal(asked.length, 1);
      assert.match(asked[0], /current_time/);
      await asking.close();
    }
  });
  await feature('approval_by_tool', async () => {
    const waiting = await call(client, 'ask', { message: 'What time is it?' });
    assert.deepEqual([waiting.status, waiting.approvals.length], ['waiting', 1]);
    await call(client, 'answer', { id: waiting.approvals[0].id, approve: true });
    const after = await call(client, 'get', { run: waiting.run, waitSeconds: 20 });
    assert.deepEqual(answered(after), ['completed', 'It is late.']);
  });
  await feature('memories', async () => {
    const { id } = await call(client, 'add_memory', { text: `Likes ${which} lighthouses.` });
    const { memories } = await call(client, 'search_memories', { query: `${which} lighthouses` });
    assert.ok(memories.some((memory) => memory.id === id), JSON.stringify(memories));
    await call(client, 'forget_memory', { id });
  });
  await feature('resources', async () => {
    const { resources } = await client.listResources();
    const [note] = resources.filter(({ uri }) => uri.endsWith('/notes.md'));
    const { contents } = await client.readResource({ uri: note.uri });
    assert.equal(contents[0].text, '# Notes\n\nThe lamp is green.');
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.equal(resourceTemplates.length, 1);
  });
  await feature('errors', async () => {
    const request = { name: 'get', arguments: { run: 'run_no' } };
    const result = await client.callTool(request);
    assert.ok(result.isError, JSON.stringify(result));
    await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }));
    await assert.rejects(client.readResource({ uri: 'rondo://demo/files/none.md' }));
    const failed = await client.callTool({ name: 'ask', arguments: { message: 'Fail' } });
    assert.ok(!JSON.stringify(failed).includes('canary'));
    assert.ok(failed.isError || failed.structuredContent.status === 'failed', JSON.stringify(failed));
  });
  absent('conformance', 'a suite of its own');
  await client.close();
}

/** The server dies while a call waits for its answer. The run is there afterwards. */
async function kill() {
  await feature('kill', async () => {
    const client = await connected();
    const { run } = await call(client, 'start', { message: 'Hold on' });
    const lost = call(client, 'get', { run, waitSeconds: 60 }, { timeout: 20_000 }).catch(() => 'lost');
    for (;;) {
      const { answer } = await call(client, 'get', { run });
      if (answer) {
        tell(`said: ${answer}`);
        break;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await told(); // a new server is there
    const later = await connected();
    const result = await call(later, 'get', { run, waitSeconds: 20 });
    assert.deepEqual(answered(result), ['completed', 'Hello.']);
    await later.close();
    void lost;
  });
}

await { all, kill }[what]();
process.exit(0);
