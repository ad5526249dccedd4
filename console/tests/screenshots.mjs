// Makes the pictures of the documents: `npm run screenshots`. They show the app Kalito with its sample.

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { reply } from './upstream.mjs';
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

try {
  const medications = await world.request('GET', 'v1/apps/kalito/records/medication?limit=50');
  const found = medications.data.find((record) => record.data.name === 'Lisinopril') ?? medications.data[0];
  const ANSWER = `The readings of the last week are **above** the target:

| day | reading | target |
|---|---|---:|
| Monday | 148 / 86 | 110–140 |
| Wednesday | 151 / 88 | 110–140 |
| Friday | 146 / 84 | 110–140 |

I can record the new dose of Dr. Johnson. Please check the change below.`;
  const TITLES = [['pressure', 'Blood pressure and Lisinopril'], ['concert', 'Plan for the winter concert'], ['mountains', 'Packing list for the mountains'], ['ractions', 'Fractions, once more'], ['alker', 'Where the walker stands'], ['December', 'Appointments in December']];
  world.upstream.program((asked) => {
    const text = JSON.stringify(asked.messages);
    // Titles, summaries and extractions are asked for without tools.
    if (!asked.tools?.length) return reply().text(TITLES.find(([word]) => text.includes(word))?.[1] ?? 'A conversation');
    if (!text.includes('Her blood pressure')) return reply().text('Noted.');
    const results = asked.messages.filter((message) => message.role === 'tool').length;
    if (results === 0) return reply().reasoning('The question is about the blood pressure of the last week and the current dose.').text('I will look at the readings and the current dose first.').call('getMedication', { id: found.id }).call('current_time', {});
    return reply().text(ANSWER).call('updateMedication', { id: found.id, dosage: '20mg' });
  });
  for (const [app, message] of [
    ['companion', 'Help me plan the winter concert'],
    ['studio', 'Packing list for the mountains'],
    ['tutor', 'Fractions, once more'],
    ['kalito', 'Where is the walker?'],
    ['kalito', 'Which appointments are in December?'],
  ]) await world.talk(app, message);
  const waiting = await world.talk('kalito', 'Her blood pressure is still high. Dr. Johnson said 20mg of Lisinopril from today.', { personaId: 'persona_eldercare_nurse' });
  await world.request('PATCH', `v1/threads/${waiting.threadId}`, { title: 'Blood pressure and Lisinopril' });

  const chat = `#/thread/${waiting.threadId}`;
  const shot = async (name, path, { after, width, height, theme }) => {
    const page = await openPage(browser, world, { width, height, theme, isMobile: width < 500 });
    await page.goto(world.url + path);
    await page.locator('nav .thread').first().waitFor({ state: 'attached' });
    await page.waitForTimeout(900);
    if (path === chat) await page.getByText('Change dosage of Lisinopril').waitFor();
    if (after) await after(page);
    await page.screenshot({ path: join(images, `console-${name}-${width}-${theme}.png`) });
    await page.context().close();
  };
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
    }
  }
} finally {
  await browser.close();
  await world.stop();
}
