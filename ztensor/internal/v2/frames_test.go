package v2

import "testing"

func TestFrameCacheIsBounded(t *testing.T) {
	var c frameCache
	for i := range int64(100) {
		c.put(nil, i, make([]byte, 1<<20))
		if c.Size > MaxFrame || c.get(nil, i) == nil {
			t.Fatalf("%d bytes after %d frames", c.Size, i+1)
		}
	}
	if c.get(nil, 0) != nil || c.get(nil, 90) == nil {
		t.Error("the frames that were used last are not those that are held")
	}
}
