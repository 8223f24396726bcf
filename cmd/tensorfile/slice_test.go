package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

func TestSlicesArePythons(t *testing.T) {
	// As Python 3 answers list(range(7))[…].
	for _, c := range []struct {
		slice string
		want  []int64
	}{
		{":", []int64{0, 1, 2, 3, 4, 5, 6}}, {"2:4", []int64{2, 3}}, {"-2:", []int64{5, 6}}, {":-5", []int64{0, 1}},
		{"::3", []int64{0, 3, 6}}, {"::-1", []int64{6, 5, 4, 3, 2, 1, 0}}, {"5:1:-2", []int64{5, 3}}, {"-100:100", []int64{0, 1, 2, 3, 4, 5, 6}},
		{"4:2", nil}, {"2:4:-1", nil}, {"100:0:-3", []int64{6, 3}}, {":2:-1", []int64{6, 5, 4, 3}}, {"3::-1", []int64{3, 2, 1, 0}},
		{"-1:-100:-2", []int64{6, 4, 2, 0}}, {"7:", nil}, {" 1 : 3 ", []int64{1, 2}}, {"-100::-1", nil}, {":0", nil}, {"2:4,", []int64{2, 3}},
	} {
		r, err := parseSlice(c.slice, tensor.Shape{7})
		if err != nil {
			t.Errorf("[%s]: %v", c.slice, err)
			continue
		}
		var got []int64
		err = r.walk(&tensor.Tensor{Shape: tensor.Shape{7}}, func(at int64) error { got = append(got, at); return nil })
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("[%s]: %v, want %v; %v", c.slice, got, c.want, err)
		}
	}
	for _, bad := range []string{"7", "-8", "a", "1:2:3:4", "::0", "1:x", "...,...", "0,0", "1.5", ",", "99999999999999999999"} {
		if r, err := parseSlice(bad, tensor.Shape{7}); err == nil {
			t.Errorf("[%s] is %v", bad, r)
		}
	}
}

func TestSlicesOfSeveralDimensions(t *testing.T) {
	shape := tensor.Shape{2, 3, 4}
	for _, order := range []tensor.Order{nil, {2, 1, 0}, {1, 2, 0}} {
		for slice, want := range map[string]string{
			"0":           "[3, 4]",
			"...,0":       "[2, 3]",
			"1,...,-1":    "[3]",
			":,1:,::2":    "[2, 2, 2]",
			"...":         "[2, 3, 4]",
			"1,2,3":       "[]",
			"1,2,3,...":   "[]",
			":,:0":        "[2, 0, 4]",
			"::-1,::-1,1": "[2, 3]",
		} {
			r, err := parseSlice(slice, shape)
			if err != nil {
				t.Errorf("[%s]: %v", slice, err)
				continue
			}
			if got := r.shape().String(); got != want {
				t.Errorf("[%s] has shape %s, want %s", slice, got, want)
			}
			// Every place is that of its index by the strides.
			x := &tensor.Tensor{Shape: shape, Order: order}
			strides, _ := order.Strides(shape)
			index := make([]int64, 3)
			err = r.walk(x, func(at int64) error {
				var want int64
				for d := range r {
					want += (r[d].first + index[d]*r[d].step) * strides[d]
				}
				if at != want {
					return fmt.Errorf("%v is at %d, not %d", index, at, want)
				}
				for d := 2; d >= 0; d-- {
					if index[d]++; index[d] < r[d].count {
						break
					}
					index[d] = 0
				}
				return nil
			})
			if err != nil {
				t.Errorf("order %v [%s]: %v", order, slice, err)
			}
		}
	}
}

// A window gives the same bytes whatever the blob is and however it is walked.
func TestWindowOverEverySource(t *testing.T) {
	n := 3*windowSize + 1000
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>9)
	}
	opened := 0
	streamed := tensor.BlobFunc(int64(n), func() (io.ReadCloser, error) {
		opened++
		return io.NopCloser(bytes.NewReader(data)), nil
	})
	for name, b := range map[string]tensor.Blob{"in memory": tensor.BlobOf(data), "a stream": streamed} {
		w := newWindow(t.Context(), b, 8)
		for _, i := range []int{0, 1, windowSize - 1, windowSize, 2*windowSize + 5, n - 1, n - 2, 3, 0, n / 2} {
			p, k, err := w.at(int64(i))
			if err != nil || p[k] != data[i] {
				t.Errorf("%s: byte %d is %d, want %d; %v", name, i, p[k], data[i], err)
			}
		}
		w.close()
	}
	if opened > 2 {
		t.Errorf("the stream was opened %d times", opened)
	}
	short := tensor.BlobFunc(int64(n), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data[:n/2])), nil })
	w := newWindow(t.Context(), short, 8)
	defer w.close()
	if _, _, err := w.at(int64(n - 1)); err == nil {
		t.Error("a stream that ends early")
	}
}
