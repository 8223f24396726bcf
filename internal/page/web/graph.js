// The graph of a program: zoom, pan, search, and repeated blocks that open.
import { add, addSVG, count, run, section, visible } from './dom.js';

export function showGraph(backend) {
  const s = section('Graph');
  const row = add(s, 'div', undefined, {class: 'row'});
  const label = add(row, 'label');
  const collapse = add(label, 'input', undefined, {type: 'checkbox', checked: true, id: 'collapse'});
  add(label, 'span', 'Collapse repeated blocks');
  const out = add(s, 'div');
  let open = [];
  const load = () => run(out, backend, collapse.checked ? 'blocks' : 'graph', {open}, g => {
    if (!g.groups.some(x => x.nodes?.length)) s.drop();
    else draw(out, g, backend.reads ? block => { open.push(block); load(); } : undefined);
  });
  collapse.addEventListener('change', () => { open = []; load(); });
  load();
}

// short shortens a text to the width of a box.
const short = (text, width) => {
  const n = Math.max(Math.floor((width - 12) / 6.6), 3), all = [...visible(text)];
  return all.length <= n ? all.join('') : all.slice(0, n - 1).join('') + '…';
};

function draw(parent, g, openBlock) {
  const nodes = [];
  let height = 0, width = 0;
  for (const group of g.groups) {
    group.top = height;
    height += group.layout.height + 20;
    width = Math.max(width, group.layout.width);
  }
  const bar = add(parent, 'div', undefined, {class: 'row'});
  const find = add(add(bar, 'label', 'Find '), 'input', undefined, {type: 'search', placeholder: 'name or operator', id: 'findnode'});
  const found = add(bar, 'span', '', {role: 'status', class: 'soft'});
  const svg = addSVG(parent, 'svg', {class: 'graph', tabindex: 0, role: 'application', 'aria-roledescription': 'graph',
    'aria-label': `Graph of ${g.groups.reduce((n, x) => n + (x.nodes?.length ?? 0), 0)} nodes. Arrow keys move, plus and minus zoom; Find chooses a node, and its adjacent nodes are listed below.`});
  const wide = Math.min(svg.clientWidth / width, 1); // the scale at which it is as wide as its place
  const least = .2, large = Math.max(Math.min(wide, .6), least / 2); // below least nodes are dots; then it opens large, at the first node
  svg.style.height = `min(36rem, 75vh, ${Math.ceil(height * Math.max(wide, large)) + 16}px)`;
  add(parent, 'p', 'Drag to move; Ctrl and the wheel, or two fingers, to zoom.', {class: 'soft'});
  const details = add(parent, 'div', undefined, {'aria-live': 'polite', id: 'node'});
  const scene = addSVG(svg, 'g');
  for (const [number, group] of g.groups.entries()) drawGroup(scene, group, number, nodes);
  let view = {x: 0, y: 0, k: 1};
  // apply keeps half of the drawing, or of its place, in view.
  const within = (v, room, size) => Math.min(Math.max(v, Math.min(room - size, 0) - room / 2), Math.max(room - size, 0) + room / 2);
  const apply = () => {
    view.x = within(view.x, svg.clientWidth, width * view.k);
    view.y = within(view.y, svg.clientHeight, height * view.k);
    scene.setAttribute('transform', `translate(${view.x} ${view.y}) scale(${view.k})`);
  };
  const zoom = (by, x = svg.clientWidth / 2, y = svg.clientHeight / 2) => {
    const k = Math.min(Math.max(view.k * by, .01), 8);
    view = {x: x - (x - view.x) * k / view.k, y: y - (y - view.y) * k / view.k, k};
    apply();
  };
  const whole = Math.min(wide, svg.clientHeight / (height + 8));
  const fit = () => {
    const k = Math.max(whole, .01);
    view = {x: (svg.clientWidth - width * k) / 2, y: 4, k};
    apply();
  };
  const start = k => { // at the first node
    const middle = nodes.length ? nodes[0].x + nodes[0].w / 2 : width / 2;
    view = {x: svg.clientWidth / 2 - middle * k, y: 4, k};
    apply();
  };
  for (const [title, act] of [['Zoom in', () => zoom(1.5)], ['Zoom out', () => zoom(1 / 1.5)], ['Fit', fit], ['Actual size', () => start(1)]]) {
    add(bar, 'button', title, {click: act});
  }
  const choose = n => {
    scene.querySelector('.chosen')?.classList.remove('chosen');
    n.element.classList.add('chosen');
    const k = Math.max(view.k, .7);
    view = {x: svg.clientWidth / 2 - (n.x + n.w / 2) * k, y: svg.clientHeight / 2 - (n.y + 18) * k, k};
    apply();
    showNode(details, n, nodes, g, choose, openBlock);
  };
  find.addEventListener('input', () => {
    const word = find.value.toLowerCase();
    const hits = word ? nodes.filter(n => `${n.label} ${n.detail}`.toLowerCase().includes(word)) : [];
    found.textContent = word ? count(hits.length, 'node') : '';
    details.replaceChildren();
    const line = add(details, 'div', undefined, {class: 'row'});
    for (const n of hits.slice(0, 30)) add(line, 'button', `${n.label} ${n.detail}`, {click: () => choose(n)});
    if (hits.length > 30) add(line, 'span', `and ${hits.length - 30} more`);
  });
  find.addEventListener('keydown', e => { if (e.key === 'Enter') details.querySelector('button')?.click(); });
  svg.addEventListener('keydown', e => {
    const move = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[e.key];
    if (move) pan(...move);
    else if (e.key === '+' || e.key === '=') zoom(1.3);
    else if (e.key === '-') zoom(1 / 1.3);
    else return;
    e.preventDefault();
  });
  const pan = (dx, dy) => { // reports whether anything moved
    const {x, y} = view;
    view.x += dx;
    view.y += dy;
    apply();
    return view.x !== x || view.y !== y;
  };
  const place = e => { const box = svg.getBoundingClientRect(); return [e.clientX - box.x, e.clientY - box.y]; };
  // The wheel scrolls the page unless the graph has the focus, and there too once the graph is at its end.
  svg.addEventListener('wheel', e => {
    const step = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(-e.deltaY * step / 400), ...place(e));
    else if (document.activeElement !== svg || !pan(-e.deltaX * step, -e.deltaY * step)) return;
    e.preventDefault();
  }, {passive: false});
  // One finger scrolls the page, two move and zoom the graph.
  let fingers = null;
  const touch = e => {
    if (e.touches.length !== 2 || !e.cancelable) { // where it is not, the browser scrolls already
      fingers = null;
      return;
    }
    e.preventDefault();
    const [a, b] = [...e.touches].map(place), was = fingers;
    fingers = {x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2, apart: Math.hypot(a[0] - b[0], a[1] - b[1]) || 1};
    if (!was) return;
    pan(fingers.x - was.x, fingers.y - was.y);
    zoom(fingers.apart / was.apart, fingers.x, fingers.y);
  };
  for (const kind of ['touchstart', 'touchmove', 'touchend', 'touchcancel']) svg.addEventListener(kind, touch, {passive: false});
  let drag = null;
  svg.addEventListener('pointerdown', e => { drag = e.pointerType === 'touch' ? null : {x: e.clientX, y: e.clientY, moved: false}; });
  svg.addEventListener('pointermove', e => {
    if (!drag || !e.buttons) return;
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) svg.setPointerCapture(e.pointerId);
    pan(dx, dy);
    drag = {x: e.clientX, y: e.clientY, moved: true};
  });
  svg.addEventListener('click', e => {
    const element = e.target.closest('.node');
    if (element && !drag?.moved) choose(nodes[element.dataset.node]);
  });
  // On paper the graph has the width of the page, and as much of its height as a page has.
  const screenHeight = svg.style.height;
  window.onbeforeprint = () => {
    svg.setAttribute('viewBox', `0 0 ${width} ${Math.min(height, 1.3 * Math.max(width, 700))}`);
    svg.setAttribute('preserveAspectRatio', 'xMidYMin');
    svg.style.height = `${Math.min(height, 900)}px`;
    scene.removeAttribute('transform');
  };
  window.onafterprint = () => {
    svg.removeAttribute('viewBox');
    svg.style.height = screenHeight;
    apply();
  };
  if (whole >= least) fit();
  else start(large);
}

function drawGroup(scene, group, number, nodes) {
  const {layout, top} = group;
  const place = addSVG(scene, 'g', {transform: `translate(0 ${top})`});
  addSVG(place, 'text', {x: 8, y: 14, 'font-weight': 'bold'}, group.name);
  addSVG(place, 'path', {class: 'edge', d: layout.edges});
  if (layout.back) addSVG(place, 'path', {class: 'edge back', d: layout.back});
  group.first = nodes.length;
  (group.nodes ?? []).forEach((n, i) => {
    const box = layout.nodes[i], block = group.blocks?.[i] ?? -1;
    const element = addSVG(place, 'g', {class: `node ${n.kind}${block >= 0 ? ' block' : ''}`, 'data-node': nodes.length});
    addSVG(element, 'rect', {x: box.x, y: box.y, width: box.w, height: box.h, rx: n.kind === 'input' || n.kind === 'output' ? 18 : 4});
    addSVG(element, 'text', {x: box.x + box.w / 2, y: box.y + (n.detail ? 15 : 22), 'text-anchor': 'middle'}, short(n.label, box.w));
    if (n.detail) addSVG(element, 'text', {class: 'detail', x: box.x + box.w / 2, y: box.y + 28, 'text-anchor': 'middle'}, short(n.detail, box.w * 1.2));
    nodes.push({...n, ...box, y: box.y + top, element, group: number, index: i, block});
  });
}

// showNode lists the nodes connected to a node, each as a button that selects it.
function showNode(details, n, nodes, g, choose, openBlock) {
  details.replaceChildren();
  add(details, 'h3', `${n.label} ${n.detail}`);
  add(details, 'p', `${n.kind} of ${g.groups[n.group].name}`, {class: 'soft'});
  if (n.block >= 0 && openBlock) add(details, 'button', 'Expand block', {click: () => openBlock(n.block)});
  const group = g.groups[n.group];
  const near = {
    'Inputs from': group.edges.filter(e => e.to === n.index).map(e => nodes[group.first + e.from]),
    'Outputs to': group.edges.filter(e => e.from === n.index).map(e => nodes[group.first + e.to]),
    'Runs': g.links.filter(l => l.group === n.group && l.node === n.index && g.groups[l.to].nodes?.length).map(l => nodes[g.groups[l.to].first]),
  };
  for (const [title, list] of Object.entries(near)) {
    if (!list.length) continue;
    const line = add(details, 'div', undefined, {class: 'row'});
    add(line, 'span', title);
    for (const x of list.slice(0, 40)) add(line, 'button', `${x.label} ${x.detail}`, {click: () => { choose(x); details.querySelector('button')?.focus(); }});
    if (list.length > 40) add(line, 'span', `and ${list.length - 40} more`);
  }
}
