// Package rten reads, checks, edits and writes .rten files, the models of the RTen
// inference engine. RTen's project is retiring the format. This package keeps existing
// files readable, and package convert writes them in other formats.
//
//	r, err := rten.Open("model.rten", nil)
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for t := range r.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Edit], [Graph.Nodes], [GraphBuilder], [Node.Producer], [Open],
// [Operator.Float] and [Reader.Tensor].
//
// # The file
//
//	version 2                                     version 1
//	┌────────────────────────────────────┐        ┌──────────────────────────┐
//	│ header   "RTEN", 2, three offsets  │ 32 B   │ model, a bare flatbuffer │
//	├────────────────────────────────────┤        │ with all weights in it   │
//	│ model    a flatbuffer: graph,      │        └──────────────────────────┘
//	│          metadata, small weights   │
//	├────────────────────────────────────┤ 64
//	│ tensor data, each tensor at a      │
//	│          multiple of 64            │
//	└────────────────────────────────────┘
//
// A model is a graph of nodes: constants, values, and operators. An operator may have
// graphs as attributes (the branches of an If, the body of a Loop). The constants of all
// graphs are the tensors of the file: int32, float32, int8 or uint8, dense and row-major.
// The whole flatbuffer is verified before it is read, at least as strictly as by RTen.
//
// Open fails if a file cannot be read. [Reader.Warnings] has what RTen's loader refuses
// but a tool may want to show, such as an operator of a newer release. [Reader.Verify]
// also reports what RTen loads but cannot run. The checks of each table of the schema are
// in one file:
//
//	header                      header.go
//	Model, and every table      rules.go, and internal/fb
//	Graph, node indices         rules_graph.go
//	Node, ValueNode             rules_node.go
//	OperatorNode, attributes    rules_operator.go, operators.go
//	ConstantNode, tensor data   rules_constant.go
//
// A [Writer] writes a model of constants, a [GraphBuilder] a model with operators, and an
// [Edit] a copy of a file with other weights, names or metadata.
//
// # Lifetime of shared memory
//
// Open copies the model, so names, shapes and the graph never change and stay valid after
// Close. The model of a version 1 file has the weights in it: the file is read whole and
// takes its size in memory. The data of tensors is borrowed from the mapping: see package
// tensor. OpenBytes copies nothing.
package rten
