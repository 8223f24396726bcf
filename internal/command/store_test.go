package command

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/remote"
)

// directoryStore is an object store over a directory: x://bucket/KEY is its file KEY.
type directoryStore struct{ fs.FS }

func (s directoryStore) Open(_ context.Context, address string) (io.ReaderAt, int64, error) {
	f, err := s.FS.Open(strings.TrimPrefix(address, "s3://bucket/"))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	return f.(io.ReaderAt), info.Size(), err
}

func (s directoryStore) List(_ context.Context, prefix string) iter.Seq2[remote.Entry, error] {
	return func(yield func(remote.Entry, error) bool) {
		dir := path.Clean(strings.TrimPrefix(prefix, "s3://bucket/"))
		fs.WalkDir(s.FS, dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if !yield(remote.Entry{Address: "s3://bucket/" + name, Size: info.Size()}, nil) {
				return fs.SkipAll
			}
			return nil
		})
	}
}

func TestStoresAreOpenedByTheirScheme(t *testing.T) {
	var given *remote.Options
	opened := 0
	o := &Options{Openers: map[string]func(*remote.Options) (remote.Opener, error){
		"s3": func(options *remote.Options) (remote.Opener, error) {
			given, opened = options, opened+1
			return directoryStore{os.DirFS("../../testdata")}, nil
		},
	}}
	const name = "s3://bucket/ztensor/crate-1.2.3-digests.zt"
	const local = "../../testdata/ztensor/crate-1.2.3-digests.zt"
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"ls", name}, 0, "float32 crc32c"},
		{[]string{"hash", name, name}, 0, "float32 sha256"},
		{[]string{"diff", name, local}, 0, "the same"},
		{[]string{name}, 0, "ztensor"},
		{[]string{"ls", "s3://bucket/absent.zt"}, 3, "check the address"},
		{[]string{"check", "s3://bucket/absent/"}, 3, "check the address"},
		{[]string{"check", "s3://bucket/torch/shards"}, 1, "s3://bucket/torch/shards: "},
		{[]string{"detect", "-r", "s3://bucket/rten/"}, 0, "s3://bucket/rten/"},
		{[]string{"convert", local, name}, 3, "try: another name, or --force"},
		{[]string{"convert", "--jobs", "1", "--to", "zt", "-o", "s3://bucket/ztensor/", local}, 3,
			name + ": file already exists"},
		{[]string{"split", local, "s3://bucket/shards", "--max", "1"}, 2, "not a path on disk"},
		{[]string{"extract", local, "s3://bucket/arrays"}, 2, "not a path on disk"},
		{[]string{"recover", name}, 2, "not a path on disk"},
		{[]string{"clean", "s3://bucket/ztensor"}, 2, "not a path on disk"},
		{[]string{"ls", "gs://bucket/a.zt"}, 3, "unsupported operation: gs:// in this build"},
		{[]string{"ls", "gs://bucket/a.zt"}, 3, "try: the program of the release archives"},
	} {
		var out bytes.Buffer
		opened = 0
		status := o.run(t.Context(), test.args, strings.NewReader(""), &out, &out, os.Getenv)
		if status != test.status || !strings.Contains(out.String(), test.want) {
			t.Errorf("%q: exit status %d, want %d and %q:\n%s", test.args, status, test.status,
				test.want, out.String())
		}
		if strings.Contains(test.args[len(test.args)-1], "s3:") && test.status != 2 &&
			opened != 1 {
			t.Errorf("%q: the store is opened %d times", test.args, opened)
		}
	}
	if given == nil || given.MaxBytes == 0 {
		t.Errorf("options %+v", given)
	}
}
