// The proofs share this: the browser, the three ways to the page, and comparisons. run.mjs says what the arguments are.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { serve } from './server.mjs';

const [playwright, axeFile, chromiumFile, commandFile, siteDirectory, workDirectory] = process.argv.slice(2);
export const command = commandFile, work = workDirectory;
const { chromium } = createRequire(import.meta.url)(playwright);
const axe = readFileSync(axeFile, 'utf8');
export const data = new URL('../../testdata/', import.meta.url).pathname;

let passed = 0, failed = 0;
export async function proves(name, check) {
  if (!name.includes(process.env.ONLY ?? '')) return;
  try {
    await check();
    passed++;
    console.log(`ok: ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAIL: ${name}\n${e.stack}`);
  }
}
export function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}
export function holds(value, what) {
  if (!value) throw new Error(what);
}
// eventually repeats a check until it holds, and returns what it returned: what the page, its worker, another process and the console do
// takes its time.
export async function eventually(check, seconds = 60) {
  for (const start = Date.now();;) {
    try {
      return await check();
    } catch (e) {
      if (Date.now() - start > seconds * 1000) throw e;
      await new Promise(r => setTimeout(r, 50));
    }
  }
}

export const browser = await chromium.launch({executablePath: chromiumFile, args: ['--no-sandbox'], timeout: 120000});
export const site = await serve(siteDirectory);

// visit opens an address, and calls use with the page. Output to the console, errors, and requests to another origin fail, but for
// messages that match allow.
export async function visit(address, use, {allow, ...options} = {}) {
  const context = await browser.newContext({viewport: {width: 1200, height: 900}, ...options});
  context.setDefaultTimeout(120000);
  const page = await context.newPage();
  const wrong = [];
  page.on('console', m => wrong.push(`console: ${m.text()}`));
  page.on('pageerror', e => wrong.push(`error: ${e.message}`));
  page.on('dialog', d => { wrong.push(`dialog: ${d.message()}`); d.dismiss(); });
  const own = new URL(address).origin;
  page.on('request', r => {
    const url = r.url().replace(/^blob:/, '');
    if (!url.startsWith('data:') && new URL(url).origin !== own) wrong.push(`request: ${r.url()}`);
  });
  try {
    await page.goto(address);
    await use(page, wrong);
    same(wrong.filter(w => !allow?.test(w)), [], 'what must not happen');
  } finally {
    await context.close();
  }
}

// until waits for a condition; page.waitForFunction would need eval, which the page's policy forbids.
export const until = (page, condition) => eventually(async () => holds(await page.evaluate(condition), condition));

export const ready = page => page.waitForSelector('html[data-ready=yes]');

// drop gives files to the static site.
export const drop = (files, use, options) => visit(site.address, async (page, wrong) => {
  await page.waitForSelector('#files');
  await page.setInputFiles('#files', files);
  await ready(page);
  await use(page, wrong);
}, options);

// running runs the view command with args, and calls use with its address and process. Ctrl-C ends it at last.
export async function running(args, use, options = {}) {
  const child = spawn(command, ['view', ...args], {stdio: [options.input ? 'pipe' : 'ignore', 'pipe', 'pipe'], env: {...process.env, ...options.env}});
  const ended = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', d => { errors += d; });
  try {
    if (options.input) child.stdin.end(options.input);
    const [line] = await Promise.race([once(child.stdout, 'data'), ended.then(([code]) => { throw new Error(`status ${code}: ${errors}`); })]);
    await use(String(line).trim(), child, () => errors);
  } finally {
    child.kill('SIGINT');
  }
  const [code] = await ended;
  same(code, 130, 'status after Ctrl-C');
}

// view uses the page that the command serves.
export const view = (args, use, options) => running(['--no-open', ...args], (address, child) => visit(address, async (page, wrong) => {
  await ready(page);
  await use(page, wrong, child);
}, options));

// serious returns what axe-core finds that is serious.
export async function serious(page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run());
  return result.violations.filter(v => v.impact === 'serious' || v.impact === 'critical')
    .map(v => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
}

export const status = async page => (await page.locator('#section-tensors ~ .row [role=status]').innerText());

// end closes what is open, and prints what was counted.
export async function end() {
  await browser.close();
  site.close();
  console.log(`interop web: ${passed} passed, ${failed} failed, 0 skipped`);
  process.exitCode = failed ? 1 : 0;
}
