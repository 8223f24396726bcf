package command

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/model"
	"github.com/tensorfile/tensorfile/tensor"
)

// A sarifLog collects findings for --sarif: SARIF 2.1.0, as services that show the
// findings of a repository read it.
type sarifLog struct {
	file string // "" without --sarif

	mu      sync.Mutex
	results []sarifResult
	errors  []sarifNotification // of files that were not checked
}

// maxSARIF is how many results of a run GitHub accepts.
const maxSARIF = 25_000

// projectPage is the address of the project. checkPage describes the codes of findings.
const (
	projectPage = "https://github.com/tensorfile/tensorfile"
	sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"
	checkPage   = projectPage + "/blob/main/docs/check.md#findings"
)

type (
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Partial   struct {
			Hash string `json:"primaryLocationLineHash"`
		} `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact sarifArtifact `json:"artifactLocation"`
			Region   sarifRegion   `json:"region"`
		} `json:"physicalLocation"`
		Logical []sarifName `json:"logicalLocations,omitempty"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	// A sarifRegion has a line, 1 in binary files, because GitHub shows nothing without.
	sarifRegion struct {
		Line      int    `json:"startLine"`
		Column    int    `json:"startColumn,omitempty"`
		EndColumn int    `json:"endColumn,omitempty"`
		Offset    *int64 `json:"byteOffset,omitempty"`
		Length    *int64 `json:"byteLength,omitempty"`
	}
	sarifName struct {
		Name string `json:"fullyQualifiedName"`
	}
	sarifNotification struct {
		Level   string       `json:"level"`
		Message sarifMessage `json:"message"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifMessage `json:"shortDescription"`
		Full    sarifMessage `json:"fullDescription"`
		Help    sarifMessage `json:"help"`
		HelpURI string       `json:"helpUri"`
	}
)

// sarif gives a command the flag --sarif.
func (a *app) sarif(cmd *cobra.Command) *sarifLog {
	s := &sarifLog{results: []sarifResult{}, errors: []sarifNotification{}}
	cmd.Flags().StringVar(&s.file, "sarif", "",
		"also write the findings to `FILE` as SARIF 2.1.0, for code scanning")
	return s
}

// run is manyFiles.run, and writes the findings of all files.
func (s *sarifLog) run(l *manyFiles, args []string, do work) error {
	if s.file == "" {
		return l.run(args, do)
	}
	if l.resume != "" {
		return wrong("--jsonl, whose lines a ledger has", "--sarif is not for --resume, which "+
			"skips files")
	}
	o := &outputs{force: isSARIF(s.file)}
	if err := l.mayWrite(s.file, o); err != nil || s.file == "-" {
		return cmp.Or(err, wrong("--sarif findings.sarif", "--sarif takes the name of a file"))
	}
	err := l.run(args, func(a *app, name string) (document, error) {
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

// isSARIF reports whether a file is an earlier report, which a new one replaces.
func isSARIF(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head)
	return bytes.Contains(head[:n], []byte(sarifSchema))
}

// add adds the findings of an input, or why it was not checked.
func (s *sarifLog) add(name string, d document, err error) {
	base, rows := name, []findingRow(nil)
	switch d := d.(type) {
	case *verifyDocument:
		rows = d.Findings
		if info, e := os.Stat(name); isListed(name) && tensorfile.ByName(name) != 0 || e == nil &&
			!info.IsDir() {
			base = strings.TrimSuffix(name, baseName(name))
		}
	case *checkedDirectory:
		base = cmp.Or(d.from, name)
		for _, f := range d.Report.Findings {
			row := findingRows([]tensor.Finding{{Severity: f.Severity, Class: f.Class(),
				Code: string(f.Code), File: cmp.Or(f.File, "."), Offset: f.Offset,
				Field: cmp.Or(f.Field, f.Tensor), Err: f.Err}})[0]
			if f.Tensor != "" {
				row.Message = escape(f.Tensor) + ": " + row.Message
			}
			rows = append(rows, row)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && rows == nil {
		s.errors = append(s.errors, sarifNotification{"error",
			sarifText(display(withoutSecrets(name)) + ": " + describe(err))})
	}
	for _, f := range rows {
		r := sarifResult{Rule: ruleOf(f), Level: f.Severity,
			Message: sarifText(f.Message), Locations: make([]sarifLocation, 1)}
		file := name
		if f.File != "" {
			file = joinName(base, f.File)
		}
		l := &r.Locations[0]
		l.Physical.Artifact = artifactOf(file)
		l.Physical.Region = regionOf(file, int64(f.Offset))
		if f.Field != "" {
			l.Logical = []sarifName{{visible(f.Field)}}
		}
		s.results = append(s.results, r)
	}
}

// ruleOf returns the code of a finding, or what says most in its place.
func ruleOf(f findingRow) string {
	if f.Class == string(tensor.ClassIO) {
		f.Class = string(model.Unreadable)
	}
	return cmp.Or(f.Code, f.Class)
}

// regionOf returns the place of an offset, or the first line if there is none. In a file
// of JSON it has the line and the column.
func regionOf(name string, offset int64) sarifRegion {
	if offset < 0 {
		return sarifRegion{Line: 1}
	}
	r := sarifRegion{Line: 1, Offset: &offset, Length: new(int64)}
	if filepath.Ext(name) != ".json" || isAddress(name) {
		return r
	}
	if text, err := readLimited(name, maxManifest); err == nil && offset <= int64(len(text)) {
		text = text[:offset]
		r.Line += bytes.Count(text, []byte("\n"))
		r.Column = 1 + utf8.RuneCount(text[bytes.LastIndexByte(text, '\n')+1:])
		r.EndColumn = r.Column
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
func artifactOf(name string) sarifArtifact {
	if isAddress(name) {
		u, err := url.Parse(withoutSecrets(name))
		if err != nil {
			u = &url.URL{Path: name}
		}
		return sarifArtifact{URI: u.String()}
	}
	name, _ = localName(name)
	full, err := filepath.Abs(name)
	if err != nil {
		full = name
	}
	wd, err := os.Getwd()
	if below, e := filepath.Rel(wd, full); err == nil && e == nil && filepath.IsLocal(below) {
		u := url.URL{Path: filepath.ToSlash(below)}
		return sarifArtifact{strings.ReplaceAll(u.EscapedPath(), ":", "%3A"), "%SRCROOT%"}
	}
	u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(full), "/")}
	return sarifArtifact{URI: u.String()}
}

// sarifText returns a message of plain text: braces are doubled, as placeholders have
// them, and nothing in it is a link.
func sarifText(text string) sarifMessage {
	return sarifMessage{strings.NewReplacer("{", "{{", "}", "}}", "](", "] (").Replace(
		visible(text))}
}

// text returns the file. Results are sorted by level, so that the errors are first, and
// by file.
func (s *sarifLog) text(l *manyFiles) ([]byte, error) {
	levels := []string{"error", "warning", "note"}
	slices.SortStableFunc(s.results, func(a, b sarifResult) int {
		return cmp.Or(cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)),
			cmp.Compare(a.Locations[0].Physical.Artifact.URI,
				b.Locations[0].Physical.Artifact.URI))
	})
	if n := len(s.results) - maxSARIF; n > 0 {
		l.message("--sarif: only the %d most severe findings, as many as GitHub accepts: %d more "+
			"are left out", maxSARIF, n)
		s.results = s.results[:maxSARIF]
	}
	if f := l.failed; f != nil { // a directory that is not there
		s.errors = append(s.errors, sarifNotification{"error",
			sarifText(display(withoutSecrets(f.File)) + ": " + f.Error)})
	}
	ids, same := []string{}, map[string]int{}
	for _, r := range s.results {
		ids = append(ids, r.Rule)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for i := range s.results {
		r := &s.results[i]
		r.RuleIndex, _ = slices.BinarySearch(ids, r.Rule)
		hash := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%q", r.Rule,
			r.Locations[0].Physical.Artifact.URI, r.Locations[0].Logical))
		r.Partial.Hash = fmt.Sprintf("%x", hash[:8])
		same[r.Partial.Hash]++
		r.Partial.Hash += fmt.Sprintf(":%d", same[r.Partial.Hash])
	}
	rules := []sarifRule{}
	for _, id := range ids {
		words := strings.ReplaceAll(id, "-", " ")
		text := sarifMessage{fmt.Sprintf("tensorfile %s reports it as %s. %s describes the codes.",
			l.cmd.Name(), id, checkPage)}
		rules = append(rules, sarifRule{id, sarifMessage{strings.ToUpper(words[:1]) + words[1:]},
			text, text, checkPage})
	}
	type object = map[string]any
	text, err := json.MarshalIndent(struct {
		Schema  string   `json:"$schema"`
		Version string   `json:"version"`
		Runs    []object `json:"runs"`
	}{sarifSchema, "2.1.0", []object{{
		"tool": object{"driver": object{"name": "tensorfile", "version": l.version,
			"informationUri": projectPage, "rules": rules}},
		"automationDetails": object{"id": "tensorfile-" + l.cmd.Name() + "/"},
		"columnKind":        "unicodeCodePoints",
		"invocations": []object{{"toolExecutionNotifications": s.errors,
			"executionSuccessful": l.status == statusOK || l.status == statusFound}},
		"results": s.results}}}, "", "  ")
	return append(text, '\n'), err
}
