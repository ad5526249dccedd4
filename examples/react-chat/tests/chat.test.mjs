// The page as it is built, in Chromium, with the real server: `npm run build`, then `npm test`.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { preview } from 'vite';
import { gate, reply, startUpstream } from '../../../console/tests/upstream.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const binary = process.env.RONDO_BINARY ?? join(root, '../../target/debug/rondo');
const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const folder = mkdtempSync(join(tmpdir(), 'react-chat-'));
let upstream, server, port, site, browser, page;

async function freePort() {
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

async function serve() {
  const env = {
    PATH: process.env.PATH,
    RONDO_LISTEN: `127.0.0.1:${port}`,
    RONDO_DATA: join(folder, 'data'),
    RONDO_APPS: join(folder, 'apps'),
    RONDO_DISCOVER: 'false',
    OPENAI_BASE_URL: upstream.url,
    OPENAI_API_KEY: 'sk-test',
    RONDO_MODEL: 'gpt-6-luna',
  };
  server = spawn(binary, ['serve'], { env, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  await new Promise((resolve, reject) => {
    let said = '';
    server.stderr.on('data', (piece) => (said += piece).includes('serving on') && resolve());
    server.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
  });
}

before(async () => {
  mkdirSync(join(folder, 'apps/demo'), { recursive: true });
  writeFileSync(join(folder, 'apps/demo/app.toml'), 'name = "Demo"\ntools = ["current_time"]\n[tool.current_time]\nconfirm = true\n');
  writeFileSync(join(folder, 'apps/demo/instructions.md'), 'Do what you are asked.\n');
  upstream = await startUpstream();
  port = await freePort();
  await serve();
  process.env.RONDO = `http://127.0.0.1:${port}`;
  site = await preview({ root, preview: { port: await freePort(), host: '127.0.0.1', strictPort: true }, logLevel: 'error' });
  browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu'] });
  page = await browser.newPage();
  page.setDefaultTimeout(20_000);
  await page.goto(site.resolvedUrls.local[0]);
});

after(async () => {
  await browser?.close();
  await site?.close();
  server?.kill('SIGKILL');
  upstream?.close();
  rmSync(folder, { recursive: true, force: true });
});

const answer = () => page.locator('li.assistant').last();

async function say(text) {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

async function ended() {
  await page.getByRole('button', { name: 'Send' }).waitFor();
}

test('an answer streams', async () => {
  const held = gate();
  upstream.script(reply().text('Hel').wait(held).text('lo.'));
  await say('Hi');
  await answer().getByText('Hel', { exact: true }).waitFor();
  held.open();
  await answer().getByText('Hello.', { exact: true }).waitFor();
  await ended();
  assert.match(page.url(), /thread=thr_/);
});

test('calls are approved and rejected', async () => {
  for (const [button, words] of [['Approve', 'complete'], ['Reject', 'denied']]) {
    upstream.script(reply().call('current_time', {}), reply().text(`After ${words}.`));
    await say('What time is it?');
    const asked = page.getByRole('region', { name: 'Approval' });
    await asked.getByText('current_time').waitFor();
    await asked.getByRole('button', { name: button }).click();
    await answer().getByText(`After ${words}.`).waitFor();
    await answer().getByText(`current_time: ${words}`).waitFor();
    await ended();
  }
});

test('the page runs its tool', async () => {
  upstream.script(reply().call('page_time', {}), reply().text('It is noon.'));
  await say('What time is it here?');
  await answer().getByText('It is noon.').waitFor();
  const told = upstream.requests.at(-1).messages.at(-1);
  assert.equal(told.role, 'tool');
  assert.match(JSON.stringify(told.content), /zone/);
  await ended();
});

test('a reload shows the conversation, with the answer under way', async () => {
  const held = gate();
  upstream.script(reply().text('Wait ').wait(held).text('for it.'));
  await say('Go on');
  await answer().getByText('Wait').waitFor();
  await page.reload();
  await answer().getByText('Wait').waitFor();
  held.open();
  await answer().getByText('Wait for it.', { exact: true }).waitFor();
  await ended();
  assert.equal(await page.locator('li').count(), 10, 'five questions and five answers');
});
