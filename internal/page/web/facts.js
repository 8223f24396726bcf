// Facts and attributes of a file, and what verify finds.
import { add, count, human, list, run, section, table } from './dom.js';

export function showFacts(facts) {
  const info = facts.info;
  const s = section('Facts');
  list(s, [
    ['format', `${facts.title}${info.version ? ' ' + info.version : ''}`],
    ['size', `${human(info.size)} (${count(info.size, 'byte')})`],
    ['tensors', info.tensors.toLocaleString('en')],
    ['parameters', info.parameters.toLocaleString('en') +
      (info.stored_elements === info.parameters ? '' : ` (${info.stored_elements.toLocaleString('en')} elements stored)`)],
    ['decoded', human(info.bytes)],
    ...(info.totals.blobs ? [['blobs', `${info.totals.blobs.toLocaleString('en')}, ${human(info.totals.blob_bytes)}`]] : []),
  ]);
  const dtypes = Object.entries(info.dtypes).sort((a, b) => b[1].bytes - a[1].bytes);
  if (dtypes.length) {
    add(s, 'h3', 'Dtypes');
    table(s, 'Dtypes', [{title: 'dtype'}, {title: 'tensors', number: true}, {title: 'elements', number: true}, {title: 'size', number: true}],
      dtypes.map(([name, t]) => [name, t.tensors.toLocaleString('en'), t.parameters.toLocaleString('en'), human(t.bytes)]));
  }
  if (info.schemes?.length) {
    add(s, 'h3', 'Quantised weights');
    table(s, 'Quantised weights', [{title: 'scheme'}, {title: 'weights', number: true}, {title: 'parameters', number: true}, {title: 'block'}, {title: 'scales each', number: true}],
      info.schemes.map(x => [x.scheme, x.weights.toLocaleString('en'), x.parameters.toLocaleString('en'), x.block?.join(' × ') ?? '', x.scales]));
  }
  if (info.shards?.length) {
    add(s, 'h3', 'Shards');
    table(s, 'Shards', [{title: 'file'}, {title: 'tensors', number: true}, {title: 'size', number: true}],
      info.shards.map(x => [x.name, x.tensors.toLocaleString('en'), human(x.bytes)]));
  }
  if (facts.attributes.length) {
    add(s, 'h3', 'Attributes');
    table(s, 'Attributes', [{title: 'key'}, {title: 'value'}], facts.attributes);
  }
  for (const w of info.warnings) add(s, 'p', 'warning: ' + w, {class: 'warning'});
  const d = add(s, 'details');
  add(d, 'summary', 'All facts as JSON');
  d.addEventListener('toggle', () => add(d, 'pre', undefined, {tabindex: 0}).append(JSON.stringify(info, null, 2)), {once: true});
}

// small is up to which size a file is verified without being asked to.
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
      table(out, 'Findings', [{title: 'severity'}, {title: 'class'}, {title: 'offset', number: true}, {title: 'what'}], rows);
    }
  });
  if (facts.info.size <= small || !backend.reads) verify();
  else add(out, 'button', `Verify, which reads ${human(facts.info.size)}`, {click: verify});
}
