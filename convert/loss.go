package convert

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
)

// A LossKind is a kind of loss, or a set of kinds.
type LossKind uint32

// The kinds of losses.
const (
	LossAttributes LossKind = 1 << iota // attributes of the file, or of a tensor
	LossBlobs                           // named bytes that are no tensors
	LossGraph                           // a program
	LossParts                           // parts of a dense tensor
	LossTensors                         // tensors that the target cannot represent in any form
	LossNames                           // names that the target cannot represent
	LossShape                           // dimensions of 1 are dropped or added
	LossDensify                         // sparse tensors become dense
	LossReorder                         // the order of dimensions in memory changes
	LossWiden                           // elements get a dtype with all their values
	LossNarrow                          // elements are rounded
	LossScale                           // elements lose the scale that is next to them
	LossOverflow                        // numbers become infinities or NaN, which Write finds
	numKinds       = iota
	LossAll        = LossKind(1<<numKinds - 1)
)

// kinds is indexed by the number of the bit.
var kinds = [numKinds]struct{ word, name string }{
	{"attributes", "LossAttributes"},
	{"blobs", "LossBlobs"},
	{"graph", "LossGraph"},
	{"parts", "LossParts"},
	{"tensors", "LossTensors"},
	{"names", "LossNames"},
	{"shape", "LossShape"},
	{"densify", "LossDensify"},
	{"reorder", "LossReorder"},
	{"widen", "LossWiden"},
	{"narrow", "LossNarrow"},
	{"scale", "LossScale"},
	{"overflow", "LossOverflow"},
}

// String writes the words of the kinds, such as "attributes,densify".
func (k LossKind) String() string {
	var words []string
	for i, kind := range kinds {
		if k&(1<<i) != 0 {
			words = append(words, kind.word)
		}
	}
	return strings.Join(words, ",")
}

// ParseLossKind parses words as String returns them; "all" is LossAll.
func ParseLossKind(s string) (LossKind, error) {
	var all LossKind
next:
	for _, word := range strings.Split(s, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if word == "all" {
			all |= LossAll
			continue
		}
		for i, kind := range kinds {
			if word == kind.word {
				all |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("convert: no loss is named %q; there are %v, and all", word, LossAll)
	}
	return all, nil
}

// A Loss is one thing that the target cannot represent as it is.
type Loss struct {
	Kind   LossKind // one bit
	Field  string   // of the source: tensors["w"], attributes["a"], blobs["b"], program, shards
	Reason string
	Detail string // of this field alone, such as its new name; "" for none
	Option string // the field of Options that prevents it, such as Dequantize; "" for none
	// Requested reports whether Map, Dequantize or Quantize of Options ask for the loss,
	// which allows it.
	Requested bool
}

// LoseTestCases returns the loss of the test cases that a .bpte has around its program.
func LoseTestCases(b *pte.Bundle, target tensorfile.Format) Loss {
	return Loss{Kind: LossGraph, Field: "test_cases",
		Reason: fmt.Sprintf("%v cannot be represented in %v", b, target)}
}

// String names the field, the reason, and what allows or prevents the loss.
func (l Loss) String() string {
	if l.Requested {
		return fmt.Sprintf("%s: %s, as requested", l.Field, l.Why())
	}
	s := fmt.Sprintf("%s: %s; allow convert.%s", l.Field, l.Why(),
		kinds[bits.TrailingZeros32(uint32(l.Kind))].name)
	if l.Option != "" {
		s += ", or set Options." + l.Option
	}
	return s
}

// Why returns the reason and the detail.
func (l Loss) Why() string { return why(l.Reason, l.Detail) }

func why(reason, details string) string {
	if details == "" {
		return reason
	}
	return reason + ": " + details
}

// A LossGroup is all losses of one kind that have one reason.
type LossGroup struct {
	Kind      LossKind
	Reason    string
	Requested bool
	Fields    []string
	Details   []string // of fields that have one
}

// GroupLosses groups losses by kind and reason. Groups are in the order of their first
// losses.
func GroupLosses(losses []Loss) []LossGroup {
	type key struct {
		kind      LossKind
		reason    string
		requested bool
	}
	var groups []LossGroup
	at := map[key]int{}
	for _, l := range losses {
		k := key{l.Kind, l.Reason, l.Requested}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups,
				LossGroup{Kind: l.Kind, Reason: l.Reason, Requested: l.Requested})
		}
		groups[i].Fields = append(groups[i].Fields, l.Field)
		if l.Detail != "" {
			groups[i].Details = append(groups[i].Details, l.Detail)
		}
	}
	return groups
}

// String returns the fields, or their number if they are more than three, the reason
// and the kind: "129 tensors: bfloat16 is stored as float32 (widen)". It has only the
// first of several details.
func (g LossGroup) String() string {
	const shown = 3
	details := strings.Join(g.Details[:min(len(g.Details), shown)], ", ")
	if len(g.Details) > shown {
		details += ", …"
	}
	what := strings.Join(g.Fields[:min(len(g.Fields), shown)], ", ")
	if n := len(g.Fields); n > shown {
		noun, _, _ := strings.Cut(what, "[")
		for _, f := range g.Fields {
			own := noun == "tensors" && strings.Contains(f, "].attributes[")
			if own || !strings.HasPrefix(f, noun+"[") {
				noun = "losses"
			}
		}
		what = fmt.Sprintf("%d %s", n, noun)
	}
	return fmt.Sprintf("%s: %s (%v)", what, why(g.Reason, details), g.Kind)
}

// A LossError has all losses that are not allowed. errors.Is reports
// errors.ErrUnsupported.
type LossError struct {
	Target tensorfile.Format
	Losses []Loss
}

func (e *LossError) Error() string {
	const maxGroups = 10
	var b strings.Builder
	fmt.Fprintf(&b, "convert: %v cannot represent everything: ", e.Target)
	groups := GroupLosses(e.Losses)
	for i, g := range groups {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == maxGroups {
			fmt.Fprintf(&b, "and %d more", len(groups)-maxGroups)
			break
		}
		b.WriteString(g.String())
	}
	return b.String()
}

// Unwrap makes the error one of the class errors.ErrUnsupported.
func (e *LossError) Unwrap() error { return errors.ErrUnsupported }
