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
//	legacy stream  five pickles (magic number, version, system information, object,
//	               keys of storages), then the storages
//	program        an archive of torch.export, .pt2, with a member for each weight
//	distributed    .metadata, a pickle, and .distcp files, an archive for each chunk;
//	               or files of safetensors with chunks, for FromShards
//
// A checkpoint is a pickle. Python reads a pickle by calling the functions that the file
// names; this package calls nothing. It makes data of the pickle: a few dozen functions
// of torch are known, and a call of any other class or function becomes an object with
// its arguments. [Reader.Globals] lists every class and function that a file names. A
// function that Python would call is a warning, and so is a class that is not of torch,
// NumPy or another library of tensors. Verify reports them too, and Strict refuses the
// file.
//
// A tensor is named by the path of keys to it, joined with dots: model.layers.0.weight.
// Other values are attributes, named by the same rule. Names may repeat, because keys may
// have dots in them; [Reader.Path] returns the keys. Tensors of an nn.Module have the
// names of its state_dict; tensors that are not in the state_dict are not listed. A
// tensor whose elements are contiguous in its storage is a range of the file. The
// elements of other tensors are gathered as they are read, in row-major order. Tensors
// that share a storage share its bytes.
//
// A tensor of a subclass that has no storage of its own is listed as the tensors of its
// state, named by their keys. Its class, dtype and shape are attributes, and so are the
// placements of a DTensor, whose shape is the shape over all processes.
//
// Quantised tensors have their scale and zero point as Parts. Sparse tensors have the
// Scheme of their layout and the parts values and coords, or values, indices and indptr:
// sparse_csr, with batched_ before it where there are several, and hybrid_csr where each
// value is an array. Tensors of the meta device have the Scheme meta and no data.
//
// An archive that was unpacked opens by its directory. The package does not read tar
// files of torch before 0.1.10, pickles that torch.save did not write, and compressed
// entries of a distributed checkpoint. Each constant of a TorchScript program is a
// warning, and is not listed.
//
// The package is checked against torch by interop/torch.sh.
package torch
