// The real binary in a folder of its own, with a scripted upstream, and a browser in front of it.

import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { startUpstream } from './upstream.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const binary = process.env.RONDO_BINARY ?? join(repository, 'target/debug/rondo');
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export const browserPath = BROWSERS.find((path) => path && existsSync(path));

/** An app for tests: two tools, one of which needs approval, and records. */
const DESK = {
  'app.toml': `name = "Desk"
description = "An app for trials."
starters = ["What is 6 times 7?"]
models = ["*"]
tools = ["calculate", "current_time", "memory", "documents", "ask_user"]
[tool.current_time]
confirm = true
[tool.addTask]
record = "task"
does = "create"
description = "Adds a task."
[tool.changeTask]
record = "task"
does = "update"
description = "Changes a task. The user is asked first."
confirm = true
`,
  'instructions.md': 'Do what you are asked.\n',
  'records/task.json': JSON.stringify({
    title: 'task',
    type: 'object',
    properties: {
      title: { type: 'string', minLength: 1 },
      status: { type: 'string', enum: ['open', 'done'] },
      due: { type: 'string', format: 'date' },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['title'],
    additionalProperties: false,
  }),
};

export class World {
  static async start({ apps = { desk: DESK }, model = 'gpt-6-luna', copied = [], withUpstream = true, basePath = '' } = {}) {
    const world = new World();
    world.folder = mkdtempSync(join(tmpdir(), 'rondo-console-'));
    for (const [app, files] of Object.entries(apps)) {
      for (const [name, text] of Object.entries(files)) {
        const path = join(world.folder, 'apps', app, name);
        mkdirSync(join(path, '..'), { recursive: true });
        writeFileSync(path, text);
      }
    }
    for (const app of copied) cpSync(join(repository, 'apps', app), join(world.folder, 'apps', app), { recursive: true });
    world.upstream = withUpstream ? await startUpstream() : null;
    world.model = model;
    world.port = await freePort();
    world.basePath = basePath;
    world.url = `http://127.0.0.1:${world.port}${basePath}/`;
    await world.serve();
    return world;
  }

  async serve() {
    const env = {
      PATH: process.env.PATH,
      HOME: this.folder,
      RONDO_LISTEN: `127.0.0.1:${this.port}`,
      RONDO_DATA: join(this.folder, 'data'),
      RONDO_APPS: join(this.folder, 'apps'),
      RONDO_DISCOVER: 'false',
      ...(this.basePath ? { RONDO_BASE_PATH: this.basePath } : {}),
      ...(this.upstream ? { OPENAI_BASE_URL: this.upstream.url, OPENAI_API_KEY: 'sk-test', RONDO_MODEL: this.model } : {}),
    };
    this.process = spawn(binary, ['serve'], { env, cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
    await new Promise((resolve, reject) => {
      let said = '';
      this.process.stderr.on('data', (piece) => {
        said += piece;
        if (said.includes('serving on')) resolve();
      });
      this.process.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
  }

  /** Ends the server at once, as a crash would. */
  async kill() {
    this.process.removeAllListeners('exit');
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.kill('SIGKILL');
    await ended;
  }

  async request(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: body ? { 'content-type': 'application/json' } : {}, body: body && JSON.stringify(body) });
    const text = await response.text();
    return text ? JSON.parse(text) : null;
  }

  /** A conversation with one answer. */
  async talk(app, message, rest = {}) {
    return this.request('POST', `v1/apps/${app}/runs`, { message, stream: false, ...rest });
  }

  async stop() {
    this.process.removeAllListeners('exit');
    this.process.kill('SIGKILL');
    this.upstream?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function openBrowser() {
  return chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu'] });
}

/** A page whose errors and requests to other hosts fail the test that asks for them. */
export async function openPage(browser, world, { path = '', width = 1280, height = 860, theme = 'light', isMobile = false, context } = {}) {
  const made = context ?? (await browser.newContext({ viewport: { width, height }, colorScheme: theme, isMobile, hasTouch: isMobile }));
  if (process.env.CONSOLE_DIST) await serveFresh(made, world);
  const page = await made.newPage();
  page.setDefaultTimeout(15_000);
  page.troubles = [];
  page.on('pageerror', (error) => page.troubles.push(`error: ${error.message}`));
  page.on('console', (message) => {
    const text = message.text();
    if (message.type() === 'error' && !/Failed to load resource/.test(text)) page.troubles.push(`console: ${text}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(world.url) && !url.startsWith('blob:') && !url.startsWith('data:')) page.troubles.push(`request to ${url}`);
  });
  await page.goto(world.url + path);
  return page;
}

/** Files of a build that the binary does not have yet: `CONSOLE_DIST=dist npm test`. */
async function serveFresh(context, world) {
  const send = (name) => (route) => route.fulfill({ path: join(process.env.CONSOLE_DIST, name(new URL(route.request().url()).pathname)) });
  await context.route(`${world.url}_console/*`, send((path) => path.slice(world.basePath.length + 1)));
  await context.route(world.url, send(() => 'index.html'));
}
