// The console in a browser, against the real binary and a scripted provider.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import { gate, reply } from './upstream.mjs';
import { openBrowser, openPage, World } from './world.mjs';

let browser;
let world;
before(async () => {
  browser = await openBrowser();
  world = await World.start();
});
// Data that a failed test has left behind confuse no other.
beforeEach(() => world.upstream.clear());
after(async () => {
  await browser?.close();
  await world?.stop();
});

const box = (page) => page.getByRole('textbox', { name: 'Message' });
async function say(page, text) {
  await box(page).fill(text);
  await box(page).press('Enter');
}
const answer = (page) => page.locator('article.answer').last();
async function settled(page) {
  await page.locator('article.answer[aria-busy="false"]').last().waitFor();
}

describe('first visit', () => {
  test('without a model there are three ways to get one, each with a command', async () => {
    const bare = await World.start({ withUpstream: false });
    try {
      const page = await openPage(browser, bare);
      await page.getByRole('heading', { name: 'One step is missing: a model' }).waitFor();
      assert.equal(await page.locator('.way pre').count(), 3);
      for (const command of await page.locator('.way pre').allInnerTexts()) assert.ok(command.includes(`--listen 127.0.0.1:${bare.port}`), command);
      assert.ok(!(await page.locator('main').innerText()).includes('`'), 'no backticks are shown');
      const cut = await page.locator('.way pre').evaluateAll((all) => all.filter((each) => each.scrollWidth > each.clientWidth).length);
      assert.equal(cut, 0, 'no command is cut');
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    } finally {
      await bare.stop();
    }
  });

  test('the gallery offers first messages, and a key is exchanged for a cookie that no script sees', async () => {
    const keyed = await World.start();
    try {
      const page = await openPage(browser, keyed);
      await page.getByRole('link', { name: 'What is 6 times 7?' }).click();
      await page.waitForFunction(() => document.querySelector('textarea')?.value === 'What is 6 times 7?');
      const { token } = await keyed.request('POST', 'v1/admin/keys', { user: 'ann', admin: true });
      await page.reload();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await page.getByLabel('API key or token').fill('rondo_wrong');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('does not accept this key').waitFor();
      await page.getByLabel('API key or token').fill(token);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('ann').first().waitFor();
      const kept = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
      assert.ok(!kept.includes('rondo_'), kept);
      const cookies = await page.context().cookies();
      assert.ok(cookies.some((cookie) => cookie.name.includes('rondo_session') && cookie.httpOnly && cookie.sameSite === 'Strict'));
      await page.goto(`${keyed.url}#/admin/keys`);
      await page.getByRole('button', { name: 'Make a key' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('User').fill('eve');
      await dialog.getByLabel(/^Run/).uncheck();
      await dialog.getByRole('button', { name: 'Make a key' }).click();
      await dialog.getByText('Choose at least one right.').waitFor();
      await dialog.getByLabel(/^Read/).check();
      await dialog.getByLabel('Expires').selectOption('In 30 days');
      await dialog.getByRole('button', { name: 'Make a key' }).click();
      const reader = (await dialog.locator('pre').innerText()).trim();
      await page.keyboard.press('Escape');
      const row = page.locator('tr', { hasText: 'eve' });
      assert.equal(await row.locator('td').nth(2).innerText(), 'read');
      assert.match(await row.locator('td').nth(5).innerText(), /20\d\d/);
      await page.goto(`${keyed.url}#/settings`);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await page.getByLabel('API key or token').fill(reader);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('eve').first().waitFor();
      await page.goto(`${keyed.url}#/new/desk`);
      await page.getByText('Your key may read').waitFor();
      assert.equal(await box(page).count(), 0, 'a key that reads has no message box');
      await page.context().close();
    } finally {
      await keyed.stop();
    }
  });
});

describe('below a path', () => {
  test('the console signs in, talks and follows below server.base_path, and asks for nothing beside it', async () => {
    const below = await World.start({ basePath: '/tools/agents' });
    try {
      const { token } = await below.request('POST', 'v1/admin/keys', { user: 'ann', admin: true });
      const moved = await fetch(below.url.slice(0, -1), { redirect: 'manual' });
      assert.deepEqual([moved.status, moved.headers.get('location')], [308, '/tools/agents/'], 'the slash is added');
      const page = await openPage(browser, below);
      await page.getByLabel('API key or token').fill(token);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('link', { name: 'What is 6 times 7?' }).waitFor();
      const [cookie] = await page.context().cookies(below.url);
      assert.equal(cookie.path, '/tools/agents');
      below.upstream.script(reply().text('Forty-two.'));
      await page.goto(`${below.url}#/new/desk`);
      await say(page, 'What is 6 times 7?');
      await page.getByText('Forty-two.').waitFor();
      await page.reload();
      await page.getByText('Forty-two.').waitFor();
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    } finally {
      await below.stop();
    }
  });
});

describe('chat', () => {
  test('text, reasoning, tools and code appear, and a reload shows the same', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(
      reply().reasoning('A sum.').text('Let me see.').call('calculate', { expression: '6*7' }),
      reply().text('It is **42**.\n\n```js\nconst answer = 42;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |'),
    );
    await say(page, 'What is 6 times 7?');
    await page.getByText('It is 42.').waitFor();
    await settled(page);
    assert.equal(await answer(page).locator('strong').innerText(), '42');
    assert.equal(await answer(page).locator('.hl-k').innerText(), 'const');
    assert.equal(await answer(page).locator('table').count(), 1);
    await answer(page).getByRole('button', { name: /Calculate/ }).click();
    await answer(page).locator('.plain', { hasText: '42' }).waitFor();
    await answer(page).getByRole('button', { name: /Calculate/ }).click();
    const before = await answer(page).locator('.text').allInnerTexts();
    await page.reload();
    await page.getByText('It is 42.').waitFor();
    assert.deepEqual(await answer(page).locator('.text').allInnerTexts(), before);
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('Escape stops, and messages wait while the agent is busy', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    const held = gate();
    world.upstream.script(reply().text('Once upon').wait(held).text(' a time'), reply().text('Second.'));
    await say(page, 'Tell a story');
    await page.getByText('Once upon').waitFor();
    await say(page, 'And then?');
    await page.getByText('Waits for the answer before it').waitFor();
    await page.keyboard.press('Escape');
    await page.getByText('Stopped by you.').waitFor();
    held.open();
    await page.getByText('Second.').waitFor();
    assert.equal(await page.locator('article.user').count(), 2);
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('an answer is given again, a message is edited, and a failure says what to do', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().text('Red.'), reply().text('Blue.'), reply().text('Green.'));
    await say(page, 'A colour?');
    await page.getByText('Red.').waitFor();
    await settled(page);
    await say(page, 'Another?');
    await page.getByText('Blue.').waitFor();
    await settled(page);
    await page.keyboard.press('ArrowUp');
    const edit = page.getByRole('textbox', { name: 'Edit message' });
    await edit.fill('A third one?');
    await edit.press('Enter');
    await page.getByText('Green.').waitFor();
    await settled(page);
    assert.equal(await page.getByText('Another?').count(), 0, 'the branch is left');
    world.upstream.script(reply().status(401), reply().text('Fine again.'));
    await say(page, 'Fail');
    await page.getByText('This run failed').waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Fine again.').waitFor();
    await page.context().close();
  });

  test('a failed run stays in its place, also after the next message and a reload', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().status(401), reply().text('This works.'), reply().text('Said again.'));
    await say(page, 'This will fail');
    await page.getByText('This run failed').waitFor();
    await say(page, 'And this?');
    await page.getByText('This works.').waitFor();
    await settled(page);
    for (const round of ['live', 'loaded']) {
      const note = page.locator('.message', { hasText: 'This will fail' });
      await note.getByText('This message has no answer').waitFor();
      await note.getByText('provider_auth').waitFor();
      await note.getByText('An operator checks the key').waitFor();
      assert.equal(await page.getByText('This works.').count(), 1, round);
      if (round === 'live') await page.reload();
    }
    await page.getByRole('button', { name: 'Send again', exact: true }).click();
    await page.getByText('Said again.').waitFor();
    assert.equal(await page.locator('article.user', { hasText: 'This will fail' }).count(), 2);
    await page.getByText('This works.').waitFor();
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('a message that waits is seen in other browsers, and can be taken back there', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    const held = gate();
    world.upstream.script(reply().text('Slowly').wait(held).text(' done.'), reply().text('Never.'));
    await say(page, 'Begin');
    await page.getByText('Slowly').waitFor();
    const other = await openPage(browser, world, { path: new URL(page.url()).hash });
    await other.getByText('Slowly').waitFor();
    await say(page, 'From the first browser');
    const waiting = (tab) => tab.locator('.queued', { hasText: 'From the first browser' });
    for (const tab of [page, other]) await waiting(tab).waitFor();
    await other.reload();
    await waiting(other).waitFor();
    await other.getByRole('button', { name: 'Do not send this' }).click();
    for (const tab of [page, other]) await waiting(tab).waitFor({ state: 'detached' });
    held.open();
    await page.getByText('Slowly done.').waitFor();
    await settled(page);
    assert.equal(await page.locator('article.user').count(), 1);
    await other.context().close();
    await page.context().close();
  });
});

describe('front-end API', () => {
  test('versions of an answer can be chosen, also after a reload', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().text('Heads.'), reply().text('Tails.'));
    await say(page, 'Toss a coin');
    await page.getByText('Heads.').waitFor();
    await settled(page);
    await answer(page).getByRole('button', { name: 'Answer again' }).click();
    const again = page.getByRole('menuitem', { name: 'Answer again', exact: true });
    if (await again.isVisible().catch(() => false)) await again.click();
    await page.getByText('Tails.').waitFor();
    await page.getByText('2/2').waitFor();
    await page.getByRole('button', { name: 'Previous version' }).click();
    await page.getByText('Heads.').waitFor();
    await page.getByText('1/2').waitFor();
    await page.reload();
    await page.getByText('Heads.').waitFor();
    await page.getByText('1/2').waitFor();
    assert.equal(await page.getByText('Tails.').count(), 0);
    await page.context().close();
  });

  test('a question of the agent is a form, here and in the inbox', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().call('ask_user', { question: 'Which colour?', choices: ['Red', 'Blue'] }), reply().text('Blue it is.'));
    await say(page, 'Paint the fence');
    const form = page.getByRole('form', { name: 'The agent asks' });
    await form.getByText('Which colour?').waitFor();
    await page.getByRole('link', { name: /Inbox/ }).click();
    await form.getByLabel('Blue').check();
    await form.getByRole('button', { name: 'Answer' }).click();
    await page.getByText('Nothing waits for you.').waitFor();
    await page.goBack();
    await page.getByText('Blue it is.').waitFor();
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('a picture is added with progress, and shown in the message', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    const dot = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');
    await page.locator('input[type="file"]').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: dot });
    await page.locator('.files li', { hasText: 'dot.png' }).waitFor();
    await page.locator('.files progress').waitFor({ state: 'detached' });
    world.upstream.script(reply().text('A dot.'));
    await say(page, 'What is this?');
    // A model without vision is refused in words, and the message stays in the box.
    await Promise.race([page.getByText('A dot.').waitFor(), page.locator('.toast.error').waitFor()]);
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('a thread is found by what was said in it, pinned and archived, and other tabs see it', async () => {
    world.upstream.script(reply().text('Ospreys eat fish.'));
    const { threadId } = await world.talk('desk', 'What do ospreys eat?');
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await openPage(browser, world, { path: '#/settings', context });
    const other = await openPage(browser, world, { path: '#/settings', context });
    await page.getByRole('searchbox', { name: 'Search threads' }).fill('osprey fish');
    await page.locator('.hit', { hasText: 'ospreys' }).first().waitFor();
    await page.getByRole('searchbox', { name: 'Search threads' }).fill('');
    await world.request('PATCH', `v1/threads/${threadId}`, { title: 'Birds of prey', pinned: true });
    for (const tab of [page, other]) {
      await tab.locator('nav .thread', { hasText: 'Birds of prey' }).waitFor();
      await tab.getByText('Pinned').waitFor();
    }
    await world.request('PATCH', `v1/threads/${threadId}`, { archived: true });
    for (const tab of [page, other]) await tab.locator('nav .thread', { hasText: 'Birds of prey' }).waitFor({ state: 'detached' });
    await context.close();
  });
});

describe('approvals', () => {
  test('show what would change, cannot be hidden, and Enter in the message box decides nothing', async () => {
    const task = await world.request('POST', 'v1/apps/desk/records/task', { title: 'Water the roses', status: 'open' });
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().call('changeTask', { id: task.id, status: 'done' }), reply().text('It is done.'));
    await say(page, 'Close the task');
    const card = page.getByRole('region', { name: 'Approval needed' });
    await card.getByText('Change status of Water the roses from open to done').waitFor();
    await page.locator('nav .count').waitFor();
    await box(page).press('Enter');
    const record = `v1/apps/desk/records/task/${task.id}`;
    assert.equal((await world.request('GET', record)).data.status, 'open');
    await card.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('It is done.').waitFor();
    assert.equal((await world.request('GET', record)).data.status, 'done');
    await settled(page);
    await page.getByRole('button', { name: 'Undo', exact: true }).first().click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undo it' }).click();
    await page.getByText('The action was undone.').waitFor();
    assert.equal((await world.request('GET', record)).data.status, 'open');
    await page.context().close();
  });

  test('a message over an open approval warns first, and a call that was not made is not called a read', async () => {
    const task = await world.request('POST', 'v1/apps/desk/records/task', { title: 'Feed the cat', status: 'open' });
    const page = await openPage(browser, world, { path: '#/new/desk' });
    world.upstream.script(reply().call('changeTask', { id: task.id, status: 'done' }), reply().text('I left it.'), reply().text('Right.'));
    await say(page, 'Close the task');
    await page.getByRole('region', { name: 'Approval needed' }).waitFor();
    assert.equal(await page.getByText('it is rejected').count(), 0, 'nothing is said before somebody writes');
    await box(page).fill('Never mind');
    await page.getByText('If you send this, it is rejected').waitFor();
    await page.getByRole('button', { name: 'Send and reject' }).click();
    await page.getByText('Right.').waitFor();
    await settled(page);
    assert.equal((await world.request('GET', `v1/apps/desk/records/task/${task.id}`)).data.status, 'open');
    for (const round of ['live', 'loaded']) {
      const call = page.locator('.call', { hasText: 'Change task' });
      await call.getByRole('img', { name: 'was not made' }).waitFor();
      assert.equal(await call.getByRole('img', { name: 'reads only' }).count(), 0, round);
      if (round === 'live') await page.reload();
    }
    await page.goto(`${world.url}#/actions/desk`);
    await page.locator('.action', { hasText: 'Feed the cat' }).or(page.locator('.action', { hasText: task.id.slice(0, 12) })).first().getByRole('img', { name: 'was not made' }).waitFor();
    await page.context().close();
  });

  test('a hostile call keeps its buttons in view and its deceptions marked', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk', width: 390, height: 760 });
    const task = await world.request('POST', 'v1/apps/desk/records/task', { title: 'Plain' });
    const title = `p\u0430y\u202E ${'x'.repeat(60_000)} the end`;
    world.upstream.script(reply().call('changeTask', { id: task.id, title, tags: Array.from({ length: 300 }, (_, index) => `tag ${index}`) }), reply().text('Left.'));
    await say(page, 'Change it');
    const card = page.getByRole('region', { name: 'Approval needed' });
    await card.getByText('look like others').waitFor();
    assert.ok((await card.locator('.odd-char').count()) >= 2);
    const [frame, button] = [await card.boundingBox(), await card.getByRole('button', { name: 'Reject' }).boundingBox()];
    assert.ok(frame.height < 700 && frame.width <= 390, JSON.stringify(frame));
    assert.ok(button.y > 0 && button.y + button.height <= 760, JSON.stringify(button));
    assert.ok((await card.innerText()).includes('the end'), 'the end of a long value is shown');
    await card.getByRole('button', { name: 'Reject' }).click();
    await page.getByText('Left.').waitFor();
    await page.context().close();
  });
});

describe('resume', () => {
  test('a refresh inside a word, a second tab and a killed server lose nothing and repeat nothing', async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await openPage(browser, world, { path: '#/new/desk', context });
    const [first, second] = [gate(), gate()];
    world.upstream.script(reply().text('One two thr').wait(first).text('ee four ').wait(second).text('five.'));
    await say(page, 'Count');
    await page.getByText('One two thr').waitFor();
    await page.reload();
    await page.getByText('One two thr').waitFor();
    const other = await openPage(browser, world, { path: new URL(page.url()).hash, context });
    await other.getByText('One two thr').waitFor();
    await page.evaluate(() => (document.querySelector('article.answer').marked = true));
    first.open();
    for (const tab of [page, other]) await tab.getByText('One two three four').waitFor();
    second.open();
    for (const tab of [page, other]) {
      await tab.getByText('One two three four five.').waitFor();
      await settled(tab);
      assert.equal((await tab.locator('article.answer .text').allInnerTexts()).join('|').trim(), 'One two three four five.');
    }
    assert.ok(await page.evaluate(() => document.querySelector('article.answer').marked === true), 'nothing is painted again');
    await context.close();
  });

  test('a server that is killed in mid-stream goes on, and the page with it', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    const held = gate();
    world.upstream.script(reply().text('Alpha beta ').wait(held), reply().text('Alpha beta gamma.'));
    await say(page, 'Greek');
    await page.getByText('Alpha beta').waitFor();
    await world.kill();
    held.open();
    await page.getByText('Reconnecting').waitFor();
    await world.serve();
    await page.getByText('Alpha beta gamma.').waitFor({ timeout: 30_000 });
    await settled(page);
    assert.equal((await answer(page).locator('.text').allInnerTexts()).join('|').trim(), 'Alpha beta gamma.');
    assert.equal(await page.locator('article.user').count(), 1);
    await page.context().close();
  });

  test('ten tabs share one connection', async () => {
    const context = await browser.newContext();
    const { threadId } = await world.talk('desk', 'Hello');
    const tabs = [];
    const open = new Set();
    const isFeed = (request) => /\/v1\/(events|threads\/[^/]+\/events)/.test(new URL(request.url()).pathname);
    context.on('request', (request) => isFeed(request) && open.add(request));
    for (const end of ['requestfinished', 'requestfailed']) context.on(end, (request) => open.delete(request));
    for (let count = 0; count < 10; count += 1) tabs.push(await openPage(browser, world, { path: `#/thread/${threadId}`, context }));
    for (const tab of tabs) await settled(tab);
    world.upstream.script(reply().text('To all of you.'));
    await say(tabs[9], 'Tell everybody');
    for (const tab of tabs) await tab.getByText('To all of you.').waitFor();
    // A connection that follows other threads takes the place of the one before it, whose end the browser may still tell.
    for (let count = 0; count < 50 && open.size > 1; count += 1) await tabs[0].waitForTimeout(100);
    console.log(`open connections of ten tabs: ${open.size}`);
    assert.equal(open.size, 1, [...open].map((request) => request.url()).join(' '));
    // The tab that holds the connection goes, and another one takes over.
    const holder = [...open][0].frame().page();
    await holder.close();
    world.upstream.script(reply().text('And to the rest.'));
    const rest = tabs.filter((tab) => tab !== holder);
    await say(rest[0], 'Once more');
    for (const tab of rest) await tab.getByText('And to the rest.').waitFor();
    await context.close();
  });
});

describe('pages', () => {
  test('threads are renamed, deleted with a chance to undo, and found', async () => {
    const { threadId } = await world.talk('desk', 'About zebras');
    const page = await openPage(browser, world, { path: `#/thread/${threadId}` });
    await settled(page);
    await page.locator('header.top').getByRole('button', { name: 'Thread menu' }).click();
    await page.getByRole('menuitem', { name: 'Rename' }).click();
    await page.getByLabel('Title of the thread').fill('Stripes');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('nav .thread', { hasText: 'Stripes' }).waitFor();
    await page.locator('header.top').getByRole('button', { name: 'Thread menu' }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Undo', exact: true }).click();
    await page.locator('nav .thread', { hasText: 'Stripes' }).waitFor();
    await page.getByRole('searchbox', { name: 'Search threads' }).fill('Stripes');
    await page.locator('.hit', { hasText: 'Stripes' }).waitFor();
    await page.context().close();
  });

  test('memories are added, explained, forgotten and restored', async () => {
    const page = await openPage(browser, world, { path: '#/memory/desk' });
    await page.getByLabel('Add a memory').fill('Prefers tea.');
    await page.getByRole('button', { name: 'Add a memory' }).click();
    const card = page.locator('article.memory', { hasText: 'Prefers tea.' });
    await card.getByRole('button', { name: 'Why is this known?' }).click();
    await page.getByRole('dialog').getByText('Version 1').waitFor();
    await page.keyboard.press('Escape');
    await card.getByRole('button', { name: 'Forget' }).click();
    await card.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Undo', exact: true }).click();
    await card.waitFor();
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('records are made by a form, and the inspector shows the prompt', async () => {
    const page = await openPage(browser, world, { path: '#/data/desk/task' });
    await page.getByRole('button', { name: 'Add a task' }).click();
    assert.ok(await page.evaluate(() => document.activeElement?.matches('dialog .body *')), 'the cursor is in a field');
    // A refusal is said in the dialog, where its reader is.
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').getByRole('alert').getByText('required').waitFor();
    await page.getByRole('dialog').getByLabel('Title').fill('Buy bread');
    await page.getByRole('dialog').getByLabel('Status').selectOption('open');
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Buy bread' }).waitFor();
    world.upstream.script(reply().text('Hello.'));
    const { threadId } = await world.talk('desk', 'Hi');
    await page.goto(`${world.url}#/thread/${threadId}`);
    await settled(page);
    await page.getByRole('button', { name: 'Show how this answer was made' }).last().click();
    await page.getByRole('tab', { name: 'Prompt' }).click();
    await page.getByRole('button', { name: /Instructions/ }).click();
    await page.locator('pre.text', { hasText: 'Do what you are asked.' }).first().waitFor();
    await page.getByRole('tab', { name: 'Run' }).click();
    await page.getByText('Step 1').first().waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Commands' }).fill('inbox');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Inbox' }).waitFor();
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('personas, pins and credentials are made, changed and removed, and no value is shown', async () => {
    const page = await openPage(browser, world, { path: '#/personas/desk' });
    await page.getByText('You have no persona').waitFor();
    await page.getByRole('button', { name: 'New persona' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Pirate');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Write a prompt, or choose a setting.').waitFor();
    await dialog.getByLabel('Prompt').fill('Speak like a pirate.');
    await dialog.getByLabel('Temperature').fill('0.5');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator('.persona', { hasText: 'Speak like a pirate.' }).getByText('Temperature: 0.5').waitFor();
    await page.getByRole('button', { name: 'Edit: Pirate' }).click();
    await dialog.getByLabel('Prompt').fill('Speak like a captain.');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Speak like a captain.').waitFor();
    // The palette offers it, and models.
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Commands' }).fill('pirate');
    await page.getByRole('option', { name: /Pirate/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Persona: Pirate' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Commands' }).fill('answer with gpt-6-luna');
    await page.getByRole('option', { name: 'Answer with gpt-6-luna' }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.composer .bar', { hasText: 'gpt-6-luna' }).waitFor();
    await page.goto(`${world.url}#/personas/desk`);
    await page.getByRole('button', { name: 'Delete: Pirate' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('You have no persona').waitFor();

    await page.getByRole('link', { name: 'Pins' }).click();
    await page.getByLabel('Text that every answer should know').fill('The budget is 2,000 euros.');
    await page.getByRole('button', { name: 'Pin', exact: true }).click();
    const pin = page.locator('.pins li', { hasText: 'The budget' });
    await pin.getByRole('button', { name: 'Remove this pin' }).click();
    await page.getByText('Nothing is pinned.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await pin.waitFor();

    await page.getByRole('link', { name: 'Credentials' }).click();
    await page.getByRole('button', { name: 'Store a credential' }).click();
    await dialog.getByLabel('Name').fill('calendar');
    await dialog.getByLabel('Value').fill('a very secret token');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator('li', { hasText: 'calendar' }).waitFor();
    assert.ok(!(await page.content()).includes('secret token'), 'the value is nowhere on the page');
    await page.getByRole('button', { name: 'Delete: calendar' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No credential is stored').waitFor();
    assert.deepEqual(page.troubles, []);

    const { threadId } = await world.talk('desk', 'For a pin');
    await page.goto(`${world.url}#/thread/${threadId}`);
    await settled(page);
    await page.locator('header.top').getByRole('button', { name: 'Thread menu' }).click();
    await page.getByRole('menuitem', { name: 'Pins' }).click();
    await dialog.getByLabel('Text that every answer should know').fill('Only here.');
    await dialog.getByRole('button', { name: 'Pin', exact: true }).click();
    await dialog.locator('.pins li', { hasText: 'Only here.' }).waitFor();
    assert.equal((await world.request('GET', `v1/threads/${threadId}/pins`)).data.filter((each) => each.threadId).length, 1);
    await dialog.locator('.pins li', { hasText: 'The budget' }).getByText('all threads').waitFor();
    await page.context().close();
  });

  test('an address that leads nowhere says so, and titles cannot turn the text around them', async () => {
    const page = await openPage(browser, world, { path: '#/nowhere/at/all' });
    for (const path of ['#/nowhere', '#/admin/nothing', '#/memory/no-such-app', '#/new/no-such-app']) {
      await page.goto(world.url + path);
      await page.getByText('There is no such page').waitFor();
    }
    await page.getByRole('link', { name: 'Go to the start page' }).click();
    await page.getByRole('heading', { name: 'What would you like to do?' }).waitFor();
    const { threadId } = await world.talk('desk', 'A title');
    await world.request('PATCH', `v1/threads/${threadId}`, { title: 'invoice\u202Egpj.exe' });
    await page.goto(`${world.url}#/thread/${threadId}`);
    await page.locator('header.top .odd-char', { hasText: 'U+202E' }).waitFor();
    await page.locator('nav .thread .odd-char').first().waitFor();
    await page.waitForFunction(() => document.title === 'invoicegpj.exe · Rondo');
    const exported = await (await fetch(`${world.url}v1/threads/${threadId}/export?format=markdown`)).text();
    assert.ok(exported.startsWith('# invoicegpj.exe\n'), exported.slice(0, 40));
    await page.context().close();
  });

  test('operator pages open without errors', async () => {
    const page = await openPage(browser, world, { path: '#/admin/overview' });
    for (const part of ['overview', 'runs', 'jobs', 'apps', 'models', 'mcp', 'keys', 'sessions', 'ledger', 'audit']) {
      await page.goto(`${world.url}#/admin/${part}`);
      await page.locator('.tabs a[aria-current="page"]').waitFor();
      await page.locator('.page > :nth-child(3)').waitFor();
    }
    await page.goto(`${world.url}#/admin/ledger`);
    await page.getByRole('button', { name: 'Verify now' }).click();
    await page.getByText('are intact').waitFor();
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  });

  test('10,000 threads and 2,000 messages scroll smoothly', async () => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const thread = (index) => ({ id: `thr_${String(index).padStart(32, '0')}`, appId: 'desk', title: `Thread ${index}`, headId: null, messageCount: 2, model: null, personaId: null, activeRunId: null, lastSeq: 1, createdAt: '2026-01-01T00:00:00Z', updatedAt: new Date(1_760_000_000_000 - index * 1000).toISOString() });
    await context.route('**/v1/apps/desk/threads?*', (route) => {
      const from = Number(new URL(route.request().url()).searchParams.get('cursor') ?? 0);
      return route.fulfill({ json: { data: Array.from({ length: 1000 }, (_, index) => thread(from + index)), next: from + 1000 < 10_000 ? String(from + 1000) : null } });
    });
    const long = thread(1);
    await context.route(`**/v1/threads/${long.id}`, (route) => route.fulfill({ json: long }));
    await context.route(`**/v1/threads/${long.id}/messages?*`, (route) =>
      route.fulfill({
        json: {
          data: Array.from({ length: 2000 }, (_, index) => ({ id: `msg_${String(index).padStart(32, '0')}`, role: index % 2 ? 'assistant' : 'user', text: `Message ${index}. **Some** text with \`code\`.\n\n- one\n- two`, parentId: null, runId: null, model: null, toolCalls: [], toolResults: [], memoriesReferenced: [], createdAt: '2026-01-01T00:00:00Z' })),
          next: null,
        },
      }),
    );
    const page = await openPage(browser, world, { path: `#/thread/${long.id}`, context });
    await page.getByText('Message 1999.').waitFor();
    const frames = await page.evaluate(async () => {
      const box = document.querySelector('.chat .scroll');
      const times = [];
      let last = performance.now();
      for (let count = 0; count < 90; count += 1) {
        box.scrollTop -= 400;
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - last);
        last = performance.now();
      }
      return times.sort((a, b) => a - b);
    });
    console.log(`scrolling 2,000 messages: median frame ${frames[45].toFixed(1)} ms, p95 ${frames[85].toFixed(1)} ms`);
    const rows = await page.evaluate(async () => {
      const list = document.querySelector('nav .list');
      for (let count = 0; count < 400 && !list.textContent.includes('Thread 9999'); count += 1) {
        list.scrollTop = list.scrollHeight;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return document.querySelectorAll('nav .thread').length;
    });
    await page.getByText('Thread 9999').waitFor();
    assert.ok(rows < 80, `${rows} rows on the page`);
    await context.close();
  });
});

describe('quality', () => {
  test('axe finds nothing serious, in both themes', async () => {
    const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
    world.upstream.script(reply().text('See `code` and [a link](https://example.com).').call('current_time', {}), reply().text('Well.'));
    const waiting = await world.talk('desk', 'What time is it?');
    for (const theme of ['light', 'dark']) {
      const page = await openPage(browser, world, { theme });
      for (const path of ['#/', '#/new/desk', `#/thread/${waiting.threadId}`, '#/inbox', '#/memory/desk', '#/actions/desk', '#/data/desk/task', '#/documents/desk', '#/personas/desk', '#/pins/desk', '#/credentials/desk', '#/settings', '#/nowhere', '#/admin/overview', '#/admin/keys', '#/admin/models']) {
        await page.goto(world.url + path);
        await page.locator('main :is(h1, .composer)').first().waitFor();
        await page.waitForTimeout(200);
        await page.evaluate(axe);
        // Only colours differ between the themes.
        const rules = theme === 'dark' ? { runOnly: ['color-contrast'] } : {};
        const { violations } = await page.evaluate((rules) => axe.run(document, { resultTypes: ['violations'], ...rules }), rules);
        const serious = violations.filter((violation) => ['serious', 'critical'].includes(violation.impact)).map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(' | ')}`);
        assert.deepEqual(serious, [], `${theme} ${path}`);
      }
      await page.context().close();
    }
  });

  test('the page is ready soon, and a word is painted soon after it arrives', async () => {
    const page = await openPage(browser, world, { path: '#/new/desk' });
    await box(page).waitFor();
    const ready = await page.evaluate(() => performance.getEntriesByType('navigation')[0].domInteractive + performance.now() * 0);
    const usable = await page.evaluate(() => performance.now());
    await page.evaluate(() => {
      const state = (window.paints = { waiting: null, times: [] });
      const read = ReadableStreamDefaultReader.prototype.read;
      ReadableStreamDefaultReader.prototype.read = async function (...args) {
        const got = await read.apply(this, args);
        state.waiting ??= performance.now();
        return got;
      };
      new MutationObserver((changes) => {
        if (!changes.some((change) => change.target.closest?.('.md') ?? change.target.parentElement?.closest('.md'))) return;
        const arrived = state.waiting;
        state.waiting = null;
        if (arrived === null) return;
        requestAnimationFrame(() => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => state.times.push(performance.now() - arrived);
          port2.postMessage(0);
        });
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    world.upstream.script(reply().text('word '.repeat(200), 8));
    await say(page, 'Many words');
    await settled(page);
    const times = (await page.evaluate(() => window.paints.times)).sort((a, b) => a - b);
    const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
    console.log(`interactive after ${ready.toFixed(0)} ms, usable after ${usable.toFixed(0)} ms; delta to paint: median ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms of ${times.length}`);
    assert.ok(times.length > 20, `${times.length} paints`);
    await page.context().close();
  });

  test('nothing overflows at 360 px', async () => {
    const { threadId } = await world.talk('desk', `A very long word: ${'w'.repeat(400)}`);
    const page = await openPage(browser, world, { width: 360, height: 700 });
    const parts = ['overview', 'runs', 'jobs', 'apps', 'models', 'mcp', 'keys', 'sessions', 'ledger', 'audit'];
    for (const path of ['#/', '#/new/desk', `#/thread/${threadId}`, '#/inbox', '#/memory/desk', '#/actions/desk', '#/data/desk/task', '#/documents/desk', '#/personas/desk', '#/pins/desk', '#/credentials/desk', '#/settings', ...parts.map((part) => `#/admin/${part}`)]) {
      await page.goto(world.url + path);
      await page.waitForTimeout(300);
      const wide = await page.evaluate(() => {
        const page = document.querySelector('main .scroll');
        return Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth, page?.scrollWidth ?? 0);
      });
      assert.ok(wide <= 360, `${path} is ${wide} px wide`);
    }
    await page.getByRole('button', { name: 'Show the rail' }).click();
    await page.waitForFunction(() => document.activeElement?.closest('nav.rail'));
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => document.activeElement?.matches('.opener') && getComputedStyle(document.querySelector('nav.rail')).visibility === 'hidden');
    // A lost connection is told above the header, and a toast leaves the message box alone.
    await page.goto(`${world.url}#/thread/${threadId}`);
    await box(page).waitFor();
    await page.locator('header.top').getByRole('button', { name: 'Thread menu' }).click();
    await page.getByRole('menuitem', { name: 'Archive' }).click();
    const [toast, message] = [await page.locator('.toast').boundingBox(), await page.locator('.composer').boundingBox()];
    assert.ok(toast.y + toast.height < message.y, JSON.stringify([toast, message]));
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click();
    await world.kill();
    const line = page.locator('.link-line');
    await line.waitFor();
    const [told, head] = [await line.boundingBox(), await page.locator('header.top').boundingBox()];
    assert.ok(told.y + told.height <= head.y + 1, JSON.stringify([told, head]));
    await world.serve();
    await line.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Show the rail' }).click();
    await page.getByRole('link', { name: 'New thread' }).click();
    await box(page).waitFor();
    await page.context().close();
  });
});
