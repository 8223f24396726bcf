package torch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// config is a configuration of one weight of 16 bytes in a member.
func config(name, member string, dtype int, size, stride string) string {
	return fmt.Sprintf(`{"config":{%q:{"path_name":%q,"is_param":true,"use_pickle":false,`+
		`"tensor_meta":{"dtype":%d,"layout":7,"sizes":[%s],"strides":[%s],`+
		`"storage_offset":{"as_int":0}}}}}`, name, member, dtype, size, stride)
}

func TestProgramsHaveTheirWeights(t *testing.T) {
	const data, four, one = "0123456789abcdef", `{"as_int":4}`, `{"as_int":1}`
	saved := string(archive(dictWith("w", floats(4))))
	entry := config("w", "w", 7, four, one)
	entry = entry[len(`{"config":{`) : len(entry)-len("}}")]
	format := file{"x/archive_format", "pt2"}
	for _, c := range []struct {
		name     string
		files    []file
		tensors  string
		warnings int
		err      error
	}{
		{"nothing", []file{format}, "", 0, nil},
		{"a weight and a constant", []file{format, {"x/data/weights/weight_0", data},
			{"x/data/weights/m_weights_config.json", config("fc.w", "weight_0", 7, four, one)},
			{"x/data/constants/tensor_0", data},
			{"x/data/constants/m_constants_config.json", config("c", "tensor_0", 7, four, one)}},
			"fc.w c", 0, nil},
		{"two models", []file{format, {"x/data/weights/weight_0", data},
			{"x/data/weights/m_weights_config.json", config("w", "weight_0", 7, four, one)},
			{"x/data/weights/n_weights_config.json", config("w", "weight_0", 7, four, one)}},
			"m.w n.w", 0, nil},
		{"an archive of torch.save", []file{format, {"x/data/weights/m.pt", saved}}, "w", 0,
			nil},
		{"a weight that is pickled", []file{format, {"x/data/weights/weight_0", saved},
			{"x/data/weights/m_weights_config.json", strings.Replace(config("a", "weight_0", 7,
				four, one), "false", "true", 1)}}, "a.w", 0, nil},
		{"two weights of one pickle", []file{format, {"x/data/weights/w", saved},
			{"x/data/weights/m_weights_config.json", strings.ReplaceAll(`{"config":{`+entry+","+
				strings.Replace(entry, `"w"`, `"v"`, 1)+"}}", "false", "true")}}, "w.w v.w", 0,
			nil},
		{"torch 2.1", []file{{oldProgram, "{}"}, {"serialized_state_dict.pt", saved},
			{"serialized_constants.pt", string(archive(dictWith("c", floats(4))))}}, "w c", 0,
			nil},
		{"a member that no configuration names", []file{format,
			{"x/data/weights/weight_0", data}}, "", 1, nil},
		{"an object", []file{format, {"x/data/constants/m_constants_config.json",
			`{"config":{"a":{"path_name":"custom_obj_0","use_pickle":true,"tensor_meta":null}}}`}},
			"", 0, nil},
		{"a weight without its member", []file{format, {"x/data/weights/m_weights_config.json",
			config("w", "weight_0", 7, four, one)}}, "", 0, tensor.ErrMalformed},
		{"a shape that is outside", []file{format, {"x/data/weights/weight_0", data},
			{"x/data/weights/m_weights_config.json", config("w", "weight_0", 7, `{"as_int":5}`,
				one)}}, "", 0, tensor.ErrMalformed},
		{"a dtype that is none", []file{format, {"x/data/weights/weight_0", data},
			{"x/data/weights/m_weights_config.json", config("w", "weight_0", 14, four, one)}},
			"", 0, tensor.ErrMalformed},
		{"a shape that is an expression", []file{format, {"x/data/weights/weight_0", data},
			{"x/data/weights/m_weights_config.json", config("w", "weight_0", 7,
				`{"as_expr":{"expr_str":"s0"}}`, one)}}, "", 0, tensor.ErrMalformed},
		{"a configuration that is cut", []file{format,
			{"x/data/weights/m_weights_config.json", `{"config":{"w":{`}}, "", 0,
			tensor.ErrMalformed},
		{"an archive in an archive in an archive", []file{format, {"x/data/weights/m.pt",
			string(zipOf(format, file{"x/data/weights/n.pt", saved}))}}, "", 0,
			errors.ErrUnsupported},
		{"pickled weights that are no dict", []file{format,
			{"x/data/weights/m.pt", string(archive(floats(4)))}}, "", 0, tensor.ErrMalformed},
		{"a weight many times", []file{format, {"x/data/weights/w", data},
			{"x/data/weights/m_weights_config.json", `{"config":{` +
				strings.Repeat(entry+",", 20_000) + entry + "}}"}}, "w", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(zipOf(c.files...), nil)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			var names []string
			for x := range r.Tensors() {
				names = append(names, x.Name)
				if b, err := x.Data.ReadAll(); string(b) != data || err != nil {
					t.Errorf("%s has %q, %v", x.Name, b, err)
				}
			}
			if strings.Join(names, " ") != c.tensors || len(r.Warnings()) != c.warnings ||
				r.Version() != "pt2" {
				t.Errorf("%q of %s, %v", names, r.Version(), r.Warnings())
			}
			if i := slices.IndexFunc(slices.Collect(r.Spans()), func(s tensor.Span) bool {
				return s.Kind == tensor.SpanTensor && s.Size != 16
			}); i >= 0 {
				t.Errorf("span %d has another size than its tensor", i)
			}
			if err := walk(r, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
