// Scenarios of the package with a real server, one for each process: `node scenarios.mjs NAME URL`. Each prints what
// it has seen; the tests in `crates/cli/tests/clients` start them, and judge.
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline/promises';
import { Rondo, RondoError, empty, fold } from '@rondo/client';

const [name, url] = process.argv.slice(2);
const rondo = new Rondo({ baseUrl: url });
const app = rondo.app('demo');
/** A pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

const scenarios = {
  /** Reads a run whose server dies. */
  async stream() {
    const events = [];
    let page = empty;
    const run = app.run({ message: 'What is 6 times 7?' });
    for await (const event of run) {
      events.push(event);
      page = fold(page, event);
      if (event.type === 'text:delta') console.error(`said: ${page.messages.at(-1).text}`);
    }
    const { status, text } = await run.result();
    assert.equal(await rondo.resume(run.id).text(), text, 'the same run, read again');
    return { runId: run.id, threadId: run.threadId, status, text, events, answer: page.messages.at(-1) };
  },

  async cancel() {
    const run = app.run({ message: 'Go on' });
    for await (const event of run) {
      if (event.type === 'text:delta') break; // and closes the connection, which ends nothing
    }
    await run.cancel();
    return run.result();
  },

  async approval() {
    const run = app.run({ message: 'What time is it?' });
    let waited = 0;
    for await (const event of run) {
      if (event.type !== 'proposal:open') continue;
      waited += 1;
      const { proposalId } = event.data;
      const { status } = await (waited === 1 ? rondo.confirm(proposalId) : rondo.reject(proposalId));
      assert.equal(status, waited === 1 ? 'confirmed' : 'rejected');
      await assert.rejects(rondo.confirm(proposalId), { code: 'proposal_decided', status: 409 });
    }
    return { ...(await run.result()), waited };
  },

  async tools() {
    let made = 0;
    const tools = {
      where_is: {
        description: 'Where the user is',
        parameters: { type: 'object', properties: { exact: { type: 'boolean' } }, required: ['exact'] },
        run: ({ exact }) => ({ city: 'Oslo', exact, made: ++made }),
      },
      breaks: {
        description: 'Always fails',
        parameters: { type: 'object', properties: {} },
        run: async () => {
          made += 1;
          throw new Error('no permission');
        },
      },
      ask_user: {
        run: ({ choices }) => {
          made += 1;
          return { choices: [choices[0]] };
        },
      },
    };
    const run = app.run({ message: 'Where am I?', tools });
    const result = await run.result();
    const before = made;
    await rondo.resume(run.id, 0, { tools }).result();
    const call = result.steps[0].calls[0];
    assert.equal(await rondo.answer(call.id, { result: 'late' }), undefined, 'a call is answered once');
    assert.deepEqual((await app.calls({ open: true })).data, []);
    return { ...result, again: made - before };
  },

  /** Watches while another tab works. The server dies between two runs. */
  async channel() {
    const { id: threadId } = await app.createThread();
    const other = new Rondo({ baseUrl: url });
    const input = createInterface({ input: process.stdin });
    const channel = rondo.events({ follow: { [threadId]: 0 } });
    const seen = { threadId, followed: [], notices: [], ends: 0, resyncs: 0, finished: [] };
    const runs = [];
    const say = async (message) => {
      const run = other.app('demo').run({ message, threadId });
      runs.push((await run.started).runId);
      await run.detach();
    };
    channel.opened.then(() => say('One'));
    for await (const event of channel) {
      if (event.threadId !== undefined) {
        assert.equal(event.threadId, threadId);
        seen.followed.push(event.seq);
        if (event.type === 'run:end') seen.ends += 1;
      } else if (event.type === 'resync') {
        seen.resyncs += 1;
      } else {
        seen.notices.push(event.id);
        if (event.type === 'notice:run' && event.data.status === 'completed') {
          seen.finished.push(`run_${runs.indexOf(event.data.runId) + 1} ${event.data.status}`);
          if (runs.length === 1) {
            console.error('first');
            await input[Symbol.asyncIterator]().next();
            await say('Two');
          }
        }
      }
      if (seen.finished.length === 2 && seen.ends === 2) break;
    }
    input.close();
    return seen;
  },

  async threads() {
    const first = await app.run({ message: 'Tell me about lighthouses' }).result();
    const thread = rondo.thread(first.threadId);
    const second = await app.run({ message: 'And another one', threadId: thread.id }).result();
    const again = await app.run({ regenerate: true, threadId: thread.id }).result();
    const problems = [];
    const check = (what, found, expected) => {
      try {
        assert.deepEqual(found, expected);
      } catch {
        problems.push({ what, found, expected });
      }
    };
    const { data: shown } = await thread.messages();
    check('the shown branch', shown.at(-1).id, again.id);
    check('siblings', shown.at(-1).siblings, { ids: [second.id, again.id], index: 1 });
    const ids = [];
    for await (const { id } of thread.tree({ limit: 2 })) ids.push(id);
    check('all messages, page by page', ids.length, 5);
    await thread.setHead(second.id);
    check('the chosen branch', (await thread.messages()).data.at(-1).id, second.id);
    check('pinned', (await thread.change({ title: 'Coasts', pinned: true })).pinned, true);
    check('pinned threads', (await app.threads({ pinned: true })).data.map(({ id }) => id), [thread.id]);
    const found = await app.searchThreads('lighthouses');
    check('found threads', found.data.map(({ thread }) => thread.id), [thread.id]);
    check('of all apps', (await rondo.threads()).data.length, 1);
    check('Markdown', (await (await thread.export('markdown')).text()).includes('lighthouses'), true);
    check('JSON', typeof JSON.parse(await (await thread.export('json')).text()), 'object');
    check('undo of a run', (await rondo.previewUndoRun(first.runId)).actions, []);
    await thread.delete();
    const gone = await thread.get().catch((error) => error);
    check('a deleted thread', [gone instanceof RondoError, gone.status], [true, 404]);
    return { problems };
  },

  async uploads() {
    const problems = [];
    const text = 'To start the lamp, press the green button for three seconds.';
    const document = await app.uploadDocument(new File([text], 'manual.md', { type: 'text/markdown' }));
    const { data } = await app.documents();
    if (data[0].id !== document.id || data[0].name !== 'manual.md') problems.push({ data });
    const run = app.run({ message: 'How do I start the lamp?', documentIds: [document.id] });
    const { text: answer, sources } = await run.result();
    if (answer !== 'It is in the manual.' || sources?.[0]?.id !== document.id) problems.push({ answer, sources });
    await rondo.deleteDocument(document.id);
    const image = await app.uploadImage(new File([PNG], 'dot.png', { type: 'image/png' }));
    const twice = await app.uploadImage(new Blob([PNG], { type: 'image/png' }));
    if (image.id !== twice.id || image.width !== 1) problems.push({ image, twice });
    const bytes = await rondo.image(image.id);
    if (!bytes.size || !bytes.type.startsWith('image/')) problems.push({ size: bytes.size, type: bytes.type });
    const seen = await app.run({ message: 'What is this?', parts: [{ type: 'image', imageId: image.id }] }).result();
    const { data: messages } = await rondo.thread(seen.threadId).messages();
    if (messages[0].parts?.[0]?.imageId !== image.id) problems.push({ messages });
    const used = await rondo.deleteImage(image.id).catch((error) => error);
    if (used?.code !== 'image_in_use') problems.push({ used });
    const bad = await app.uploadImage(new Blob(['<svg/>'], { type: 'image/svg+xml' })).catch((error) => error);
    if (!(bad instanceof RondoError) || bad.status >= 500 || bad.status < 400) problems.push({ bad });
    return { problems };
  },

  async things() {
    const problems = [];
    const check = (what, found, expected) => {
      try {
        assert.deepEqual(found, expected);
      } catch {
        problems.push({ what, found, expected });
      }
    };
    const memory = await app.remember({ text: 'Lives in Oslo.', kind: 'place' });
    check('the memories', (await app.memories()).data.map(({ text }) => text), ['Lives in Oslo.']);
    check('a change', (await rondo.changeMemory(memory.id, { text: 'Lives in Bergen.' })).version, 2);
    check('a search', (await app.searchMemories({ query: 'Bergen' })).data[0]?.memory.id, memory.id);
    await rondo.forget(memory.id);
    check('a forgotten one', (await app.memories()).data, []);
    await rondo.restoreMemory(memory.id);
    await rondo.forget(memory.id, { purge: true });
    await app.files.put('trips/my plan.md', '# Plan');
    const file = await app.files.put('trips/my plan.md', '# Plan\n\n- Pack', 1);
    check('the version', file.version, 2);
    const stale = await app.files.put('trips/my plan.md', 'x', 1).catch((error) => error);
    check('another version', stale.code, 'changed');
    check('the content', (await app.files.get('trips/my plan.md')).content, '# Plan\n\n- Pack');
    check('its versions', (await app.files.versions('trips/my plan.md')).data.map(({ version }) => version), [2, 1]);
    await app.files.delete('trips/my plan.md');
    check('the files', (await app.files.list()).data, []);
    check('the apps', (await rondo.apps()).data.map(({ id }) => id), ['demo']);
    check('models', (await rondo.models()).data.length > 0, true);
    check('any request', (await rondo.request('GET /v1/me')).userId, 'local');
    const unknown = await rondo.app('nobody').threads().then(undefined, (error) => error);
    check('an app that is not there', [unknown.code, unknown.status], ['not_found', 404]);
    return { problems };
  },
};

console.log(JSON.stringify(await scenarios[name]()));
process.exit(0); // connections that are kept for the next request do not matter any more
