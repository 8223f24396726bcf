// The page: it starts a backend and shows the data.
import { add, find, visible } from './dom.js';
import { http, report, wasm } from './backend.js';
import { showFacts, showFindings } from './facts.js';
import { showUsage } from './map.js';
import { openTensor } from './tensor.js';
import { describe, showTable } from './table.js';
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
  const [names, facts, stored, plans, weights] = await Promise.all(['files', 'facts', 'tensors', 'plan', 'weights'].map(m => backend.call(m)));
  const rows = [describe([...weights, ...stored], 0)]; // of each file
  const rowsOf = async file => !file ? rows[0] : rows[file] = describe((await Promise.all(['weights', 'tensors'].map(m => backend.call(m, {file})))).flat(), file);
  find('main').replaceChildren();
  find('sections').replaceChildren();
  find('title').textContent = visible(facts.name);
  document.title = `${visible(facts.name)} – tensorfile`;
  say('');
  // A tensor has an address: #tensor=NAME, with &index=N if it is not the first of that name, and &file=1 if it is in the second file.
  let left = null; // the address of a tensor, once its dialog is closed
  const openRow = async row => {
    await left;
    const address = new URLSearchParams({tensor: row.name});
    if (rows[row.file].find(r => r.name === row.name) !== row) address.set('index', row.index);
    if (row.file) address.set('file', row.file);
    if (location.hash !== `#${address}`) history.pushState({opened: true}, '', `#${address}`);
    return route();
  };
  const route = async () => {
    const address = new URLSearchParams(location.hash.slice(1)), name = address.get('tensor');
    if (name === null) return find('tensor').close();
    const file = Number(address.get('file')) ? 1 : 0, index = address.get('index');
    const row = (await rowsOf(file)).find(r => r.name === name && r.index >= 0 && (index === null || r.index === Number(index)));
    if (row) openTensor(backend, row, Boolean(backend.reads) && !facts.remote);
    else say(`There is no tensor ${name}.`, true);
  };
  window.onpopstate = () => route().catch(e => say(e.message, true));
  find('tensor').onclose = () => {
    if (!new URLSearchParams(location.hash.slice(1)).has('tensor')) return;
    if (history.state?.opened) {
      left = new Promise(done => addEventListener('popstate', done, {once: true}));
      history.back();
    } else history.replaceState(null, '', location.pathname + location.search);
  };
  // openName opens the tensor with that name, or with NAME for NAME:PART, in the first file that has it.
  const openName = async name => {
    for (const n of [name, name.replace(/:[^:]*$/, '')]) {
      for (const file of [0, 1]) {
        const row = (await rowsOf(file)).find(r => r.name === n && r.index >= 0);
        if (row) return openRow(row);
      }
    }
  };
  if (names.length > 1) showDiff(backend, names, openName);
  showFacts(facts);
  showTable(rows[0].filter(r => !r.of), weights, openRow);
  showUsage(facts, stored, openRow);
  showProgram(facts, plans);
  if ((facts.info.pte || facts.info.ptn || facts.info.rten || facts.info.onnx) && backend.can('graph')) showGraph(backend);
  showFindings(backend, facts);
  if (backend.open) showDiff(backend, names, openName);
  document.documentElement.dataset.ready = 'yes';
  await route();
}

// choose is the start of the static site. The user drops or chooses files, which stay on this machine.
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
