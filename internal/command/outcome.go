package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An outcome is what a run of one file left.
type outcome struct {
	status int
	text   []byte
	err    error // of the ledger, or of standard output
	again  bool
}

// one runs the command for a file. Lines of JSON are written when they are complete.
func (l *manyFiles) one(f listedFile) (o outcome) {
	a, item := l.app, f.listItem
	if item.Size < 0 || item.ETag == "" {
		if known, err := a.identify(item.File, l.l != nil); err == nil {
			item.Size, item.ETag = known.Size, known.ETag
		}
	}
	if l.l != nil && item.ETag != "" {
		if o.status, o.again = l.l.find(item); o.again {
			return o
		}
	}
	begin := time.Now()
	var out, errs bytes.Buffer
	var fetched int64
	if f.err != nil {
		fmt.Fprintf(&errs, "tensorfile: %s: %v\n", display(withoutSecrets(item.File)), f.err)
		o.status = statusUnreadable
	} else {
		o.status, fetched = a.runFile(f.args, f.stdin, &out, &errs)
	}
	o.text = out.Bytes()
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.ctx.Err() != nil {
		return o
	}
	if errs.Len() > 0 {
		a.stderr.Write(errs.Bytes())
	}
	if !a.json {
		return o
	}
	message, _, _ := strings.Cut(errs.String(), "\n")
	message = strings.TrimPrefix(message, "tensorfile: ")
	message = strings.TrimPrefix(message, display(withoutSecrets(item.File))+": ")
	line, err := l.line(o.text, item, cmp.Or(message, "no result"), o.status,
		time.Since(begin), fetched)
	if err == nil && l.l != nil {
		err = l.l.add(line)
	} else if err == nil {
		if _, err = a.out.Write(append(line, '\n')); err == nil {
			err = a.flush()
		}
	}
	o.err = err
	return o
}

// arguments are those of the run of one file.
func (l *manyFiles) arguments(file string) ([]string, error) {
	args := l.common
	if l.app.json {
		args = append(slices.Clip(args), "--jsonl")
	}
	if l.made == nil {
		return append(slices.Clip(args), "--", file), nil
	}
	base := path.Base(filepath.ToSlash(strings.TrimRight(file, "/")))
	if isAddress(file) {
		base, _, _ = strings.Cut(base, "?")
	}
	base = strings.TrimSuffix(base, path.Ext(base)) + l.extension
	if other, ok := l.made[base]; ok {
		return nil, fmt.Errorf("its output has the name of that of %s", quote(other))
	}
	l.made[base] = file
	out := filepath.Join(l.outDir, base)
	if storeScheme(l.outDir) != "" {
		out = strings.TrimSuffix(l.outDir, "/") + "/" + base
	}
	return append(slices.Clip(args), "--", file, out), nil
}

// listFields are what the JSON of a file of a list has in addition.
type listFields struct {
	Address string  `json:"address"`
	Size    *int64  `json:"size,omitempty"`
	ETag    string  `json:"etag,omitempty"`
	Exit    int     `json:"exit"`
	Seconds float64 `json:"seconds"`
	Fetched int64   `json:"read_bytes"`
	Job     string  `json:"job,omitempty"`
}

// line is the JSON of a run with what a ledger needs.
func (l *manyFiles) line(text []byte, item listItem, message string, status int,
	took time.Duration, fetched int64) ([]byte, error) {
	text = bytes.TrimSpace(text)
	var has map[string]json.RawMessage
	if len(text) == 0 || json.Unmarshal(text, &has) != nil {
		var err error
		failed := &errorDocument{File: item.File, Error: message, Offset: -1}
		if text, err = marshal(failed); err != nil {
			return nil, err
		}
		has, text = nil, appendJSON(nil, text, oneLine)
	}
	facts := listFields{item.File, &item.Size, item.ETag, status,
		float64(took.Milliseconds()) / 1e3, fetched, ""}
	if item.Size < 0 || has["size"] != nil {
		facts.Size = nil
	}
	if l.l != nil {
		facts.Job = l.job
	}
	fields, err := marshal(facts)
	if err != nil {
		return nil, err
	}
	fields = appendJSON(nil, fields, oneLine)
	return slices.Concat(text[:len(text)-1], []byte(", "), fields[1:]), nil
}

// finished prints the outcome of a file in its turn, and counts it.
func (l *manyFiles) finished(o outcome) error {
	a := l.app
	a.status = worse(a.status, o.status)
	l.counts[o.status]++
	if o.again {
		l.again++
	}
	if o.err != nil || a.json || len(o.text) == 0 {
		return o.err
	}
	_, err := a.out.Write(o.text)
	return err
}

// summarise prints on standard error what became of all files.
func (l *manyFiles) summarise() {
	n := 0
	for _, c := range l.counts {
		n += c
	}
	parts := []string{count(n, "file"), fmt.Sprint(l.counts[statusOK], " ok")}
	for _, s := range []struct {
		status int
		what   string
	}{{statusFound, "with findings"}, {statusUsage, "refused"}, {statusUnreadable, "not read"},
		{statusLimit, "over a limit"}} {
		if l.counts[s.status] > 0 {
			parts = append(parts, fmt.Sprint(l.counts[s.status], " ", s.what))
		}
	}
	if l.again > 0 {
		parts = append(parts, fmt.Sprint(l.again, " done before"))
	}
	l.app.message("%s", strings.Join(parts, ", "))
}
