// Compiles the package into `dist`, which is made anew so that it holds nothing of an earlier build.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('..', import.meta.url));
rmSync(new URL('../dist', import.meta.url), { recursive: true, force: true });
const compiler = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
const { status } = spawnSync(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' });
process.exit(status ?? 1);
