package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestItems(t *testing.T) {
	const list = "a b.zt\n\n# a comment\n\t*.zt\r\n" +
		`{"file": "s3://b/k", "size": 7, "etag": "e", "more": [1]}` + "\n" + `{"file": "x"}`
	var got []Item
	for item, err := range Items(strings.NewReader(list)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, item)
	}
	want := []Item{{"a b.zt", -1, ""}, {"\t*.zt", -1, ""}, {"s3://b/k", 7, "e"}, {"x", -1, ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, bad := range []string{"{", `{"size": 1}`, `{"file": 1}`, "a\xff",
		strings.Repeat("x", maxLine+1)} {
		n := 0
		for _, err := range Items(strings.NewReader("first\n" + bad + "\nlast\n")) {
			if n++; n == 2 && err == nil {
				t.Errorf("%.20q is read", bad)
			}
		}
		if n != 2 {
			t.Errorf("%.20q: %d items", bad, n)
		}
	}
}

func TestParts(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 100} {
		for i := range 1000 {
			name, in := fmt.Sprint("shard ", i), 0
			for part := range n {
				if (Part{part, n}).Has(name) {
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%s is in %d of %d parts", name, in, n)
			}
		}
	}
	// The first eight bytes of SHA-256 of "a" are ca978112ca1bbdca.
	if !(Part{0xca978112ca1bbdca % 1000, 1000}).Has("a") {
		t.Error("the part of a is another one")
	}
}

func TestParsePart(t *testing.T) {
	for _, c := range []struct {
		text string
		env  map[string]string
		want Part // the zero value: an error
	}{
		{"1/8", nil, Part{0, 8}},
		{"8/8", nil, Part{7, 8}},
		{"0/8", nil, Part{}},
		{"9/8", nil, Part{}},
		{"1/0", nil, Part{}},
		{"1", nil, Part{}},
		{"", nil, Part{}},
		{"auto/4", nil, Part{}},
		{"auto/4", map[string]string{kubernetesIndex: "3"}, Part{3, 4}},
		{"auto/4", map[string]string{kubernetesIndex: "4"}, Part{}},
		{"auto/4", map[string]string{kubernetesIndex: "-1"}, Part{}},
		{"auto/4", map[string]string{awsIndex: "0"}, Part{0, 4}},
		{"auto/4", map[string]string{awsIndex: "0", kubernetesIndex: "0"}, Part{0, 4}},
		{"auto/4", map[string]string{awsIndex: "0", kubernetesIndex: "1"}, Part{}},
		{"auto", map[string]string{awsIndex: "1", awsSize: "2"}, Part{1, 2}},
		{"auto", map[string]string{awsIndex: "1"}, Part{}},
	} {
		got, err := ParsePart(c.text, func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want.Of > 0) {
			t.Errorf("%q, %v: %v, %v", c.text, c.env, got, err)
		}
	}
}

func TestLedger(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(name, "verify")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := OpenLedger(name, "verify"); err == nil {
		t.Log("this system has no locks")
		again.Close()
	}
	item := Item{"a", 7, "e"}
	for _, line := range []string{
		`{"file":"a","size":7,"etag":"e","exit":1,"job":"verify"}`,
		`{"file":"b","size":7,"etag":"e","exit":3,"job":"verify"}`,
		`{"file":"c","size":7,"etag":"e","exit":0,"job":"hash"}`,
	} {
		if err := l.Add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(whole, `{"file": "d","si`...), 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLedger(name, "verify"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if exit, ok := l.Done(item); !ok || exit != 1 {
		t.Errorf("a: %d, %v", exit, ok)
	}
	for _, other := range []Item{{"a", 8, "e"}, {"a", 7, "f"}, {"b", 7, "e"}, {"c", 7, "e"},
		{"d", 7, "e"}} {
		if _, ok := l.Done(other); ok {
			t.Errorf("%v is done", other)
		}
	}
	if got, _ := os.ReadFile(name); string(got) != string(whole) {
		t.Errorf("%q, want %q", got, whole)
	}
}

func TestLedgerRefusesOtherFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	for _, text := range []string{"weights", "weights\n", "{}", "{}\n",
		strings.Repeat("x", maxLine+1<<20)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenLedger(name, "verify"); err == nil {
			t.Errorf("%.10q is a ledger", text)
			l.Close()
		}
		if got, _ := os.ReadFile(name); string(got) != text {
			t.Errorf("%.10q was changed", text)
		}
	}
}

func numbers(n int, end error) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for i := range n {
			if !yield(Item{Size: int64(i)}, nil) {
				return
			}
		}
		if end != nil {
			yield(Item{}, end)
		}
	}
}

func TestRunKeepsTheOrder(t *testing.T) {
	slots := make(chan struct{}, 3)
	var mu sync.Mutex
	running, largest := 0, 0
	var got []int64
	err := Run(t.Context(), numbers(3000, nil),
		func(Item) chan struct{} { return slots },
		func(item Item) int64 {
			mu.Lock()
			running++
			largest = max(largest, running)
			mu.Unlock()
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			return item.Size
		},
		func(i int64) error { got = append(got, i); return nil })
	if err != nil || len(got) != 3000 || !slices.IsSorted(got) || largest > 3 {
		t.Errorf("%v, %d results, %d at once", err, len(got), largest)
	}
}

func TestRunEndsWithErrors(t *testing.T) {
	failure := errors.New("failure")
	slots := make(chan struct{}, 2)
	same := func(Item) chan struct{} { return slots }
	work := func(item Item) int64 { return item.Size }
	use := func(int64) error { return nil }
	if err := Run(t.Context(), numbers(10, failure), same, work, use); err != failure {
		t.Errorf("of the list: %v", err)
	}
	n := 0
	err := Run(t.Context(), numbers(5000, nil), same, work, func(i int64) error {
		if n++; i == 7 {
			return failure
		}
		return nil
	})
	if err != failure || n != 8 {
		t.Errorf("of use: %v, %d results", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, numbers(10, nil), same, work, use); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
