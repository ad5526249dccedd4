import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readFileSync } from 'node:fs';
import { CORE_LIMIT, size } from '../scripts/size.mjs';

test('the core is small', async () => {
  const core = await size('index');
  console.log(`${core} of ${CORE_LIMIT} bytes, compressed`);
  assert.ok(core <= CORE_LIMIT, `${core} of ${CORE_LIMIT} bytes`);
});

test('the package needs nothing', () => {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  assert.equal(manifest.dependencies, undefined);
  assert.deepEqual(manifest.peerDependenciesMeta, { react: { optional: true } });
});
