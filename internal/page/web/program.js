// The parts of a program: inputs, outputs, operators, delegates and the memory plan.
import { add, addSVG, colours, count, human, section, titled } from './dom.js';

const shape = v => v.shape ? '[' + v.shape.join(', ') + ']' : '';

export function showProgram(facts, plans) {
  const {pte, ptn, rten, onnx} = facts.info;
  if (!pte && !ptn && !rten && !onnx) return;
  const s = section('Program');
  if (pte) showPTE(s, pte, plans);
  if (ptn) showPTN(s, ptn);
  if (rten) showRTen(s, rten);
  if (onnx) showONNX(s, onnx);
  if (s.children.length === 1) s.drop(); // there is nothing below the heading
}

function showPTE(s, pte, plans) {
  const values = [{title: 'Index', number: true}, {title: 'Kind'}, {title: 'Dtype'}, {title: 'Shape'}, {title: 'Size', number: true}];
  const rows = list => list.map((v, i) => [i, v.kind, v.dtype ?? '', shape(v), human(v.bytes ?? -1)]);
  for (const [number, m] of pte.methods.entries()) {
    add(s, 'h3', `Method ${m.name}: ${count(m.instructions, 'instruction')}, ${count(m.values, 'value')}`);
    titled(s, 'h4', 'Inputs', values, rows(m.inputs), `Inputs of ${m.name}`);
    titled(s, 'h4', 'Outputs', values, rows(m.outputs), `Outputs of ${m.name}`);
    titled(s, 'h4', 'Operators', [{title: 'Operator'}], m.operators.map(o => [o]), `Operators of ${m.name}`);
    titled(s, 'h4', 'Delegates', [{title: 'Backend'}, {title: 'Size', number: true}, {title: 'Payload'}],
      m.delegates.map(x => [x.id, human(x.bytes), x.payload ?? '']), `Delegates of ${m.name}`);
    const buffers = m.memory.buffers.slice(1); // the first is none
    if (!buffers.length) continue;
    add(s, 'h4', 'Memory plan');
    add(s, 'p', `${count(buffers.length, 'buffer')} of ${buffers.map(human).join(', ')}; peak use ${human(m.memory.peak)}`);
    plan(s, m, plans[number]);
  }
  const without = pte.methods.filter(m => m.memory.buffers.length < 2).map(m => m.name);
  if (without.length) add(s, 'p', `Methods without a memory plan: ${without.join(', ')}`);
}

// plan draws the places of tensors in the buffers of a memory plan: instructions from left to right, bytes from top to bottom.
function plan(parent, m, places) {
  const last = places.reduce((n, p) => Math.max(n, p.last), 0) + 1;
  m.memory.buffers.forEach((size, buffer) => {
    const all = places.filter(p => p.buffer === buffer && size > 0);
    if (!all.length) return;
    add(parent, 'p', `Buffer ${buffer} over ${count(last, 'instruction')}`, {class: 'soft'});
    const svg = addSVG(parent, 'svg', {class: 'chart', viewBox: `0 0 ${last} 100`, preserveAspectRatio: 'none', role: 'img',
      'aria-label': `Buffer ${buffer} of ${human(size)}: ${count(all.length, 'tensor')} over ${count(last, 'instruction')}`});
    all.forEach((p, i) => {
      const tile = addSVG(svg, 'rect', {x: p.first, width: p.last - p.first + 1, y: 100 * p.offset / size, height: 100 * p.bytes / size, fill: colours[i % colours.length]});
      addSVG(tile, 'title', {}, `value ${p.value}: ${human(p.bytes)} at ${p.offset}, instructions ${p.first} to ${p.last}`);
    });
  });
}

function showPTN(s, ptn) {
  const values = [{title: 'Value', name: true}, {title: 'Kind'}, {title: 'Dtype'}, {title: 'Shape'}, {title: 'Tensor', name: true}];
  for (const m of ptn.methods) {
    add(s, 'h3', `Method ${m.name}: ${count(m.nodes, 'node')}`);
    for (const [title, list] of [['Inputs', m.inputs], ['Outputs', m.outputs], ['Constants', m.constants], ['Buffers', m.buffers]]) {
      titled(s, 'h4', title, values, list.map(v => [v.name, v.kind ?? '', v.dtype ?? '', shape(v), v.key ?? v.target ?? '']), `${title} of ${m.name}`);
    }
    operators(s, m.operators);
  }
}

const operators = (s, counts) => titled(s, 'h3', 'Operators', [{title: 'Operator'}, {title: 'Count', number: true}],
  Object.entries(counts).sort((a, b) => b[1] - a[1]));

function showRTen(s, rten) {
  if (rten.release) add(s, 'p', `Requires RTen ${rten.release} or later.`);
  const inputs = new Set(rten.inputs);
  titled(s, 'h3', 'Inputs and outputs', [{title: 'Name', name: true}, {title: 'Direction'}, {title: 'Dtype'}, {title: 'Shape'}],
    rten.values.map(v => [v.name, inputs.has(v.name) ? 'input' : 'output', v.dtype ?? '', shape(v)]));
  operators(s, rten.operators);
}

function showONNX(s, onnx) {
  const opsets = Object.entries(onnx.opsets).map(([domain, version]) => `${domain || 'ai.onnx'} ${version}`);
  add(s, 'p', `Producer: ${[onnx.producer || 'unknown', onnx.producer_version].filter(Boolean).join(' ')}. Operator sets: ${opsets.join(', ') || 'none'}.`);
  titled(s, 'h3', 'Inputs and outputs', [{title: 'Name', name: true}, {title: 'Direction'}, {title: 'Type'}],
    [...onnx.inputs.map(v => [v.name, 'input', v.type]), ...onnx.outputs.map(v => [v.name, 'output', v.type])]);
  operators(s, onnx.operators);
  titled(s, 'h3', 'Files with tensor data', [{title: 'File', name: true}, {title: 'Tensors', number: true}, {title: 'Size', number: true}],
    onnx.files.map(f => [f.name, f.tensors, f.size < 0 ? 'missing' : human(f.size)]));
}
