"""make.py DIR SEED: a sharded model, made by huggingface_hub and safetensors, and downloaded by huggingface_hub from a server here.

DIR/saved is the directory of the model, DIR/hub the cache after a download of it, DIR/local what a download into a directory
leaves, DIR/figures.json what they must be found to have.
"""
import hashlib, json, os, pathlib, sys

import hub

root, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
saved, cache = root / "saved", root / "hub"
saved.mkdir(parents=True)
os.environ.update(HF_HUB_CACHE=str(cache), HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
COMMIT = hashlib.sha1(str(seed).encode()).hexdigest()


os.environ["HF_ENDPOINT"] = hub.start(saved, COMMIT)

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
sums = "".join(f"{hub.digest(p.read_bytes(), True)}  {p.name}\n" for p in sorted(saved.iterdir()))
(root / "SHA256SUMS").write_text(sums)
