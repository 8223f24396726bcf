// The page of a file, section by section, and on paper.
import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { command, data, drop, eventually, holds, proves, ready, same, site, status, until, view, visit, work } from './harness.mjs';

const model = join(work, 'model.safetensors');
const text = (page, name) => page.locator(`section[aria-labelledby="section-${name}"]`).innerText();
const column = (page, n) => page.locator(`#table tbody td:nth-child(${n})`).allInnerTexts();

await proves('facts and attributes', () => drop([model], async page => {
  const facts = await text(page, 'overview');
  for (const word of ['safetensors', '2.0 GiB (2,200,304,160 bytes)', '1,100,048,384', 'bfloat16', 'apache-2.0']) holds(facts.includes(word), `${word} in ${facts}`);
  await page.getByText('All as JSON').click();
  await eventually(async () => holds((await page.locator('details pre').innerText()).includes('"parameters": 1100048384'), 'JSON'));
}));

await proves('tensors are filtered, sorted and joined', () => drop([model], async page => {
  await page.getByRole('button', {name: 'Size', exact: true}).click();
  await eventually(async () => same((await column(page, 4)).slice(0, 3), ['125.0 MiB', '125.0 MiB', '22.0 MiB'], 'largest first'));
  await page.getByRole('button', {name: /^Size/}).click();
  await eventually(async () => same((await column(page, 4))[0], '8.0 KiB', 'smallest first'));
  await page.getByRole('button', {name: 'Name', exact: true}).click();
  await eventually(async () => {
    const names = await column(page, 1);
    holds(names.indexOf('model.layers.2.mlp.up_proj.weight') < names.indexOf('model.layers.10.mlp.up_proj.weight'), 'numbers in names are not sorted as numbers');
  });
  await page.fill('#filter', 'up_proj 5632');
  await eventually(async () => same(await status(page), '22 of 201', 'filtered'));
  await page.check('#fold');
  await eventually(async () => same(await column(page, 1), ['model.layers.*.mlp.up_proj.weight (22 ×)'], 'joined'));
  same(await column(page, 4), ['484.0 MiB'], 'the size of all');
}));

await proves('bars and a map of sizes, which opens at its layers and goes up and down', () => drop([model], async page => {
  holds((await text(page, 'storage')).includes('tensors: 2.0 GiB (100.0%)'), 'the bar');
  const tiles = page.locator('.map button'), where = page.locator('[aria-labelledby="section-storage"] [aria-live]');
  const shows = level => eventually(async () => same(await where.innerText(), level, 'the level'));
  const start = await tiles.allInnerTexts();
  same(start.length, 25, 'tiles');
  same(start.map(t => t.split(':')[0]), ['lm_head.weight', 'model.embed_tokens.weight', ...Array.from({length: 22}, (_, i) => `model.layers.${i}`), 'model.norm.weight'], 'the order');
  await tiles.filter({hasText: 'layers.7:'}).click();
  await shows('model.layers.7: 84.0 MiB');
  same((await tiles.allInnerTexts()).map(t => t.split(':')[0]).slice(1, 4), ['mlp.down_proj.weight', 'mlp.gate_proj.weight', 'mlp.up_proj.weight'], 'its tiles');
  const up = page.getByRole('button', {name: 'Up', exact: true});
  await up.click();
  await shows('model.layers: 1.8 GiB');
  await tiles.first().focus();
  await page.keyboard.press('Backspace');
  await page.locator('.map button').first().focus();
  await page.keyboard.press('Backspace');
  await shows('all: 2.0 GiB');
  holds(await up.isDisabled(), 'there is something above all');
  await tiles.filter({hasText: 'lm_head'}).click();
  await page.locator('dialog[open]').waitFor();
  await eventually(async () => same(await page.locator('#tensortitle').innerText(), 'lm_head.weight', 'a tile opens its tensor'));
}));

await proves('findings of verify, with class and offset', () => drop([data + 'ztensor/crate-1.2.3-objects.zt'], async page => {
  const found = JSON.parse(verify(data + 'ztensor/crate-1.2.3-objects.zt')).findings;
  await page.locator('#findings [role=region]').waitFor();
  const shown = await text(page, 'findings');
  holds(found.length > 0, 'verify finds nothing');
  for (const f of found) holds(shown.includes(f.class) && shown.includes(String(f.offset ?? '')), `${JSON.stringify(f)} in ${shown}`);
}));
function verify(file) {
  try {
    return execFileSync(command, ['verify', '--json', file], {stdio: 'pipe'});
  } catch (e) {
    return e.stdout;
  }
}

// damaged is a directory of the shards with a change to their index.
function damaged(name, change) {
  const dir = join(work, name);
  rmSync(dir, {recursive: true, force: true});
  cpSync(join(work, 'shards'), dir, {recursive: true});
  const file = join(dir, readdirSync(dir).find(n => n.endsWith('.index.json')));
  const index = JSON.parse(readFileSync(file));
  change(index);
  writeFileSync(file, JSON.stringify(index));
  return dir;
}
const inexact = damaged('inexact', index => { index.metadata.total_size++; });
const broken = damaged('broken', index => { index.weight_map['layers.9.weight'] = index.weight_map['layers.0.weight']; });
await proves('findings of check, for a directory', () => view([inexact], async page => {
  await page.locator('#findings [role=region]').waitFor();
  const shown = await text(page, 'findings');
  holds(shown.includes('total-size') && shown.includes('6145'), shown);
}));
await proves('shards that are dropped and do not fit are an error in words', () => visit(site.address, async page => {
  await page.waitForSelector('#files');
  await page.setInputFiles('#files', readdirSync(broken).map(n => join(broken, n)));
  await page.locator('#status.error').waitFor();
  const shown = await page.locator('#status').innerText();
  holds(shown.includes('layers.9.weight'), shown);
}));

await proves('a program: inputs, outputs, operators, delegates, memory', () => drop([data + 'pte/export-1.5.1-xnnpack-conv.pte'], async page => {
  const info = JSON.parse(execFileSync(command, ['info', '--json', data + 'pte/export-1.5.1-xnnpack-conv.pte']));
  const [method] = info.pte.methods, shown = await text(page, 'program');
  for (const [kind, list] of [['Inputs', method.inputs], ['Outputs', method.outputs], ['Delegates', method.delegates]]) {
    same(await page.getByRole('region', {name: `${kind} of ${method.name}`}).locator('tbody tr').count(), list.length, kind);
  }
  holds(shown.includes(method.delegates[0].id), shown);
  holds(/Memory plan\s+1 buffer.* peak use /.test(shown), shown);
  await page.locator('.graph .delegate').first().waitFor();
}));
await proves('a program of RTen: inputs, outputs, operators', () => drop([data + 'rten/convert-0.22.0-control.rten'], async page => {
  const {rten} = JSON.parse(execFileSync(command, ['info', '--json', data + 'rten/convert-0.22.0-control.rten']));
  const shown = await text(page, 'program');
  for (const word of [...rten.inputs, ...Object.keys(rten.operators)]) holds(shown.includes(word), `${word} in ${shown}`);
}));

await proves('what differs between two files, by name and by how much', () => view([join(work, 'values.safetensors'), join(work, 'other.safetensors')], async page => {
  const rows = page.getByRole('region', {name: 'Differences'}).locator('tbody tr');
  await rows.first().waitFor();
  same(await rows.count(), 1, 'differences');
  const shown = await rows.innerText();
  holds(shown.includes('1 of 400') && shown.includes('0.5'), shown);
}));

await proves('the slice of three dimensions, its axes and its start are chosen', () => drop([join(work, 'cube.safetensors')], async page => {
  await page.locator('#table tbody button').first().click();
  const cell = page.locator('dialog .grid tbody tr').nth(1).locator('td').nth(2);
  await cell.waitFor();
  const first = await cell.innerText(); // of [0, 1, 2] in [4, 5, 6]
  const fixed = page.getByLabel(/^dimension 0 of 4/);
  await fixed.fill('3');
  await fixed.press('Enter');
  await until(page, `document.querySelectorAll('dialog .grid tbody tr')[1]?.querySelectorAll('td')[2]?.textContent === '98'`);
  same(first, '8', 'the element before');
  await until(page, `document.activeElement.value === '3'`); // the control has the focus
  await page.getByLabel('show dimensions').selectOption('0,1');
  await until(page, `document.querySelectorAll('dialog .grid tbody tr').length === 1`); // from 3 on, of 4
}));

for (const name of ['safetensors/names.safetensors', 'ptd/et-1.5.1-names.ptd', 'ztensor/crate-2.1.1-names.zt', 'primitiv/parameter-names.primitiv']) {
  await proves(`the names of ${name} are shown as they are`, () => drop([data + name], async page => {
    const visible = s => s.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, c => `\\u{${c.codePointAt(0).toString(16)}}`);
    const names = JSON.parse(execFileSync(command, ['ls', '--json', data + name])).tensors.map(t => t.name);
    const shown = await page.locator('#table tbody td.name').evaluateAll(all => all.map(e => e.textContent));
    same(shown, names.map(n => visible(n) || '(no name)'), 'names');
  }));
}

for (const [way, open] of [['WebAssembly', drop], ['a process', view]]) {
  await proves(`the policy runs no script of the page's text, by ${way}`, () => open([model], async (page, wrong) => {
    const ran = await page.evaluate(async () => {
      document.getElementById('main').innerHTML += '<img src="x" onerror="document.ran = 1">';
      const script = document.createElement('script');
      script.textContent = 'document.ran = 1';
      document.head.append(script);
      await new Promise(r => setTimeout(r, 200));
      return document.ran;
    });
    same(ran, undefined, 'what ran');
    await eventually(() => holds(wrong.length > 0, 'the policy said nothing'));
  }, {allow: /Content Security Policy/}));
}

await proves('paper: light, all rows, nothing that cannot be used there', async () => {
  const file = join(work, 'print.html');
  execFileSync(command, ['report', '--force', join(work, 'many.safetensors'), file]);
  await visit(pathToFileURL(file).href, async page => {
    await ready(page);
    const paper = await page.pdf({format: 'A4'});
    holds(paper.length > 100000, `${paper.length} bytes`);
    same(await page.locator('#table tbody tr').count(), 5000, 'rows');
    await page.emulateMedia({media: 'print', colorScheme: 'dark'});
    same(await page.evaluate(() => getComputedStyle(document.body).color), 'rgb(27, 31, 36)', 'the colour of text');
    for (const unused of ['nav', '#filter', 'details']) holds(!await page.locator(unused).first().isVisible(), `${unused} is printed`);
    same(await page.evaluate(() => getComputedStyle(document.querySelector('.scroll')).overflow), 'visible', 'tables');
  }, {colorScheme: 'dark'});
  execFileSync(command, ['report', '--force', join(work, 'deep.rten'), file]);
  await visit(pathToFileURL(file).href, async page => {
    await ready(page);
    await page.locator('.graph .node').first().waitFor();
    const screen = await page.locator('.graph > g').getAttribute('transform');
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    holds(await page.locator('.graph').getAttribute('viewBox'), 'the graph has the width of the screen');
    await page.evaluate(() => dispatchEvent(new Event('afterprint')));
    same(await page.locator('.graph > g').getAttribute('transform'), screen, 'the graph afterwards');
  });
});
