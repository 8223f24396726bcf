"""judge.py DIR THEIRS: the packages of DIR that we edited, each with a FILE.want of the tensors that it should have, read and checked by ExecuTorch's own
code. THEIRS are the packages before: a program that its checks refused there is refused here too."""
import glob, json, os, sys

import ptnref as P

failed = 0
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.ptn"))):
    got, was = P.expect(path), json.load(open(os.path.join(sys.argv[2], os.path.basename(path) + ".json")))
    want = json.load(open(path + ".want"))
    tensors = {k: f"{t['dtype']} {t['shape']} {t['sha256']}" for k, t in got["tensors"].items()}
    wrong = [k for k in tensors.keys() | want.keys() if tensors.get(k) != want.get(k)]
    program = P.deserialize(P.read(path)[0])
    missing = P.graph.collect_data_keys(program) - tensors.keys()
    if wrong or (got["wrong"] is None) != (was["wrong"] is None) or missing and was["wrong"] is None:
        failed += 1
        print(f"{path}: {wrong[:1]}, missing {missing}, {got['wrong']}, before {was['wrong']}"[:300])
    # Nothing else of the program has changed: with the old names again it is what it was.
    text = json.dumps(got["program"])
    for k in want:
        if k.startswith("renamed/"):
            text = text.replace(json.dumps(k), json.dumps(k[k.index('"') + 1 : -1]))
    if json.loads(text) != was["program"]:
        failed += 1
        print(f"{path}: the program differs")
sys.exit(failed > 0)
