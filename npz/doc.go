// Package npz reads and writes NumPy's archives of arrays, .npz. A file of a single
// array, .npy, is package npy.
//
//	r, err := npz.Open("arrays.npz", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Open] and [Writer].
//
// An archive is a zip file whose members are arrays as .npy files have them, stored or
// deflated. A tensor is named after its member without one ".npy"; members that are not
// arrays are blobs. Names are as NumPy has them: a member's name ends before its first
// NUL.
//
// Dtypes are bool, the integers, float16 to float64, complex64 and complex128. Arrays of
// anything else (strings, objects, dates, structured types) are listed with DType Unknown
// and NumPy's word for the type in Stored.Type; their data are the bytes as they are,
// which nothing here interprets. Duplicate names, and members that share bytes of the
// file, are malformed.
//
// The package is checked against numpy in both directions by interop/npy.sh.
package npz
