// Package npy reads and writes NumPy's files: a single array (.npy, versions 1
// to 3 of its header) and an archive of arrays (.npz).
//
//	offset 0   "\x93NUMPY", major, minor
//	offset 8   header size, uint16 or, from version 2, uint32, little-endian
//	then       {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and padding
//	then       the elements
//
// An archive is a zip file whose members are such arrays, stored or deflated; a
// tensor is called like its member less one ".npy". The array of a single file
// is called "data".
//
// Element types are bool, the integers, float16 to float64, complex64 and
// complex128. Big-endian arrays are read in the order of the machine; Fortran
// order is reported in Order. What holds more than plain numbers (structured,
// object, string, date, void and long double types) is errors.ErrUnsupported;
// bytes after the elements, members that stand twice and headers that say more
// than the three keys are refused.
//
// The package was checked against numpy in both directions: see interop/npy.sh.
package npy
