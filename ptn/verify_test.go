package ptn

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/schema/ptnfb"
	"github.com/tensorfile/tensorfile/tensor"
)

func TestVerifyFindsEveryBrokenRule(t *testing.T) {
	aliased := func(of string) func(p table) {
		return func(p table) {
			p.at(methods, 0, graph, nodes, 3, results,
				0)[ptnfb.SlotOutputAliasOf] = of
		}
	}
	node := func(change func(n table)) func(p table) {
		return func(p table) { change(p.at(methods, 0, graph, nodes, 3)) }
	}
	body := func(g table) func(p table) {
		return node(func(n table) {
			grown(n, inputs, argument(ptnfb.ArgumentValueGraphArg,
				table{ptnfb.SlotGraphArgName: "body", ptnfb.SlotGraphArgGraph: g}))
		})
	}
	set := func(slot int, v any, path ...int) func(p table) {
		return func(p table) { p.at(path...)[slot] = v }
	}
	info := func(change func(m table)) func(p table) {
		return func(p table) {
			change(p.at(methods, 0, graph, values, 0)[ptnfb.SlotTensorValueMeta].(table))
		}
	}
	constant := []int{methods, 0, constants, 0}
	quant := func(slot int, v any) func(p table) {
		return func(p table) { packed(p)[slot] = v }
	}
	for _, c := range []struct {
		name    string
		change  func(p table)
		weights []byte // nil: the file of weights of sound
		class   error  // nil: a warning
		want    string // in the message; "" for a sound file
	}{
		{name: "a sound program", change: func(table) {}},
		{name: "an empty name", change: set(ptnfb.SlotMethodName, "", methods, 0),
			class: tensor.ErrMalformed, want: `methods[""] at byte`},
		{name: "two methods of one name", class: tensor.ErrMalformed,
			change: func(p table) { grown(p, methods, p.at(methods, 0)) }, want: "duplicate"},
		{name: "a kind of constants that is not known", class: errors.ErrUnsupported,
			change: set(ptnfb.SlotNamedTensorRefKind, int8(9), constant...), want: "InputKind(9)"},
		{name: "a constant that the caller gives", class: errors.ErrUnsupported,
			change: set(ptnfb.SlotNamedTensorRefKind, int8(0), constant...), want: "USER_INPUT"},
		{name: "a parameter that is written", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotNamedTensorRefMutated, true, constant...),
			want:   `writes the parameter "fc.weight"`},
		{name: "a parameter that an operator writes", class: tensor.ErrMalformed,
			change: node(func(n table) { n.at(inputs, 1)[ptnfb.SlotNamedArgumentMutated] = true }),
			want:   `methods["forward"].nodes["y"] at byte`},
		{name: "an input that an operator writes",
			change: node(func(n table) {
				n.at(inputs,
					0)[ptnfb.SlotNamedArgumentMutated] = true
			})},
		{name: "a tensor that is bound twice", class: tensor.ErrMalformed,
			change: func(p table) {
				second := maps.Clone(p.at(constant...))
				second[ptnfb.SlotNamedTensorRefName] = "v"
				grown(p.at(methods, 0), constants, second)
			}, want: `the tensor "fc.weight" is bound twice`},
		{name: "a value that is bound twice", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotMutableBufferSpecName, "w", methods, 0, buffers, 0),
			want:   `the value "w" is bound twice`},
		{name: "a tensor that is not there", class: tensor.ErrNoTensor,
			change: set(ptnfb.SlotNamedTensorRefDataKey, "other", constant...),
			want:   `no tensor "other"`},
		{name: "a tensor of another dtype", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotNamedTensorRefMeta, meta(ptnfb.ScalarTypeINT, 2, 3),
				constant...),
			want: "float32[2, 3], not int32[2, 3]"},
		{name: "a tensor of another shape", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotNamedTensorRefMeta, meta(ptnfb.ScalarTypeFLOAT, 3, 2),
				constant...),
			want: "not float32[3, 2]"},
		{name: "a constant that is not row-major", class: tensor.ErrMalformed,
			change: func(p table) {
				m := meta(ptnfb.ScalarTypeFLOAT, 2, 3)
				m[ptnfb.SlotTensorMetaDimOrder] = []int32{1, 0}
				p.at(constant...)[ptnfb.SlotNamedTensorRefMeta] = m
			}, want: "dim_order [1 0] of a constant"},
		{name: "a dtype that is not known", class: errors.ErrUnsupported,
			change: info(func(m table) { m[ptnfb.SlotTensorMetaDtype] = int8(8) }),
			want:   "dtype ScalarType(8)"},
		{name: "an order that is no permutation", class: tensor.ErrMalformed,
			change: info(func(m table) { m[ptnfb.SlotTensorMetaDimOrder] = []int32{1, 1} }),
			want:   "dim_order [1 1]"},
		{name: "another order",
			change: info(func(m table) { m[ptnfb.SlotTensorMetaDimOrder] = []int32{1, 0} })},
		{name: "a range that is empty", class: tensor.ErrMalformed,
			change: info(func(m table) {
				m.at(ptnfb.SlotTensorMetaSizes,
					0)[ptnfb.SlotDimMin] = int64(3)
			}),
			want: "3 to 2"},
		{name: "a dimension without an upper bound",
			change: info(func(m table) {
				delete(m.at(ptnfb.SlotTensorMetaSizes, 0),
					ptnfb.SlotDimMax)
			})},
		{name: "a dimension beyond the runtime's limit",
			change: info(func(m table) {
				m.at(ptnfb.SlotTensorMetaSizes, 0)[ptnfb.SlotDimMax] = int64(1 << 31)
			}), want: "limits"},
		{name: "two tensor_values of a value", class: tensor.ErrMalformed,
			change: func(p table) {
				grown(p.at(methods, 0, graph), values, value("x", meta(ptnfb.ScalarTypeINT)))
			}, want: `two tensor_values of "x"`},
		{name: "an input without tensor_values", class: tensor.ErrMalformed,
			change: func(p table) {
				m := p.at(methods, 0)
				m.at(graph)[ptnfb.SlotGraphOutputs] = []string{"y"}
				m[specs] = m[specs].([]table)[:1]
				m.at(graph, values, 0)[ptnfb.SlotTensorValueName] = "z"
			}, want: `no tensor_values of "x"`},
		{name: "an output without tensor_values", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotTensorValueName, "z", methods, 0, graph, values, 1),
			want:   `no tensor_values of "y"`},
		{name: "a buffer without tensor_values", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotTensorValueName, "z", methods, 0, graph, values, 2),
			want:   `no tensor_values of "b"`},
		{name: "an input twice", class: tensor.ErrMalformed, want: `"x" is defined twice`,
			change: set(ptnfb.SlotGraphInputs, []string{"x", "x"}, methods, 0, graph)},
		{name: "an output that nothing makes", class: tensor.ErrMalformed,
			change: set(ptnfb.SlotGraphOutputs, []string{"y", "q"}, methods, 0, graph),
			want:   `the output "q" is not defined`},
		{name: "two nodes of one name", class: tensor.ErrMalformed, want: "duplicate",
			change: node(func(n table) { n[ptnfb.SlotNodeName] = "x" })},
		{name: "a result of a name that is taken", class: tensor.ErrMalformed,
			change: node(func(n table) { n.at(results, 0)[ptnfb.SlotOutputName] = "x" }),
			want:   `"x" is defined twice`},
		{name: "a value that is used before it is made", class: tensor.ErrMalformed,
			change: func(p table) {
				g := p.at(methods, 0, graph)
				grown(g.at(nodes, 3), inputs, tensorArgument("z"))
				grown(g, nodes, table{ptnfb.SlotNodeName: "z", ptnfb.SlotNodeTarget: "o",
					ptnfb.SlotNodeOutputs: []table{{ptnfb.SlotOutputName: "z"}}})
			}, want: `the value "z" is not defined before`},
		{name: "an argument that nothing makes", class: tensor.ErrMalformed,
			change: node(func(n table) { grown(n, inputs, tensorArgument("q")) }),
			want:   `"q" is not defined before`},
		{name: "a number that nothing makes", class: tensor.ErrMalformed,
			change: node(func(n table) {
				grown(n, inputs, argument(ptnfb.ArgumentValueIntArg,
					table{ptnfb.SlotIntArgRef: "q"}))
			}), want: `"q" is not defined`},
		{name: "an argument without a value",
			change: node(func(n table) {
				grown(n, inputs,
					table{ptnfb.SlotNamedArgumentArg: table{}})
			})},
		{name: "lists of two lengths", class: tensor.ErrMalformed, want: "of 2 and 1 elements",
			change: node(func(n table) {
				grown(n, inputs, argument(ptnfb.ArgumentValueIntListArg, table{
					ptnfb.SlotIntListArgValues: []int64{1, 2},
					ptnfb.SlotIntListArgRefs:   []string{""}}))
			})},
		{name: "a placeholder of nothing", class: tensor.ErrMalformed, want: "neither an input",
			change: func(p table) { grown(p.at(methods, 0, graph), nodes, placeholder("q")) }},
		{name: "a node of a kind that is not known", class: errors.ErrUnsupported,
			change: node(func(n table) { n[ptnfb.SlotNodeOpKind] = int8(7) }), want: "OpKind(7)"},
		{name: "a result of a kind that is not known", class: errors.ErrUnsupported,
			change: node(func(n table) { n.at(results, 0)[ptnfb.SlotOutputKind] = int8(7) }),
			want:   "OutputValueKind(7)"},
		{name: "a result in the memory of an argument", change: aliased("x")},
		{name: "a result in the memory of another value", class: tensor.ErrMalformed,
			change: aliased("b"), want: `the memory of "b"`},
		{name: "a body that uses a value of outside", class: tensor.ErrMalformed,
			change: body(table{ptnfb.SlotGraphNodes: []table{{ptnfb.SlotNodeName: "n",
				ptnfb.SlotNodeTarget: "o", ptnfb.SlotNodeInputs: []table{tensorArgument("x")}}}}),
			want: `methods["forward"].nodes["y"].nodes["n"] at byte`},
		{name: "a sound body", change: body(table{ptnfb.SlotGraphNodes: []table{placeholder("a")},
			ptnfb.SlotGraphInputs:       []string{"a"},
			ptnfb.SlotGraphTensorValues: []table{value("a", meta(ptnfb.ScalarTypeINT, 1))}})},
		{name: "no output_specs", change: set(specs, []table{}, methods, 0),
			want: "no output_specs"},
		{name: "too few output_specs", class: tensor.ErrMalformed, want: "1 output_specs for 2",
			change: set(specs, []table{{ptnfb.SlotOutputSpecName: "y"}}, methods, 0)},
		{name: "output_specs in another order", class: tensor.ErrMalformed,
			change: func(p table) { slices.Reverse(p.at(methods, 0)[specs].([]table)) },
			want:   `output_specs[0] is of "x"`},
		{name: "a buffer that is none", class: tensor.ErrMalformed, want: "which is no buffer",
			change: set(ptnfb.SlotOutputSpecTarget, "fc.weight", methods, 0, specs, 1)},
		{name: "an input that is none", class: tensor.ErrMalformed, want: "which is no input",
			change: set(ptnfb.SlotOutputSpecKind, int8(2), methods, 0, specs, 1)},
		{name: "an output of a kind that is not known", class: errors.ErrUnsupported,
			change: set(ptnfb.SlotOutputSpecKind, int8(5), methods, 0, specs, 1),
			want:   "OutputKind(5)"},
		{name: "a result with a target", want: `has the target "cache"`,
			change: set(ptnfb.SlotOutputSpecTarget, "cache", methods, 0, specs, 0)},
		{name: "a buffer that differs between methods", class: tensor.ErrMalformed,
			change: func(p table) {
				second := sound().at(methods, 0)
				second[ptnfb.SlotMethodName] = "second"
				second.at(graph, values,
					2)[ptnfb.SlotTensorValueMeta] = meta(ptnfb.ScalarTypeFLOAT, 9)
				grown(p, methods, second)
			}, want: `"cache" is float32[9], in another method float32[2, 3]`},

		{name: "a packed tensor", change: func(p table) { packed(p) }, weights: packedWeights()},
		{name: "a packed tensor that is not uint8", class: tensor.ErrMalformed,
			change: func(p table) { packed(p) }, want: "not uint8",
			weights: weights(24, map[string]any{
				"fc.weight": entry{"F32", []int64{4}, [2]int64{0, 16}},
				"scale":     entry{"F16", []int64{2, 2}, [2]int64{16, 24}}})},
		{name: "a packed tensor without scales", class: tensor.ErrNoTensor,
			change: quant(ptnfb.SlotAffineGroupScaleDataKey, "q"), weights: packedWeights(),
			want: `no tensor "q" of scales`},
		{name: "a packed tensor of another size", class: tensor.ErrMalformed,
			change: quant(ptnfb.SlotAffineGroupQuantMax, 23), weights: packedWeights(),
			want: "8 bytes, but 16 elements of 5 bits take 10"},
		{name: "a packed tensor of no whole bits", class: tensor.ErrMalformed,
			change: quant(ptnfb.SlotAffineGroupQuantMax, 8), weights: packedWeights(),
			want: "not of 1 to 8 bits"},
		{name: "groups that do not divide", class: tensor.ErrMalformed,
			change: quant(ptnfb.SlotAffineGroupGroupSize, 3), weights: packedWeights(),
			want: "groups of 3 do not divide 8"},
		{name: "scales of another number", class: tensor.ErrMalformed,
			change: quant(ptnfb.SlotAffineGroupGroupSize, 0), weights: packedWeights(),
			want: "not 2 elements of float16"},
		{name: "scales of another dtype", class: tensor.ErrMalformed,
			change:  quant(ptnfb.SlotAffineGroupScaleDtype, int8(ptnfb.ScalarTypeFLOAT)),
			weights: packedWeights(), want: "not 4 elements of float32"},
		{name: "a packed tensor of a codec", weights: packedWeights(), change: func(p table) {
			packed(p)
			m := p.at(constant...).at(ptnfb.SlotNamedTensorRefMeta)
			m[ptnfb.SlotTensorMetaQuant] = table{
				ptnfb.SlotQuantSpecScheme: union{ptnfb.ArgumentValue(ptnfb.QuantSchemePackedQuant),
					table{ptnfb.SlotPackedQuantCodec: "mxfp4"}}}
		}},

		{name: "a dtype that a program cannot have", want: "complex64", change: func(table) {},
			weights: weights(32, map[string]any{
				"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}},
				"c":         entry{"C64", []int64{1}, [2]int64{24, 32}}})},
		{name: "a dtype that the reader does not know", class: tensor.ErrMalformed,
			change: func(table) {}, want: "unknown dtype",
			weights: weights(25, map[string]any{
				"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}},
				"c":         entry{"X9", []int64{1}, [2]int64{24, 25}}})},
		{name: "entries of __metadata__", want: "__metadata__", change: func(table) {},
			weights: weights(24, map[string]any{"__metadata__": map[string]string{"a": "b"},
				"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}}})},
		{name: "a bool that is neither", class: tensor.ErrMalformed, change: func(table) {},
			weights: append(weights(24, map[string]any{
				"fc.weight": entry{"F32", []int64{2, 3}, [2]int64{0, 24}},
				"flag":      entry{"BOOL", []int64{1}, [2]int64{24, 25}}}), 2),
			want: "the bool 0x02"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sound()
			c.change(p)
			if c.weights == nil {
				c.weights = weight()
			}
			b := archived(t, member{programMember, p.bytes(t)}, member{weightsMember, c.weights})
			r, err := OpenBytes(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			report, err := r.Verify(t.Context(), nil)
			if (err != nil) != (c.class != nil) || !errors.Is(err, c.class) {
				t.Errorf("got %v, want %v", err, c.class)
			}
			found := slices.ContainsFunc(report.Findings, func(f tensor.Finding) bool {
				return strings.Contains(f.Err.Error(), c.want)
			})
			if found != (c.want != "" || c.class != nil) {
				t.Errorf("no %q in %v", c.want, report.Findings)
			}
			for _, f := range report.Findings {
				if f.Class != tensor.ClassWarning && f.Offset < 0 {
					t.Errorf("an error without an offset: %v", f)
				}
			}
		})
	}
}

func TestVerifyChecksChecksumsUnlessStructureIsAsked(t *testing.T) {
	b := archived(t, member{programMember, sound().bytes(t)}, member{weightsMember, weight()})
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := r.Tensor("fc.weight").Data.Stored()
	b[st.Offset+5] ^= 1
	report, err := r.Verify(t.Context(), nil)
	if !errors.Is(err, tensor.ErrChecksum) ||
		report.Findings[0].Field != `members["program.safetensors"]` {
		t.Errorf("%v", err)
	}
	opts := tensor.VerifyOptions{Depth: tensor.VerifyStructure}
	if _, err := r.Verify(t.Context(), &opts); err != nil {
		t.Errorf("without reading the data: %v", err)
	}
}

func TestVerifyOfAProgramComparesWithExternalTensors(t *testing.T) {
	r, err := OpenBytes(sound().bytes(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	opts := tensor.VerifyOptions{External: func(string) *tensor.Tensor { return nil }}
	if _, err := r.Verify(t.Context(), &opts); !errors.Is(err, tensor.ErrNoTensor) {
		t.Error(err)
	}
	opts.External = r.Tensor
	if _, err := r.Verify(t.Context(), &opts); err != nil {
		t.Error(err)
	}
}
