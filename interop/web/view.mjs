// The view command: what it opens and what it refuses, the browser, memory, and who may ask.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { browser, command, drop, eventually, holds, proves, running, same, status, until, view, work } from './harness.mjs';
import { serve } from './server.mjs';

const values = join(work, 'values.safetensors');

await proves('an address is read by ranges', async () => {
  const server = await serve(work);
  try {
    await view([`${server.address}model.safetensors`], async page => {
      same(await status(page), '201 of 201', 'tensors');
      await page.locator('#table tbody button').first().click();
      await page.locator('dialog .grid').waitFor();
      holds(server.served.bytes < 64 << 20, `${server.served.bytes} bytes were read of 2.2 GB`);
    });
  } finally {
    server.close();
  }
});

await proves('standard input', () => running(['--no-open', '-'], async address => {
  same((await ask(address)).status, 200, 'status');
}, {input: readFileSync(values)}));

for (const [what, args, input, code, words] of [
  ['a file that is missing', [join(work, 'missing.zt')], undefined, 3, 'no such file'],
  ['a file of no known format', [join(work, 'site', 'page.css')], undefined, 3, 'not a tensor file'],
  ['empty standard input', ['-'], '', 3, 'empty'],
  ['no file', [], undefined, 2, 'takes FILE'],
  ['an address that answers nothing', ['http://127.0.0.1:1/x.zt'], undefined, 3, 'refused'],
]) {
  await proves(`${what} is an error with status ${code}`, () => {
    const r = spawnSync(command, ['view', '--no-open', ...args], {input, timeout: 120000});
    same([r.status, String(r.stdout)], [code, ''], 'status and output');
    holds(String(r.stderr).includes(words), String(r.stderr));
  });
}

// A browser that notes what it is asked to open.
const bin = join(work, 'bin'), opened = join(work, 'opened');
mkdirSync(bin, {recursive: true});
writeFileSync(join(bin, 'xdg-open'), `#!/bin/sh\necho "$@" >${opened}\n`);
chmodSync(join(bin, 'xdg-open'), 0o755);
await proves('the browser is opened, unless by --no-open', async () => {
  const env = {PATH: `${bin}:${process.env.PATH}`};
  await running(['--no-open', values], async address => {
    same((await ask(address)).status, 200, 'status');
    holds(!existsSync(opened), 'a browser was opened');
  }, {env});
  await running([values], async address => {
    await eventually(() => same(readFileSync(opened, 'utf8').trim(), address, 'what was opened'));
  }, {env});
  await running([values], async (address, child, errors) => {
    await eventually(() => holds(errors().includes('no browser could be opened'), errors()));
    same((await ask(address)).status, 200, 'status without a browser');
  }, {env: {PATH: work}});
});

// ask sends a request as curl would: with any host, origin and path.
function ask(address, {path = '', method = 'GET', headers = {}, body} = {}) {
  const url = new URL(path, address);
  return new Promise((resolve, reject) => {
    const r = request({host: url.hostname, port: url.port, path: url.pathname, method, headers}, response => {
      const pieces = [];
      response.on('data', d => pieces.push(d));
      response.on('end', () => resolve({status: response.statusCode, headers: response.headers, text: Buffer.concat(pieces).toString()}));
    });
    r.on('error', reject);
    r.end(body);
  });
}
await proves('only the page may ask', () => running(['--no-open', values], async address => {
  const {origin, host, pathname} = new URL(address);
  holds(/^127\.0\.0\.1:\d+$/.test(host) && pathname.length > 20, address);
  const body = JSON.stringify({method: 'facts', params: {}});
  const call = (headers, path = 'call') => ask(address, {path, method: 'POST', headers, body});
  holds((await call({Origin: origin})).text.includes('"safetensors"'), 'the page itself is refused');
  same((await call({})).status, 403, 'no origin');
  same((await call({Origin: 'https://example.com'})).status, 403, 'another origin');
  same((await call({Origin: 'null'})).status, 403, 'a page of no origin');
  same((await call({Origin: origin, Host: 'example.com'})).status, 421, 'another host');
  same((await call({Origin: origin}, '/call')).status, 404, 'no token');
  same((await ask(address, {path: '/'})).status, 404, 'a page without the token');
  same((await ask(address, {headers: {Host: `localhost:${new URL(address).port}`}})).status, 421, 'another name of this machine');
  same((await ask(address)).headers['access-control-allow-origin'], undefined, 'what other sites may read');
  const listening = execFileSync('sh', ['-c', `grep -i :${Number(new URL(address).port).toString(16).padStart(4, '0')} /proc/net/tcp | awk '$4 == "0A" {print $2}'`]);
  holds(String(listening).startsWith('0100007F:'), `it listens on ${listening}`);
}));

// memory returns the memory of a process that is not of files, at its peak or now, in MiB.
const memory = (pid, field) => Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
const sparse = join(work, 'sparse.safetensors');
const look = async page => {
  await page.locator('#table tbody button').first().click();
  await page.locator('dialog .grid').waitFor();
  await page.getByRole('button', {name: 'Draw'}).click();
  await page.locator('dialog canvas').waitFor();
};
await proves('4 GiB from a process that has the memory of their metadata', () => view([sparse], async (page, wrong, child) => {
  await look(page);
  console.log(`   ${memory(child.pid, 'RssAnon').toFixed()} MiB`);
  holds(memory(child.pid, 'RssAnon') < 200, `${memory(child.pid, 'RssAnon')} MiB`);
}));
await proves('4 GiB in WebAssembly take the memory of their metadata', async () => {
  const session = await browser.newBrowserCDPSession();
  const all = async () => {
    const {processInfo} = await session.send('SystemInfo.getProcessInfo');
    return processInfo.reduce((sum, p) => sum + (existsSync(`/proc/${p.id}`) ? memory(p.id, 'RssAnon') : 0), 0);
  };
  const before = await all();
  await drop([sparse], async page => {
    await look(page);
    const more = await all() - before;
    console.log(`   ${more.toFixed()} MiB more in all processes of the browser`);
    holds(more < 700, `${more} MiB`);
  });
});

await proves('a call that the browser cancels ends in the process', () => view([sparse], async (page, wrong, child) => {
  await page.locator('#table tbody button').first().click();
  await page.getByRole('button', {name: /^Compute/}).click();
  await until(page, () => document.querySelector('dialog progress')?.value > 0);
  await page.getByRole('button', {name: 'Cancel'}).click();
  await page.getByText('Cancelled.').waitFor();
  const time = () => Number(readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(' ')[13]); // in 1/100 s
  const cancelled = time();
  await eventually(async () => {
    const before = time();
    await new Promise(r => setTimeout(r, 1000));
    holds(time() - before < 10, 'the process still computes');
  });
  console.log(`   ${time() - cancelled} hundredths of a second of the processor after the end`);
  holds(time() - cancelled < 100, 'the process computed what nobody waits for');
}));
