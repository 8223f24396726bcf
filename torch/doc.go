// Package torch reads the checkpoints of PyTorch: the files of torch.save, the tensors of
// TorchScript, and the directories of torch.distributed.checkpoint.
//
//	r, err := torch.Open("model.pt", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Open] and [Reader.Tensor].
//
//	archive        ROOT/data.pkl, ROOT/data/KEY of each storage, ROOT/version, byteorder
//	TorchScript    the same, with ROOT/constants.pkl and ROOT/code
//	legacy stream  five pickles (magic number, version, facts, object, keys), storages
//	program        of torch.export, a .pt2: weights and constants are members of its own
//	distributed    .metadata, a pickle, and .distcp files of archives, one a chunk;
//	               or files of safetensors with chunks, for FromShards
//
// A checkpoint is a pickle. Python reads a pickle by calling the functions that the file
// names; this package calls nothing. The pickle becomes data: a few dozen functions of
// torch are understood from their arguments, and any other class or function becomes an
// object that keeps its arguments. [Reader.Globals] lists every name that a file refers
// to. Functions that Python would call, and classes of no library of tensors, are
// warnings, and findings of Verify; Strict refuses the file.
//
// A tensor is named by the path of keys to it, joined with dots: model.layers.0.weight.
// Values that are not tensors are attributes by the same rule. Names may repeat, because
// keys may have dots in them; [Reader.Path] has the keys. The tensors of an nn.Module
// have the names of its state_dict; the dicts between are in the path alone. Tensors that
// are not in the state_dict are not listed. A tensor whose elements are contiguous in its
// storage is a range of the file; the elements of others are gathered as they are read,
// in row-major order. Tensors that share a storage share its bytes.
//
// A tensor of a subclass without a storage of its own has the tensors of its state, named
// by their keys, and its class, dtype and shape as attributes; a DTensor, whose shape is
// the shape of all processes, has its placements as well.
//
// Quantised tensors have their scale and zero point as Parts. Sparse tensors have the
// Scheme of their layout and the parts values and coords, or values, indices and indptr:
// sparse_csr, with batched_ before it where there are several, and hybrid_csr where each
// value is an array. Tensors of the meta device have the Scheme meta and no data.
//
// An archive that was unpacked opens by its directory. Not read: the tar files of torch
// before 0.1.10, pickles that torch.save did not write, entries of a distributed
// checkpoint that are compressed, and the constants of a TorchScript program, each of
// which is a warning.
//
// The package is checked against torch by interop/torch.sh.
package torch
