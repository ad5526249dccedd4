import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const made = new URL('./made/types/', import.meta.url);
const PRELUDE = 'import type { Rondo, RondoRun } from "@rondo/client";\ndeclare const rondo: Rondo;\ndeclare const run: RondoRun;\n';

test('the TypeScript examples compile', () => {
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made, { recursive: true });
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const blocks = [...readme.matchAll(/```(tsx?)\n(.*?)```/gs)];
  assert.ok(blocks.length >= 4, String(blocks.length));
  blocks.forEach(([, kind, text], index) => writeFileSync(new URL(`example${index}.${kind}`, made), PRELUDE + text));
  const config = { extends: '../../tsconfig.json', include: ['.'] };
  writeFileSync(new URL('tsconfig.json', made), JSON.stringify(config));
  const compiler = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', fileURLToPath(made)], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});
