// Package ptn reads .ptn and .ptg files of ExecuTorch: programs for its native runtime,
// and their weights.
//
//	r, err := ptn.Open("model.ptn", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Open] and [Reader.Methods].
//
// A .ptn is a zip archive of members that are not compressed:
//
//	program.ptg           the program: a FlatBuffer of schema/native_graph.fbs
//	program.safetensors   the weights, if any
//	aliases.json          more names of weights: {"name": "stored name"}
//
// The writer stores equal weights once, unless the program writes to them. Tensors lists
// all names; [Reader.Owner] tells which are aliases. A .ptg is the program alone: its
// weights are listed as external tensors.
//
// An [Edit] renames and replaces weights of a package, and keeps its program in step.
//
// The program has methods, each a graph of nodes that call operators of PyTorch. Values
// have names within a graph, and weights are bound to values by their keys, which are the
// names of tensors. [Reader.Methods] yields them.
//
// Open checks the archive, the FlatBuffer and the headers. [Reader.Verify] checks the
// graphs, and whether the weights have the dtypes and shapes that the program expects.
// The format is the format of the ExecuTorch 1.5.1 wheel: exir/_serialize/_ptn.py,
// backends/native/serialization.
package ptn
