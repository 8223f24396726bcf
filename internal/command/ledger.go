package command

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tensorfile/tensorfile/internal/atomicfile"
)

// A ledger is a file of lines of JSON, one for each file that was worked on. It is safe
// for concurrent use.
type ledger struct {
	job  string
	mu   sync.Mutex
	f    *os.File
	done map[[sha256.Size]byte]int // exit statuses
}

// A ledgerLine is what a ledger is searched for.
type ledgerLine struct {
	listItem
	Job  string `json:"job"`
	Exit *int   `json:"exit"`
}

func keyOf(item listItem, job string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q", item.File, item.Size, item.ETag, job))
}

// openLedger opens the ledger of that name, or makes it, and locks it where the system
// can. Lines of other jobs stay and do not count; a last line without an end, of a
// process that was killed, is dropped.
func openLedger(name, job string) (l *ledger, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, errors.New("not a regular file"))
	}
	if err := atomicfile.Lock(f); err != nil {
		return nil, err
	}
	l = &ledger{job: job, f: f, done: map[[sha256.Size]byte]int{}}
	r := bufio.NewReaderSize(f, 64<<10)
	end := int64(0)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if err == io.EOF && isTorn(line) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		end += int64(len(line))
		e, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if e.Job == job && *e.Exit != statusUnreadable {
			l.done[keyOf(e.listItem, job)] = *e.Exit
		}
	}
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	_, err = f.Seek(end, io.SeekStart)
	return l, err
}

// lineStart is how every line of a ledger begins.
const lineStart = `{"file": "`

// isTorn reports whether a line without an end can be one of a ledger, and not of some
// other file whose name was given by mistake: one that is whole must be a ledger's.
func isTorn(line []byte) bool {
	n := min(len(line), len(lineStart))
	_, err := parseLine(line)
	return string(line[:n]) == lineStart[:n] && (err == nil || !json.Valid(line))
}

// parseLine returns what a line of a ledger says.
func parseLine(line []byte) (ledgerLine, error) {
	e := ledgerLine{listItem: listItem{Size: -1}}
	if err := json.Unmarshal(line, &e); err != nil || e.File == "" || e.Exit == nil {
		return e, errors.New("not a line of a ledger")
	}
	return e, nil
}

// readLine returns a line with its end, and io.EOF for what has none.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		if line = append(line, piece...); err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > maxLine {
			return nil, errors.New("it has no end")
		}
	}
}

// find returns the exit status of an item that the ledger has.
func (l *ledger) find(item listItem) (exit int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	exit, ok = l.done[keyOf(item, l.job)]
	return exit, ok
}

// add appends the line of an item, which has no end.
func (l *ledger) add(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.f.Write(append(bytes.TrimRight(line, "\n"), '\n'))
	return err
}

// close flushes the ledger to the disk.
func (l *ledger) close() error {
	return errors.Join(l.f.Sync(), l.f.Close())
}
