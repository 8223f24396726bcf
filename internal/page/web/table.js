// The table of tensors and blobs: filter, sort, fold.
import { add, human, section } from './dom.js';

const columns = [
  {key: 'name', title: 'Name'}, {key: 'dtype', title: 'Dtype'}, {key: 'shape', title: 'Shape'},
  {key: 'bytes', title: 'Size', number: true}, {key: 'offset', title: 'Offset', number: true}, {key: 'how', title: 'Stored as'},
];

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
  return [...groups.values()].map(g => g.times > 1 ? {...g, name: `${g.pattern} (${g.times} times)`, folded: true,
    shard: g.shards.size > 1 ? `in ${g.shards.size} files` : g.shard} : g);
}

// page is how many rows come at once: more when the end of the table comes into view.
const page = 300;

// whole has each quantised weight in the place of its parts.
function whole(rows, weights) {
  const at = new Map(weights.flatMap(w => w.of.map((index, i) => [index, i ? null : w])));
  return rows.map(r => at.has(r.index) ? at.get(r.index) : r).filter(Boolean);
}

export function showTable(stored, weights, openRow) {
  const s = section('Tensors');
  let rows = whole(stored, weights);
  for (const r of [...stored, ...weights]) {
    r.text = r.shape ? '[' + r.shape.join(', ') + ']' + (r.order ? ` order [${r.order.join(', ')}]` : '') : '';
    r.how = r.external ? 'external' : r.scheme || r.encoding || '';
  }
  const row = add(s, 'div', undefined, {class: 'row'});
  const label = add(row, 'label', 'Filter ');
  const filter = add(label, 'input', undefined, {type: 'search', placeholder: 'name, dtype or shape', id: 'filter'});
  const folding = add(row, 'label');
  const folded = add(folding, 'input', undefined, {type: 'checkbox', id: 'fold'});
  add(folding, 'span', 'Join names that differ in numbers only');
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
  const t = add(region, 'table', undefined, {class: 'wide', id: 'table'});
  const head = add(add(t, 'thead'), 'tr');
  const body = add(t, 'tbody');
  const end = add(region, 'div');
  let sort = '', sign = 1, list = [], drawn = 0;
  const heads = columns.map(c => {
    const th = add(head, 'th', undefined, {scope: 'col', class: c.number ? 'number' : undefined});
    const mark = add(th, 'button', c.title, {click: () => {
      sign = sort === c.key ? -sign : c.number ? -1 : 1;
      sort = c.key;
      draw();
    }});
    return {c, th, mark};
  });
  const more = () => {
    const piece = document.createDocumentFragment();
    for (const r of list.slice(drawn, drawn + page)) {
      const tr = add(piece, 'tr');
      const name = add(tr, 'td', undefined, {class: 'name'});
      if (r.folded || r.index < 0) add(name, 'span', r.name);
      else add(name, 'button', r.name || '(no name)', {click: () => openRow(r)});
      add(tr, 'td', r.dtype ?? '');
      add(tr, 'td', r.text);
      add(tr, 'td', human(r.bytes), {class: 'number', title: r.bytes >= 0 ? r.bytes.toLocaleString('en') + ' bytes' : undefined});
      add(tr, 'td', r.offset >= 0 ? r.offset.toLocaleString('en') : '', {class: 'number'});
      add(tr, 'td', r.how + (r.shard ? ' ' + r.shard : ''));
    }
    body.append(piece);
    drawn = Math.min(drawn + page, list.length);
  };
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    list = rows.filter(r => words.every(w => `${r.name} ${r.dtype} ${r.text} ${r.how}`.toLowerCase().includes(w)));
    if (folded.checked) list = fold(list);
    const column = columns.find(c => c.key === sort);
    if (column) {
      const compare = new Intl.Collator('en', {numeric: true}).compare;
      const text = r => sort === 'shape' ? r.text : r[sort] ?? '';
      list = list.slice().sort((a, b) => sign * (column.number ? a[sort] - b[sort] : compare(text(a), text(b))));
    }
    shown.textContent = `${list.length.toLocaleString('en')} of ${rows.length.toLocaleString('en')}`;
    for (const {c, th, mark} of heads) {
      th.setAttribute('aria-sort', c.key !== sort ? 'none' : sign > 0 ? 'ascending' : 'descending');
      mark.textContent = c.title + (c.key !== sort ? '' : sign > 0 ? ' ▲' : ' ▼');
    }
    t.setAttribute('aria-rowcount', list.length + 1);
    body.replaceChildren();
    drawn = 0;
    more();
  };
  new IntersectionObserver(seen => {
    if (seen.some(e => e.isIntersecting) && drawn < list.length) more();
  }, {root: region, rootMargin: '600px'}).observe(end);
  region.addEventListener('scroll', () => {
    if (drawn < list.length && region.scrollTop + region.clientHeight > region.scrollHeight - 600) more();
  });
  window.addEventListener('beforeprint', () => { while (drawn < list.length) more(); });
  filter.addEventListener('input', draw);
  folded.addEventListener('change', draw);
  draw();
}
