package ztensor

import (
	"fmt"

	"github.com/tensorfile/tensorfile/tensor"
)

// A RuleError is the refusal of a version 2 file that breaks one of its
// specification's rules. errors.As finds it in the errors of opening, reading
// and verifying.
type RuleError struct {
	// Rule is the name that upstream's conformance corpus gives to what was
	// broken, such as "BlobAlignment" or "CborDuplicateKey".
	Rule string
	Err  error // has a class: tensor.ErrMalformed or tensor.ErrChecksum
}

func (e *RuleError) Error() string { return e.Rule + ": " + e.Err.Error() }
func (e *RuleError) Unwrap() error { return e.Err }

// The rules of version 2.
const (
	ruleFileTooSmall     = "FileTooSmall"
	ruleHeaderMagic      = "HeaderMagic"
	ruleFooterMagic      = "FooterMagic"
	ruleVersion          = "Version"
	ruleManifestBounds   = "ManifestBounds"
	ruleManifestTooLarge = "ManifestTooLarge"
	ruleManifestHash     = "ManifestHash"
	ruleCborSyntax       = "CborSyntax"
	ruleCborDeterminism  = "CborDeterminism"
	ruleCborDuplicateKey = "CborDuplicateKey"
	ruleCborDepth        = "CborDepth"
	ruleSchema           = "Schema"
	ruleName             = "Name"
	ruleShape            = "Shape"
	ruleBlobAlignment    = "BlobAlignment"
	ruleBlobBounds       = "BlobBounds"
	ruleBlobOverlap      = "BlobOverlap"
	ruleShardRef         = "ShardRef"
	ruleShardName        = "ShardName"
	ruleLayoutRule       = "LayoutRule"
	ruleLayoutData       = "LayoutData"
	ruleDenseSize        = "DenseSize"
	ruleEncoding         = "Encoding"
	ruleDigest           = "Digest"
	ruleShardIdentity    = "ShardIdentity"
)

// broken says that a rule is broken, and how.
func broken(rule, format string, args ...any) error {
	class := tensor.ErrMalformed
	if rule == ruleManifestHash || rule == ruleDigest || rule == ruleShardIdentity {
		class = tensor.ErrChecksum
	}
	return &RuleError{rule, fmt.Errorf("%w: "+format, append([]any{class}, args...)...)}
}
