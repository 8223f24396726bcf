// The three backends. Each has can(method) and call(method, params, {signal, progress}).

// report takes the results from the page.
export function report(results) {
  return {
    can: method => method in results,
    async call(method) {
      if (!(method in results)) throw new Error('a report does not have this');
      return results[method];
    },
  };
}

// http calls the process that serves the page. Each line of its response is a message.
export function http() {
  return {
    can: () => true,
    async call(method, params = {}, {signal, progress} = {}) {
      const response = await reached(fetch('call', {method: 'POST', body: JSON.stringify({method, params}), signal}));
      if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let pieces = [];
      for (;;) {
        const {done, value} = await reached(reader.read());
        if (done) throw new Error(ended);
        const lines = value.split('\n');
        pieces.push(lines[0]);
        for (let i = 1; i < lines.length; i++) {
          const message = JSON.parse(pieces.join(''));
          pieces = [lines[i]];
          if (!message.progress) return answer(message);
          progress?.(...message.progress);
        }
      }
    },
  };
}

const ended = 'tensorfile view has ended';

// reached waits for the process. A network error means that the process has ended.
async function reached(promise) {
  try {
    return await promise;
  } catch (e) {
    throw e.name === 'TypeError' ? new Error(ended) : e;
  }
}

function answer(message) {
  if (message.error) throw Object.assign(new Error(message.error.message), {kind: message.error.class});
  return message.result;
}

// wasm starts the library as WebAssembly in a worker. After that, neither the page nor the worker may send requests: the worker is
// loaded from a blob, so the policy of the page applies to it too.
export async function wasm() {
  const [module, ...sources] = await Promise.all([
    WebAssembly.compileStreaming(fetch('tensorfile.wasm')),
    ...['wasm_exec.js', 'worker.js'].map(async name => (await fetch(name)).text()),
  ]);
  const policy = document.createElement('meta');
  policy.httpEquiv = 'Content-Security-Policy';
  policy.content = "connect-src 'none'";
  document.head.append(policy);
  const worker = new Worker(URL.createObjectURL(new Blob(sources, {type: 'text/javascript'})));
  const waiting = new Map();
  let last = 0;
  worker.onmessage = ({data}) => {
    const w = waiting.get(data.id);
    if (!w) return;
    if (data.progress) return w.progress?.(...data.progress);
    waiting.delete(data.id);
    try { w.resolve(answer(JSON.parse(data.text))); } catch (e) { w.reject(e); }
  };
  const stopped = e => {
    for (const w of waiting.values()) w.reject(new Error(`the library has stopped: ${e.message}`));
    waiting.clear();
  };
  worker.onerror = stopped;
  const post = (message, {signal, progress} = {}) => new Promise((resolve, reject) => {
    const id = ++last;
    waiting.set(id, {resolve, reject, progress});
    signal?.addEventListener('abort', () => {
      waiting.delete(id);
      worker.postMessage({cancel: id});
      reject(new DOMException('cancelled', 'AbortError'));
    });
    worker.postMessage({id, ...message});
  });
  worker.postMessage({module});
  return {
    can: () => true,
    call: (method, params = {}, options) => post({method, params: JSON.stringify(params)}, options),
    // open opens files as one model. If another is true, the files that are open stay open.
    open: (files, another) => post({files: [...files], another}),
  };
}
