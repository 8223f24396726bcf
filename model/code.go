package model

import (
	"io"
	"io/fs"
	"slices"

	"github.com/tensorfile/tensorfile/quant"
	"github.com/tensorfile/tensorfile/tensor"
)

// A Code names a kind of finding. Codes are never renamed; new ones may come.
type Code string

// Errors that names, sizes, links, indexes and headers show.
const (
	NoWeights         Code = "no-weights"         // no weights file, no index
	DanglingLink      Code = "dangling-link"      // a link without a target, or in a cycle
	MissingSnapshot   Code = "missing-snapshot"   // a ref names a commit that is not in the cache
	MissingComponent  Code = "missing-component"  // named by model_index.json, not there
	EmptyFile         Code = "empty-file"         // 0 bytes
	PointerFile       Code = "pointer-file"       // cloned without Git LFS
	WrongFormat       Code = "wrong-format"       // HTML, JSON or another format under this name
	TrailingBytes     Code = "trailing-bytes"     // goes on after its last tensor
	Malformed         Code = "malformed"          // any other refusal of the format's reader
	IndexMalformed    Code = "index-malformed"    // not a JSON object with a weight_map of strings
	WrongExtension    Code = "wrong-extension"    // an index names a file of another extension
	MissingTensor     Code = "missing-tensor"     // in the index, in no shard
	MisplacedTensor   Code = "misplaced-tensor"   // in another shard than the index says
	DuplicateTensor   Code = "duplicate-tensor"   // in two shards of a set
	MixedShards       Code = "mixed-shards"       // a shard is of another set than its index
	GGUFSplit         Code = "gguf-split"         // split keys contradict the names or each other
	ShadowedIndex     Code = "shadowed-index"     // STEM.safetensors next to an index of STEM
	ConfigMalformed   Code = "config-malformed"   // config.json is not a JSON object
	SizeMismatch      Code = "size-mismatch"      // another size than a listing says
	ManifestMalformed Code = "manifest-malformed" // a line or entry of the manifest is unreadable
	ManifestMissing   Code = "manifest-missing"   // in the manifest, not there
	UnknownDType      Code = "unknown-dtype"      // a dtype that this library does not know
	Limit             Code = "limit"              // a limit was exceeded
	Unreadable        Code = "unreadable"         // the system refused to read
	InterruptedWrite  Code = "interrupted-write"  // the files of a set were not all replaced

	RunsCode Code = tensor.CodeRunsCode // loading the file in Python calls a function

	MissingShard Code = tensor.CodeMissingShard // named by an index or its siblings
	Truncated    Code = tensor.CodeTruncated    // ends before its header or a tensor does
	UnsafePath   Code = tensor.CodeUnsafePath   // a file name is not a path below the index

	MissingWeights  Code = tensor.CodeMissingWeights  // a program's tensor is in no .ptd
	WeightsMismatch Code = tensor.CodeWeightsMismatch // the .ptd has another dtype or shape

	// Errors of quantised weights, see package quant.
	MissingScale       Code = Code(quant.MissingScale)       // a part of a weight is missing
	ScaleShape         Code = Code(quant.ScaleShape)         // a part has another shape
	ScaleDType         Code = Code(quant.ScaleDType)         // a part has another dtype
	OrphanScale        Code = Code(quant.OrphanScale)        // a part without its weight
	QuantizationConfig Code = Code(quant.QuantizationConfig) // config.json contradicts tensors
	QuantizationState  Code = Code(quant.QuantizationState)  // JSON, a map or groups are invalid
)

// Errors that reading the data shows.
const (
	BlobName       Code = "blob-name"       // a blob of the cache has another digest than its name
	DigestMismatch Code = "digest-mismatch" // another digest than a listing says
	Checksum       Code = "checksum"        // a digest in the file does not hold
	NaN            Code = "nan"             // elements are NaN

	ScaleValue Code = Code(quant.ScaleValue) // scales are NaN, infinite, negative or zero
)

// Warnings.
const (
	NoIndex            Code = "no-index"              // complete safetensors shards without index
	IndexNoMetadata    Code = "index-no-metadata"     // transformers does not load such an index
	OrphanFile         Code = "orphan-file"           // next to an index, named by none
	UnindexedTensor    Code = "unindexed-tensor"      // in a shard, not in its index
	ShardNumbering     Code = "shard-numbering"       // the files of an index are not 1 to N of N
	TotalSize          Code = "total-size"            // metadata.total_size is wrong
	NoTensors          Code = "no-tensors"            // a set without tensors
	ConfigDType        Code = "config-dtype"          // config.json has another dtype
	Pickle             Code = "pickle"                // weights whose loading may run code
	UnknownClass       Code = tensor.CodeUnknownClass // an object of an unknown class
	UnlistedData       Code = tensor.CodeUnlistedData // bytes that no listed tensor refers to
	OutsideLink        Code = "outside-link"          // a link points out of the directory
	IncompleteDownload Code = "incomplete-download"   // the cache has a part of a file
	ManifestExtra      Code = "manifest-extra"        // weights that the manifest does not list
	Inf                Code = "inf"                   // elements are infinite
	AllZero            Code = "all-zero"              // every element is 0, as in a hole
	Constant           Code = "constant"              // every element is the same

	UnknownQuantization Code = Code(quant.UnknownQuantization) // a method that is not known

	OverlappingData Code = tensor.CodeOverlappingData // tensors of an ONNX model share bytes
)

// Notes: what is allowed, and good to know.
const (
	UnalignedData Code = "unaligned-data" // external data of an ONNX model is not aligned
	RefusedLink   Code = "refused-link"   // external data of an ONNX model is a link
	UnusedWeights Code = "unused-weights" // no program next to a .ptd has the tensor
)

var warnings = []Code{NoIndex, IndexNoMetadata, OrphanFile, UnindexedTensor, ShardNumbering,
	TotalSize, NoTensors, ConfigDType, Pickle, UnknownClass, UnlistedData, OutsideLink,
	IncompleteDownload, ManifestExtra, Inf, AllZero, Constant, OverlappingData,
	UnknownQuantization}

// undamaged are the errors after which all tensors can be read.
var undamaged = []Code{ShadowedIndex, UnknownDType, RunsCode, MissingWeights, WeightsMismatch}

// properties returns the severity of a code, and the class of its errors, unless a reader
// returned the error.
func (c Code) properties() (tensor.Severity, error) {
	severity := tensor.SeverityError
	if slices.Contains(warnings, c) {
		severity = tensor.SeverityWarning
	}
	if c == UnalignedData || c == RefusedLink || c == UnusedWeights {
		severity = tensor.SeverityNote
	}
	switch c {
	case BlobName, DigestMismatch, Checksum:
		return severity, tensor.ErrChecksum
	case NoWeights, MissingShard, DanglingLink, MissingSnapshot, MissingComponent, EmptyFile,
		PointerFile, Truncated, MissingTensor, ManifestMissing:
		return severity, errAbsent
	case Limit:
		return severity, tensor.ErrLimit
	case UnknownDType:
		return severity, tensor.ErrDType
	}
	return severity, tensor.ErrMalformed
}

// errAbsent is the class of errors about something that is missing.
var errAbsent error = absent{}

type absent struct{}

func (absent) Error() string   { return "absent" }
func (absent) Unwrap() []error { return []error{io.ErrUnexpectedEOF, fs.ErrNotExist} }
