package convert

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/pte"
)

// Allow is a set of kinds of losses.
type Allow uint32

// The kinds of losses.
const (
	LoseAttributes Allow = 1 << iota // what a file, or a tensor, says about itself
	LoseBlobs                        // named bytes that are no tensors
	LoseGraph                        // a program
	LoseParts                        // what a dense tensor has beside its elements
	DropTensors                      // tensors that the target cannot hold in any form
	RenameTensors                    // names that the target cannot hold
	Densify                          // sparse tensors become dense ones
	Reorder                          // the order of dimensions in memory becomes another
	Widen                            // elements become those of a type that holds all their values
	Narrow                           // elements are rounded; an integer that does not fit is an error of Write
	numAllow       = iota
	Everything     = 1<<numAllow - 1
)

// kinds is indexed by the number of the bit.
var kinds = [numAllow]struct{ word, name string }{
	{"attributes", "LoseAttributes"},
	{"blobs", "LoseBlobs"},
	{"graph", "LoseGraph"},
	{"parts", "LoseParts"},
	{"tensors", "DropTensors"},
	{"names", "RenameTensors"},
	{"densify", "Densify"},
	{"reorder", "Reorder"},
	{"widen", "Widen"},
	{"narrow", "Narrow"},
}

// String writes the words of the kinds, such as "attributes,densify".
func (a Allow) String() string {
	var words []string
	for i, k := range kinds {
		if a&(1<<i) != 0 {
			words = append(words, k.word)
		}
	}
	return strings.Join(words, ",")
}

// ParseAllow reads words as String writes them; "all" is everything.
func ParseAllow(s string) (Allow, error) {
	var a Allow
next:
	for _, word := range strings.Split(s, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if word == "all" {
			a |= Everything
			continue
		}
		for i, k := range kinds {
			if word == k.word {
				a |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("convert: no loss is called %q; there are %v, and all", word, Allow(Everything))
	}
	return a, nil
}

// A Loss is one thing that the target cannot hold as it stands.
type Loss struct {
	Kind   Allow  // one bit: what allows it
	Field  string // of the source: tensors["w"], attributes["license"], blobs["b"], program
	Reason string
}

// LoseTestCases is the loss of the test cases that a .bpte has around its program.
func LoseTestCases(b *pte.Bundle, target tensorfile.Format) Loss {
	return Loss{LoseGraph, "test_cases", fmt.Sprintf("%v cannot be represented in %v", b, target)}
}

// String names the field, the reason, and what allows the loss.
func (l Loss) String() string {
	return fmt.Sprintf("%s: %s; allow convert.%s", l.Field, l.Reason, kinds[bits.TrailingZeros32(uint32(l.Kind))].name)
}

// A LossError is returned where losses are not allowed: all of them at once.
// errors.Is sees errors.ErrUnsupported.
type LossError struct {
	Target tensorfile.Format
	Losses []Loss
}

func (e *LossError) Error() string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "convert: %v cannot hold everything: ", e.Target)
	for i, l := range e.Losses {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == most {
			fmt.Fprintf(&b, "and %d more", len(e.Losses)-most)
			break
		}
		b.WriteString(l.String())
	}
	return b.String()
}

// Unwrap makes the error one of the class errors.ErrUnsupported.
func (e *LossError) Unwrap() error { return errors.ErrUnsupported }
