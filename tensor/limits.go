package tensor

// Limits bound what a file may require of its reader. A field of zero means the
// default, which reads every genuine file that we know of; nothing is ever
// allocated because a limit would allow it, only because the file has the bytes.
// One type serves all formats; a field without meaning in a format is ignored.
type Limits struct {
	MaxMetadata int64 // bytes of manifest, flatbuffer or header; default 1 GiB
	MaxTensors  int64 // tensors, blobs and nodes together; default 16,777,216
	MaxName     int64 // bytes of one name; default 1 MiB
	MaxRank     int64 // dimensions of one tensor; default 255
	MaxDecoded  int64 // bytes that one encoded payload may decode to; default 64 GiB
	// MaxDecodedTotal bounds the bytes that one operation, such as one Verify or
	// one Plan.Write, decodes in all. The default is the larger of 64 GiB and 1,100
	// times the size of the file: no encoding that is read expands further.
	MaxDecodedTotal int64
	MaxDepth        int64 // nesting of metadata; default 64
}
