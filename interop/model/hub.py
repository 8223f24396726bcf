"""hub.py DIR COMMIT: a Hub with one repository, acme/tiny, whose files are the files of DIR at the time of each request.

Prints its address, and serves until it is killed. As on huggingface.co, listings come in pages, files in LFS are redirected to another
host, which gets no token and answers ranges, and other files come whole. Where HF_STANDIN_TOKEN is set, the Hub requires it.
"""
import hashlib, http.server, json, os, pathlib, re, sys, threading, urllib.parse

PAGE = 3


def digest(data, lfs):
    return hashlib.sha256(data).hexdigest() if lfs else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, headers=(), status=200):
        self.send_response(status)
        for k, v in {"Content-Length": len(body), **dict(headers)}.items():
            self.send_header(k, str(v))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()


def start(saved, commit):
    """Serves the files of a directory and returns the address."""

    class Store(Handler):  # what a redirect leads to
        def do_GET(self):
            if self.headers["Authorization"]:
                return self.answer(b"", status=400)
            data = (saved / urllib.parse.unquote(self.path).lstrip("/")).read_bytes()
            m = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if not m:
                return self.answer(data, {"ETag": '"store"'})
            first, last = int(m[1]), min(int(m[2] or len(data)), len(data) - 1)
            self.answer(data[first : last + 1], {"ETag": '"store"', "Content-Range": f"bytes {first}-{last}/{len(data)}"}, 206)

    class Hub(Handler):
        def do_GET(self):
            token = os.environ.get("HF_STANDIN_TOKEN")
            if token and self.headers["Authorization"] != f"Bearer {token}":
                return self.answer(b"", {"X-Error-Code": "GatedRepo"}, 401)
            url = urllib.parse.urlparse(self.path)
            files = {p.relative_to(saved).as_posix(): p for p in saved.rglob("*") if p.is_file()}
            headers = {"X-Repo-Commit": commit}
            if url.path.startswith("/api/models/acme/tiny/tree/"):
                tree = []
                for name, p in sorted(files.items()):
                    data = p.read_bytes()
                    entry = {"type": "file", "path": name, "size": len(data), "oid": digest(data, False)}
                    if name.endswith(".safetensors"):
                        entry["lfs"] = {"oid": digest(data, True), "size": len(data), "pointerSize": 130}
                        entry["oid"] = digest(b"pointer of " + name.encode(), False)
                    tree.append(entry)
                at = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
                if at + PAGE < len(tree):
                    headers["Link"] = f'<http://{self.headers["Host"]}{url.path}?recursive=true&cursor={at + PAGE}>; rel="next"'
                return self.answer(json.dumps(tree[at : at + PAGE]).encode(), {"Content-Type": "application/json", **headers})
            if url.path.startswith("/api/models/acme/tiny"):
                info = {"_id": "0", "id": "acme/tiny", "modelId": "acme/tiny", "sha": commit, "private": False, "disabled": False,
                        "gated": False, "downloads": 0, "likes": 0, "tags": [], "siblings": [{"rfilename": n} for n in sorted(files)]}
                return self.answer(json.dumps(info).encode(), {"Content-Type": "application/json", **headers})
            name = urllib.parse.unquote(url.path).split("/", 5)[-1]
            if name not in files:
                return self.answer(b"", {"X-Error-Code": "EntryNotFound", **headers}, 404)
            data, lfs = files[name].read_bytes(), name.endswith(".safetensors")
            headers["ETag"] = f'"{digest(data, lfs)}"'
            if not lfs:
                return self.answer(data, headers)
            headers.update({"X-Linked-Size": len(data), "X-Linked-Etag": f'"{digest(data, True)}"',
                            "Location": store + "/" + urllib.parse.quote(name)})
            self.answer(b"", headers, 302)

    def serve(host, handler):
        server = http.server.ThreadingHTTPServer((host, 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://{host}:{server.server_port}"

    store = serve("127.0.0.2", Store)
    return serve("127.0.0.1", Hub)


if __name__ == "__main__":
    print(start(pathlib.Path(sys.argv[1]), sys.argv[2]), flush=True)
    threading.Event().wait()
