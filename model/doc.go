// Package model opens a directory of weights as one model, and checks that it is whole:
// one file or many shards, with an index or without, as Hugging Face's libraries,
// llama.cpp and this module write them, in a plain directory or in a snapshot of Hugging
// Face's cache.
//
//	m, err := model.Open("path/to/model", nil)
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	for t := range m.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape)
//	}
//
// See the examples of [Check], [OpenFS], [Open], [Shards] and [SummaryOf].
//
// [Open] reads names, indexes, headers and links: a few KB of each file. Damage is a
// [Finding], never an error of Open. [Model.Check] also reads the data, and compares
// digests and values. The codes of findings are listed in docs/check.md.
//
// # Sets
//
// A [Set] is the files that are loaded together: an index and its shards;
// STEM-00001-of-00003.EXT and its siblings; a root of zTensor 2 and its shards; or a
// single file. [Model.Tensors], [Model.File] and [Model.Summary] describe the primary
// set. If a directory has several sets, the primary one is chosen by these rules:
// safetensors before other formats; the stems model, diffusion_pytorch_model,
// consolidated and adapter_model before others; a single file before an index; a name
// without a variant before a name with one. A directory with model_index.json is one
// model: each component that it names has a primary set, and the names of tensors begin
// with the name of the component.
//
// # Untrusted directories
//
// Names in an index are checked as text: none leads out of the directory. Links are
// followed, because Hugging Face's cache consists of links. A link out of the directory
// and its cache is a finding, and with Options.NoLinks it is not followed.
package model
