import { svelte } from '@sveltejs/vite-plugin-svelte';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** The server that `npm run dev` forwards requests to. */
const server = process.env.RONDO ?? 'http://127.0.0.1:8787';
const forwarded = ['/v1', '/healthz', '/readyz', '/openapi.json'];

export default defineConfig({
  // Addresses are relative, so the console also works under the path of a proxy.
  base: './',
  plugins: [svelte()],
  resolve: { alias: { '@rondo/client': fileURLToPath(new URL('../clients/typescript/src/index.ts', import.meta.url)) } },
  build: {
    // Hashed files are under a path that no app can have.
    assetsDir: '_console',
    target: ['chrome123', 'firefox121', 'safari17.5'],
    modulePreload: { polyfill: false },
    // The policy of the page allows no data: address in styles.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      forwarded.map((path) => [path, { target: server, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
  preview: {
    proxy: Object.fromEntries(
      forwarded.map((path) => [path, { target: server, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
});
