package command

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxLine bounds a line of a list, and of a ledger.
const maxLine = 4 << 20

// An listItem is a line of a list: a file, and what identifies its content.
type listItem struct {
	File string `json:"file"`
	Size int64  `json:"size"` // -1 where it is not known
	ETag string `json:"etag"` // "" where it is not known
}

// listItems reads a list: one file or address a line, verbatim. Empty lines and those
// that begin with # are skipped; one that begins with { is a JSON object whose file, size
// and etag count, as of an earlier --jsonl.
func listItems(r io.Reader) iter.Seq2[listItem, error] {
	return func(yield func(listItem, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		for n := 1; lines.Scan(); n++ {
			line := strings.TrimSuffix(lines.Text(), "\r")
			if line == "" || line[0] == '#' {
				continue
			}
			item, err := parseItem(line)
			if err != nil {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(listItem{}, err)
		}
	}
}

func parseItem(line string) (listItem, error) {
	item := listItem{File: line, Size: -1}
	if line[0] == '{' {
		item.File = ""
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			return item, errors.New("not a JSON object with file, size and etag")
		}
		if item.File == "" {
			return item, errors.New(`a JSON object without "file"`)
		}
	}
	if !utf8.ValidString(item.File) {
		return item, errors.New("not UTF-8")
	}
	return item, nil
}

// window is how many results may wait for one before them.
const window = 1024

// inOrder calls work for each item in a goroutine of its own, as many at once as slots of
// the item holds, and then use, one at a time, in the order of the items. It returns the
// first error of items or use, or of ctx, when all that was begun has ended.
func inOrder[I, R any](ctx context.Context, items iter.Seq2[I, error],
	slots func(I) chan struct{}, work func(I) R, use func(R) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(chan chan R, window)
	var used sync.WaitGroup
	used.Go(func() {
		for c := range results {
			if r := <-c; ctx.Err() == nil {
				if err := use(r); err != nil {
					cancel(err)
				}
			}
		}
	})
	for item, err := range items {
		if err != nil {
			cancel(err)
			break
		}
		free := slots(item)
		select {
		case <-ctx.Done():
		case free <- struct{}{}:
		}
		if ctx.Err() != nil {
			break
		}
		c := make(chan R, 1)
		results <- c
		go func() {
			defer func() { <-free }()
			c <- work(item)
		}()
	}
	close(results)
	used.Wait()
	return context.Cause(ctx)
}

// identityOf returns the size of a file on disk and what identifies its content: its time
// of change; of a directory the sizes together, and a digest of its listing.
func identityOf(name string) (size int64, etag string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return -1, "", err
	}
	if !info.IsDir() {
		return info.Size(), timeOf(info), nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(path)
		if err != nil { // a link to nothing
			files = append(files, path)
			return nil
		}
		size += info.Size()
		files = append(files, fmt.Sprint(path, " ", info.Size(), " ", timeOf(info)))
		return nil
	})
	if err != nil {
		return -1, "", err
	}
	return size, "listing:" + digestOf(files), nil
}

func timeOf(info fs.FileInfo) string { return fmt.Sprintf("mtime:%d", info.ModTime().UnixNano()) }

// digestOf returns the SHA-256 of words, in hexadecimal.
func digestOf(words []string) string {
	h := sha256.New()
	for _, w := range words {
		fmt.Fprintf(h, "%q\n", w)
	}
	return hex.EncodeToString(h.Sum(nil))
}
