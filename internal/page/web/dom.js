// Functions that all modules use. Text from files is added to the page as text, never as markup.
export const colours = ['#8fb8ff', '#ffd27f', '#a5e3a0', '#ffaaa5', '#d3b8ff', '#9fe6e6', '#ffc2ea', '#d8d8a0', '#b9c98f', '#f0b48c'];

export const find = id => document.getElementById(id);

// visible replaces characters that are invisible or change the direction of text with \u{…}.
export function visible(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, c => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// add appends an element. Attributes that are functions listen to events.
export function add(parent, tag, text, attributes = {}) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = visible(text);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? '' : value);
  }
  parent.append(e);
  return e;
}

// addName appends an element with a name, in which lines may break after dots and slashes.
export function addName(parent, tag, name, attributes) {
  const e = add(parent, tag, undefined, attributes);
  visible(name).split(/(?<=[./])/).forEach((part, i) => e.append(...i ? [document.createElement('wbr'), part] : [part]));
  return e;
}

// addSVG is add for the elements of a picture.
export function addSVG(parent, tag, attributes = {}, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = visible(text);
  parent.append(e);
  return e;
}

export function human(n) {
  if (n === undefined || n < 0) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + ' ' + units[i];
}

export const count = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;

// round returns a number with four digits. It also takes {$float: 'nan'} for numbers that JSON lacks, and [real, imaginary].
export function round(v) {
  if (v === undefined || v === null) return '';
  if (typeof v === 'number') return Number.isSafeInteger(v) ? v.toLocaleString('en') : String(Number(v.toPrecision(4)));
  if (typeof v !== 'object') return String(v);
  if ('$float' in v) return {nan: 'NaN', inf: 'Inf', '-inf': '-Inf'}[v.$float] ?? v.$float;
  if (Array.isArray(v)) return `[${v.map(round).join(', ')}]`;
  return JSON.stringify(v);
}

// section appends a section with a heading, and a button in the navigation that goes there. remove() of the section removes both.
export function section(title) {
  const id = 'section-' + title.toLowerCase().replace(/\W+/g, '-');
  const s = add(find('main'), 'section', undefined, {'aria-labelledby': id});
  const h = add(s, 'h2', title, {id, tabindex: -1});
  const button = add(find('sections'), 'button', title, {click: () => { h.scrollIntoView(); h.focus(); }});
  s.drop = () => { s.remove(); button.remove(); };
  return s;
}

export function list(parent, pairs) {
  const dl = add(parent, 'dl');
  for (const [key, value] of pairs) {
    add(dl, 'dt', key);
    add(dl, 'dd', value);
  }
  return dl;
}

// piece is how many rows are added to a table at once.
const piece = 100;

// grow returns a function that shows rows in a table, by calling draw with a parent and a row: the first ones, and more when the end of
// the region comes into view.
export function grow(region, body, draw) {
  const end = add(region, 'div');
  let list = [], drawn = 0;
  const more = () => {
    const part = document.createDocumentFragment();
    for (const r of list.slice(drawn, drawn + piece)) draw(part, r);
    body.append(part);
    drawn = Math.min(drawn + piece, list.length);
  };
  new IntersectionObserver(seen => {
    if (seen.some(e => e.isIntersecting) && drawn < list.length) more();
  }, {root: region, rootMargin: '600px'}).observe(end);
  region.addEventListener('scroll', () => {
    if (drawn < list.length && region.scrollTop + region.clientHeight > region.scrollHeight - 600) more();
  });
  window.addEventListener('beforeprint', () => { while (drawn < list.length) more(); });
  return rows => {
    list = rows;
    drawn = 0;
    body.replaceChildren();
    more();
  };
}

// table appends a table in a region that scrolls. Columns are {title, number, name}; cells are text, or functions that fill them.
export function table(parent, label, columns, rows, className) {
  const region = add(parent, 'div', undefined, {class: 'scroll', role: 'region', 'aria-label': label, tabindex: 0});
  const t = add(region, 'table', undefined, {class: className});
  const head = add(add(t, 'thead'), 'tr');
  for (const c of columns) add(head, 'th', c.title, {scope: 'col', class: c.number ? 'number' : undefined});
  const body = add(t, 'tbody');
  const draw = (parent, r) => {
    const tr = add(parent, 'tr');
    columns.forEach((c, i) => {
      const isFunction = typeof r[i] === 'function';
      const td = (c.name && !isFunction ? addName : add)(tr, 'td', isFunction ? '' : r[i] ?? '', {class: c.number ? 'number' : c.name ? 'name' : undefined});
      if (isFunction) r[i](td);
    });
  };
  if (rows.length > piece) grow(region, body, draw)(rows);
  else rows.forEach(r => draw(body, r));
  return t;
}

// titled appends a table below a heading, if it has rows.
export function titled(parent, tag, title, columns, rows, label = title) {
  if (!rows.length) return;
  add(parent, tag, title);
  table(parent, label, columns, rows);
}

// run calls a method with a bar of progress and a button that cancels, then shows the result.
// Focus that was in what it replaces stays there. signal cancels as well.
export async function run(parent, backend, method, params, show, signal) {
  const held = parent.contains(document.activeElement);
  parent.replaceChildren();
  const control = new AbortController();
  signal?.addEventListener('abort', () => control.abort());
  const row = add(parent, 'div', undefined, {class: 'row'});
  const bar = add(row, 'progress', undefined, {'aria-label': 'Progress', max: 1});
  const cancel = add(row, 'button', 'Cancel', {click: () => control.abort()});
  if (held) cancel.focus();
  const clear = () => {
    const keep = cancel === document.activeElement;
    parent.replaceChildren();
    if (!keep) return;
    parent.tabIndex = -1;
    parent.focus();
  };
  try {
    const result = await backend.call(method, params, {
      signal: control.signal, progress: (done, total) => { bar.value = done / total; },
    });
    clear();
    show(result);
  } catch (e) {
    clear();
    if (e.name === 'AbortError') add(parent, 'p', 'Cancelled.', {role: 'status'});
    else add(parent, 'p', e.message, {class: 'error', role: 'alert'});
  }
}
