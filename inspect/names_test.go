package inspect_test

import (
	"testing"

	"github.com/tensorfile/tensorfile/inspect"
)

func TestNumbersInNamesFoldIntoRanges(t *testing.T) {
	for _, c := range []struct {
		all  [][]int64
		want string
	}{
		{[][]int64{{0}, {1}, {2}}, "a.{0-2}.b"},
		{[][]int64{{3}, {11}, {7}, {0}}, "a.{0,3-11/4}.b"}, {[][]int64{{0}, {2}}, "a.{0,2}.b"},
		{[][]int64{{1}, {3}, {4}, {9}},
			"a.{1,3-4,9}.b"}, {[][]int64{{5}, {5}}, "a.5.b"},
	} {
		if got := inspect.JoinNumbers([]string{"a.", ".b"}, c.all); got != c.want {
			t.Errorf("%v: %s", c.all, got)
		}
	}
	if inspect.CompareNames("l.9", "l.10") >= 0 || inspect.CompareNames("l.10.a", "l.10.b") >= 0 ||
		inspect.CompareNames("b", "a9") <= 0 || inspect.CompareNames("a", "a") != 0 {
		t.Error("layer 9 comes before layer 10")
	}
	for _, same := range []string{"007", "00", "12345678901234567890"} { // names, not numbers
		if p, n := inspect.CutNumbers(same); len(n) != 0 || p[0] != same {
			t.Errorf("%s: %q %v", same, p, n)
		}
	}
}
