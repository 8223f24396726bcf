// The use of storage: bars, and a treemap of the names of tensors.
import { add, addName, colours, find, human, section } from './dom.js';

function bar(parent, label, parts) {
  parts = parts.filter(p => p.bytes > 0);
  const total = parts.reduce((s, p) => s + p.bytes, 0);
  if (!total) return;
  add(parent, 'h3', label);
  const b = add(parent, 'div', undefined, {class: 'bar', 'aria-hidden': true});
  const legend = add(parent, 'ul', undefined, {class: 'legend'});
  parts.forEach((p, i) => {
    const colour = p.colour || colours[i % colours.length];
    const piece = add(b, 'span');
    piece.style.width = 100 * p.bytes / total + '%';
    piece.style.background = colour;
    const l = add(legend, 'li');
    add(l, 'i').style.background = colour;
    add(l, 'span', `${p.name}: ${human(p.bytes)} (${(100 * p.bytes / total).toFixed(1)}%)`);
  });
}

// treeOf splits names at dots and slashes, and names without these at underscores, colons and hyphens. A name that is the prefix of
// another name is also a leaf.
function treeOf(rows) {
  const root = {name: '', label: '', children: new Map(), bytes: 0};
  for (const r of rows) {
    const bytes = Math.max(r.stored, 0) || Math.max(r.bytes, 0);
    root.bytes += bytes;
    let at = root;
    const parts = r.name.split(/[./]/.test(r.name) ? /(?<=[./])(?=.)/ : /(?<=[_:-])(?=[^_:-])/), leaf = parts.pop();
    for (const part of parts) {
      let next = at.children.get(part);
      if (!next) at.children.set(part, next = {name: at.name + part, up: at, children: new Map(), bytes: 0});
      next.bytes += bytes;
      at = next;
    }
    at.children.set(r, {name: at.name + leaf, up: at, children: new Map(), bytes, row: r});
  }
  return root;
}

// strips places nodes in a square of 100 by 100, in their order. A strip from left to right takes nodes as long as the mean aspect ratio
// improves.
function strips(nodes, place) {
  const scale = 100 * 100 / nodes.reduce((s, n) => s + n.bytes, 0);
  for (let first = 0, y = 0, last; first < nodes.length; first = last) {
    let height = 0, best = Infinity;
    for (last = first; last < nodes.length; last++) {
      const h = height + nodes[last].bytes * scale / 100;
      const ratios = nodes.slice(first, last + 1).map(n => n.bytes * scale / h / h).map(r => Math.max(r, 1 / r));
      const mean = ratios.reduce((s, r) => s + r, 0) / ratios.length;
      if (mean > best) break;
      best = mean;
      height = h;
    }
    let x = 0;
    for (const n of nodes.slice(first, last)) {
      const w = n.bytes * scale / height;
      place(n, x, y, w, height);
      x += w;
    }
    y += height;
  }
}

// maxTiles is the largest number of tiles; other nodes share one tile.
const maxTiles = 300;

// level returns the nodes that a map shows for a node: its children. A child that has nearly all the space is replaced by its own
// children, until there are several.
function level(node) {
  const largest = n => [...n.children.values()].filter(c => c.bytes > 0);
  const nodes = largest(node);
  for (;;) {
    nodes.sort((a, b) => b.bytes - a.bytes);
    const i = nodes.findIndex(n => n.children.size);
    if (i < 0 || nodes.length + nodes[i].children.size > 8 && nodes[i].bytes < .6 * node.bytes) return nodes;
    const inner = largest(nodes[i]);
    if (nodes.length + inner.length > maxTiles) return nodes;
    nodes.splice(i, 1, ...inner);
  }
}

const {compare} = new Intl.Collator('en', {numeric: true});
const natural = (a, b) => compare(a.name, b.name);

// group is the colour of a tile that can be opened.
const group = '#dde3ea';

export function showUsage(facts, rows, openRow) {
  const s = section('Storage');
  const u = facts.usage, info = facts.info;
  bar(s, facts.info.shards?.length ? 'Bytes of all files by use' : 'Bytes of the file by use', ['tensors', 'blobs', 'metadata', 'padding', 'unused'].map(k => ({name: k, bytes: u[k]})));
  const dtypes = [...Object.keys(info.dtypes), 'blob'];
  const colourOf = d => colours[Math.max(dtypes.indexOf(d), 0) % colours.length];
  bar(s, 'Bytes of tensors by dtype', Object.keys(info.dtypes).map(d => ({name: d, bytes: info.dtypes[d].bytes, colour: colourOf(d)})).sort((a, b) => b.bytes - a.bytes));
  const root = treeOf(rows);
  if (!root.bytes) return;
  add(s, 'h3', 'Bytes of tensors by name');
  const path = add(s, 'div', undefined, {class: 'row'});
  const up = add(path, 'button', 'Up');
  const where = add(path, 'span', '', {'aria-live': 'polite'});
  const map = add(s, 'div', undefined, {class: 'map', role: 'group', 'aria-label': 'Tensors by size; arrow keys move, Enter opens'});
  const legend = add(s, 'ul', undefined, {class: 'legend'});
  const label = n => n.row ? n.name : n.name.replace(/[./_:-]$/, '');
  const only = n => n.children.size === 1 ? [...n.children.values()][0] : undefined;
  const show = (node, focus) => {
    map.replaceChildren();
    where.textContent = '';
    add(where, 'span', `${label(node) || 'all'}: ${human(node.bytes)}`);
    let above = node.up;
    while (above?.up && only(above)) above = above.up;
    up.disabled = !above;
    up.onclick = () => { show(above); if (up.disabled) map.firstChild?.focus(); };
    let nodes = level(node).sort((a, b) => b.bytes - a.bytes);
    if (nodes.length > maxTiles) {
      const rest = nodes.slice(maxTiles);
      nodes = nodes.slice(0, maxTiles).sort(natural);
      nodes.push({name: `${rest.length} more`, children: new Map(), bytes: rest.reduce((t, n) => t + n.bytes, 0)});
    } else nodes.sort(natural);
    const used = new Map(); // colours, by what they stand for
    strips(nodes, (n, x, y, w, h) => {
      let inner = n;
      while (only(inner)) inner = only(inner);
      const text = n.up ? label(inner).slice(node.name.length) : n.name;
      const isGroup = inner.children.size > 0 || !inner.row;
      const colour = isGroup ? group : colourOf(inner.row.dtype);
      used.set(isGroup ? 'group of tensors' : inner.row.dtype, colour);
      const tile = addName(map, 'button', `${text || '(no name)'}: ${human(n.bytes)}`, {
        tabindex: map.children.length ? -1 : 0, title: `${label(inner)}: ${human(n.bytes)}`,
        click: () => { if (inner.children.size) show(inner, true); else if (inner.row) openRow(inner.row); },
      });
      Object.assign(tile.style, {left: x + '%', top: y + '%', width: w + '%', height: h + '%', background: colour});
    });
    legend.replaceChildren();
    for (const [name, colour] of used) {
      const l = add(legend, 'li');
      add(l, 'i').style.background = colour;
      add(l, 'span', name);
    }
    if (focus) map.firstChild?.focus();
  };
  map.addEventListener('keydown', e => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    const tiles = [...map.children];
    const to = tiles[tiles.indexOf(document.activeElement) + step];
    if (e.key === 'Backspace' && !up.disabled) up.click();
    if (!to) return;
    e.preventDefault();
    document.activeElement.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
  let start = root;
  while (only(start)?.children.size) start = only(start);
  show(start);
}
