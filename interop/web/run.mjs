// run.mjs PLAYWRIGHT AXE CHROMIUM TENSORFILE SITE WORK: drives the page in Chromium, in its three ways: the static site in SITE, view
// and report of the command TENSORFILE. WORK has files that make.go made. Prints a line for each proof; ONLY=WORDS leaves out others.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { command, data, drop, end, eventually, holds, proves, ready, same, serious, site, status, until, view, visit, work } from './harness.mjs';

// One file of each format, by WebAssembly and by a process.
const examples = ['safetensors/many.safetensors', 'gguf/quantised.gguf', 'rten/convert-0.22.0-control.rten',
  ...['npy', 'torch', 'ptd', 'pte', 'onnx', 'ztensor', 'primitiv'].map(format => {
    const names = readdirSync(data + format).filter(n => !/\.(json|md|py|txt)$/.test(n) && statSync(join(data, format, n)).isFile());
    const opens = names.find(n => {
      try {
        return JSON.parse(execFileSync(command, ['info', '--json', join(data, format, n)], {stdio: 'pipe'})).tensors > 0;
      } catch { return false; }
    });
    return join(format, opens);
  })];
for (const name of examples) {
  const info = JSON.parse(execFileSync(command, ['info', '--json', data + name]));
  const look = async page => {
    holds(await page.locator('#table tbody tr').count() >= Math.min(info.tensors, 100), 'rows are missing');
    const button = page.locator('#table tbody button').first();
    await button.click();
    await page.waitForSelector('dialog[open] #tensortitle');
    await until(page, () => !document.querySelector('dialog progress'));
    await page.keyboard.press('Escape');
    await eventually(async () => holds(await button.evaluate(b => b === document.activeElement), 'focus is lost'));
  };
  await proves(`${name} in WebAssembly`, () => drop([data + name], look));
  await proves(`${name} from a process`, () => view([data + name], look));
}

const policy = /Content Security Policy/;
await proves('the worker and the page can send nothing', () => drop([data + examples[0]], async (page, wrong) => {
  const attempt = () => fetch(self.location.origin === 'null' ? 'http://127.0.0.1' : self.location.origin).then(() => 'sent', () => 'refused');
  same(await page.workers()[0].evaluate(attempt), 'refused', 'the worker');
  same(await page.evaluate(attempt), 'refused', 'the page');
  await eventually(() => holds(wrong.length > 0, 'the policy said nothing'));
}, {allow: policy}));

// The page speaks of all shards, whether their files are dropped or the directory is opened.
const shards = readdirSync(join(work, 'shards')).map(n => join(work, 'shards', n));
const all = shards.reduce((sum, n) => sum + statSync(n).size, 0);
const ofShards = title => async page => {
  same(await status(page), '6 of 6', 'tensors');
  same(await page.locator('#title').innerText(), title, 'the title');
  const facts = await page.locator('dl').first().innerText();
  holds(facts.includes(`(${all.toLocaleString('en')} bytes)`), `${facts} is not of ${all} bytes`);
  holds(/tensors: 6\.0 KiB/.test(await page.locator('.legend').first().innerText()), 'what takes up the space');
  same(await page.locator('#table tbody tr:last-child td').last().innerText(), 'model-00003-of-00003.safetensors', 'the shard of the last tensor');
  await page.check('#fold');
  await eventually(async () => same(await page.locator('#table tbody td').last().innerText(), '3 files', 'the shards of a joined row'));
  await page.getByText('No findings').waitFor();
};
const config = {name: 'config.json', mimeType: '', buffer: Buffer.from('{}')};
await proves('shards are one model', () => drop([config, ...shards.map(n => ({name: basename(n), mimeType: '', buffer: readFileSync(n)}))],
  ofShards('model.safetensors.index.json')));
await proves('files are dropped from elsewhere', () => visit(site.address, async page => {
  await page.waitForSelector('#files');
  const bytes = [...readFileSync(data + examples[0])];
  const transfer = await page.evaluateHandle(bytes => {
    const t = new DataTransfer();
    t.items.add(new File([new Uint8Array(bytes)], 'dropped.safetensors'));
    return t;
  }, bytes);
  await page.dispatchEvent('.drop', 'dragover', {dataTransfer: transfer});
  await page.locator('.drop.over').waitFor();
  await page.dispatchEvent('.drop', 'drop', {dataTransfer: transfer});
  await ready(page);
  same(await page.locator('#title').innerText(), 'dropped.safetensors', 'the title');
}));
await proves('a program and its data are dropped together', () => drop(['pte', 'ptd'].map(e => `${data}pte/export-1.5.1-external.${e}`), async page => {
  await page.locator('#table tbody button').first().click();
  await page.locator('dialog .grid td').first().waitFor();
  await page.locator('.graph .node').first().waitFor();
}));
await proves('a directory of shards', () => view([join(work, 'shards')], ofShards('shards')));

await proves('a file of 4 GiB is opened by its metadata, its statistics can be cancelled', () => drop([join(work, 'sparse.safetensors')], async page => {
  await page.locator('#table tbody button').first().click();
  await page.getByRole('button', {name: /^Compute/}).click();
  await until(page, () => document.querySelector('dialog progress')?.value > 0);
  await page.getByRole('button', {name: 'Cancel'}).click();
  await page.getByText('Cancelled.').waitFor();
  await page.keyboard.press('Escape');
}));

await proves('5,000 tensors appear within a second', () => visit(site.address, async page => {
  await page.waitForSelector('#files');
  const start = Date.now();
  await page.setInputFiles('#files', join(work, 'many.safetensors'));
  await ready(page);
  const time = Date.now() - start;
  same(await status(page), '5,000 of 5,000', 'tensors');
  console.log(`   ${time} ms`);
  holds(!process.env.TENSORFILE_MEASURE || time < 1000, `${time} ms`);
  await page.fill('#filter', 'layers.7. weight');
  await eventually(async () => same(await status(page), '50 of 5,000', 'filtered'));
  await page.fill('#filter', '');
  await page.check('#fold');
  await eventually(async () => same(await status(page), '50 of 5,000', 'joined'));
}));

const hostile = join(work, 'hostile.safetensors');
for (const [way, open] of [['WebAssembly', use => drop([hostile], use)], ['a process', use => view([hostile], use)]]) {
  await proves(`hostile names are text, by ${way}`, () => open(async page => {
    same(await page.locator('main img, main svg[onload], main iframe, main script').count(), 0, 'elements of the file');
    holds((await page.title()).includes('hostile'), 'the title');
    const text = await page.locator('#table').innerText();
    holds(text.includes('<img src=x') && text.includes('\\u{202e}'), text);
    const tiles = await page.locator('.map button').allInnerTexts();
    for (const name of ['(no name)', '.', './within']) holds(tiles.includes(`${name}: 1 B`), `no tile of ${name}: ${tiles}`);
  }));
}

await proves('a report has all but the elements', async () => {
  const file = join(work, 'report.html');
  execFileSync(command, ['report', '--force', hostile, file]);
  await visit(pathToFileURL(file).href, async page => {
    await ready(page);
    same(await page.locator('main img, main iframe').count(), 0, 'elements of the file');
    await page.locator('#table tbody button').first().click();
    await page.locator('dialog').getByText('A report has no values').waitFor();
  });
  execFileSync(command, ['report', '--force', data + 'rten/convert-0.22.0-control.rten', file]);
  await visit(pathToFileURL(file).href, async page => {
    await ready(page);
    await page.locator('.graph .node').first().waitFor();
  });
});

await proves('two files are compared', () => view([data + examples[0], hostile], async page => {
  await page.getByRole('region', {name: 'Differences'}).waitFor();
}));
await proves('a NaN is one in a comparison', () => view([join(work, 'values.safetensors'), join(work, 'nan.safetensors')], async page => {
  const row = page.getByRole('region', {name: 'Differences'}).locator('tbody tr');
  await row.waitFor();
  same(await row.locator('td').allInnerTexts(), ['v', 'values', '1 of 400, 1 not finite', 'NaN', '0', '7', 'NaN'], 'the difference');
}));
await proves('another file is compared in WebAssembly', () => drop([data + examples[0]], async page => {
  await page.setInputFiles('#another', data + examples[0]);
  await page.getByText(/^Equal:/).waitFor();
}));

await proves('a file that is none is an error in words', () => visit(site.address, async page => {
  await page.waitForSelector('#files');
  await page.setInputFiles('#files', {name: 'x.zt', mimeType: '', buffer: Buffer.from('nothing')});
  await page.locator('#status.error').waitFor();
}));

await proves('values, picture and statistics of a tensor', () => drop([join(work, 'values.safetensors')], async page => {
  await page.locator('#table tbody button').first().click();
  const cell = page.locator('dialog .grid tbody tr').nth(1).locator('td').nth(2);
  await cell.waitFor();
  same(await cell.innerText(), '42', 'an element'); // of 0, 1, 2 … in rows of 40
  await page.locator('dialog canvas').waitFor();
  await page.getByRole('img', {name: /^Histogram/}).waitFor();
  await eventually(async () => holds((await page.locator('dialog').innerText()).includes('199.5'), 'the mean'));
}));

await proves('a quantised weight has its values, and a switch to its parts', () => drop([data + 'quant/comfy-nvfp4.safetensors'], async page => {
  const names = async () => (await page.locator('#table tbody td.name').allInnerTexts()).join(' ');
  holds(!/scale/.test(await names()), 'parts are shown');
  await page.locator('#parts').check();
  holds(/weight_scale_2/.test(await names()), 'parts are missing');
  await page.locator('#parts').uncheck();
  await page.getByRole('button', {name: 'diffusion.m.weight', exact: true}).click();
  const cell = page.locator('dialog .grid tbody tr').first().locator('td').first();
  await cell.waitFor();
  holds(/^-?0\.\d{5,}$/.test(await cell.innerText()), 'the value is a code');
}));

await proves('a memory plan is drawn over time', () => drop([data + 'pte/export-1.5.1-cond.pte'], async page => {
  const places = page.getByRole('img', {name: /^Buffer 1 of/}).locator('rect');
  holds(await places.count() >= 5, 'places are missing');
}));

await proves('a graph is moved with the mouse', () => drop([data + 'rten/convert-0.22.0-control.rten'], async page => {
  const graph = page.locator('.graph'), at = () => page.locator('.graph > g').getAttribute('transform');
  await graph.scrollIntoViewIfNeeded();
  await page.getByRole('button', {name: 'Fit'}).click();
  const box = await graph.boundingBox(), places = [await at()];
  await page.mouse.move(box.x + 20, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 120, box.y + 60, {steps: 4});
  await page.mouse.up();
  places.push(await at());
  await graph.focus();
  await page.mouse.wheel(0, -300);
  await until(page, `document.querySelector('.graph > g').getAttribute('transform') !== ${JSON.stringify(places[1])}`);
  for (const name of ['Zoom in', 'Actual size', 'Zoom out']) {
    await page.getByRole('button', {name}).click();
    places.push(await at());
  }
  same(new Set(places).size, places.length, 'places of the graph');
  await page.getByRole('button', {name: 'Fit'}).click();
  same(await at(), places[0], 'where it fits');
}));

await proves('a graph is searched, and walked with the keyboard', () => drop([data + 'rten/convert-0.22.0-control.rten'], async page => {
  await page.fill('#findnode', 'Mul');
  await page.keyboard.press('Enter');
  await page.locator('.graph .chosen').waitFor();
  await page.getByText('Inputs from').waitFor();
  const before = await page.locator('.graph > g').getAttribute('transform');
  await page.locator('.graph').focus();
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('+');
  await eventually(async () => holds(before !== await page.locator('.graph > g').getAttribute('transform'), 'nothing moved'));
}));

await proves('a graph of 5,000 nodes is usable, and its repeated blocks collapse', () => drop([join(work, 'deep.rten')], async page => {
  await page.locator('.graph .block').first().waitFor();
  const collapsed = await page.locator('.graph .node').count();
  holds(collapsed < 200, 'nothing is collapsed');
  await page.locator('.graph .block').first().click();
  await page.getByRole('button', {name: 'Expand block'}).click();
  await until(page, `document.querySelectorAll('.graph .node').length === ${collapsed + 49}`); // its 50 operators in place of one
  await page.uncheck('#collapse');
  await until(page, () => document.querySelectorAll('.graph .node').length >= 5000);
  const start = Date.now();
  await page.locator('.graph').focus();
  for (let i = 0; i < 10; i++) await page.keyboard.press('ArrowDown');
  await page.evaluate(() => new Promise(requestAnimationFrame));
  console.log(`   ${Date.now() - start} ms for ten moves`);
}));

await proves('what is computed takes no focus', () => drop([join(work, 'values.safetensors')], async page => {
  await page.getByText('No findings').waitFor();
  holds(await page.evaluate(() => scrollY === 0 && !document.activeElement.closest('#findings')), 'findings took the focus');
  await page.locator('#table tbody button').first().click();
  await page.getByRole('img', {name: /^Histogram/}).waitFor();
  await until(page, `document.activeElement.textContent === 'Close'`); // which has it since the dialog is open
}));
await proves('what is computed on demand gives back the focus', () => drop([join(work, 'model.safetensors')], async page => {
  await page.locator('#table tbody button').first().click();
  await page.getByRole('button', {name: /^Compute/}).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('img', {name: /^Histogram/}).waitFor();
  await until(page, `document.activeElement !== document.body && document.activeElement.contains(document.querySelector('.histogram'))`);
}));

await proves('the keyboard reaches everything', () => drop([data + examples[0]], async page => {
  const reached = new Set();
  await page.evaluate(() => document.body.focus());
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      return e.id || e.getAttribute('aria-label') || e.textContent.slice(0, 20);
    });
    reached.add(at);
    if (at === 'filter') break;
  }
  for (const name of ['skip', 'Overview', 'Tensors', 'filter']) holds(reached.has(name), `${name} is not reached: ${[...reached]}`);
  await page.keyboard.press('Shift+Tab');
  await page.locator('#table th button').first().focus();
  await page.keyboard.press('Enter');
  await page.locator('#table th').first().and(page.locator('[aria-sort=ascending]')).waitFor();
  const tiles = page.locator('.map button');
  await tiles.first().focus();
  await page.keyboard.press('ArrowRight');
  await eventually(async () => holds(await tiles.nth(1).evaluate(e => e === document.activeElement), 'the next tile has no focus'));
  await page.locator('#table tbody button').first().focus();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open]').waitFor();
  await until(page, `document.querySelector('dialog').contains(document.activeElement)`); // the dialog has the focus
}));

for (const colorScheme of ['light', 'dark']) {
  for (const width of [375, 1200, 3840]) {
    await proves(`no serious finding of axe-core, ${colorScheme}, ${width} px`, async () => {
      const options = {colorScheme, viewport: {width, height: 900}};
      await visit(site.address, async page => {
        await page.waitForSelector('#files');
        same(await serious(page), [], 'before a file');
        await page.setInputFiles('#files', data + (width === 1200 ? examples[6] : 'rten/convert-0.22.0-control.rten'));
        await ready(page);
        await until(page, () => !document.querySelector('progress'));
        same(await serious(page), [], 'a file');
        const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        same(over, 0, 'pixels wider than the window');
        await page.locator('#table tbody button').first().click();
        await until(page, () => !document.querySelector('dialog progress'));
        same(await serious(page), [], 'a tensor');
      }, options);
    });
  }
}

if (process.env.TENSORFILE_PICTURES) {
  const shot = (page, name) => page.screenshot({path: join(process.env.TENSORFILE_PICTURES, name)});
  const options = {viewport: {width: 900, height: 720}};
  await drop([join(work, 'model.safetensors')], async page => {
    await page.fill('#filter', '*.layers.0.* !*norm*');
    await page.locator('#section-tensors').evaluate(e => window.scrollTo(0, e.offsetTop - 20));
    await page.evaluate(() => document.activeElement.blur());
    await shot(page, 'page.png');
  }, {viewport: {width: 900, height: 1120}});
  await drop([data + 'pte/export-1.5.1-cond.pte'], async page => {
    await page.locator('.chart').first().evaluate(e => window.scrollTo(0, e.getBoundingClientRect().top + scrollY - 64));
    await shot(page, 'graph.png');
  }, options);
}

await import('./shown.mjs');
await import('./daily.mjs');
await import('./view.mjs');
await end();
