// A server of files on this machine: of the static site for the browser, and of ranges for addresses.
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const kinds = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'};

export function serve(directory) {
  const served = {bytes: 0}; // in ranges
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url, 'http://x').pathname);
    const name = join(directory, path === '/' ? 'index.html' : path);
    if (!existsSync(name)) {
      response.writeHead(404).end();
      return;
    }
    const headers = {'Content-Type': kinds[extname(name)] ?? 'application/octet-stream', 'Accept-Ranges': 'bytes', ETag: '"1"'};
    const size = statSync(name).size, range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    if (!range) {
      response.writeHead(200, {...headers, 'Content-Length': size});
      if (request.method === 'HEAD') response.end();
      else createReadStream(name).pipe(response);
      return;
    }
    const start = Number(range[1]), end = Math.min(range[2] ? Number(range[2]) : size - 1, size - 1);
    served.bytes += end - start + 1;
    response.writeHead(206, {...headers, 'Content-Length': end - start + 1, 'Content-Range': `bytes ${start}-${end}/${size}`});
    createReadStream(name, {start, end}).pipe(response);
  });
  return new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve({
    address: `http://127.0.0.1:${server.address().port}/`, close: () => server.close(), served,
  })));
}
