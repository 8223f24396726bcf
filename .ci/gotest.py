"""go test -json | gotest.py: what failed with all that it printed, what was skipped by reason, the slowest packages, and a summary; exit 1 on any failure."""
import collections, json, sys

output = collections.defaultdict(list)  # of a test, or of a package under the test name ""
count = collections.Counter()
took = {}  # seconds, by package
skipped = collections.defaultdict(list)  # tests, by reason
for line in sys.stdin:
    try:
        e = json.loads(line)
    except ValueError:
        print(line, end="")
        continue
    key = (e.get("Package") or e.get("ImportPath", ""), e.get("Test", ""))
    action = e["Action"]
    if "Elapsed" in e and not key[1]:
        took[key[0].rpartition("/")[2]] = e["Elapsed"]
    if action in ("output", "build-output"):
        output[key].append(e["Output"])
    elif action in ("fail", "build-fail"):
        count["failed"] += 1
        print("FAIL", *key)
        print("".join(output[key]), end="")
    elif action == "skip" and key[1]:
        count["skipped"] += 1
        reason = " ".join(o.strip() for o in output[key] if not o.lstrip().startswith(("===", "---")))
        skipped[reason.partition(".go:")[2].partition(": ")[2] or reason].append(f"{key[0].rpartition('/')[2]}.{key[1]}")
    elif action == "pass":
        count["passed"] += 1
for reason, tests in skipped.items():
    print(f"skip: {reason}:", ", ".join(tests))
print("slowest:", ", ".join(f"{p} {s:.0f} s" for p, s in sorted(took.items(), key=lambda x: -x[1])[:5]))
print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
sys.exit(1 if count["failed"] or not count["passed"] else 0)
