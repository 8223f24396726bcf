// Package safetensors reads and writes the files of Hugging Face's safetensors library,
// and models that are split into shards by an index.
//
//	r, err := safetensors.Open("model.safetensors", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of the package, [Load], [NewEdit], [NewWriter], [ParseIndex], [Stream]
// and [WriteShards].
//
//	offset 0      header size N, uint64 little-endian
//	offset 8      JSON, N bytes: name → {dtype, shape, data_offsets}, __metadata__
//	offset 8+N    data: every byte belongs to exactly one tensor
//
// Reading follows the rules of the reference library and of its README, which is the
// specification. It is stricter where these rules allow two readers to see different
// tensors: it refuses duplicate names and keys, holes and overlaps. It also refuses a
// header that does not begin with {, a header beyond 100,000,000 bytes, a dimension
// beyond int64, even next to a 0, and an entry that is not an object.
//
// The reference accepts unknown keys, and white space other than trailing spaces, which
// its README does not allow: these are warnings, and errors in Strict mode. A dtype that
// this package does not know is listed under its name in the file (see tensor.Stored),
// and refused in Strict mode.
//
// Tensors come in the order of their offsets. Elements are row-major, little-endian;
// float4 and float6 elements are packed.
//
// An index, such as model.safetensors.index.json, opens like a file, and opens its
// shards, which are next to it. A tensor of a shard that the index does not name is
// listed, with a warning; other differences are errors.
//
// The package was checked against safetensors 0.8.0 in both directions: see
// interop/safetensors.sh.
package safetensors
