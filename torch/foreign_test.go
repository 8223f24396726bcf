package torch

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// What a pickle would run in Python is not run: it is found.
func TestForeignGlobals(t *testing.T) {
	stackGlobal := func(module, name string) string {
		return "\x8c" + string(rune(len(module))) + module + "\x8c" + string(rune(len(name))) +
			name + "\x93"
	}
	for _, c := range []struct {
		name   string
		file   []byte
		want   string
		called bool
	}{
		{"os.system", archive(dictWith("a", reinvoked)), "os.system", true},
		{"posix.system", archive(call(name("posix", "system"), str("id"))), "posix.system", true},
		{"eval of Python 2", archive(call(name("__builtin__", "eval"), str("1"))),
			"builtins.eval", true},
		{"getattr", archive(call(name("builtins", "getattr"), "N", str("a"))),
			"builtins.getattr", true},
		{"NEWOBJ", archive(osSystem + ")\x81"), "os.system", true},
		{"NEWOBJ_EX", archive(osSystem + ")}\x92"), "os.system", true},
		{"a name with dots", archive(stackGlobal("torch", "hub.os.popen") + ")R"),
			"torch.hub.os.popen", true},
		{"a module with a space", archive(stackGlobal("torch Size", "") + ")R"), "torch Size.",
			true},
		{"torch.load", archive(call(name("torch", "load"), str("x"))), "torch.load", true},
		{"torch.utils._config_module", archive(call(name("torch.utils._config_module",
			"load_config"), "C\x00")), "torch.utils._config_module.load_config", true},
		{"only named", archive(osSystem), "os.system", false},
		{"__setstate__", archive(name("a", "B") + ")\x81" + dictWith("__setstate__",
			osSystem) + "b" + str("id") + "b"), "a.B", true},
		{"a slot of the memo that changes", archive(name("collections",
			"OrderedDict") + "q\x000" + osSystem + "q\x000h\x00(" + str("id") + "tR"), "os.system",
			true},
		{"in an unpickled object of NumPy", archive(call(name("a", "b"))), "a.b", true},
		{"in the header of a legacy stream", []byte(strings.Replace(string(legacy("N", "]", "")),
			"\x80\x02}.", "\x80\x02}"+reinvoked+"0.", 1)), "os.system", true},
		{"in the keys of a legacy stream", legacy("N", reinvoked+"0]", ""), "os.system", true},
		{"in a TorchScript constant", archive("N", file{"x/constants.pkl", reinvoked + "."}),
			"os.system", true},
		{"a class of TorchScript without its code", archive(name("__torch__", "Net") + ")\x81"),
			"__torch__.Net", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := OpenBytes(c.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.globals, func(g Global) bool { return !g.Known })
			if i < 0 {
				t.Fatalf("not found: %v", r.globals)
			}
			g := r.globals[i]
			if g.String() != c.want || g.Called != c.called || g.FileOffset < 0 ||
				c.file[g.FileOffset] != 'c' && c.file[g.FileOffset] != 0x93 {
				t.Errorf("%+v, want %s", g, c.want)
			}
			report, err := r.Verify(t.Context(),
				&tensor.VerifyOptions{Depth: tensor.VerifyStructure})
			if !errors.Is(err, errors.ErrUnsupported) ||
				report.Findings[0].Offset != g.FileOffset {
				t.Errorf("Verify: %v", err)
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the message does not name what would run: %v", err)
			}
			if _, err := OpenBytes(c.file, &ReaderOptions{Strict: true}); !errors.Is(err,
				errors.ErrUnsupported) {
				t.Errorf("Strict: %v", err)
			}
		})
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
func TestArchivesThatScannersMisread(t *testing.T) {
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
func TestMemberWithoutCRC(t *testing.T) {
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
