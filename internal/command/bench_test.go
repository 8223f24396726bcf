package command

import (
	"context"
	"io"
	"os"
	"testing"
)

// BenchmarkLs lists the file that TENSORFILE_BENCH names, as a whole run of the
// program but for starting it.
func BenchmarkLs(b *testing.B) {
	name := os.Getenv("TENSORFILE_BENCH")
	if name == "" {
		b.Skip("TENSORFILE_BENCH names no file")
	}
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"detect"}} {
		b.Run(args[len(args)-1], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s := run(context.Background(), append(args, name), nil, io.Discard, io.Discard,
					os.Getenv); s != 0 {
					b.Fatal(s)
				}
			}
		})
	}
}
