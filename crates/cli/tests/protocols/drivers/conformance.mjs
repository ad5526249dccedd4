// Scenarios of MCP's conformance suite that need no fixture of theirs: `node conformance.mjs all URL`.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { reporter, versionOf } from './report.mjs';

const url = process.argv[3];
const name = '@modelcontextprotocol/conformance';
const { feature, absent } = reporter(name, versionOf(name));
const suite = fileURLToPath(new URL(`./node_modules/${name}/dist/index.js`, import.meta.url));

/** The rest calls tools, prompts and resources of a server that is made for the suite. */
const SCENARIOS = [
  ['2025-11-25', 'server-initialize'],
  ['2025-11-25', 'ping'],
  ['2025-11-25', 'tools-list'],
  ['2025-11-25', 'resources-list'],
  ['2025-11-25', 'dns-rebinding-protection'],
  ['2026-07-28', 'tools-list'],
  ['2026-07-28', 'resources-list'],
  ['2026-07-28', 'dns-rebinding-protection'],
  ['2026-07-28', 'sep-2164-resource-not-found'],
  ['2026-07-28', 'http-header-validation'],
];

await feature('conformance', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'conformance-'));
  const failed = [];
  for (const [version, scenario] of SCENARIOS) {
    const args = [suite, 'server', '--url', `${url}/mcp/demo`, '--scenario', scenario, '--spec-version', version];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' });
    if (status !== 0) failed.push(`${scenario} (${version}): ${stdout}${stderr}`);
  }
  assert.equal(failed.length, 0, failed.join('\n'));
});
const others = 'the suite has scenarios of its own';
for (const name of ['connect', 'tools', 'ask', 'progress', 'start', 'cancel', 'approval', 'approval_by_tool', 'memories', 'resources', 'errors', 'kill']) {
  absent(name, others);
}
process.exit(0);
