// The page in the hands of people who use it every day: differences, the dialog of a tensor and its address, the graph, narrow screens.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { command, data, drop, eventually, holds, proves, ready, same, serious, status, until, view, visit, work } from './harness.mjs';
import { serve } from './server.mjs';

const file = name => join(work, name);
const values = file('values.safetensors'), model = file('model.safetensors');
const open = (page, name) => page.locator('#table').getByRole('button', {name, exact: true}).click();
const titleIs = (page, title) => eventually(async () => same(await page.locator('dialog[open] #tensortitle').innerText(), title, 'the tensor'));
const isClosed = page => until(page, `!document.querySelector('dialog').open`);
const address = page => new URL(page.url()).hash;

await proves('two files open on their difference', () => view([values, file('other.safetensors')], async page => {
  same(await page.locator('main h2').first().innerText(), 'Difference', 'the first section');
  await page.getByText('1 of 1 tensor differ, 0 only in a, 0 only in b.').waitFor(); // without being asked
  const cells = await page.getByRole('region', {name: 'Differences'}).locator('tbody td').allInnerTexts();
  same(cells, ['v', 'values', '1 of 400', '0.5', '0.0001085', '7', '7.5'], 'the difference, rounded');
}));
await proves('names of a difference open tensors, of either file', () => view([values, file('flat.safetensors')], async page => {
  const differences = page.getByRole('region', {name: 'Differences'});
  await differences.getByRole('button', {name: 'v', exact: true}).click();
  await titleIs(page, 'v');
  await page.goBack();
  await isClosed(page);
  await differences.getByRole('button', {name: 'encoder_layer_3_key'}).click(); // only in the second file
  await titleIs(page, 'encoder_layer_3_key');
  holds((await page.locator('dialog dl').first().innerText()).includes('64 bytes'), 'the size');
  await page.locator('dialog .grid td').first().waitFor();
  same(address(page), '#tensor=encoder_layer_3_key&file=1', 'the address');
}));
await proves('the title is the name of the file, or of the directory', async () => {
  await view([values], async page => same(await page.locator('h1').innerText(), 'values.safetensors', 'a file'));
  await view([join(work, 'shards') + '/.'], async page => same(await page.locator('h1').innerText(), 'shards', 'a directory'));
});

for (const [way, use] of [['a process', view], ['WebAssembly', drop]]) {
  await proves(`a tensor has statistics, a picture and values, in this order and at once, by ${way}`, () => use([values], async page => {
    await open(page, 'v');
    await page.locator('dialog canvas').waitFor();
    await page.getByRole('img', {name: /^Histogram/}).waitFor();
    same(await page.locator('dialog h3').allInnerTexts(), ['Statistics', 'Picture', 'Values'], 'sections');
  }));
}
await proves('the statistics of a large tensor are a button with their size', () => view([model], async page => {
  await open(page, 'lm_head.weight');
  await page.locator('dialog .grid td').first().waitFor();
  await page.getByRole('button', {name: 'Compute statistics (125.0 MiB)'}).waitFor();
  same(await page.locator('dialog canvas, dialog .histogram').count(), 0, 'what was computed');
}));
await proves('the statistics of a tensor behind an address are a button', async () => {
  const server = await serve(work);
  try {
    await view([`${server.address}values.safetensors`], async page => {
      same(await page.locator('h1').innerText(), 'values.safetensors', 'the title');
      await open(page, 'v');
      await page.locator('dialog .grid td').first().waitFor();
      await page.getByRole('button', {name: 'Compute statistics (1.6 KiB)'}).click();
      await page.getByRole('img', {name: /^Histogram/}).waitFor();
    });
  } finally {
    server.close();
  }
});
await proves('an image has its colours, which can be taken away', () => view([file('images.safetensors')], async page => {
  const pixel = want => eventually(async () => same(await page.locator('dialog canvas').evaluate(
    c => [...c.getContext('2d').getImageData(3, 3, 1, 1).data]), want, 'a pixel'));
  await open(page, 'last');
  await pixel([255, 0, 0, 255]);
  const which = page.getByLabel(/^dimension 0 of 2/);
  await which.fill('1');
  await which.press('Enter');
  await pixel([0, 0, 255, 255]);
  await page.getByLabel('Colours').uncheck();
  await page.getByLabel('Colours').check();
  await pixel([0, 0, 255, 255]);
  await page.keyboard.press('Escape');
  await open(page, 'first');
  await pixel([0, 255, 0, 255]);
}));

await proves('a tensor has an address, which Back leaves', () => view([model], async page => {
  const name = 'model.layers.3.mlp.up_proj.weight';
  await page.locator('#filter').fill('*.3.mlp.*');
  await open(page, name);
  await titleIs(page, name);
  same(address(page), `#tensor=${name}`, 'the address');
  const link = page.url();
  await page.goBack();
  await isClosed(page);
  same([address(page), await page.inputValue('#filter')], ['', '*.3.mlp.*'], 'the page after Back');
  await page.goForward();
  await titleIs(page, name);
  await page.keyboard.press('Escape');
  await eventually(() => same(address(page), '', 'the address after Escape'));
  await page.goto('about:blank');
  await page.goto(link); // as one that was sent
  await titleIs(page, name);
  await page.getByRole('button', {name: 'Close'}).click();
  await isClosed(page);
  await eventually(() => same(address(page), '', 'the address of a link after Close'));
}));

await proves('a tensor of a report has an address', async () => {
  const report = file('values.html');
  execFileSync(command, ['report', '--force', values, report]);
  await visit(`${pathToFileURL(report).href}#tensor=v`, async page => {
    await ready(page);
    await titleIs(page, 'v');
    await page.keyboard.press('Escape');
    await isClosed(page);
    await open(page, 'v');
    await page.goBack();
    await isClosed(page);
  });
});
await proves('an address without its tensor is an error in words', () => view([values], async page => {
  await page.evaluate(() => { location.hash = '#tensor=w'; });
  await eventually(async () => same(await page.locator('#status.error').innerText(), 'There is no tensor w.', 'the status'));
}));

await proves('the filter takes patterns as the command does', () => drop([model], async page => {
  for (const [filter, n] of [['*.mlp.*', 66], ['*.mlp.* !*up_proj*', 44], ['!*layers*', 3], ['!layers', 3], ['*.[01].mlp.*', 6], ['*.[^0-9].*', 0],
    ['model.layers.?.mlp.up_proj.weight', 10], ['lm_head* *.norm.weight', 2], ['*.mlp.* 5632,', 44], ['*.mlp', 0], ['mlp', 66], ['layers.[', 0], ['layers\\.0.mlp*', 0],
    ['model.layers\\.0.mlp*', 3], ['', 201]]) {
    await page.fill('#filter', filter);
    await eventually(async () => same(await status(page), `${n} of 201`, filter), 5);
  }
}));

await proves('a graph opens fitted, and dark in dark mode', () => drop([`${data}pte/export-1.5.1-transformer.pte`], async page => {
  const graph = await page.locator('.graph').boundingBox();
  for (const node of [page.locator('.graph .node').first(), page.locator('.graph .node').last()]) {
    const box = await node.boundingBox();
    holds(box.x >= graph.x && box.x + box.width <= graph.x + graph.width && box.y >= graph.y && box.y + box.height <= graph.y + graph.height, 'a node is outside');
  }
  const [back, text] = await page.evaluate(() => [getComputedStyle(document.querySelector('.graph')).backgroundColor, getComputedStyle(document.querySelector('.graph text')).fill]);
  same([back, text], ['rgb(20, 23, 27)', 'rgb(230, 232, 235)'], 'colours');
}, {colorScheme: 'dark'}));

await proves('a graph that would be dots opens at its first node', () => drop([file('deep.rten')], async page => {
  const graph = await page.locator('.graph').boundingBox(), node = await page.locator('.graph .node').first().boundingBox();
  holds(node.height > 15 && node.x > graph.x && node.x < graph.x + graph.width && node.y >= graph.y, `${JSON.stringify(node)} in ${JSON.stringify(graph)}`);
  await page.getByRole('button', {name: 'Fit'}).click();
  const last = await page.locator('.graph .node').last().boundingBox();
  holds(last.y + last.height <= graph.y + graph.height, 'the end is outside');
}));

const place = page => page.locator('.graph > g').getAttribute('transform');
const moved = (page, from) => eventually(async () => { const now = await place(page); holds(now !== from, 'the graph did not move'); return now; });
await proves('the wheel moves and zooms a graph, and does not hold the page', () => view([`${data}rten/convert-0.22.0-control.rten`], async page => {
  const graph = page.locator('.graph');
  await graph.scrollIntoViewIfNeeded();
  await graph.hover();
  const first = await place(page), scale = t => Number(/scale\((.*)\)/.exec(t)[1]);
  const scrolled = () => page.evaluate(() => scrollY);
  let top = await scrolled();
  await page.mouse.wheel(0, -100);
  await eventually(async () => holds(await scrolled() < top, 'the page did not scroll'));
  same(await place(page), first, 'a graph without the focus');
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -200);
  const zoomed = await moved(page, first);
  await page.keyboard.up('Control');
  holds(scale(zoomed) > scale(first), 'it is not larger');
  await graph.focus();
  const next = await (async () => { await page.mouse.wheel(0, 30); return moved(page, zoomed); })();
  same(scale(next), scale(zoomed), 'the scale');
  top = await scrolled();
  await eventually(async () => { await page.mouse.wheel(0, -400); holds(await scrolled() < top, 'the page is held'); });
}));
await proves('two fingers zoom a graph, one scrolls the page', () => view([`${data}rten/convert-0.22.0-control.rten`], async page => {
  const graph = page.locator('.graph');
  await graph.scrollIntoViewIfNeeded();
  const box = await graph.boundingBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
  const session = await page.context().newCDPSession(page);
  const touch = (type, ...points) => session.send('Input.dispatchTouchEvent', {type, touchPoints: points.map(([x, y], id) => ({x, y, id}))});
  const first = await place(page), top = await page.evaluate(() => scrollY);
  await touch('touchStart', [x, y]);
  for (let i = 1; i <= 8; i++) await touch('touchMove', [x, y + 10 * i]);
  await touch('touchEnd');
  await eventually(async () => holds(await page.evaluate(() => scrollY) < top, 'the page did not scroll'));
  same(await place(page), first, 'one finger');
  await touch('touchStart', [x - 20, y], [x + 20, y]);
  for (let i = 1; i <= 8; i++) await touch('touchMove', [x - 20 - 5 * i, y], [x + 20 + 5 * i, y]);
  await touch('touchEnd');
  await moved(page, first);
}, {viewport: {width: 375, height: 700}, hasTouch: true, isMobile: true}));
await proves('branches side by side are no chain of blocks', () => drop([file('branches.rten')], async page => {
  same([await page.locator('.graph .node').count(), await page.locator('.graph .block').count()], [64, 0], 'nodes and blocks');
}));
await proves('methods without buffers are named once, and empty sections left out', async () => {
  await drop([`${data}pte/export-1.5.1-methods.pte`], async page => {
    const text = await page.locator('[aria-labelledby=section-program]').innerText();
    same(text.match(/Methods without a memory plan: .*/g), ['Methods without a memory plan: get_eos_ids, get_max_seq_len, get_rope, use_kv_cache, get_name, get_table'], 'methods');
    same(text.match(/^Memory plan/gm).length, 3, 'plans');
    same(await page.locator('main table').evaluateAll(all => all.filter(t => !t.tBodies[0].rows.length).length), 0, 'empty tables');
  });
  await drop([`${data}pte/export-1.5.1-no-weights.pte`], async page => {
    const titles = await page.locator('main h2').allInnerTexts();
    holds(!titles.includes('Tensors') && titles.includes('Program'), titles);
  });
});

await proves('names break at dots at 375 px, and sizes are in sight', () => drop([model], async page => {
  same(await page.locator('h1').innerText(), 'model.safetensors', 'the title');
  const broken = await page.locator('#table td.name button').evaluateAll(all => all.slice(0, 40).flatMap(button => {
    const bad = [];
    let last;
    for (const node of button.childNodes) {
      for (let i = 0; i < (node.data ?? '').length; i++) {
        const range = document.createRange();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        const {top} = range.getBoundingClientRect();
        if (last !== undefined && top > last + 4 && i > 0) bad.push(button.textContent);
        last = top;
      }
    }
    return bad;
  }));
  same(broken, [], 'names that break elsewhere');
  const sizes = await page.locator('#table td.bytes').evaluateAll(all => all.map(e => e.getBoundingClientRect()).filter(r => r.right > 375 || r.width === 0).length);
  same(sizes, 0, 'sizes that are not in sight');
}, {viewport: {width: 375, height: 800}}));
for (const colorScheme of ['light', 'dark']) {
  await proves(`no serious finding of axe-core in a difference and its tensor, ${colorScheme}, 375 px`, () => view([values, file('nan.safetensors')], async page => {
    await page.getByRole('region', {name: 'Differences'}).waitFor();
    same(await serious(page), [], 'the difference');
    await page.getByRole('region', {name: 'Differences'}).getByRole('button', {name: 'v', exact: true}).focus();
    await page.keyboard.press('Enter');
    await page.locator('dialog canvas').waitFor();
    await page.locator('dialog .grid').waitFor();
    same(await serious(page), [], 'a tensor');
    same(await page.evaluate(() => document.querySelector('dialog').scrollWidth - document.querySelector('dialog').clientWidth), 0, 'pixels wider than the dialog');
    await page.keyboard.press('Escape');
    await isClosed(page);
    await until(page, `document.activeElement.textContent === 'v'`); // the name has the focus again
  }, {colorScheme, viewport: {width: 375, height: 800}}));
}
await proves('numbers are rounded, however large, and the type of blocks is in one column', () => drop([`${data}gguf/quantised.gguf`], async page => {
  same(await page.locator('#table th').allInnerTexts(), ['Name', 'Dtype', 'Shape', 'Size', 'Offset'], 'columns');
  same(await page.locator('#table tbody tr').nth(1).locator('td').nth(1).innerText(), 'Q4_0', 'the dtype');
  await open(page, 'x.Q4_0');
  await eventually(async () => same(await page.locator('dialog .ends span').allInnerTexts(), ['-1e+30', 'largest bin: 481', '8.45e+29'],
    'the ends of the histogram'));
}));
await proves('tables are as wide as what they hold', () => drop([model], async page => {
  const widths = await page.locator('main .scroll').evaluateAll(all => all.map(e => [e.clientWidth, e.firstChild.offsetWidth]));
  for (const [region, table] of widths) holds(region < 1000 && region - table < 20, `${region} of ${table}`);
  same(await page.locator('#table th').allInnerTexts(), ['Name', 'Dtype', 'Shape', 'Size', 'Offset'], 'columns that hold something');
}));
await proves('a map of sizes has a legend, and groups of names without dots', async () => {
  await drop([model], async page => {
    same(await page.locator('.map + .legend li').allInnerTexts(), ['bfloat16', 'group of tensors', 'float32'], 'the legend');
  });
  await drop([file('flat.safetensors')], async page => {
    same(await page.locator('.map button').allInnerTexts(), Array.from({length: 12}, (_, i) => `${i}: 256 B`), 'tiles');
    await page.locator('.map button').nth(3).click();
    await eventually(async () => same(await page.locator('.map button').allInnerTexts(), ['key', 'output', 'query', 'value'].map(n => `${n}: 64 B`), 'tiles of a layer'));
  });
});

await proves('the page says that the command has ended', () => view([model], async (page, wrong, child) => {
  child.kill('SIGINT');
  await eventually(() => holds(child.exitCode !== null, 'it runs'));
  await open(page, 'lm_head.weight');
  await page.locator('dialog').getByText('tensorfile view has ended').first().waitFor();
}, {allow: /ERR_CONNECTION_REFUSED/}));
