// The common part of the drivers: they try one feature after another, and print what came of each as a line of JSON.
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';

/** The version of a package as it is installed. */
export function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
}

/** Tries features in the name of a client. An error of one does not keep the others from being tried. */
export function reporter(client, version) {
  const print = (feature, result) => console.log(JSON.stringify({ client, version, feature, ...result }));
  return {
    /** A feature that works if the function ends without an error. */
    async feature(name, act) {
      try {
        await within(act(), name);
        print(name, { works: true });
      } catch (error) {
        print(name, { works: false, why: inspect(error, { depth: 3 }) });
      }
    },
    /** A feature that this client does not have. */
    absent: (name, why) => print(name, { why }),
  };
}

/** Milliseconds that one feature may take. */
const PATIENCE = 90_000;

async function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what} took too long`)), PATIENCE)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Tells the test something, such as that the first words are there. */
export const tell = (words) => console.error(words);

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Waits until the test says that it goes on. */
export const told = () => lines.next();

/** A pixel. */
export const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** The newest run, as the server lists it. */
export async function newestRun(url) {
  const { data } = await (await fetch(`${url}/v1/admin/runs?limit=1`)).json();
  return data[0];
}

/** Waits until the newest run has this status. */
export async function untilNewest(url, status) {
  while ((await newestRun(url)).status !== status) await new Promise((resolve) => setTimeout(resolve, 50));
}
