package format

import (
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestComplete(t *testing.T) {
	l, err := CompleteLimits(tensor.Limits{MaxTensors: 5})
	if l.MaxMetadata != 1<<30 || l.MaxTensors != 5 || l.MaxDecodedTotal != 0 || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
	for _, l := range []tensor.Limits{{MaxRank: -1}, {MaxDecodedTotal: -1}} {
		if _, err := CompleteLimits(l); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

func TestDecodedTotal(t *testing.T) {
	for _, c := range []struct {
		limit, size, want int64
	}{{0, 1 << 20, 64 << 30}, {0, 1 << 30, 1100 << 30}, {0, 1 << 62, 1<<63 - 1}, {7, 1 << 62, 7}} {
		if got := DecodedTotal(tensor.Limits{MaxDecodedTotal: c.limit}, c.size); got != c.want {
			t.Errorf("a limit of %d and a file of %d bytes: %d, want %d", c.limit, c.size, got,
				c.want)
		}
	}
}
