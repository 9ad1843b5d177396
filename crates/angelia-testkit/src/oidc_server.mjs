// A real OAuth server on loopback for tests of logins: the package `oidc-provider`, with one public client
// that uses the device flow. Refresh tokens can be used once. It prints its address, and ends when its stdin
// does. Below /_test it plays the person at the browser, and reports what it has seen.
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, lifetime = '3600'] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${packages}/`));
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
const seen = { device: 0, polls: 0, refreshes: 0, refused: 0 };

const server = http.createServer();
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const address = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(address, {
  clients: [{
    client_id: 'angelia-test',
    token_endpoint_auth_method: 'none',
    grant_types: [DEVICE_GRANT, 'refresh_token'],
    response_types: [],
    redirect_uris: [],
  }],
  features: {
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    // Tokens may be issued for any address on this machine.
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({ scope: 'tools', audience: resource, accessTokenFormat: 'opaque' }),
    },
  },
  ttl: { AccessToken: Number(lifetime), DeviceCode: 600 },
  rotateRefreshToken: true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
provider.on('device_authorization.success', () => { seen.device += 1; });
provider.on('grant.success', (ctx) => {
  if (ctx.oidc.params.grant_type === 'refresh_token') seen.refreshes += 1;
});
provider.on('grant.error', (ctx, error) => {
  if (error.error === 'authorization_pending') seen.polls += 1;
  else seen.refused += 1;
});

// Fills in the pages like a person, with the cookies of one browser.
async function decide(code, decision) {
  const cookies = new Map();
  const browse = async (target, form) => {
    let next = new URL(target, address);
    for (let hops = 0; hops < 10; hops += 1) {
      const headers = { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') };
      const body = form && new URLSearchParams(form);
      const response = await fetch(next, { method: form ? 'POST' : 'GET', headers, body, redirect: 'manual' });
      for (const cookie of response.headers.getSetCookie()) {
        const [pair] = cookie.split(';');
        const at = pair.indexOf('=');
        if (pair.slice(at + 1)) cookies.set(pair.slice(0, at), pair.slice(at + 1));
        else cookies.delete(pair.slice(0, at));
      }
      const location = response.headers.get('location');
      if (!location) return { url: next, text: await response.text() };
      form = undefined;
      next = new URL(location, next);
    }
    throw new Error('too many redirects');
  };
  const field = (page, name) => page.text.match(new RegExp(`name="${name}" value="([^"]*)"`))?.[1];
  const action = (page) => page.text.match(/action="([^"]*)"/)?.[1] ?? page.url;
  let page = await browse(`/device?user_code=${code}`);
  for (let step = 0; step < 6; step += 1) {
    const prompt = field(page, 'prompt');
    if (field(page, 'user_code')) {
      const form = { xsrf: field(page, 'xsrf'), user_code: field(page, 'user_code'), confirm: 'yes' };
      if (decision === 'deny') { delete form.confirm; form.abort = 'yes'; }
      page = await browse(action(page), form);
    } else if (prompt === 'login') {
      page = await browse(action(page), { prompt, login: 'ada', password: 'x' });
    } else if (prompt === 'consent') {
      page = await browse(action(page), { prompt });
    } else {
      return page.text;
    }
  }
  throw new Error(`the pages do not end: ${page.text}`);
}

// Returns what an access token is valid for; empty if it was not issued here or has expired.
async function describe(token) {
  const known = await provider.AccessToken.find(token);
  return known ? { client_id: known.clientId, scope: known.scope ?? '', resource: known.aud, sub: known.accountId } : {};
}

// Plays a person who logs in with their own program.
async function logIn() {
  const post = async (path, form) => {
    const response = await fetch(address + path, { method: 'POST', body: new URLSearchParams(form) });
    return response.json();
  };
  const client = { client_id: 'angelia-test' };
  const code = await post('/device/auth', { ...client, scope: 'openid offline_access' });
  await decide(code.user_code, 'approve');
  return post('/token', { ...client, grant_type: DEVICE_GRANT, device_code: code.device_code });
}

const callback = provider.callback();
server.on('request', async (request, response) => {
  const answer = (status, value) => {
    const body = JSON.stringify(value);
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
    response.end(body);
  };
  const [, place, wish, code] = request.url.split('/');
  if (place !== '_test') return callback(request, response);
  try {
    if (wish === 'seen') return answer(200, seen);
    if (wish === 'login') return answer(200, await logIn());
    if (wish === 'token') return answer(200, await describe(code));
    return answer(200, { page: await decide(code, wish) });
  } catch (error) {
    return answer(500, { error: String(error) });
  }
});
process.stdin.resume().on('end', () => process.exit(0));
console.log(address);
