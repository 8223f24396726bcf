package command

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/internal/atomicfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// A sarifLog collects findings for --sarif: SARIF 2.1.0, as services that show the
// findings of a repository read it.
type sarifLog struct {
	file string // "" without --sarif

	mu      sync.Mutex
	results []sarifResult
	errors  []object // of files that were not checked
}

// maxSARIF is how many results of a run GitHub accepts.
const maxSARIF = 25_000

// projectPage is the address of the project. checkPage describes the codes of findings.
const (
	projectPage = "https://github.com/tensorfile/tensorfile"
	sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"
	checkPage   = projectPage + "/blob/main/docs/check.md#findings"
)

type object = map[string]any

// A sarifResult is a finding, and what results are sorted by.
type sarifResult struct {
	object
	rule, level, uri, name string
}

// sarif adds the flag --sarif to a command.
func (a *app) sarif(cmd *cobra.Command) *sarifLog {
	s := &sarifLog{errors: []object{}}
	cmd.Flags().StringVar(&s.file, "sarif", "",
		"also write the findings to `FILE` as SARIF 2.1.0, for code scanning")
	return s
}

// run calls manyFiles.run, and then writes the findings of all files.
func (s *sarifLog) run(l *manyFiles, args []string, do work) error {
	if s.file == "" {
		return l.run(args, do)
	}
	if l.resume != "" {
		return wrong("--jsonl, whose lines a ledger has", "--sarif is not for --resume, which "+
			"skips files")
	}
	o := &outputs{force: isSARIF(s.file)}
	err := l.mayWrite(s.file, o)
	if errors.Is(err, fs.ErrExist) {
		err = &atomicfile.Error{Name: s.file, Err: advise("a new name, or an earlier report's",
			fs.ErrExist)}
	}
	if err != nil || s.file == "-" {
		return cmp.Or(onFile(s.file, err), wrong("--sarif findings.sarif",
			"--sarif takes the name of a file"))
	}
	err = l.run(args, func(a *app, name string) (document, error) {
		d, err := do(a, name)
		s.add(name, d, err)
		return d, err
	})
	if err != nil || l.ctx.Err() != nil {
		return err
	}
	text, err := s.text(l)
	if err != nil {
		return err
	}
	return onFile(s.file, l.app.write(s.file, o, 0, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}))
}

// isSARIF reports whether a file is an earlier report, which may be replaced.
func isSARIF(name string) bool {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	return bytes.Contains(head[:n], []byte(sarifSchema))
}

// add adds the findings of an input, or the reason why it was not checked.
func (s *sarifLog) add(name string, d document, err error) {
	base, rows := name, []findingRow(nil)
	switch d := d.(type) {
	case *verifyDocument:
		rows = d.Findings
		if info, e := os.Stat(name); isAddress(name) && tensorfile.ByName(name) != 0 || e == nil &&
			!info.IsDir() {
			base = strings.TrimSuffix(name, baseName(name))
		}
	case *checkedDirectory:
		base, rows = cmp.Or(d.from, name), d.rows()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && rows == nil {
		s.fail(name, describe(err))
	}
	for _, f := range rows {
		file := name
		if f.File != "" {
			file = joinName(base, f.File)
		}
		artifact := artifactOf(file)
		location := object{"physicalLocation": object{"artifactLocation": artifact,
			"region": regionOf(file, int64(f.Offset))}}
		if f.Field != "" {
			location["logicalLocations"] = []object{{"fullyQualifiedName": visible(f.Field)}}
		}
		rule := f.Code
		if rule == "" && f.Class == string(tensor.ClassIO) {
			rule = string(model.Unreadable)
		}
		rule = cmp.Or(rule, f.Class)
		s.results = append(s.results, sarifResult{object{"ruleId": rule, "level": f.Severity,
			"message": sarifText(f.Message), "locations": []object{location}}, rule, f.Severity,
			artifact["uri"], f.Field})
	}
}

// fail records that a file was not checked.
func (s *sarifLog) fail(name, reason string) {
	s.errors = append(s.errors, object{"level": "error",
		"message": sarifText(string(display(withoutSecrets(name))) + ": " + reason)})
}

// regionOf returns the region of an offset. In a JSON file it has the line and the
// column. In other files the line is 1: GitHub does not show a region without a line.
func regionOf(name string, offset int64) object {
	if offset < 0 {
		return object{"startLine": 1}
	}
	r := object{"startLine": 1, "byteOffset": offset, "byteLength": 0}
	if filepath.Ext(name) != ".json" || isAddress(name) {
		return r
	}
	if text, err := readLimited(name, maxManifest); err == nil && offset <= int64(len(text)) {
		text = text[:offset]
		column := 1 + utf8.RuneCount(text[bytes.LastIndexByte(text, '\n')+1:])
		r["startLine"] = 1 + bytes.Count(text, []byte("\n"))
		r["startColumn"], r["endColumn"] = column, column
	}
	return r
}

// joinName returns the name of a file of a directory, which may be an address.
func joinName(dir, file string) string {
	if isAddress(dir) {
		return strings.TrimSuffix(dir, "/") + "/" + file
	}
	return filepath.Join(dir, filepath.FromSlash(file))
}

// artifactOf returns the URI of a file: relative to the working directory, if it is below
// that, else absolute.
func artifactOf(name string) map[string]string {
	if isAddress(name) {
		u, err := url.Parse(withoutSecrets(name))
		if err != nil {
			u = &url.URL{Path: name}
		}
		return map[string]string{"uri": u.String()}
	}
	name, _ = localName(name)
	full, err := filepath.Abs(name)
	if err != nil {
		full = name
	}
	wd, err := os.Getwd()
	if below, e := filepath.Rel(wd, full); err == nil && e == nil && filepath.IsLocal(below) {
		u := url.URL{Path: filepath.ToSlash(below)}
		return map[string]string{"uri": strings.ReplaceAll(u.EscapedPath(), ":", "%3A"),
			"uriBaseId": "%SRCROOT%"}
	}
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(full), "/")}
	return map[string]string{"uri": u.String()}
}

// sarifText returns a message of plain text: braces are doubled, as placeholders have
// them, and nothing in it is a link.
func sarifText(text string) object {
	return object{"text": strings.NewReplacer("{", "{{", "}", "}}", "](", "] (").Replace(
		visible(text))}
}

// text returns the file. Results are sorted by level, so that the errors are first, and
// by file.
func (s *sarifLog) text(l *manyFiles) ([]byte, error) {
	levels := []string{"error", "warning", "note"}
	slices.SortStableFunc(s.results, func(a, b sarifResult) int {
		return cmp.Or(cmp.Compare(slices.Index(levels, a.level), slices.Index(levels, b.level)),
			cmp.Compare(a.uri, b.uri))
	})
	if n := len(s.results) - maxSARIF; n > 0 {
		l.message("--sarif: only the %d most severe findings, as many as GitHub accepts: %d more "+
			"are left out", maxSARIF, n)
		s.results = s.results[:maxSARIF]
	}
	if f := l.failed; f != nil { // a directory that is not there
		s.fail(f.File, f.Error)
	}
	var ids []string
	for _, r := range s.results {
		ids = append(ids, r.rule)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	results, rules, same := []object{}, []object{}, map[string]int{}
	for _, r := range s.results {
		r.object["ruleIndex"], _ = slices.BinarySearch(ids, r.rule)
		hash := fmt.Sprintf("%.8x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", r.rule, r.uri,
			r.name)))[:16]
		same[hash]++
		r.object["partialFingerprints"] = object{
			"primaryLocationLineHash": fmt.Sprintf("%s:%d", hash, same[hash])}
		results = append(results, r.object)
	}
	for _, id := range ids {
		words := strings.ReplaceAll(id, "-", " ")
		text := sarifText(fmt.Sprintf("tensorfile %s reports it as %s. %s describes the codes.",
			l.cmd.Name(), id, checkPage))
		rule := object{"id": id, "fullDescription": text, "help": text, "helpUri": checkPage,
			"shortDescription": object{"text": strings.ToUpper(words[:1]) + words[1:]}}
		switch model.Code(id) {
		case model.RunsCode, model.Pickle, model.UnsafePath:
			rule["properties"] = object{"tags": []string{"security"}}
		}
		rules = append(rules, rule)
	}
	text, err := json.MarshalIndent(object{"$schema": sarifSchema, "version": "2.1.0",
		"runs": []object{{
			"tool": object{"driver": object{"name": "tensorfile", "version": l.version,
				"informationUri": projectPage, "rules": rules}},
			"automationDetails": object{"id": "tensorfile-" + l.cmd.Name() + "/"},
			"columnKind":        "unicodeCodePoints",
			"invocations": []object{{"toolExecutionNotifications": s.errors,
				"executionSuccessful": l.status == statusOK || l.status == statusFound}},
			"results": results}}}, "", "  ")
	return append(text, '\n'), err
}
