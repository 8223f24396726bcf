// Package npy reads and writes NumPy's file of a single array, .npy, in versions 1 to 3
// of its header. Archives of arrays, .npz, are package npz.
//
//	values, shape, err := npy.Read[float32]("data.npy")
//
// See the examples of [Open], [Read] and [Writer].
//
//	offset 0   "\x93NUMPY", major, minor
//	offset 8   header size, uint16 or, from version 2, uint32, little-endian
//	then       {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and padding
//	then       the elements
//
// The array has no name in the file; its tensor is named "data". [Read] and [Write] are
// for slices of numbers, [Open] and [NewWriter] for tensors of any dtype.
//
// Dtypes are bool, the integers, float16 to float64, complex64 and complex128, by any
// name that NumPy reads, and the dtypes that ml_dtypes registers by name, such as
// bfloat16. numpy.save writes dtypes of ml_dtypes as void bytes (<V2); tensor.Reinterpret
// gives these their dtype. Big-endian arrays are read in the order of the machine;
// Fortran order is reported in Order. Arrays of anything but plain numbers (structured,
// object, string, date, void and long double types) have bytes but no values: the dtype
// is tensor.Unknown, and [tensor.Stored].Type has NumPy's word. Among several arrays in
// one file, by repeated numpy.save, the first is read, and a warning lists the others.
// Other bytes after the elements, and headers with more or fewer than the three keys, are
// refused.
//
// The package is checked against numpy in both directions by interop/npy.sh.
package npy
