// The parts of a program: inputs, outputs, operators, delegates, and its plan of memory.
import { add, addSVG, colours, count, human, section, table } from './dom.js';

const shape = v => v.shape ? '[' + v.shape.join(', ') + ']' : '';

export function showProgram(facts, plans) {
  const {pte, ptn, rten, onnx} = facts.info;
  if (pte) showPTE(pte, plans);
  if (ptn) showPTN(ptn);
  if (rten) showRTen(rten);
  if (onnx) showONNX(onnx);
}

function showPTE(pte, plans) {
  const s = section('Program');
  const values = [{title: 'value', number: true}, {title: 'kind'}, {title: 'dtype'}, {title: 'shape'}, {title: 'size', number: true}];
  for (const [number, m] of pte.methods.entries()) {
    add(s, 'h3', `Method ${m.name}: ${count(m.instructions, 'instruction')}, ${count(m.values, 'value')}`);
    for (const [title, list] of [['Inputs', m.inputs], ['Outputs', m.outputs]]) {
      add(s, 'p', title);
      table(s, `${title} of ${m.name}`, values, list.map((v, i) => [i, v.kind, v.dtype ?? '', shape(v), human(v.bytes ?? -1)]));
    }
    if (m.operators.length) {
      add(s, 'p', 'Operators');
      table(s, `Operators of ${m.name}`, [{title: 'operator'}], m.operators.map(o => [o]));
    }
    if (m.delegates.length) {
      add(s, 'p', 'Delegates');
      table(s, `Delegates of ${m.name}`, [{title: 'backend'}, {title: 'size', number: true}, {title: 'payload'}], m.delegates.map(x => [x.id, human(x.bytes), x.payload ?? '']));
    }
    add(s, 'p', `Memory plan: ${count(Math.max(m.memory.buffers.length - 1, 0), 'buffer')} of ${m.memory.buffers.slice(1).map(human).join(', ') || 'nothing'}; peak use ${human(m.memory.peak)}`);
    plan(s, m, plans[number]);
  }
}

// plan draws the places of tensors in the buffers of memory: from left to right the instructions, from top to bottom the bytes.
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

function showPTN(ptn) {
  const s = section('Program');
  const values = [{title: 'value'}, {title: 'kind'}, {title: 'dtype'}, {title: 'shape'}, {title: 'tensor'}];
  for (const m of ptn.methods) {
    add(s, 'h3', `Method ${m.name}: ${count(m.nodes, 'node')}`);
    for (const [title, list] of [['Inputs', m.inputs], ['Outputs', m.outputs], ['Constants', m.constants], ['Buffers', m.buffers]]) {
      if (!list.length) continue;
      add(s, 'p', title);
      table(s, `${title} of ${m.name}`, values, list.map(v => [v.name, v.kind ?? '', v.dtype ?? '', shape(v), v.key ?? v.target ?? '']));
    }
    operators(s, m.operators);
  }
}

function operators(s, counts) {
  add(s, 'h3', 'Operators');
  table(s, 'Operators', [{title: 'operator'}, {title: 'number', number: true}], Object.entries(counts).sort((a, b) => b[1] - a[1]));
}

function showRTen(rten) {
  const s = section('Program');
  if (rten.release) add(s, 'p', `Requires RTen ${rten.release} or later.`);
  const inputs = new Set(rten.inputs);
  add(s, 'h3', 'Inputs and outputs');
  table(s, 'Inputs and outputs', [{title: 'name'}, {title: 'direction'}, {title: 'dtype'}, {title: 'shape'}],
    rten.values.map(v => [v.name, inputs.has(v.name) ? 'input' : 'output', v.dtype ?? '', shape(v)]));
  operators(s, rten.operators);
}

function showONNX(onnx) {
  const s = section('Program');
  const opsets = Object.entries(onnx.opsets).map(([domain, version]) => `${domain || 'ai.onnx'} ${version}`);
  add(s, 'p', `Made by ${onnx.producer || 'an unknown program'} ${onnx.producer_version}, with operators of ${opsets.join(', ') || 'no set'}.`);
  add(s, 'h3', 'Inputs and outputs');
  table(s, 'Inputs and outputs', [{title: 'name'}, {title: 'direction'}, {title: 'type'}],
    [...onnx.inputs.map(v => [v.name, 'input', v.type]), ...onnx.outputs.map(v => [v.name, 'output', v.type])]);
  operators(s, onnx.operators);
  if (onnx.files.length) {
    add(s, 'h3', 'Files with elements of tensors');
    table(s, 'Files', [{title: 'name'}, {title: 'tensors', number: true}, {title: 'size', number: true}],
      onnx.files.map(f => [f.name, f.tensors, f.size < 0 ? 'missing' : human(f.size)]));
  }
}
