import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The server to which requests are forwarded, so that the page and the API have one origin. */
const server = process.env.RONDO ?? "http://127.0.0.1:8787";
const proxy = { "/v1": { target: server, changeOrigin: true, headers: { origin: server } } };
// In your own project, `npm install` of the packed client takes the place of these lines.
const client = (file: string) => fileURLToPath(new URL(`../../clients/typescript/src/${file}.ts`, import.meta.url));

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: [
      { find: "@rondo/client/react", replacement: client("react") },
      { find: "@rondo/client", replacement: client("index") },
    ],
    dedupe: ["react"],
  },
  server: { proxy },
  preview: { proxy },
});
