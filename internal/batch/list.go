// Package batch divides a list of files among processes and workers, and keeps a ledger
// of what is done, so that what was interrupted goes on where it stopped.
package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// maxLine bounds a line of a list, and of a ledger.
const maxLine = 4 << 20

// An Item is a line of a list: a file, and what identifies its content.
type Item struct {
	File string `json:"file"`
	Size int64  `json:"size"` // -1 where it is not known
	ETag string `json:"etag"` // "" where it is not known
}

// Items reads a list: one file or address a line, verbatim. Empty lines and those that
// begin with # are skipped; one that begins with { is a JSON object whose file, size and
// etag count, as of an earlier --jsonl.
func Items(r io.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
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
			yield(Item{}, err)
		}
	}
}

func parseItem(line string) (Item, error) {
	item := Item{File: line, Size: -1}
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
