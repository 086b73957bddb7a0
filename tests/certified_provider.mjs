// The OpenID provider of the npm package oidc-provider (certified by the OpenID Foundation), for tests of sign-in.
// node certified_provider.mjs FOLDER_OF_NODE_MODULES REDIRECT_URL; prints its issuer. Any login and password are taken.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, redirectUrl] = process.argv.slice(2);
const main = createRequire(`${folder}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(main));

const groups = { anna: ['search-users'], eve: ['others'] };
let provider;
const server = (await import('node:http')).createServer((request, response) => provider.callback()(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'search', client_secret: 'a secret of tests', redirect_uris: [redirectUrl],
      grant_types: ['authorization_code'], response_types: ['code'],
    }],
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
    conformIdTokenClaims: false, // claims of the scope in the ID token, as most providers have them
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: groups[id] ?? [] }),
    }),
    pkce: { required: () => true },
  });
  console.log(issuer);
});
process.stdin.on('end', () => process.exit()).resume();
