package ztensor

import (
	"github.com/tensorfile/tensorfile/ztensor/internal/layouts"
	"github.com/tensorfile/tensorfile/ztensor/internal/rule"
)

// HasBlocks reports whether version 2 has a layout of that name for the quantised
// blocks of a .gguf file, such as gguf.q4_k/1: one part, data, of uint8, and the
// attributes elems_per_block and block_bytes.
func HasBlocks(scheme string) bool { return layouts.HasBlocks(scheme) }

// A RuleError is the refusal of a version 2 file that breaks one of its
// specification's rules: Rule is its name, one of the constants, and Err has a
// class, tensor.ErrMalformed or tensor.ErrChecksum. errors.As finds it in the
// errors of opening, reading and verifying.
type RuleError = rule.Error

// The rules of version 2, by the names of upstream's conformance corpus.
const (
	RuleFileTooSmall     = rule.FileTooSmall
	RuleHeaderMagic      = rule.HeaderMagic
	RuleFooterMagic      = rule.FooterMagic
	RuleVersion          = rule.Version
	RuleManifestBounds   = rule.ManifestBounds
	RuleManifestTooLarge = rule.ManifestTooLarge
	RuleManifestHash     = rule.ManifestHash
	RuleCborSyntax       = rule.CborSyntax
	RuleCborDeterminism  = rule.CborDeterminism
	RuleCborDuplicateKey = rule.CborDuplicateKey
	RuleCborDepth        = rule.CborDepth
	RuleSchema           = rule.Schema
	RuleName             = rule.Name
	RuleShape            = rule.Shape
	RuleBlobAlignment    = rule.BlobAlignment
	RuleBlobBounds       = rule.BlobBounds
	RuleBlobOverlap      = rule.BlobOverlap
	RuleShardRef         = rule.ShardRef
	RuleShardName        = rule.ShardName
	RuleLayoutRule       = rule.LayoutRule
	RuleLayoutData       = rule.LayoutData
	RuleDenseSize        = rule.DenseSize
	RuleEncoding         = rule.Encoding
	RuleDigest           = rule.Digest
	RuleShardIdentity    = rule.ShardIdentity
)
