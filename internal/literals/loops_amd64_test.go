//go:build !purego

package literals

import (
	"bytes"
	"testing"
)

// Processors that look up pairs of bytes make the same of them as those that look up 32 at a time.
func TestPairsAndVectorsMakeTheSame(t *testing.T) {
	if !wide {
		t.Skip("this processor looks up pairs")
	}
	defer func() { wide = true }()
	var byPairs, byVectors Encoder
	each(func(kind string, b []byte) {
		wide = true
		want, _ := byVectors.Append(nil, b)
		wide = false
		if got, _ := byPairs.Append(nil, b); !bytes.Equal(got, want) {
			t.Errorf("%s: other frames", kind)
		}
	})
}
