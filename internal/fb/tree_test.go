package fb_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/internal/fb"
	"github.com/tensorfile/tensorfile/internal/fb/fbtest"
	"github.com/tensorfile/tensorfile/schema/ptnfb"
)

// A buffer that was taken apart and written again shows what it showed before.
func TestTakenAndWrittenShowsTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, r := range fbtest.Roots() {
		for i := range 100 {
			buf := r.Random(rng, 1+i)
			again := rewritten(t, buf, r)
			if err := verify(again, r); err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			if was, is := r.Walk(buf), r.Walk(again); was != is {
				t.Fatalf("%s: a walk of %d steps, of %d before", r.Name, is, was)
			}
		}
	}
}

func TestTakenVectorOfStringsKeepsItsOrder(t *testing.T) {
	for _, r := range fbtest.Roots() {
		if r.Schema != &ptnfb.Schema {
			continue
		}
		r.Table = ptnfb.TableTensorListArg
		want := []string{"b", "", "a", "b"}
		var b fb.Builder
		offsets := make([]fb.Offset, len(want))
		for i, s := range want {
			offsets[i] = b.String(s)
		}
		v := b.Offsets(offsets)
		b.Begin()
		b.Ref(ptnfb.SlotTensorListArgNames, v)
		buf, err := b.Finish(b.End(), "")
		if err != nil {
			t.Fatal(err)
		}
		var x ptnfb.TensorListArg
		again := rewritten(t, buf, r)
		x.Init(again, ptnfb.GetRootAsProgram(again, 0).Table().Pos)
		for i := range max(len(want), x.NamesLength()) {
			if i >= x.NamesLength() || string(x.Names(i)) != want[i] {
				t.Fatalf("string %d of %d", i, x.NamesLength())
			}
		}
	}
}

func rewritten(t *testing.T, buf []byte, r fbtest.Root) []byte {
	t.Helper()
	root, err := fb.Take(buf, r.Schema, r.Table, nil)
	if err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	var b fb.Builder
	again, err := b.Finish(root.Write(&b), r.Identifier)
	if err != nil {
		t.Fatal(err)
	}
	return again
}
