// The use of space: bars, and a treemap of the names of tensors.
import { add, colours, find, human, section } from './dom.js';

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

// treeOf cuts names at dots and slashes. A name that another one continues is a leaf of its own.
function treeOf(rows) {
  const root = {name: '', label: '', children: new Map(), bytes: 0};
  for (const r of rows) {
    const bytes = Math.max(r.stored, 0) || Math.max(r.bytes, 0);
    root.bytes += bytes;
    let at = root;
    const parts = r.name.split(/(?<=[./])(?=.)/), leaf = parts.pop();
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

// squarify places nodes in a rectangle: a row takes nodes as long as its worst ratio of sides
// gets better.
function squarify(nodes, x, y, w, h, place) {
  let i = 0, total = nodes.reduce((s, n) => s + n.bytes, 0);
  while (i < nodes.length) {
    const side = Math.min(w, h), scale = w * h / total;
    const first = i;
    let sum = 0, worst = Infinity;
    for (; i < nodes.length; i++) {
      const s = sum + nodes[i].bytes, length = s * scale / side;
      const ratio = n => Math.max(length * length / (n.bytes * scale), n.bytes * scale / (length * length));
      const now = Math.max(ratio(nodes[first]), ratio(nodes[i]));
      if (now > worst) break;
      sum = s;
      worst = now;
    }
    const length = sum * scale / side;
    let at = 0;
    for (const n of nodes.slice(first, i)) {
      const b = n.bytes * scale / length;
      if (w >= h) place(n, x, y + at, length, b);
      else place(n, x + at, y, b, length);
      at += b;
    }
    if (w >= h) { x += length; w -= length; } else { y += length; h -= length; }
    total -= sum;
  }
}

// tiles are at most so many; the rest is one tile.
const maxTiles = 300;

// level is what a map shows of a node: its children, and below those that have nearly all of
// the space their children, until there are enough to say something.
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

export function showUsage(facts, rows, openRow) {
  const s = section('What takes up the space');
  const u = facts.usage, info = facts.info;
  bar(s, facts.info.shards?.length ? 'Bytes of all files' : 'Bytes of the file', ['tensors', 'blobs', 'metadata', 'padding', 'unused'].map(k => ({name: k, bytes: u[k]})));
  const dtypes = [...Object.keys(info.dtypes), 'blob'];
  const colourOf = d => colours[Math.max(dtypes.indexOf(d), 0) % colours.length];
  bar(s, 'Dtypes', Object.keys(info.dtypes).map(d => ({name: d, bytes: info.dtypes[d].bytes, colour: colourOf(d)})).sort((a, b) => b.bytes - a.bytes));
  const root = treeOf(rows);
  if (!root.bytes) return;
  add(s, 'h3', 'Tensors by name');
  const path = add(s, 'div', undefined, {class: 'row'});
  const up = add(path, 'button', 'One level up');
  const where = add(path, 'span', '', {'aria-live': 'polite'});
  const map = add(s, 'div', undefined, {class: 'map', role: 'group', 'aria-label': 'Tensors by size; arrow keys move, Enter opens'});
  const label = n => n.row ? n.name : n.name.replace(/[./]$/, '');
  const only = n => n.children.size === 1 ? [...n.children.values()][0] : undefined;
  const show = (node, focus) => {
    map.replaceChildren();
    where.textContent = '';
    add(where, 'span', `${label(node) || 'all'}: ${human(node.bytes)}`);
    let above = node.up;
    while (above?.up && only(above)) above = above.up;
    up.disabled = !above;
    up.onclick = () => { show(above); if (up.disabled) map.firstChild?.focus(); };
    let nodes = level(node);
    if (nodes.length > maxTiles) {
      const rest = nodes.slice(maxTiles);
      nodes = nodes.slice(0, maxTiles);
      nodes.push({name: `${rest.length} more`, children: new Map(), bytes: rest.reduce((t, n) => t + n.bytes, 0)});
    }
    squarify(nodes, 0, 0, 100, 100, (n, x, y, w, h) => {
      let inner = n;
      while (only(inner)) inner = only(inner);
      const text = n.up ? label(inner).slice(node.name.length) : n.name;
      const tile = add(map, 'button', `${text || '(no name)'}: ${human(n.bytes)}`, {
        tabindex: map.children.length ? -1 : 0, title: `${label(inner)}: ${human(n.bytes)}`,
        click: () => { if (inner.children.size) show(inner, true); else if (inner.row) openRow(inner.row); },
      });
      Object.assign(tile.style, {left: x + '%', top: y + '%', width: w + '%', height: h + '%', background: inner.children.size ? '#c4cdd6' : colourOf(inner.row?.dtype)});
    });
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
