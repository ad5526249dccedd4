// What the package does with a real server, one scenario for each process: `node scenarios.mjs NAME URL`. Each prints what
// it has seen; the tests in `crates/cli/tests/clients` start them, and judge.
import assert from 'node:assert/strict';
import { Rondo, empty, fold } from '@rondo/client';

const [name, url] = process.argv.slice(2);
const rondo = new Rondo({ baseUrl: url });
const app = rondo.app('demo');

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
