// Package rule has the names of the rules of zTensor 2, and the error of a broken rule.
package rule

import (
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// An Error is package ztensor's RuleError.
type Error struct {
	Rule string // its name in upstream's conformance corpus, such as "BlobAlignment"
	Err  error  // wraps a class, such as tensor.ErrMalformed
}

func (e *Error) Error() string { return e.Rule + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// The rules of version 2, by the names of upstream's conformance corpus.
const (
	FileTooSmall     = "FileTooSmall"
	HeaderMagic      = "HeaderMagic"
	FooterMagic      = "FooterMagic"
	Version          = "Version"
	ManifestBounds   = "ManifestBounds"
	ManifestTooLarge = "ManifestTooLarge"
	ManifestHash     = "ManifestHash"
	CborSyntax       = "CborSyntax"
	CborDeterminism  = "CborDeterminism"
	CborDuplicateKey = "CborDuplicateKey"
	CborDepth        = "CborDepth"
	Schema           = "Schema"
	Name             = "Name"
	Shape            = "Shape"
	BlobAlignment    = "BlobAlignment"
	BlobBounds       = "BlobBounds"
	BlobOverlap      = "BlobOverlap"
	ShardRef         = "ShardRef"
	ShardName        = "ShardName"
	LayoutRule       = "LayoutRule"
	LayoutData       = "LayoutData"
	DenseSize        = "DenseSize"
	Encoding         = "Encoding"
	Digest           = "Digest"
	ShardIdentity    = "ShardIdentity"
)

// New returns the error of a broken rule. err wraps a class, such as tensor.ErrMalformed.
func New(rule string, err error) error { return &Error{rule, err} }

// Broken returns the error of a broken rule, with a message and the class of the rule.
func Broken(rule, format string, args ...any) error {
	class := tensor.ErrMalformed
	if rule == ManifestHash || rule == Digest || rule == ShardIdentity {
		class = tensor.ErrChecksum
	}
	return &Error{rule, fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}
