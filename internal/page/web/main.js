// The page: finds its way to the data, and shows it.
import { add, find, visible } from './dom.js';
import { http, report, wasm } from './backend.js';
import { showFacts, showFindings } from './facts.js';
import { showUsage } from './map.js';
import { openTensor } from './tensor.js';
import { showTable } from './table.js';
import { showProgram } from './program.js';
import { showGraph } from './graph.js';
import { showDiff } from './diff.js';

find('skip').addEventListener('click', () => find('main').focus());

function say(text, isError) {
  find('status').textContent = visible(text);
  find('status').classList.toggle('error', Boolean(isError));
}

async function show(backend) {
  say('Opening …');
  const [names, facts, rows, plans, weights] = await Promise.all(['files', 'facts', 'tensors', 'plan', 'weights'].map(m => backend.call(m)));
  for (const r of rows) r.dtype ||= r.scheme;
  find('main').replaceChildren();
  find('sections').replaceChildren();
  find('title').textContent = visible(facts.name);
  document.title = `${visible(facts.name)} – tensorfile`;
  say('');
  const openRow = row => openTensor(backend, row);
  showFacts(facts);
  showTable(rows, weights, openRow);
  showUsage(facts, rows, openRow);
  showProgram(facts, plans);
  if ((facts.info.pte || facts.info.ptn || facts.info.rten || facts.info.onnx) && backend.can('graph')) showGraph(backend);
  showFindings(backend, facts);
  if (names.length > 1 || backend.open) showDiff(backend, names);
  document.documentElement.dataset.ready = 'yes';
}

// choose is the start of the static site: files are dropped or chosen, and stay on this machine.
function choose(backend) {
  const main = find('main');
  const drop = add(main, 'div', undefined, {class: 'drop'});
  add(drop, 'p', 'Drop a tensor file here, or all files of a model: safetensors, GGUF, PyTorch, ONNX, .npy, .npz, .pte, .ptd, .ptn, .rten, .zt, primitiv.');
  const label = add(drop, 'label', 'Choose files ');
  const input = add(label, 'input', undefined, {type: 'file', multiple: true, id: 'files', change: () => open(input.files)});
  add(drop, 'p', 'The files are read in this browser, as far as they are shown; nothing is sent anywhere.', {class: 'soft'});
  const open = async files => {
    if (!files.length) return;
    delete document.documentElement.dataset.ready;
    say('Opening …');
    try {
      await backend.open(files, false);
      await show(backend);
    } catch (e) {
      say(e.message, true);
    }
  };
  document.addEventListener('dragover', e => { e.preventDefault(); drop.classList.add('over'); });
  document.addEventListener('dragleave', () => drop.classList.remove('over'));
  document.addEventListener('drop', e => {
    e.preventDefault();
    drop.classList.remove('over');
    open(e.dataTransfer.files);
  });
}

async function start() {
  const way = document.querySelector('meta[name=backend]').content;
  if (way === 'report') return show(report(JSON.parse(find('data').textContent)));
  if (way === 'http') return show({...http(), reads: true});
  say('Loading …');
  const backend = {...await wasm(), reads: true};
  say('');
  choose(backend);
}

start().catch(e => say(e.message, true));
