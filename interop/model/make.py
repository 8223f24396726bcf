"""make.py DIR SEED: a sharded model, made by huggingface_hub and safetensors, and downloaded by huggingface_hub from a server here.

DIR/saved is the directory of the model, DIR/hub the cache after a download of it, DIR/local what a download into a directory
leaves, DIR/figures.json what they must be found to have.
"""
import hashlib, http.server, json, os, pathlib, sys, threading, urllib.parse

root, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
saved, cache = root / "saved", root / "hub"
saved.mkdir(parents=True)
os.environ.update(HF_HUB_CACHE=str(cache), HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
COMMIT = hashlib.sha1(str(seed).encode()).hexdigest()


def digest(data, lfs):
    return hashlib.sha256(data).hexdigest() if lfs else hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, headers=(), status=200):
        self.send_response(status)
        for k, v in {"Content-Length": len(body), "X-Repo-Commit": COMMIT, **dict(headers)}.items():
            self.send_header(k, str(v))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = urllib.parse.urlparse(self.path).path
        files = {p.relative_to(saved).as_posix(): p.read_bytes() for p in saved.rglob("*") if p.is_file()}
        if path.startswith("/api/models/acme/tiny/tree/"):
            tree = []
            for name, data in sorted(files.items()):
                entry = {"type": "file", "path": name, "size": len(data), "oid": digest(data, False)}
                if name.endswith(".safetensors"):
                    entry["lfs"] = {"oid": digest(data, True), "size": len(data), "pointerSize": 130}
                    entry["oid"] = digest(b"pointer of " + name.encode(), False)
                tree.append(entry)
            return self.answer(json.dumps(tree).encode(), {"Content-Type": "application/json"})
        if path.startswith("/api/models/acme/tiny"):
            info = {"_id": "0", "id": "acme/tiny", "modelId": "acme/tiny", "sha": COMMIT, "private": False, "disabled": False, "gated": False,
                    "downloads": 0, "likes": 0, "tags": [], "siblings": [{"rfilename": n} for n in sorted(files)]}
            return self.answer(json.dumps(info).encode(), {"Content-Type": "application/json"})
        name = urllib.parse.unquote(path).split("/", 5)[-1]
        if name not in files:
            return self.answer(b"", {"X-Error-Code": "EntryNotFound"}, 404)
        data, lfs = files[name], name.endswith(".safetensors")
        headers = {"ETag": f'"{digest(data, lfs)}"', "Accept-Ranges": "bytes"}
        if lfs:
            headers.update({"X-Linked-Size": len(data), "X-Linked-Etag": f'"{digest(data, True)}"'})
        return self.answer(data, headers)

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"

import numpy as np
from huggingface_hub import snapshot_download, split_state_dict_into_shards_factory
from safetensors.numpy import save_file

rng = np.random.default_rng(seed)
tensors = {f"layers.{i}.{part}.weight": rng.standard_normal((64, 32), dtype=np.float32) for i in range(5) for part in ("attn", "mlp")}
tensors["norm.weight"] = rng.standard_normal(64, dtype=np.float32)
split = split_state_dict_into_shards_factory(
    tensors, max_shard_size=20_000, filename_pattern="model{suffix}.safetensors", get_storage_size=lambda t: t.nbytes)
assert split.is_sharded and len(split.filename_to_tensors) >= 5, split
for name, keys in split.filename_to_tensors.items():
    save_file({k: tensors[k] for k in keys}, saved / name, metadata={"format": "pt"})
index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
(saved / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
(saved / "config.json").write_text(json.dumps({"architectures": ["Tiny"], "dtype": "float32", "model_type": "tiny"}))
(saved / "README.md").write_text(f"seed {seed}\n")

snapshot_download("acme/tiny")
snapshot_download("acme/tiny", local_dir=root / "local")
(root / "figures.json").write_text(json.dumps({
    "commit": COMMIT, "shards": len(split.filename_to_tensors), "tensors": len(tensors), "files": len(list(saved.iterdir())),
    "parameters": sum(t.size for t in tensors.values()), "bytes": sum(t.nbytes for t in tensors.values())}))
sums = "".join(f"{digest(p.read_bytes(), True)}  {p.name}\n" for p in sorted(saved.iterdir()))
(root / "SHA256SUMS").write_text(sums)
