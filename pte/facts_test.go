package pte

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/schema/ptefb"
)

// What ExecuTorch's own reader says of a program, compared with ours field by field: for
// the exporter's programs in testdata, and for those that interop/pte/generations.py
// makes with the serializers of seven releases (interop/pte.sh gives their directory in
// TENSORFILE_PTE_GENERATIONS).

func readJSON(t testing.TB, name string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var x map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&x); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestFactsOfExportedProgramsEqualTheReference(t *testing.T) {
	for _, name := range programs(t) {
		if !strings.HasPrefix(filepath.Base(name), "export-") {
			continue
		}
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".pte"), ".bpte")
		t.Run(filepath.Base(base), func(t *testing.T) {
			r := openFile(t, name)
			want := readJSON(t, base+".json")
			got := plain(t, describe(t, r)).(map[string]any)
			for k := range got {
				w := want[k]
				if !reflect.DeepEqual(got[k], w) {
					g, _ := json.Marshal(got[k])
					e, _ := json.Marshal(w)
					t.Errorf("%s:\n got %s\nwant %s", k, g, e)
				}
			}
			if w := r.Warnings(); len(w) > 0 {
				t.Errorf("a genuine program has warnings: %v", w)
			}
			if _, err := r.Verify(t.Context(), nil); err != nil {
				t.Errorf("a genuine program does not verify: %v", err)
			}
		})
	}
}

func TestFactsOfEveryGenerationEqualTheReference(t *testing.T) {
	dir := os.Getenv("TENSORFILE_PTE_GENERATIONS")
	if dir == "" {
		t.Skip("TENSORFILE_PTE_GENERATIONS names no directory: run by interop/pte.sh")
	}
	files, err := filepath.Glob(dir + "/*/*.pte")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs in %s: %v", dir, err)
	}
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			r := openFile(t, name)
			if _, err := r.Verify(t.Context(), nil); err != nil &&
				!strings.Contains(name, "/odd-") &&
				(r.Version() == "0" || !errors.Is(err, errors.ErrUnsupported)) {
				// of odd ones TestRuntimeLoadsOddProgramsThatVerify knows which must
				t.Errorf("does not verify: %v", err)
			}
			compareGeneration(t, r, name)
		})
	}
}

// TestRuntimeLoadsOddProgramsThatVerify holds Verify against the runtime: it loads
// every method of a program that verifies and lacks nothing.
func TestRuntimeLoadsOddProgramsThatVerify(t *testing.T) {
	run := etrun(t)
	files, err := filepath.Glob(os.Getenv("TENSORFILE_PTE_GENERATIONS") + "/odd-*/load-*.pte")
	if err != nil || len(files) == 0 {
		t.Skip("TENSORFILE_PTE_GENERATIONS has no odd programs: run by interop/pte.sh")
	}
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name))+"/"+filepath.Base(name), func(t *testing.T) {
			out, _ := exec.Command(run, "info", name).Output()
			loaded, all := bytes.Count(out, []byte(`"load_method":"Error::Ok `)),
				bytes.Count(out, []byte(`"load_method":`))
			_, verified := openFile(t, name).Verify(t.Context(), nil)
			if all == 0 || (loaded == all) != (verified == nil) {
				t.Errorf("%d of %d methods load, and Verify says %v\n%s", loaded, all, verified,
					out)
			}
		})
	}
}

// The same for the few programs of old releases that are in testdata.
func TestFactsOfOldReleasesEqualTheReference(t *testing.T) {
	for _, name := range oldPrograms(t) {
		t.Run(filepath.Base(name),
			func(t *testing.T) { compareGeneration(t, openFile(t, name), name) })
	}
}

func compareGeneration(t *testing.T, r *Reader, name string) {
	want := readJSON(t, strings.TrimSuffix(name, ".pte")+".json")
	p, ok := want["program"].(map[string]any)
	if !ok {
		t.Logf("the reference cannot read what it wrote (%v); opened and verified here",
			want["refused"])
		return
	}
	compareProgram(t, r, p, want)
}

// compareProgram holds a program against the dataclasses of ExecuTorch's deserializer.
func compareProgram(t *testing.T, r *Reader, want, file map[string]any) {
	same := func(what string, got, want any) {
		t.Helper()
		g := plain(t, got)
		if !reflect.DeepEqual(g, want) {
			gb, _ := json.Marshal(g)
			wb, _ := json.Marshal(want)
			t.Errorf("%s:\n got %s\nwant %s", what, gb, wb)
		}
	}
	same("version", r.root.Version(), want["version"])
	plans := want["execution_plan"].([]any)
	same("number of methods", r.root.ExecutionPlanLength(), json.Number(fmt.Sprint(len(plans))))
	payloads, _ := want["backend_delegate_data"].([]any)
	for i, p := range plans {
		m, w := r.Program().method(i), p.(map[string]any)
		same("name", m.Name(), w["name"])
		in, out := m.Structure()
		c := w["container_meta_type"].(map[string]any)
		same("structure", []string{in, out}, []any{c["encoded_inp_str"], c["encoded_out_str"]})
		var values []any
		for v := range m.Values() {
			values = append(values, dataclass(v))
		}
		for k, v := range w["values"].([]any) {
			if k < len(values) {
				sameFields(t, fmt.Sprintf("%s values[%d]", m.Name(), k), plain(t, values[k]),
					v.(map[string]any)["val"])
			}
		}
		same("number of values", len(values), json.Number(fmt.Sprint(len(w["values"].([]any)))))
		var ins, outs []int
		for _, v := range m.Inputs() {
			ins = append(ins, v.Index())
		}
		for _, v := range m.Outputs() {
			outs = append(outs, v.Index())
		}
		same("inputs", append([]int{}, ins...), w["inputs"])
		same("outputs", append([]int{}, outs...), w["outputs"])
		ops := []any{}
		for _, o := range m.Operators() {
			ops = append(ops, row{"_": "Operator", "name": o.Name, "overload": o.Overload})
		}
		same("operators", ops, w["operators"])
		same("buffers", m.Memory().Buffers, w["non_const_buffer_sizes"])
		if dev, ok := w["non_const_buffer_device"].([]any); ok {
			for _, d := range dev {
				d := d.(map[string]any)
				k, _ := d["buffer_idx"].(json.Number).Int64()
				x := m.Memory().Devices[k]
				same("device", []int8{int8(x.Type), x.Index},
					[]any{d["device_type"], d["device_index"]})
			}
		}
		for k, d := range w["delegates"].([]any) {
			d, g := d.(map[string]any), m.Delegates()[k]
			same("delegate id", g.ID, d["id"])
			ref, _ := d["processed"].(map[string]any)["index"].(json.Number).Int64()
			same("payload", row{"sha256": sha(t, g.Payload), "bytes": g.Payload.Size()},
				payloads[ref].(map[string]any)["data"])
			for j, s := range d["compile_specs"].([]any) {
				s := s.(map[string]any)
				same("spec key", g.Specs[j].Key, s["key"])
				h := sha256.Sum256(g.Specs[j].Value)
				same("spec value",
					row{"sha256": hex.EncodeToString(h[:]), "bytes": len(g.Specs[j].Value)},
					s["value"])
			}
		}
		for ch := range m.chains() {
			wc := w["chains"].([]any)[ch.index].(map[string]any)
			k := 0
			stacks, _ := wc["stacktrace"].([]any)
			for ins := range ch.instructions() {
				same("instruction", instructionRow(ins),
					wc["instructions"].([]any)[k].(map[string]any)["instr_args"])
				if k < len(stacks) {
					same("stack", stackOf(ins), stacks[k].(map[string]any)["items"])
				}
				k++
			}
			same("number of instructions", ch.len(),
				json.Number(fmt.Sprint(len(wc["instructions"].([]any)))))
		}
	}
	// The reference cuts constants where the next begins, so padding included.
	for i, b := range want["constant_buffer"].([]any) {
		w := b.(map[string]any)["storage"].(map[string]any)
		n, _ := w["bytes"].(json.Number).Int64()
		if i == 0 || n == 0 {
			continue
		}
		e, err := r.constant(uint32(i), location{})
		if err != nil || e.size < n {
			t.Fatalf("constant %d: %d of %d bytes: %v", i, e.size, n, err)
		}
		same(fmt.Sprintf("constant %d", i), row{"sha256": sha(t, r.blob(e.off, n)), "bytes": n}, w)
	}
	if list, ok := file["mutable_data"].([]any); ok {
		for i, b := range list {
			w := b.(map[string]any)["storage"].(map[string]any)
			n, _ := w["bytes"].(json.Number).Int64()
			if i == 0 || n == 0 {
				continue
			}
			e, err := r.locate(RoleState, uint32(i), 0, location{})
			if err != nil || e.size < n {
				t.Fatalf("initial value %d: %d of %d bytes: %v", i, e.size, n, err)
			}
			same(fmt.Sprintf("initial value %d", i),
				row{"sha256": sha(t, r.blob(e.off, n)), "bytes": n}, w)
		}
	}
	if named, ok := file["named_data"].(map[string]any); ok {
		buffers, entries := named["buffers"].([]any), named["pte_data"].(map[string]any)
		seen := 0
		for d := range r.Program().NamedData() {
			k, _ := entries[d.Key].(map[string]any)["buffer_index"].(json.Number).Int64()
			same("named "+d.Key, row{"sha256": sha(t, d.Data), "bytes": d.Data.Size()}, buffers[k])
			seen++
		}
		same("number of named blobs", seen, json.Number(fmt.Sprint(len(entries))))
	}
}

// sameFields compares the fields that the reference's generation has.
func sameFields(t *testing.T, what string, got, want any) {
	t.Helper()
	g, gok := got.(map[string]any)
	w, wok := want.(map[string]any)
	if !gok || !wok {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
		return
	}
	for k, v := range w {
		alias := map[string]string{"constant_buffer_idx": "data_buffer_idx",
			"memory_offset": "memory_offset_low"}
		if a := alias[k]; a != "" {
			k = a
		}
		sameFields(t, what+"."+k, g[k], v)
	}
}

func floatText(f float64) any {
	switch s := fmt.Sprint(f); s {
	case "+Inf":
		return "inf"
	case "-Inf", "NaN":
		return strings.ToLower(s)
	}
	return json.RawMessage(strings.TrimSuffix(fmt.Sprintf("%.1f", f), ""))
}

func dataclass(v Value) any {
	switch k := v.Kind(); k {
	case kindInt:
		return row{"_": "Int", "int_val": v.number()}
	case kindBool:
		return row{"_": "Bool", "bool_val": v.isTrue()}
	case kindDouble:
		f := v.Constant().(float64)
		if f == 0.125 {
			return row{"_": "Double", "double_val": 0.125}
		}
		return row{"_": "Double", "double_val": floatText(f)}
	case kindString:
		return row{"_": "String", "string_val": v.Constant()}
	case kindIntList, kindTensorList, kindOptionalTensorList:
		return row{"_": k.String(), "items": append([]int{}, v.Items()...)}
	case kindDoubleList:
		items := []any{}
		for _, f := range v.Constant().([]float64) {
			items = append(items, floatText(f))
		}
		return row{"_": "DoubleList", "items": items}
	case kindBoolList:
		return row{"_": "BoolList", "items": append([]bool{}, v.Constant().([]bool)...)}
	case kindTensor:
		i, _ := v.Tensor()
		order := []int{}
		for d := range i.Shape {
			if i.Order != nil {
				d = i.Order[d]
			}
			order = append(order, d)
		}
		x := row{"_": "Tensor", "scalar_type": i.ScalarType, "storage_offset": i.StorageOffset,
			"sizes": append([]int64{}, i.Shape...), "dim_order": order,
			"requires_grad": i.RequiresGrad, "layout": i.Layout, "data_buffer_idx": i.Buffer,
			"shape_dynamism": i.Dynamism}
		if i.Planned {
			x["allocation_info"] = row{"_": "AllocationDetails", "memory_id": i.Place.Memory,
				"memory_offset_low":  uint32(i.Place.Offset),
				"memory_offset_high": i.Place.Offset >> 32}
		}
		if t, _ := v.table(); t.ExtraTensorInfo(nil) != nil {
			e := row{"_": "ExtraTensorInfo", "mutable_data_segments_idx": i.MutableIndex,
				"location": 0, "device_type": i.Device.Type, "device_index": i.Device.Index,
				"fully_qualified_name": nil}
			if i.Role.External() {
				e["location"] = 1
			}
			if t.ExtraTensorInfo(nil).FullyQualifiedName() != nil {
				e["fully_qualified_name"] = i.Name
			}
			x["extra_tensor_info"] = e
		}
		return x
	}
	return row{"_": v.Kind().String()}
}

func instructionRow(i Instruction) row {
	switch i.Opcode() {
	case OpKernelCall:
		return row{"_": "KernelCall", "op_index": i.Operator(),
			"args": append([]int{}, i.Args()...)}
	case OpDelegateCall:
		return row{"_": "DelegateCall", "delegate_index": i.Delegate(),
			"args": append([]int{}, i.Args()...)}
	case OpMove:
		from, to := i.move()
		return row{"_": "MoveCall", "move_from": from, "move_to": to}
	case OpJumpFalse:
		c, to := i.Jump()
		return row{"_": "JumpFalseCall", "cond_value_index": c, "destination_instruction": to}
	case OpFree:
		return row{"_": "FreeCall", "value_index": i.number(OpFree, ptefb.SlotFreeCallValueIndex)}
	}
	return row{"_": i.Opcode().String()}
}
