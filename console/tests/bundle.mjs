// Sources of the console as one script, for tests of single parts.

import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));

async function bundled(entry, format) {
  const output = await build({
    root,
    configFile: false,
    logLevel: 'error',
    build: { write: false, minify: false, target: 'esnext', lib: { entry: `${root}/${entry}`, formats: [format], name: 'part' } },
  });
  return [output].flat()[0].output[0].code;
}

/** A script that leaves its exports in `part`. */
export const asScript = (entry) => bundled(entry, 'iife');

/** The exports of a module. */
export async function asModule(entry) {
  const folder = `${root}/node_modules/.cache/tests`;
  mkdirSync(folder, { recursive: true });
  const file = `${folder}/${entry.replaceAll('/', '-')}.mjs`;
  writeFileSync(file, await bundled(entry, 'es'));
  return import(pathToFileURL(file).href);
}
