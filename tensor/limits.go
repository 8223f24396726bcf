package tensor

import "io"

// ReadOptions control how a file is opened, in every format. nil is the zero value.
type ReadOptions struct {
	// Strict refuses each deviation from the format's document that is a warning
	// otherwise, and checks the digests of all bytes that are read, views included.
	Strict bool
	// Limits bound what the file may ask for. Zero fields are defaults that read every
	// valid file.
	Limits Limits
	// NoMap makes Open read the file instead of mapping it into memory.
	NoMap bool
	// Companion opens a file that this one names: a shard, external weights. If it is
	// nil, Open opens the files of the same directory, and NewReader the files of a
	// source that is a [Companion]; otherwise there are none.
	Companion func(name string) (io.ReaderAt, int64, error)
	// NoLinks makes Open refuse companions that are links out of the directory, as they
	// are in Hugging Face's cache.
	NoLinks bool
}

// Limits bound what a file may require of its reader. A field of zero means the default,
// which reads every valid file that we know of. A limit never makes the library allocate:
// memory follows from the bytes that the file has. One type serves all formats; a field
// without meaning in a format is ignored.
type Limits struct {
	MaxMetadata int64 // bytes of manifest, flatbuffer or header; default 1 GiB
	MaxTensors  int64 // tensors, blobs and nodes together; default 16,777,216
	MaxName     int64 // bytes of one name; default 1 MiB
	MaxRank     int64 // dimensions of one tensor; default 255
	MaxDecoded  int64 // bytes that one encoded payload may decode to; default 64 GiB
	// MaxDecodedTotal bounds the bytes that one operation, such as one Verify or
	// one Plan.Write, decodes in all. The default is the larger of 64 GiB and 1,100
	// times the size of the file, which deflate cannot exceed; zstd can, for data that
	// repeats. Bytes that tensors share, or repeat by their strides, are bounded too: by
	// default, all bytes together by the larger of 1 GiB and 1,100 times the size of the
	// file.
	MaxDecodedTotal int64
	MaxDepth        int64 // nesting of metadata; default 64
}
