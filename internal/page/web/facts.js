// Facts and attributes of a file, and what verify finds.
import { add, count, human, list, run, section, table, titled } from './dom.js';

export function showFacts(facts) {
  const info = facts.info;
  const s = section('Overview');
  list(s, [
    ...(facts.path ? [['path', facts.path]] : []),
    ['format', `${facts.title}${info.version ? ' ' + info.version : ''}`],
    ['size', `${human(info.size)} (${count(info.size, 'byte')})`],
    ['tensors', info.tensors.toLocaleString('en')],
    ['parameters', millions(info.parameters) +
      (info.stored_elements === info.parameters ? '' : ` (${info.stored_elements.toLocaleString('en')} elements stored)`)],
    ['tensor data', human(info.bytes)],
    ...(info.totals.blobs ? [['blobs', `${info.totals.blobs.toLocaleString('en')}, ${human(info.totals.blob_bytes)}`]] : []),
  ]);
  const dtypes = Object.entries(info.dtypes).sort((a, b) => b[1].bytes - a[1].bytes);
  titled(s, 'h3', 'Dtypes', [{title: 'Dtype'}, {title: 'Tensors', number: true}, {title: 'Elements', number: true}, {title: 'Size', number: true}],
    dtypes.map(([name, t]) => [name, t.tensors.toLocaleString('en'), t.parameters.toLocaleString('en'), human(t.bytes)]));
  titled(s, 'h3', 'Quantised weights', [{title: 'Scheme'}, {title: 'Weights', number: true}, {title: 'Parameters', number: true}, {title: 'Block'},
    {title: 'Scales per weight', number: true}],
  (info.schemes ?? []).map(x => [x.scheme, x.weights.toLocaleString('en'), x.parameters.toLocaleString('en'), x.block?.join(' × ') ?? '', x.scales]));
  titled(s, 'h3', 'Shards', [{title: 'File', name: true}, {title: 'Tensors', number: true}, {title: 'Size', number: true}],
    (info.shards ?? []).map(x => [x.name, x.tensors.toLocaleString('en'), human(x.bytes)]));
  titled(s, 'h3', 'Attributes', [{title: 'Key', name: true}, {title: 'Value'}],
    facts.attributes.map(([key, value]) => [key, value.length > 200 ? td => folded(td, value) : value]));
  for (const w of info.warnings) add(s, 'p', 'warning: ' + w, {class: 'warning'});
  const d = add(s, 'details');
  add(d, 'summary', 'All as JSON');
  d.addEventListener('toggle', () => add(d, 'pre', undefined, {tabindex: 0}).append(JSON.stringify(info, null, 2)), {once: true});
}

// millions returns a number in the form 30.7M (30,745,088).
function millions(n) {
  const all = n.toLocaleString('en'), i = Math.min(Math.floor((String(n).length - 1) / 3), 4);
  return i < 2 ? all : `${(n / 1000 ** i).toFixed(1)}${' KMBT'[i]} (${all})`;
}

// folded shows the beginning of a long text, and all of it when it is opened.
function folded(parent, text) {
  const d = add(parent, 'details');
  add(d, 'summary', [...text].slice(0, 80).join('') + '…');
  add(d, 'span', text);
}

// small is the largest size in bytes of a file that is verified at once, without a click.
const small = 16 << 20;

export function showFindings(backend, facts) {
  const s = section('Findings');
  if (!backend.can('verify')) {
    add(s, 'p', 'The file was not verified.');
    return;
  }
  const out = add(s, 'div', undefined, {'aria-live': 'polite', id: 'findings'});
  const verify = () => run(out, backend, 'verify', {}, found => {
    const rows = found.findings.map(f => [f.severity, f.class, f.offset ?? '', f.error ?? f.message])
      .concat(found.model.map(f => [f.severity, f.code, f.offset ?? '', [f.file, f.tensor, f.error ?? f.message].filter(Boolean).join(': ')]));
    const errors = rows.filter(r => r[0] === 'error').length;
    if (!rows.length) add(out, 'p', 'No findings.');
    else {
      add(out, 'p', `${count(errors, 'error')}, ${count(rows.length - errors, 'warning')}.`, {class: errors ? 'error' : 'warning'});
      table(out, 'Findings', [{title: 'Severity'}, {title: 'Class'}, {title: 'Offset', number: true}, {title: 'Finding'}], rows);
    }
  });
  if (facts.info.size <= small || !backend.reads) verify();
  else add(out, 'button', `Verify (${human(facts.info.size)})`, {click: verify});
}
