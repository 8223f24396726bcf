package primitiv

import (
	"fmt"
	"strings"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// where is the part of a file that the parser is in.
type where struct {
	index int64  // of a parameter, -1 outside of a model's
	name  []byte // of the tensor: that of a value, with a colon and its own for a statistic
	value int    // how long that of the value is, -1 where it is not known
	part  string // "value", "stats", …
}

var nowhere = where{index: -1}

func (w *where) String() string {
	var parts []string
	switch {
	case w.index < 0:
	case w.value >= 0:
		parts = append(parts, "parameters["+naming.Quote(string(w.name[:w.value]))+"]")
	default:
		parts = append(parts, fmt.Sprintf("parameters[%d]", w.index))
	}
	switch w.part {
	case "":
	case "stats":
		parts = append(parts, "stats["+naming.Quote(string(w.name[w.value+1:]))+"]")
	default:
		parts = append(parts, w.part)
	}
	return strings.Join(parts, ".")
}

func (p *parser) errorAt(off int64, field string, err error) error {
	if in := p.where.String(); field == "" {
		field = in
	} else if in != "" {
		field = in + "." + field
	}
	return &tensor.FormatError{Format: formatName, Offset: off, Field: field, Err: err}
}

// refused makes the error of an item that was not read.
func (p *parser) refused(field string) error { return p.errorAt(p.at, field, p.err) }

// fail makes an error of a class.
func (p *parser) fail(class error, off int64, field, reason string, args ...any) error {
	return p.errorAt(off, field, fmt.Errorf("%w: %s", class, fmt.Sprintf(reason, args...)))
}

// duplicate refuses what has the name of something before.
func (p *parser) duplicate(off int64, reason string) error {
	return p.fail(tensor.ErrMalformed, off, "", "%s", reason)
}
