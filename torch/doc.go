// Package torch reads the checkpoints of PyTorch: what torch.save writes, the tensors of
// TorchScript, and the directories of torch.distributed.checkpoint.
//
//	archive        ROOT/data.pkl, ROOT/data/KEY of each storage, ROOT/version, byteorder
//	TorchScript    the same, with ROOT/constants.pkl and ROOT/code
//	legacy stream  five pickles (magic number, version, facts, object, keys), storages
//	distributed    .metadata, a pickle, and .distcp files of archives, one a chunk;
//	               or files of safetensors with chunks, for FromShards
//
// A checkpoint is a pickle, which Python reads by calling what the file names. Nothing
// is called here, because nothing here can call: the pickle becomes data, a few dozen
// functions of torch are understood from their arguments, and any other class or
// function becomes an object that keeps its arguments. [Reader.Globals] lists every
// name that a file refers to, and Verify reports each that checkpoints are not made of;
// Strict refuses the file.
//
// A tensor is named by the path of keys to it, joined with dots: model.layers.0.weight.
// Values that are not tensors are attributes by the same rule. Names may repeat, because
// keys may have dots in them. A tensor whose elements are contiguous in its storage is a
// range of the file; the elements of others are gathered as they are read, in row-major
// order. Tensors that share a storage share its bytes.
//
// Quantised tensors have their scale and zero point as Parts. Sparse tensors have the
// Scheme of their layout and the parts values and coords, or values, indices and
// indptr. Tensors of the meta device have the Scheme meta and no data; those whose
// values torch would conjugate or negate have the Scheme conj or neg, and a part with
// the elements as they are stored.
//
// Not read: the tar files of torch before 0.1.10, the programs of torch.export, and
// entries of a distributed checkpoint that are compressed.
//
// The package is checked against torch by interop/torch.sh.
package torch
