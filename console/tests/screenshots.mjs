// Makes the pictures of the documents: `npm run screenshots`. They show the app Kalito with its sample.

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gate, reply } from './upstream.mjs';
import { openBrowser, openPage, World } from './world.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const images = process.env.IMAGES ?? join(repository, 'docs/images');
mkdirSync(images, { recursive: true });
const binary = process.env.RONDO_BINARY ?? join(repository, 'target/debug/rondo');

const world = await World.start({ apps: {}, copied: ['companion', 'kalito', 'studio', 'trailhead', 'tutor'] });
const env = { PATH: process.env.PATH, HOME: world.folder, RONDO_LISTEN: `127.0.0.1:${world.port}`, RONDO_DATA: join(world.folder, 'data'), RONDO_APPS: join(world.folder, 'apps') };
execFileSync(binary, ['import', join(repository, 'apps/kalito/sample'), '--app', 'kalito', '--user', 'local'], { env, stdio: 'ignore' });
execFileSync(binary, ['memories', 'import', join(repository, 'apps/companion/sample/memories.md'), '--app', 'companion'], { env, stdio: 'ignore' });
const browser = await openBrowser();
const held = gate();

try {
  world.upstream.program(() => reply().text('Noted.'));
  for (const [app, message] of [
    ['companion', 'Plan for the winter concert'],
    ['studio', 'Packing list for the mountains'],
    ['tutor', 'Fractions, once more'],
    ['kalito', 'Walker in the hall'],
    ['kalito', 'Appointments in December'],
  ]) await world.talk(app, message);
  const medications = await world.request('GET', 'v1/apps/kalito/records/medication?limit=50');
  const found = medications.data.find((record) => record.data.name === 'Lisinopril') ?? medications.data[0];
  world.upstream.script(
    reply().reasoning('The question is about the blood pressure of the last week and the current dose.').text('I will look at the readings and the current dose first.').call('listVitals', { type: 'blood_pressure' }).call('getMedication', { id: found.id }),
    reply().text(`The readings of the last week are **slightly above** the target:

| day | reading | target |
|---|---|---:|
| Monday | 148 / 86 | 110–140 |
| Wednesday | 151 / 88 | 110–140 |
| Friday | 146 / 84 | 110–140 |

Dr. Johnson has raised the dose, as you say. I can record that; please check the change below.`).call('updateMedication', { id: found.id, dose: '20 mg' }),
    reply().text('Recorded.'),
  );
  const waiting = await world.talk('kalito', 'Her blood pressure is still high. Dr. Johnson said 20 mg of Lisinopril from today.');
  world.upstream.script(reply().text('Here is the start of an answer that'). wait(held).text(' ends.'));

  const shot = async (name, path, { after, width, height, theme }) => {
    const page = await openPage(browser, world, { width, height, theme });
    await page.goto(world.url + path);
    await page.waitForTimeout(900);
    if (after) await after(page);
    await page.screenshot({ path: join(images, `console-${name}-${width}-${theme}.png`) });
    await page.context().close();
  };
  const chat = `#/thread/${waiting.threadId}`;
  const inspect = async (page) => {
    await page.getByRole('button', { name: 'Inspector' }).click();
    await page.getByRole('tab', { name: 'Prompt' }).click();
    await page.waitForTimeout(700);
  };
  for (const theme of ['light', 'dark']) {
    for (const [width, height] of [[1440, 900], [390, 844]]) {
      const size = { width, height, theme };
      await shot('home', '#/', size);
      await shot('chat', chat, size);
      await shot('prompt', chat, { ...size, after: inspect });
      await shot('memory', '#/memory/companion', size);
      await shot('operator', '#/admin/overview', size);
    }
  }
} finally {
  held.open();
  await browser.close();
  await world.stop();
}
