package command

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

func TestItemsOfAListAreLinesOrJSON(t *testing.T) {
	const list = "a b.zt\n\n# a comment\n\t*.zt\r\n" +
		`{"file": "s3://b/k", "size": 7, "etag": "e", "more": [1]}` + "\n" + `{"file": "x"}`
	var got []listItem
	for item, err := range listItems(strings.NewReader(list)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, item)
	}
	want := []listItem{{"a b.zt", -1, ""}, {"\t*.zt", -1, ""}, {"s3://b/k", 7, "e"}, {"x", -1, ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, bad := range []string{"{", `{"size": 1}`, `{"file": 1}`, "a\xff",
		strings.Repeat("x", maxLine+1)} {
		n := 0
		for _, err := range listItems(strings.NewReader("first\n" + bad + "\nlast\n")) {
			if n++; n == 2 && err == nil {
				t.Errorf("%.20q is read", bad)
			}
		}
		if n != 2 {
			t.Errorf("%.20q: %d items", bad, n)
		}
	}
}

func TestPartsHaveEachItemOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 100} {
		for i := range 1000 {
			name, in := fmt.Sprint("shard ", i), 0
			for part := range n {
				if (listPart{part, n}).has(name) {
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%s is in %d of %d parts", name, in, n)
			}
		}
	}
	// The first eight bytes of SHA-256 of "a" are ca978112ca1bbdca.
	if !(listPart{0xca978112ca1bbdca % 1000, 1000}).has("a") {
		t.Error("the part of a is another one")
	}
}

func TestParsePartTakesNumbersInTheirRange(t *testing.T) {
	for _, c := range []struct {
		text string
		env  map[string]string
		want listPart // the zero value: an error
	}{
		{"1/8", nil, listPart{0, 8}},
		{"8/8", nil, listPart{7, 8}},
		{"0/8", nil, listPart{}},
		{"9/8", nil, listPart{}},
		{"1/0", nil, listPart{}},
		{"1", nil, listPart{}},
		{"", nil, listPart{}},
		{"auto/4", nil, listPart{}},
		{"auto/4", map[string]string{kubernetesIndex: "3"}, listPart{3, 4}},
		{"auto/4", map[string]string{kubernetesIndex: "4"}, listPart{}},
		{"auto/4", map[string]string{kubernetesIndex: "-1"}, listPart{}},
		{"auto/4", map[string]string{awsIndex: "0"}, listPart{0, 4}},
		{"auto/4", map[string]string{awsIndex: "0", kubernetesIndex: "0"}, listPart{0, 4}},
		{"auto/4", map[string]string{awsIndex: "0", kubernetesIndex: "1"}, listPart{}},
		{"auto", map[string]string{awsIndex: "1", awsSize: "2"}, listPart{1, 2}},
		{"auto", map[string]string{awsIndex: "1"}, listPart{}},
	} {
		got, err := parsePart(c.text, func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want.of > 0) {
			t.Errorf("%q, %v: %v, %v", c.text, c.env, got, err)
		}
	}
}

func TestLedgerRemembersWhatWasDone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ledger")
	l, err := openLedger(name, "verify")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := openLedger(name, "verify"); err == nil {
		t.Log("this system has no locks")
		again.close()
	}
	item := listItem{"a", 7, "e"}
	for _, line := range []string{
		`{"file":"a","size":7,"etag":"e","exit":1,"job":"verify"}`,
		`{"file":"b","size":7,"etag":"e","exit":3,"job":"verify"}`,
		`{"file":"c","size":7,"etag":"e","exit":0,"job":"hash"}`,
	} {
		if err := l.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(whole, `{"file": "d","si`...), 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err = openLedger(name, "verify"); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if exit, ok := l.find(item); !ok || exit != 1 {
		t.Errorf("a: %d, %v", exit, ok)
	}
	for _, other := range []listItem{{"a", 8, "e"}, {"a", 7, "f"}, {"b", 7, "e"}, {"c", 7, "e"},
		{"d", 7, "e"}} {
		if _, ok := l.find(other); ok {
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
		if l, err := openLedger(name, "verify"); err == nil {
			t.Errorf("%.10q is a ledger", text)
			l.close()
		}
		if got, _ := os.ReadFile(name); string(got) != text {
			t.Errorf("%.10q was changed", text)
		}
	}
}

func numbers(n int, end error) iter.Seq2[listItem, error] {
	return func(yield func(listItem, error) bool) {
		for i := range n {
			if !yield(listItem{Size: int64(i)}, nil) {
				return
			}
		}
		if end != nil {
			yield(listItem{}, end)
		}
	}
}

func TestRunKeepsTheOrder(t *testing.T) {
	slots := make(chan struct{}, 3)
	var mu sync.Mutex
	running, largest := 0, 0
	var got []int64
	err := inOrder(t.Context(), numbers(3000, nil),
		func(listItem) chan struct{} { return slots },
		func(item listItem) int64 {
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
	same := func(listItem) chan struct{} { return slots }
	work := func(item listItem) int64 { return item.Size }
	use := func(int64) error { return nil }
	if err := inOrder(t.Context(), numbers(10, failure), same, work, use); err != failure {
		t.Errorf("of the list: %v", err)
	}
	n := 0
	err := inOrder(t.Context(), numbers(5000, nil), same, work, func(i int64) error {
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
	if err := inOrder(ctx, numbers(10, nil), same, work, use); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
