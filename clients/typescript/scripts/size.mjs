// How large the package is in a web page: bundled, minified and compressed. The core must stay below its limit.
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** Bytes of the core, compressed. */
export const CORE_LIMIT = 8 * 1024;

/** Bytes of an entry of `dist` in a page, compressed. React itself does not count. */
export async function size(entry) {
  const path = fileURLToPath(new URL(`../dist/${entry}.js`, import.meta.url));
  const options = { bundle: true, minify: true, format: 'esm', target: 'es2022', external: ['react'], write: false };
  const { outputFiles } = await build({ entryPoints: [path], ...options });
  return gzipSync(outputFiles[0].contents, { level: 9 }).length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const core = await size('index');
  console.log(`core: ${core} of ${CORE_LIMIT} bytes, compressed`);
  console.log(`with the React hook: ${await size('react')} bytes, compressed`);
  process.exit(core > CORE_LIMIT ? 1 : 0);
}
