// An OpenID provider of another author, with keys that are new at every start.
//
//     node oidc.mjs PORT
//
// The user alice can ask for tokens for three resources. These tokens are JWTs: two for Rondo, signed with RS256 and
// ES256, and one for another service. A token for no resource is opaque.

import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { Provider } from 'oidc-provider'

const port = Number(process.argv[2])
const resources = {
  'urn:rondo:rs256': { audience: 'rondo', alg: 'RS256' },
  'urn:rondo:es256': { audience: 'rondo', alg: 'ES256' },
  'urn:other': { audience: 'other', alg: 'RS256' },
}

function key(alg, type, options) {
  const { privateKey } = generateKeyPairSync(type, options)
  return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg, kid: randomUUID() }
}

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [key('RS256', 'rsa', { modulusLength: 2048 }), key('ES256', 'ec', { namedCurve: 'P-256' })] },
  clients: [
    {
      client_id: 'alice',
      client_secret: 'secret',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ['chat'],
  cookies: { keys: [randomUUID()] },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo(context, resource) {
        const { audience, alg } = resources[resource]
        return { scope: 'chat', audience, accessTokenTTL: 600, accessTokenFormat: 'jwt', jwt: { sign: { alg } } }
      },
    },
  },
})
provider.listen(port, '127.0.0.1', () => console.error('ready'))
