#!/usr/bin/env bash
# primitiv.sh: proves package primitiv in both directions against the C++ library of primitiv 0.3.0, on files with fresh random
# content and fresh random damage. interop/primitiv/testdata.sh makes testdata/primitiv anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export TENSORFILE_PRIMITIVREF
TENSORFILE_PRIMITIVREF=$(interop/tools.sh primitivref)
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
proves() { # TEXT TEST
	if go test -count=1 -v -run "^$2\$" ./primitiv >"$log" 2>&1 && grep -q "^--- PASS: $2 " "$log"; then
		passed=$((passed + 1))
		echo "ok: $1$(grep -oE 'go:[0-9]+: .*' "$log" | sed 's/^[^ ]*//; s/^/;/' | tr -d '\n')"
	else
		failed=$((failed + 1))
		echo "FAIL: $1"
		tail -n 20 "$log"
	fi
}
proves "files of the library, every kind, read with equal values" TestFilesOfTheReferenceReadWithEqualValues
proves "they are written byte for byte" TestFilesOfTheReferenceAreWrittenByteForByte
proves "tensors of 1 MiB and more, 2000 parameters, random bits: the same both ways" TestReferenceLargeModelIsReadAndWrittenByteForByte
proves "the library loads what we write, and saves the same bytes" TestReferenceLoadsWhatWeWriteAndSavesTheSameBytes
proves "it loads edited models and settings" TestReferenceLoadsEditedFiles
proves "every type code in every place gets its verdict" TestEveryTypeCodeHasTheVerdictOfTheReference
proves "malformed files get its verdict" TestMalformedFilesGetTheirVerdict
proves "damaged files get its verdict" TestDamagedFilesGetTheVerdictOfTheReference
echo "interop primitiv: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
