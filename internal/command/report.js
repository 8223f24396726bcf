'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const colours = ['#8fb8ff', '#ffd27f', '#a5e3a0', '#ffaaa5', '#d3b8ff', '#9fe6e6', '#ffc2ea', '#d8d8a0', '#c4cdd6', '#f0b48c'];

// Everything from the file goes in as text, never as markup.
function add(parent, tag, text, cls) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  parent.append(e);
  return e;
}

function human(n) {
  if (n === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + ' ' + units[i];
}

function fact(k, v) {
  add($('facts'), 'dt', k);
  add($('facts'), 'dd', v);
}

function bar(id, legend, parts) {
  const total = parts.reduce((s, p) => s + p.bytes, 0);
  parts.forEach((p, i) => {
    if (!p.bytes) return;
    const colour = p.colour || colours[i % colours.length];
    const s = add($(id), 'span');
    s.style.width = 100 * p.bytes / total + '%';
    s.style.background = colour;
    s.title = p.name;
    const l = add($(legend), 'span');
    add(l, 'i').style.background = colour;
    l.append(`${p.name}: ${human(p.bytes)} (${(100 * p.bytes / total).toFixed(1)}%)${p.more || ''}`);
  });
}

const info = data.info;
$('title').textContent = info.file;
fact('format', info.format + (info.version ? ' ' + info.version : ''));
fact('size', `${human(info.size)} (${info.size.toLocaleString('en')} bytes)`);
fact('tensors', info.tensors.toLocaleString('en'));
fact('parameters', info.parameters.toLocaleString('en'));
for (const [k, v] of Object.entries(info.attributes)) fact(k, typeof v === 'string' ? v : JSON.stringify(v));

const u = data.usage;
bar('kinds', 'kindlegend', ['tensors', 'blobs', 'metadata', 'padding', 'holes'].map(k => ({name: k, bytes: u[k]})));
const dtypes = Object.keys(info.dtypes);
const colourOf = d => colours[Math.max(dtypes.indexOf(d), 0) % colours.length];
bar('dtypes', 'dtypelegend', dtypes.map(d => ({
  name: d, bytes: info.dtypes[d].bytes, colour: colourOf(d), more: `, ${info.dtypes[d].tensors} tensors`,
})));

// The treemap: names are a tree, cut at dots and slashes.
const root = {name: '', children: new Map(), bytes: 0};
function plant(name, bytes, dtype) {
  let at = root;
  root.bytes += bytes;
  for (const part of name.split(/(?<=[./])/)) {
    let next = at.children.get(part);
    if (!next) at.children.set(part, next = {name: at.name + part, label: part, children: new Map(), bytes: 0, dtype});
    next.bytes += bytes;
    at = next;
  }
}
for (const t of data.tensors) plant(t.name, t.stored || t.bytes || 0, t.dtype);
for (const b of data.blobs) plant(b.name, b.bytes || 0, 'blob');

// Squarified: a row takes nodes as long as its worst ratio of sides gets better.
function squarify(nodes, x, y, w, h, place) {
  nodes = nodes.slice();
  let total = nodes.reduce((s, n) => s + n.bytes, 0);
  while (nodes.length) {
    const side = Math.min(w, h), scale = w * h / total;
    let row = [], sum = 0, worst = Infinity;
    while (nodes.length) {
      const n = nodes[0].bytes, s = sum + n, length = s * scale / side;
      const ratio = Math.max(...[...row, nodes[0]].map(r => {
        const b = r.bytes * scale / length;
        return Math.max(length / b, b / length);
      }));
      if (ratio > worst) break;
      row.push(nodes.shift());
      sum = s;
      worst = ratio;
    }
    const length = sum * scale / side;
    let at = 0;
    for (const n of row) {
      const b = n.bytes * scale / length;
      if (w >= h) place(n, x, y + at, length, b); else place(n, x + at, y, b, length);
      at += b;
    }
    if (w >= h) { x += length; w -= length; } else { y += length; h -= length; }
    total -= sum;
  }
}

function show(node) {
  while (node.children.size === 1 && [...node.children.values()][0].children.size) node = [...node.children.values()][0];
  const map = $('map');
  map.replaceChildren();
  $('path').replaceChildren();
  const home = add($('path'), 'button', 'all');
  home.onclick = () => show(root);
  $('path').append(` ${node.name} ${human(node.bytes)}`);
  const most = 400;
  let nodes = [...node.children.values()].filter(n => n.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  if (nodes.length > most) {
    const rest = nodes.slice(most);
    nodes = nodes.slice(0, most);
    nodes.push({label: `${rest.length} more`, name: `${rest.length} more`, children: new Map(), bytes: rest.reduce((s, n) => s + n.bytes, 0)});
  }
  squarify(nodes, 0, 0, 100, 100, (n, x, y, w, h) => {
    const e = add(map, 'button', n.label);
    Object.assign(e.style, {left: x + '%', top: y + '%', width: w + '%', height: h + '%', background: n.children.size ? '#c4cdd6' : colourOf(n.dtype)});
    e.title = `${n.name} ${human(n.bytes)}`;
    if (n.children.size) {
      e.classList.add('open');
      e.onclick = () => show(n);
    }
  });
}
show(root);

// Findings.
const findings = data.findings;
if (!data.verified) add($('findings'), 'p', 'The file was not verified.');
else if (!findings.length) add($('findings'), 'p', 'None: the file is sound.');
else {
  const t = add($('findings'), 'table');
  for (const f of findings) {
    const r = add(t, 'tr');
    add(r, 'td', f.class, f.severity);
    add(r, 'td', f.offset === undefined ? '' : f.offset, 'n');
    add(r, 'td', f.message);
  }
}

// The table, which the address can sort and filter: #sort=bytes&filter=weight.
const columns = [['name', 'Name'], ['dtype', 'Type'], ['shape', 'Shape'], ['bytes', 'Bytes', 1], ['offset', 'Offset', 1], ['encoding', 'Encoding']];
const rows = data.tensors.concat(data.blobs.map(b => ({...b, dtype: 'blob'}))).map(r => ({
  ...r, shape: r.shape ? '[' + r.shape.join(', ') + ']' : '',
  encoding: r.external ? 'external' : r.scheme && r.scheme !== 'dense' ? r.scheme : r.encoding || '',
}));
const state = new URLSearchParams(location.hash.slice(1));
$('filter').value = state.get('filter') || '';

function table() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const key = (state.get('sort') || '').replace(/^-/, ''), sign = (state.get('sort') || '').startsWith('-') ? -1 : 1;
  let list = rows.filter(r => words.every(w => `${r.name} ${r.dtype} ${r.shape}`.toLowerCase().includes(w)));
  if (columns.some(c => c[0] === key)) {
    const number = columns.find(c => c[0] === key)[2];
    list = list.slice().sort((a, b) => sign * (number ? (a[key] ?? -1) - (b[key] ?? -1) : String(a[key] ?? '').localeCompare(String(b[key] ?? ''), 'en', {numeric: true})));
  }
  const most = 1000;
  $('shown').textContent = `${list.length} of ${rows.length}` + (list.length > most ? `, the first ${most} shown` : '');
  const head = $('table').tHead, body = $('table').tBodies[0];
  head.replaceChildren();
  body.replaceChildren();
  const tr = add(head, 'tr');
  for (const [k, title, number] of columns) {
    const mark = key === k ? (sign > 0 ? ' ▲' : ' ▼') : '';
    const b = add(add(tr, 'th', undefined, number ? 'n' : ''), 'button', title + mark);
    b.onclick = () => {
      state.set('sort', state.get('sort') === k ? '-' + k : k);
      history.replaceState(null, '', '#' + state);
      table();
    };
  }
  for (const r of list.slice(0, most)) {
    const tr = add(body, 'tr');
    for (const [k, , number] of columns) add(tr, 'td', k === 'bytes' && r.bytes !== undefined ? r.bytes.toLocaleString('en') : r[k] ?? '', number ? 'n' : '');
  }
}
$('filter').oninput = () => {
  state.set('filter', $('filter').value);
  history.replaceState(null, '', '#' + state);
  table();
};
table();
$('json').textContent = JSON.stringify(info, null, 2);
document.documentElement.dataset.ready = 'yes';
