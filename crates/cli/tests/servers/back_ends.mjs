// A client of the back ends in docs/authentication.md.
//
//     node back_ends.mjs next      calls the route handler as Next.js does
//     node back_ends.mjs URL       sends requests to the server at the URL
//     node back_ends.mjs … lost    sends one request to a back end that cannot reach Rondo
//
// It lies where the files of the page were written. Each piece of the answer is reported when it arrives.

const [, , where, lost] = process.argv

async function send(method, path, options = {}) {
  if (where !== 'next') return fetch(`${where}/rondo${path}`, { method, ...options })
  const route = await import('./app/api/rondo/[...path]/route.js')
  const request = new Request(`http://localhost:3000/api/rondo${path}`, { method, ...options })
  return route[method](request, { params: Promise.resolve({ path: path.slice(1).split('/') }) })
}

const alice = { cookie: 'user=alice' }
if (lost) {
  const answer = await send('GET', '/v1/session', { headers: alice })
  console.log(JSON.stringify([answer.status, await answer.json()]))
  process.exit()
}

const json = { 'content-type': 'application/json' }
const body = JSON.stringify({ message: 'Hello' })
const stranger = await send('POST', '/studio/stream', { headers: json, body })

const answer = await send('POST', '/studio/stream', { headers: { ...json, ...alice }, body })
const run = answer.headers.get('x-run-id')
let events = ''
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  events += piece
  if (piece.includes('text:delta')) console.error('delta')
}

const resumed = await send('GET', `/v1/runs/${run}/events`, { headers: { ...alice, 'last-event-id': '2' } })
const access = await send('GET', '/v1/session', { headers: alice })
const foreign = await send('GET', '/v1/session', { headers: { cookie: 'user=%C3%A9lise' } })
const guarded = []
for (const path of ['/v1/admin/keys', '/control/keys', '//v1/admin/keys', '/v1/x/../admin/keys', '/v1/%2e%2e/control']) {
  guarded.push((await send('GET', path, { headers: alice })).status)
}
const file = '/v1/apps/studio/files/plan.md'
await send('PUT', file, { headers: { ...alice, 'content-type': 'text/markdown' }, body: '# Plan', duplex: 'half' })
const plan = await send('GET', file, { headers: alice })
console.log(
  JSON.stringify({
    stranger: stranger.status,
    kind: answer.headers.get('content-type'),
    events,
    resumed: await resumed.text(),
    access: await access.json(),
    foreign: [foreign.status, await foreign.json()],
    guarded,
    etag: plan.headers.get('etag'),
  }),
)
