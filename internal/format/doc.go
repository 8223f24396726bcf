// Package format holds what the packages of all formats share. For readers: [Input] opens
// a file, [Base] has the methods of every Reader, [Findings] collects what Verify
// reports, [CompleteLimits] and [Budget] bound memory, [CoverSpans] gives each byte a
// role. For writers: [Writer], [Edit] and [Checksums]. For both: [Errors].
//
// A format describes itself to a [Writer] by an [Encoding]: how a tensor becomes an item
// of a file, which items a file can hold, and how items become bytes. The Writer does the
// rest: names, the order of calls, the temporary file, the context. An [Edit] collects
// changes by name; [Apply] passes the changed file to the same Writer, item by item, so
// that an Edit writes nothing that Add would refuse.
package format
