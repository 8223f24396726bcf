// The differences between two files.
import { add, addName, count, round, run, section, table, visible } from './dom.js';

// showDiff compares the first and the last file. If there is only one, the user chooses files to compare with. openName opens the tensor
// of a name, from the last file if the first does not have it.
export function showDiff(backend, names, openName) {
  const s = section('Difference');
  const out = add(s, 'div', undefined, {'aria-live': 'polite'});
  const compare = () => run(out, backend, 'diff', {}, d => {
    if (d.equal) add(out, 'p', `Equal: ${count(d.tensors, 'tensor')}, ${count(d.blobs, 'blob')}.`);
    else showDifferences(out, d, openName);
  });
  if (names.length > 1) {
    add(s, 'p', `a: ${names[0]}, b: ${names[names.length - 1]}`, {class: 'soft'});
    s.append(out);
    compare();
  }
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

function showDifferences(out, d, openName) {
  add(out, 'p', `${d.summary[0].toUpperCase()}${d.summary.slice(1)}.`);
  const side = v => td => {
    const text = round(v);
    td.textContent = visible(text.length > 200 ? text.slice(0, 200) + '…' : text);
    if (typeof v === 'number' || v?.$float) Object.assign(td, {className: 'number', title: v.$float ?? v});
  };
  const name = x => td => {
    if (x.kind === 'tensor') addName(td, 'button', x.name || '(no name)', {click: () => openName(x.name)});
    else addName(td, 'span', `${x.kind} ${x.name}`);
  };
  const change = x => x.error ?? {only_a: 'only in a', only_b: 'only in b'}[x.change] ?? x.change;
  const elements = x => x.different === undefined ? '' :
    `${round(x.different)} of ${round(x.of)}${x.not_finite ? `, ${round(x.not_finite)} not finite` : ''}`;
  table(out, 'Differences', [{title: 'Name', name: true}, {title: 'Difference'}, {title: 'Elements', number: true}, {title: 'Largest', number: true},
    {title: 'Relative RMS', number: true}, {title: 'a', number: true}, {title: 'b', number: true}],
  d.differences.map(x => [name(x), change(x), elements(x), side(x.largest), side(x.relative_rms), side(x.a), side(x.b)]));
}
