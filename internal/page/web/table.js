// The table of tensors and blobs: filter, sort, fold.
import { add, addName, grow, human, section } from './dom.js';

const columns = [
  {key: 'name', title: 'Name'}, {key: 'dtype', title: 'Dtype'}, {key: 'text', title: 'Shape'}, {key: 'bytes', title: 'Size', number: true},
  {key: 'offset', title: 'Offset', number: true}, {key: 'how', title: 'Layout'}, {key: 'shard', title: 'File'},
];

// describe adds to rows the texts that the table and the dialog show: the shape, and how a tensor is stored.
export function describe(rows, file) {
  for (const r of rows) {
    r.file = file;
    r.dtype ||= r.scheme;
    r.text = r.shape ? '[' + r.shape.join(', ') + ']' + (r.order ? ` order [${r.order.join(', ')}]` : '') : '';
    r.how = r.external ? 'external' : r.scheme !== r.dtype && r.scheme || r.encoding || '';
  }
  return rows;
}

// fold joins rows that differ only in the numbers in their names.
function fold(rows) {
  const groups = new Map();
  for (const r of rows) {
    const pattern = r.name.replace(/\d+/g, '*');
    const key = JSON.stringify([pattern, r.dtype, r.text, r.how]);
    const g = groups.get(key);
    if (!g) groups.set(key, {...r, pattern, times: 1, shards: new Set([r.shard])});
    else { g.times++; g.bytes += r.bytes; g.offset = -1; g.shards.add(r.shard); }
  }
  return [...groups.values()].map(g => g.times > 1 ? {...g, name: `${g.pattern} (${g.times} ×)`, folded: true,
    shard: g.shards.size > 1 ? `${g.shards.size} files` : g.shard} : g);
}

// globOf returns what a pattern of --filter matches, or null for one that is not finished: * and ? match anything, [a-z] and [^a-z]
// one character, and \ makes the next one ordinary.
function globOf(pattern) {
  const plain = c => c.replace(/[\^$\\.*+?()[\]{}|\/-]/, '\\$&');
  let text = '';
  for (const [part, set] of pattern.matchAll(/\[(\^?(?:\\.|[^\\\]])+)\]|\\.|./gsu)) {
    if (set) text += '[' + set.replace(/^\^|\\.|./gsu, (c, at) => c === '-' || c === '^' && !at ? c : plain(c.at(-1))) + ']';
    else if (part === '*') text += '.*';
    else if (part === '?') text += '.';
    else if (part === '[' || part === '\\') return null;
    else text += plain(part.length > 1 && part[0] === '\\' ? part.slice(1) : part);
  }
  try { return new RegExp(`^${text}$`, 'su'); } catch { return null; }
}

// filterOf returns what the words of a filter let through: a word that is a pattern by names, any other by what it is part of. One
// pattern must match, each other word, and nothing after a !.
export function filterOf(text) {
  const words = text.split(/\s+/).filter(w => w && w !== '!').map(word => {
    const isNot = word[0] === '!', rest = isNot ? word.slice(1) : word;
    const glob = /[*?[\\]/.test(rest) && globOf(rest), part = rest.toLowerCase();
    return {isNot, glob, test: r => glob ? glob.test(r.name) : `${r.name} ${r.dtype} ${r.text} ${r.how}`.toLowerCase().includes(part)};
  });
  const globs = words.filter(w => w.glob && !w.isNot), others = words.filter(w => !w.glob || w.isNot);
  return r => (!globs.length || globs.some(w => w.test(r))) && others.every(w => w.test(r) !== w.isNot);
}

// whole replaces the parts of each quantised weight with the weight.
function whole(rows, weights) {
  const at = new Map(weights.flatMap(w => w.of.map((index, i) => [index, i ? null : w])));
  return rows.map(r => at.has(r.index) ? at.get(r.index) : r).filter(Boolean);
}

export function showTable(stored, weights, openRow) {
  if (!stored.length) return;
  const s = section('Tensors');
  let rows = whole(stored, weights);
  const row = add(s, 'div', undefined, {class: 'row'});
  const label = add(row, 'label', 'Filter ');
  const filter = add(label, 'input', undefined, {type: 'search', placeholder: '*.mlp.* !*.bias', title: 'Patterns of names as of --filter, or parts of names, dtypes and shapes', id: 'filter'});
  const folding = add(row, 'label');
  const folded = add(folding, 'input', undefined, {type: 'checkbox', id: 'fold'});
  add(folding, 'span', 'Fold layers');
  if (weights.length) {
    const switching = add(row, 'label');
    const parts = add(switching, 'input', undefined, {type: 'checkbox', id: 'parts', change: () => {
      rows = parts.checked ? stored : whole(stored, weights);
      draw();
    }});
    add(switching, 'span', 'Parts of quantised weights');
  }
  const shown = add(row, 'span', '', {role: 'status', class: 'soft'});
  const region = add(s, 'div', undefined, {class: 'scroll', role: 'region', 'aria-label': 'Table of tensors', tabindex: 0});
  const t = add(region, 'table', undefined, {id: 'table'});
  const head = add(add(t, 'thead'), 'tr');
  const body = add(t, 'tbody');
  let sort = '', sign = 1;
  const used = columns.filter(c => !['how', 'shard'].includes(c.key) || [...stored, ...weights].some(r => r[c.key]));
  const heads = used.map(c => {
    const th = add(head, 'th', undefined, {scope: 'col', class: c.number ? `number ${c.key}` : c.key});
    const mark = add(th, 'button', c.title, {click: () => {
      sign = sort === c.key ? -sign : c.number ? -1 : 1;
      sort = c.key;
      draw();
    }});
    return {c, th, mark};
  });
  const cell = {
    name: (tr, r) => {
      const name = add(tr, 'td', undefined, {class: 'name'});
      if (r.folded || r.index < 0) addName(name, 'span', r.name);
      else addName(name, 'button', r.name || '(no name)', {click: () => openRow(r)});
    },
    bytes: (tr, r) => add(tr, 'td', human(r.bytes), {class: 'number bytes', title: r.bytes >= 0 ? r.bytes.toLocaleString('en') + ' bytes' : undefined}),
    offset: (tr, r) => add(tr, 'td', r.offset >= 0 ? r.offset.toLocaleString('en') : '', {class: 'number offset'}),
  };
  const show = grow(region, body, (parent, r) => {
    const tr = add(parent, 'tr');
    for (const c of used) cell[c.key] ? cell[c.key](tr, r) : add(tr, 'td', r[c.key] ?? '', {class: c.key});
  });
  const draw = () => {
    let list = rows.filter(filterOf(filter.value));
    if (folded.checked) list = fold(list);
    const column = used.find(c => c.key === sort);
    if (column) {
      const compare = new Intl.Collator('en', {numeric: true}).compare;
      list = list.slice().sort((a, b) => sign * (column.number ? a[sort] - b[sort] : compare(a[sort] ?? '', b[sort] ?? '')));
    }
    shown.textContent = `${list.length.toLocaleString('en')} of ${rows.length.toLocaleString('en')}`;
    for (const {c, th, mark} of heads) {
      th.setAttribute('aria-sort', c.key !== sort ? 'none' : sign > 0 ? 'ascending' : 'descending');
      mark.textContent = c.title + (c.key !== sort ? '' : sign > 0 ? ' ▲' : ' ▼');
    }
    t.setAttribute('aria-rowcount', list.length + 1);
    show(list);
  };
  filter.addEventListener('input', draw);
  folded.addEventListener('change', draw);
  draw();
}
