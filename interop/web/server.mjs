// A server of a static site on this machine, for the browser.
import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const kinds = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'};

export function serve(directory) {
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url, 'http://x').pathname);
    const name = join(directory, path === '/' ? 'index.html' : path);
    if (!existsSync(name)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, {'Content-Type': kinds[extname(name)] ?? 'application/octet-stream'});
    createReadStream(name).pipe(response);
  });
  return new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve({
    address: `http://127.0.0.1:${server.address().port}/`, close: () => server.close(),
  })));
}
