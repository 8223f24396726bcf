package torch

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// A function that a pickle would run in Python is not run: it is found.
func TestFunctionsThatPythonWouldRunAreFindings(t *testing.T) {
	stackGlobal := func(module, name string) string {
		return "\x8c" + string(rune(len(module))) + module + "\x8c" + string(rune(len(name))) +
			name + "\x93"
	}
	for _, c := range []struct {
		name   string
		file   []byte
		want   string
		code   string
		called bool
	}{
		{"os.system", archive(dictWith("a", reinvoked)), "os.system", tensor.CodeRunsCode, true},
		{"posix.system", archive(call(name("posix", "system"), str("id"))), "posix.system",
			tensor.CodeRunsCode, true},
		{"eval of Python 2", archive(call(name("__builtin__", "eval"), str("1"))),
			"builtins.eval", tensor.CodeRunsCode, true},
		{"getattr of a value", archive(call(name("builtins", "getattr"), "N", str("a"))),
			"builtins.getattr", tensor.CodeRunsCode, true},
		{"a function by getattr", archive(call(call(name("builtins", "getattr"),
			name("torch", "hub"), str("load")))), "torch.hub.load", tensor.CodeRunsCode, true},
		{"a class by getattr", archive(call(name("builtins", "getattr"), name("a", "B"),
			str("C")) + ")\x81"), "a.B.C", tensor.CodeUnknownClass, true},
		{"getattr that is only named", archive(name("builtins", "getattr")),
			"builtins.getattr", tensor.CodeRunsCode, false},
		{"NEWOBJ", archive(osSystem + ")\x81"), "os.system", tensor.CodeRunsCode, true},
		{"NEWOBJ_EX", archive(osSystem + ")}\x92"), "os.system", tensor.CodeRunsCode, true},
		{"a name with dots", archive(stackGlobal("torch", "hub.os.popen") + ")R"),
			"torch.hub.os.popen", tensor.CodeRunsCode, true},
		{"a class in a module in a module", archive(stackGlobal("torch", "hub.subprocess.Popen") +
			")R"), "torch.hub.subprocess.Popen", tensor.CodeRunsCode, true},
		{"a class that runs programs", archive(call(name("subprocess", "Popen"), str("id"))),
			"subprocess.Popen", tensor.CodeRunsCode, true},
		{"a module with a space", archive(stackGlobal("torch Size", "") + ")R"), "torch Size.",
			tensor.CodeRunsCode, true},
		{"torch.load", archive(call(name("torch", "load"), str("x"))), "torch.load",
			tensor.CodeRunsCode, true},
		{"torch.utils._config_module", archive(call(name("torch.utils._config_module",
			"load_config"), "C\x00")), "torch.utils._config_module.load_config",
			tensor.CodeRunsCode, true},
		{"a method of a class", archive(call(stackGlobal("bdb", "Bdb.run"), str("id"))),
			"bdb.Bdb.run", tensor.CodeRunsCode, true},
		{"a function of no known module", archive(call(name("evil", "run"))), "evil.run",
			tensor.CodeRunsCode, true},
		{"only named", archive(osSystem), "os.system", tensor.CodeRunsCode, false},
		{"__setstate__", archive(name("a", "B") + ")\x81" + dictWith("__setstate__",
			name("evil", "run")) + "b" + str("id") + "b"), "evil.run", tensor.CodeRunsCode, true},
		{"a slot of the memo that changes", archive(name("collections",
			"OrderedDict") + "q\x000" + osSystem + "q\x000h\x00(" + str("id") + "tR"), "os.system",
			tensor.CodeRunsCode, true},
		{"in the header of a legacy stream", []byte(strings.Replace(string(legacy("N", "]", "")),
			"\x80\x02}.", "\x80\x02}"+reinvoked+"0.", 1)), "os.system", tensor.CodeRunsCode, true},
		{"in the keys of a legacy stream", legacy("N", reinvoked+"0]", ""), "os.system",
			tensor.CodeRunsCode, true},
		{"in a TorchScript constant", archive("N", file{"x/constants.pkl", reinvoked + "."}),
			"os.system", tensor.CodeRunsCode, true},
		{"a namespace", archive(name("argparse", "Namespace") + ")\x81"), "argparse.Namespace",
			tensor.CodeUnknownClass, true},
		{"a namespace that is called", archive(call(name("argparse", "Namespace"))),
			"argparse.Namespace", tensor.CodeUnknownClass, true},
		{"a class in lower case", archive(name("a", "b") + ")\x81"), "a.b",
			tensor.CodeUnknownClass, true},
		{"a deque", archive(call(name("collections", "deque"), "]")), "collections.deque",
			tensor.CodeUnknownClass, true},
		{"a function that is only named", archive(name("a", "b")), "a.b",
			tensor.CodeUnknownClass, false},
		{"a class of torch that is called", archive(call(name("torch.elastic", "Handler"),
			str("x"), str("y"))), "torch.elastic.Handler", tensor.CodeUnknownClass, true},
		{"a class of TorchScript without its code", archive(name("__torch__", "Net") + ")\x81"),
			"__torch__.Net", tensor.CodeUnknownClass, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(c.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.globals, func(g Global) bool {
				return g.Code == c.code && g.String() == c.want
			})
			if i < 0 {
				t.Fatalf("not found: %+v", r.globals)
			}
			g := r.globals[i]
			if g.Called != c.called || g.FileOffset < 0 ||
				c.file[g.FileOffset] != 'c' && c.file[g.FileOffset] != 0x93 &&
					c.file[g.FileOffset] != 'R' {
				t.Errorf("%+v, want %s", g, c.want)
			}
			// Open warns of it, and Verify reports the same.
			report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Depth: tensor.VerifyStructure})
			if (err != nil) != (c.code == tensor.CodeRunsCode) ||
				err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Verify: %v", err)
			}
			isFinding := func(err error) bool {
				f := tensor.FindingOf(err)
				return f.Code == c.code && f.Offset == g.FileOffset &&
					strings.Contains(err.Error(), c.code+": "+c.want+" is ")
			}
			if !slices.ContainsFunc(r.Warnings(), isFinding) {
				t.Errorf("Warnings: %v", r.Warnings())
			}
			j := slices.IndexFunc(report.Findings,
				func(f tensor.Finding) bool { return isFinding(f.Err) })
			severity := tensor.SeverityWarning
			if c.code == tensor.CodeRunsCode {
				severity = tensor.SeverityError
			}
			if j < 0 || report.Findings[j].Code != c.code ||
				report.Findings[j].Severity != severity {
				t.Errorf("Verify: %v", report.Findings)
			}
			_, err = r.Verify(t.Context(), &tensor.VerifyOptions{Strict: true,
				Depth: tensor.VerifyStructure})
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("a strict Verify: %v", err)
			}
			if _, err := OpenBytes(c.file, &ReaderOptions{Strict: true}); !errors.Is(err,
				errors.ErrUnsupported) {
				t.Errorf("Strict: %v", err)
			}
		})
	}
}

// Classes of libraries of tensors are no finding, nor are the functions by which NumPy
// and torch make their objects.
func TestGlobalsOfTensorLibrariesAreNoFinding(t *testing.T) {
	for _, pickle := range []string{
		name("torch.nn.modules.linear", "Linear") + ")\x81",
		name("torch.distributed.tensor", "DTensor"),
		name("torch.nn.functional", "relu"),
		name("numpy.random._pickle", "__randomstate_ctor") + ")R",
		call(name("builtins", "getattr"), name("torch.nn.modules.linear", "Linear"),
			str("Inner")) + ")\x81",
		name("optimum.quanto.tensor.qtype", "Type") + ")\x81",
		call(name("torchao.quantization", "MappingType"), str("symmetric")),
		call(name("builtins", "bytes")),
	} {
		r, err := OpenBytes(archive(tup(pickle, floats(4))), &ReaderOptions{Strict: true})
		if err != nil {
			t.Errorf("%q: %v", pickle, err)
			continue
		}
		if report, err := r.Verify(t.Context(), nil); err != nil || len(report.Findings) > 0 {
			t.Errorf("%q: %v", pickle, report.Findings)
		}
	}
}

// A file with more warnings than are listed has the ones about code among them.
func TestManyWarningsHideNoCode(t *testing.T) {
	many := strings.Repeat(name("a", "B"), 3000)
	r, err := OpenBytes(archive("("+many+reinvoked+"t"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Warnings(); len(w) != 1001 || tensor.FindingOf(w[0]).Code != tensor.CodeRunsCode {
		t.Errorf("%d warnings, the first %v", len(w), w[0])
	}
	if report, err := r.Verify(t.Context(), nil); err == nil || len(report.Findings) < 3000 {
		t.Errorf("%d findings, %v", len(report.Findings), err)
	}
}

// The text of a call's arguments is all that is made of it.
func TestForeignCallsAreData(t *testing.T) {
	r, err := OpenBytes(archive(dictWith("a", reinvoked)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range r.Attributes() {
		if k != "a" || v != `["id"]` {
			t.Errorf("%s is %s", k, v)
		}
	}
}

// Scanners of pickles stop at these, and torch does not.
func TestArchivesThatScannersMisreadAreReadAsTorchDoes(t *testing.T) {
	plain := archive(dictWith("a", reinvoked))
	at := bytes.Index(plain, []byte("PK\x01\x02"))
	otherName := bytes.Replace(bytes.Clone(plain), []byte("x/data.pkl"), []byte("x/data.txt"), 1)
	encrypted := bytes.Clone(plain)
	encrypted[at+8] |= 1
	wrongCRC := bytes.Clone(plain)
	wrongCRC[at+16] ^= 1
	if _, err := OpenBytes(encrypted, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("encrypted: %v", err)
	}
	if _, err := OpenBytes(otherName, nil); !errors.Is(err, tensor.ErrMalformed) {
		t.Errorf("another name in the local header: %v", err)
	}
	r, err := OpenBytes(wrongCRC, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, _ := r.Verify(t.Context(), nil)
	if !slices.ContainsFunc(r.globals, func(g Global) bool {
		return g.String() == "os.system" && slices.ContainsFunc(report.Findings,
			func(f tensor.Finding) bool { return f.Offset == g.FileOffset })
	}) {
		t.Errorf("a wrong CRC: %v", report.Findings)
	}
	if !errors.Is(report.Err(), tensor.ErrChecksum) {
		t.Errorf("a wrong CRC: %v", report.Findings)
	}
}

// torch writes a CRC of 0 on request: that is a warning.
func TestMemberWithoutCRCIsAWarning(t *testing.T) {
	b := archive(floats(4))
	at := bytes.LastIndex(b, []byte("PK\x01\x02"))
	copy(b[at+16:], "\x00\x00\x00\x00")
	r, err := OpenBytes(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Verify(t.Context(), nil)
	if err != nil || len(report.Findings) != 1 ||
		report.Findings[0].Severity != tensor.SeverityWarning {
		t.Errorf("%v, %v", report.Findings, err)
	}
}
