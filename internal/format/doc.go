// Package format holds the parts that readers, writers and edits of all formats share:
// the writer that registers tensors, the edit, the constructor of errors, and checksums
// of memory that a caller passed in.
//
// A format describes itself to a [Writer] by an [Encoding]: how a tensor becomes an item
// of a file, which items a file can hold, and how items become bytes. The Writer does the
// rest: names, the order of calls, the temporary file, the context. An [Edit] collects
// changes by name; [Apply] passes the changed file to the same Writer, item by item, so
// that an Edit writes nothing that Add would refuse.
package format
