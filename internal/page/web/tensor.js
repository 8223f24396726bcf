// The dialog of one tensor: its properties, statistics, a picture and values.
import { add, addName, addSVG, count, find, human, list, round, run, table } from './dom.js';

// atOnce is the largest size in bytes of a tensor on this machine whose statistics are computed without a click.
const atOnce = 64 << 20;

let shown = new AbortController(); // what is computed for the dialog ends with it

export function openTensor(backend, row, isLocal) {
  const d = find('tensor');
  shown.abort();
  shown = new AbortController();
  d.addEventListener('close', () => shown.abort(), {once: true});
  d.replaceChildren();
  const bar = add(d, 'div', undefined, {class: 'titlebar'});
  addName(bar, 'h2', row.name || '(no name)', {id: 'tensortitle'});
  add(bar, 'button', 'Close', {click: () => d.close()});
  const top = add(d, 'div', undefined, {class: 'columns'});
  list(top, [
    ['dtype', row.dtype ?? ''], ['shape', row.text], ['size', row.bytes < 0 ? '' : `${human(row.bytes)} (${count(row.bytes, 'byte')})`],
    ...(row.offset >= 0 ? [['offset', row.offset.toLocaleString('en')]] : []),
    ...(row.shard ? [['file', row.shard]] : []),
    ...(row.stored >= 0 && row.stored !== row.bytes ? [['stored', `${human(row.stored)} ${row.encoding ?? ''}`]] : []),
    ...(row.scheme ? [[row.of ? 'quantised as' : 'layout', row.scheme]] : []),
    ...(row.digest ? [['digest', row.digest]] : []),
    ...(row.external ? [['data', 'in another file']] : []),
  ]);
  if (row.parts?.length) {
    table(top, 'Parts', [{title: 'Part'}, {title: 'Dtype'}, {title: 'Size', number: true}], row.parts.map(p => [p.role, p.dtype ?? '', human(p.bytes)]));
  }
  if (backend.can('values')) showElements(d, backend, row, isLocal && row.bytes >= 0 && row.bytes < atOnce);
  else add(d, 'p', 'A report has no values: tensorfile view shows them.', {class: 'soft'});
  if (!d.open) d.showModal();
}

function showElements(d, backend, row, isSmall) {
  const at = {file: row.file, tensor: row.index, part: '', index: row.shape.map(() => 0), rows: 0, cols: 0, plain: false};
  const box = add(d, 'div');
  const draw = () => {
    box.replaceChildren();
    if (row.parts?.length) {
      const label = add(add(box, 'div', undefined, {class: 'row'}), 'label', 'Values of ');
      const choice = add(label, 'select', undefined, {change: () => { at.part = choice.value; at.index = []; draw(); box.querySelector('select').focus(); }});
      for (const role of ['', ...row.parts.map(p => p.role)]) add(choice, 'option', role || 'the tensor', {value: role, selected: role === at.part});
    }
    add(box, 'h3', 'Statistics');
    const stats = add(box, 'div', undefined, {'aria-live': 'polite'});
    add(box, 'h3', 'Picture');
    const image = add(box, 'div', undefined, {'aria-live': 'polite'});
    add(box, 'h3', 'Values');
    let isDrawn = isSmall;
    const paint = () => {
      isDrawn = true;
      return run(image, backend, 'picture', at, p => picture(image, p, at, paint), shown.signal);
    };
    const compute = () => run(stats, backend, 'stats', at, all => all.forEach(s => statistics(stats, s)), shown.signal);
    grid(add(box, 'div'), backend, at, () => { if (isDrawn) paint(); });
    if (isSmall) {
      compute();
      paint();
    } else {
      add(stats, 'button', `Compute statistics (${row.bytes < 0 ? 'all of the tensor' : human(row.bytes)})`, {click: compute});
      add(image, 'button', 'Draw the picture', {click: paint});
    }
  };
  draw();
}

// grid shows a slice as a table. moved is called when another slice is chosen.
function grid(parent, backend, at, moved) {
  return run(parent, backend, 'values', at, g => {
    const controls = add(parent, 'div', undefined, {class: 'row'});
    g.shape.forEach((n, dim) => {
      const isAxis = dim === g.rows || dim === g.cols;
      const label = add(controls, 'label', `${isAxis ? (dim === g.rows ? 'rows: ' : 'columns: ') : ''}dimension ${dim} of ${n} from `);
      const input = add(label, 'input', undefined, {type: 'number', min: 0, max: Math.max(n - 1, 0), value: g.index[dim], change: async () => {
        at.index = g.index.map((v, i) => i === dim ? Number(input.value) || 0 : v);
        moved();
        await grid(parent, backend, at, moved);
        parent.querySelectorAll('input')[dim]?.focus();
      }});
    });
    if (g.shape.length > 2) axes(controls, parent, backend, at, g, moved);
    if (!g.values.length) {
      add(parent, 'p', 'No elements.');
      return;
    }
    const first = d => d < 0 ? 0 : g.index[d];
    const columns = [{title: ''}, ...g.values[0].map((_, j) => ({title: first(g.cols) + j, number: true}))];
    const t = table(parent, 'Values', columns, g.values.map((r, i) => [first(g.rows) + i, ...r]), 'grid');
    for (const tr of t.tBodies[0].rows) { // the first column names rows
      const th = document.createElement('th');
      th.scope = 'row';
      th.textContent = tr.cells[0].textContent;
      tr.cells[0].replaceWith(th);
    }
    const corner = t.tHead.rows[0].cells[0];
    corner.replaceWith(document.createElement('td'));
  }, shown.signal);
}

// axes adds controls to choose the dimensions that are rows and columns.
function axes(controls, parent, backend, at, g, moved) {
  const label = add(controls, 'label', 'show dimensions ');
  const choice = add(label, 'select', undefined, {change: async () => {
    [at.rows, at.cols] = choice.value.split(',').map(Number);
    moved();
    await grid(parent, backend, at, moved);
    parent.querySelector('select')?.focus();
  }});
  for (let i = 0; i < g.shape.length; i++) {
    for (let j = i + 1; j < g.shape.length; j++) add(choice, 'option', `${i} and ${j}`, {value: `${i},${j}`, selected: i === g.rows && j === g.cols});
  }
}

// colourOf returns a colour: from blue over white to red if there are both signs, else from dark to light.
function colourOf(v, p) {
  if (!v) return [255, 0, 255];
  const x = (v - 1) / 254;
  if (p.min >= 0 || p.max <= 0) return [20 + 235 * x, 30 + 200 * x, 60 + 120 * x];
  const far = Math.max(p.max, -p.min), y = (p.min + x * (p.max - p.min)) / far;
  return y > 0 ? [255, 255 - 195 * y, 255 - 215 * y] : [255 + 215 * y, 255 + 155 * y, 255];
}

// picture draws an image in its colours, with a checkbox to draw it by value, and other tensors by value. again draws it anew.
function picture(parent, p, at, again) {
  if (!p.width) {
    add(parent, 'p', 'No elements.');
    return;
  }
  const text = `${p.width} × ${p.height} ${p.channels === 3 ? 'pixels' : 'elements'}${p.row_step > 1 ? `, row stride ${p.row_step}` : ''}${p.col_step > 1 ? `, column stride ${p.col_step}` : ''}${p.cut ? ', first columns only' : ''}, from ${round(p.min)} to ${round(p.max)}`;
  const canvas = add(parent, 'canvas', undefined, {width: p.width, height: p.height, role: 'img', 'aria-label': 'Picture of ' + text});
  const zoom = Math.max(1, Math.floor(320 / Math.max(p.width, p.height)));
  canvas.style.width = Math.min(p.width * zoom, 768) + 'px';
  if (p.height * zoom < 16) canvas.style.height = '16px';
  const context = canvas.getContext('2d'), image = context.createImageData(p.width, p.height);
  const bytes = Uint8Array.from(atob(p.pixels), c => c.charCodeAt(0)), n = p.channels;
  for (let i = 0; n * i < bytes.length; i++) {
    const pixel = bytes.subarray(n * i, n * i + n);
    const isImage = n === 3 && pixel.every(v => v);
    image.data.set([...isImage ? pixel.map(v => 255 * (v - 1) / 254) : colourOf(n === 3 ? 0 : pixel[0], p), 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  add(parent, 'p', text, {class: 'soft'});
  if (n === 1 && !at.plain) return;
  const label = add(parent, 'label');
  const colour = add(label, 'input', undefined, {type: 'checkbox', checked: n === 3, id: 'colour', change: async () => {
    at.plain = !colour.checked;
    await again();
    find('colour')?.focus();
  }});
  add(label, 'span', ' Colours: red, green and blue');
}

function statistics(parent, s) {
  if (s.role) add(parent, 'h3', s.role);
  if (s.error) {
    add(parent, 'p', s.error, {class: 'error'});
    return;
  }
  const both = add(parent, 'div', undefined, {class: 'columns'});
  list(both, s.facts);
  if (!s.histogram?.counts.length) return;
  const {counts, min, max} = s.histogram, top = Math.max(...counts, 1);
  parent = add(both, 'div');
  const svg = addSVG(parent, 'svg', {class: 'chart histogram', viewBox: `0 0 ${counts.length} 100`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `Histogram of ${counts.length} bins from ${min} to ${max}; the largest has ${top}`});
  counts.forEach((n, i) => {
    const bin = addSVG(svg, 'rect', {x: i, width: .9, y: 100 - 100 * n / top, height: 100 * n / top});
    addSVG(bin, 'title', {}, `${min + (max - min) * i / counts.length} … : ${n}`);
  });
  const ends = add(parent, 'div', undefined, {class: 'ends soft', 'aria-hidden': true});
  add(ends, 'span', round(min), {title: min});
  add(ends, 'span', `largest bin: ${top.toLocaleString('en')}`);
  add(ends, 'span', round(max), {title: max});
}
