package gguf

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/tensor"
)

// This file has the rules of the format's document and of ggml that are not necessary to
// read a file. If a file breaks one, a Reader warns. A Writer refuses to write such a
// file, and an Edit carries over what the original has. Each function returns what is
// wrong, "" if nothing is.

// MaxName is the max length of the name of a tensor, in bytes, and MaxRank the max number
// of its dimensions, as in ggml.
const (
	MaxName = 63
	MaxRank = 4
)

const (
	architectureKey = "general.architecture"
	minAlignment    = 8
)

func checkName(name string) string {
	switch {
	case len(name) > MaxName:
		return fmt.Sprintf("a name of %d bytes, ggml reads %d", len(name), MaxName)
	case !utf8.ValidString(name):
		return "its name is not UTF-8"
	case strings.Contains(name, "\x00"):
		return "its name has a NUL, at which ggml cuts names"
	}
	return ""
}

func checkRank(rank int) string {
	if rank > MaxRank {
		return fmt.Sprintf("%d dimensions, ggml reads %d", rank, MaxRank)
	}
	return ""
}

func checkType(number uint32) string {
	if storageOf(number).name == "" || number == pq2 {
		return typeName(number) + " is withdrawn, of a fork or not known: ggml refuses the file"
	}
	return ""
}

func checkKey(key string) string {
	switch {
	case key == "" || len(key) > math.MaxUint16:
		return fmt.Sprintf("a key of %d bytes, it has 1 to %d", len(key), math.MaxUint16)
	case !utf8.ValidString(key):
		return "the key is not UTF-8"
	}
	return ""
}

func checkAlignment(n int64) string {
	if n%minAlignment != 0 {
		return fmt.Sprintf("%d is not a multiple of %d", n, minAlignment)
	}
	return ""
}

// checkModel adds warnings, for Verify, of what a Writer writes and llama.cpp refuses:
// arrays of arrays, and no architecture in a model, or in its first shard.
func (h *header) checkModel(l *format.Findings) {
	isModel, isLaterShard := false, false
	for _, a := range h.metadata {
		v := Value{a, h.version}
		if elem, _, _ := v.Array(); elem == TypeArray {
			l.Warn(errs.At(a.at, keyField(a.key), tensor.ErrMalformed,
				"an array of arrays: llama.cpp refuses the file"))
		}
		isModel = isModel || a.key == architectureKey
		isLaterShard = isLaterShard || a.key == splitNo && v.String() != "0"
	}
	if !isModel && !isLaterShard {
		l.Warn(errs.At(-1, metadataField, tensor.ErrMalformed,
			"there is no %s: llama.cpp loads no such model", architectureKey))
	}
}
