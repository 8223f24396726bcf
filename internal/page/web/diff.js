// The differences between two files.
import { add, count, run, section, table } from './dom.js';

// text shows a value: numbers that JSON lacks are {$float: 'nan'}, complex ones [real, imaginary].
function text(v) {
  if (v === undefined || v === null) return '';
  if (typeof v !== 'object') return String(v);
  if ('$float' in v) return v.$float;
  if (Array.isArray(v)) return `[${v.map(text).join(', ')}]`;
  return JSON.stringify(v);
}

export function showDiff(backend, names) {
  const s = section('Difference');
  const out = add(s, 'div', undefined, {'aria-live': 'polite'});
  const compare = () => run(out, backend, 'diff', {}, d => {
    add(out, 'p', d.equal ? `Equal: ${count(d.tensors, 'tensor')}, ${count(d.blobs, 'blob')}.` : `${count(d.differences.length, 'difference')} in ${count(d.tensors, 'tensor')} and ${count(d.blobs, 'blob')}.`);
    if (d.equal) return;
    table(out, 'Differences', [{title: 'kind'}, {title: 'name'}, {title: 'what'}, {title: 'a'}, {title: 'b'}, {title: 'elements', number: true}, {title: 'largest', number: true}, {title: 'relative RMS', number: true}],
      d.differences.map(x => [x.kind, x.name, x.error ?? x.change.replace('_', ' '), text(x.a), text(x.b),
        x.different === undefined ? '' : `${x.different.toLocaleString('en')} of ${x.of.toLocaleString('en')}`, text(x.largest), text(x.relative_rms)]));
  });
  if (names.length > 1) add(out, 'button', `Compare ${names[0]} (a) with ${names[names.length - 1]} (b)`, {click: compare});
  if (!backend.open) return;
  const label = add(add(s, 'p'), 'label', 'Compare with ');
  const input = add(label, 'input', undefined, {type: 'file', multiple: true, id: 'another', change: async () => {
    if (!input.files.length) return;
    try {
      await backend.open(input.files, true);
      compare();
    } catch (e) {
      out.replaceChildren();
      add(out, 'p', e.message, {class: 'error', role: 'alert'});
    }
  }});
}
