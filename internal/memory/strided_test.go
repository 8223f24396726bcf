package memory

import "testing"

// A part of a larger array: two of the three rows of a column-major matrix, as
// rows. package tensor tests all the orders of whole arrays.
func TestPartOfAnArrayIsCopiedByItsStrides(t *testing.T) {
	column := []byte("adgbehcfi") // abc def ghi
	rows := make([]byte, 6)
	CopyStrided(rows, []int64{3, 1}, column[1:], []int64{1, 3}, []int64{2, 3}, 1)
	if string(rows) != "defghi" {
		t.Errorf("%q", rows)
	}
}

func TestOneElementIsCopiedAtEveryWidth(t *testing.T) {
	for _, width := range []int64{1, 2, 4, 8, 16} {
		src, dst := []byte("0123456789abcdef")[:width], make([]byte, width)
		CopyStrided(dst, []int64{1, 1}, src, []int64{1, 1}, []int64{1, 1}, width)
		if string(dst) != string(src) {
			t.Errorf("%d bytes: %q", width, dst)
		}
		CopyStrided(dst, nil, src, nil, nil, width)
	}
}
