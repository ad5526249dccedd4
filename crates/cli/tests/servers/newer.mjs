// A server of the newer protocol alone: it knows no `initialize`.
import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

const make = () => {
  const server = new McpServer({ name: 'newer', version: '1.0.0' });
  const schema = { description: 'Greets somebody.', inputSchema: z.object({ name: z.string() }) };
  server.registerTool('greet', schema, async ({ name }, context) => ({
    content: [{ type: 'text', text: `Hello ${name}, key ${JSON.stringify(context?.mcpReq?._meta?.['dev.rondo/idempotency-key'] ?? null)}` }],
  }));
  return server;
};
if (process.argv[2] === 'stdio') {
  await serveStdio(make, { legacy: 'reject' });
} else {
  const http = createServer(toNodeHandler(createMcpHandler(make, { legacy: 'reject' })));
  http.listen(Number(process.argv[2]), '127.0.0.1', () => console.error('ready'));
}
