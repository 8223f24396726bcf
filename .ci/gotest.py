"""go test -json | gotest.py: what failed with all that it printed, what was skipped with its reason, and a summary; exit 1 on any failure."""
import collections, json, sys

output = collections.defaultdict(list)  # of a test, or of a package under the test name ""
count = collections.Counter()
for line in sys.stdin:
    try:
        e = json.loads(line)
    except ValueError:
        print(line, end="")
        continue
    key = (e.get("Package") or e.get("ImportPath", ""), e.get("Test", ""))
    action = e["Action"]
    if action in ("output", "build-output"):
        output[key].append(e["Output"])
    elif action in ("fail", "build-fail"):
        count["failed"] += 1
        print("FAIL", *key)
        print("".join(output[key]), end="")
    elif action == "skip" and key[1]:
        count["skipped"] += 1
        reason = " ".join(o.strip() for o in output[key] if not o.lstrip().startswith(("===", "---")))
        print(f"skip: {key[0]}.{key[1]}: {reason}")
    elif action == "pass":
        count["passed"] += 1
print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
sys.exit(1 if count["failed"] or not count["passed"] else 0)
