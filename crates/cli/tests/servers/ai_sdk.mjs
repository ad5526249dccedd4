// One turn of a chat as the AI SDK makes it, without a browser: what `useChat` is built on, and nothing of our own in
// between. Prints what the user would see.
const [major, url, id, what, text] = process.argv.slice(2);
const sdk = await import(`ai${major}`);

class State {
  messages = [];
  status = 'ready';
  error = undefined;
  pushMessage = message => this.show([...this.messages, message]);
  popMessage = () => this.show(this.messages.slice(0, -1));
  replaceMessage = (index, message) => this.show(this.messages.with(index, message));
  snapshot = thing => structuredClone(thing);
  // Says when the first words of an answer are there.
  show(messages) {
    this.messages = messages;
    const last = messages.at(-1);
    if (last?.role === 'assistant' && last.parts.some(part => part.type === 'text' && part.text)) console.error('words');
  }
}

class Chat extends sdk.AbstractChat {}

const headers = { 'x-ai-sdk-version': major };
const chat = new Chat({
  id,
  state: new State(),
  transport: new sdk.DefaultChatTransport({ api: `${url}/api/chat`, headers }),
  sendAutomaticallyWhen:
    what === 'locate'
      ? sdk.lastAssistantMessageIsCompleteWithToolCalls
      : sdk.lastAssistantMessageIsCompleteWithApprovalResponses,
});
const approval = () => chat.lastMessage.parts.find(part => part.state === 'approval-requested')?.approval;
const settled = async () => {
  while (chat.status !== 'ready' && chat.status !== 'error') await new Promise(setImmediate);
};

// A pixel.
const PNG =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

if (what === 'resume') {
  await chat.resumeStream();
} else if (what === 'file') {
  await chat.sendMessage({ text, files: [{ type: 'file', mediaType: 'image/png', filename: 'dot.png', url: PNG }] });
} else {
  await chat.sendMessage({ text });
}
if (what === 'approve' || what === 'deny') {
  await chat.addToolApprovalResponse({ id: approval().id, approved: what === 'approve' });
  await settled();
}
if (what === 'locate') {
  const { toolCallId } = chat.lastMessage.parts.find(part => part.type === 'tool-locate' && part.state === 'input-available');
  const answer = { tool: 'locate', toolCallId, output: { city: 'Oslo' } };
  await (chat.addToolResult ? chat.addToolResult(answer) : chat.addToolOutput(answer));
  await settled();
}
if (what === 'regenerate') await chat.regenerate();
if (what === 'twice' || what === 'file') await chat.sendMessage({ text: 'And again?' });
await settled();
const { status, error, messages } = chat;
console.log(JSON.stringify({ status, error: error?.message ?? null, messages }));
