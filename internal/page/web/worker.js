// The worker of the static site, after Go's wasm_exec.js. It runs the library and passes messages to it.
const early = [];
let handle = message => early.push(message);

// The library calls ready with its handler for messages.
self.ready = handler => {
  handle = handler;
  early.splice(0).forEach(handler);
};

self.onmessage = async ({data}) => {
  self.onmessage = e => handle(e.data);
  const go = new Go();
  const instance = await WebAssembly.instantiate(data.module, go.importObject);
  await go.run(instance);
  setTimeout(() => { throw new Error('its program has ended'); });
};
