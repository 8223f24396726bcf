package torch

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/tensor"
)

// dangerousModules have functions and classes that run programs, load code, or open files
// and connections. Modules below a listed one are dangerous too. This package runs
// nothing: the list only decides the code of a finding.
var dangerousModules = []string{
	"__builtin__", "_aix_support", "_osx_support", "_pickle", "_posixsubprocess", "_pyrepl",
	"aiohttp", "asyncio", "bdb", "builtins", "cProfile", "cloudpickle", "code", "codeop",
	"commands", "compileall", "concurrent", "ctypes", "dill", "distutils", "doctest",
	"ensurepip", "ftplib", "functools", "http", "httplib", "idlelib", "imaplib", "imp",
	"importlib", "inspect", "io", "joblib", "jsonpickle", "lib2to3", "linecache", "logging",
	"marshal", "multiprocessing", "nt", "operator", "_operator", "os", "pdb", "pickle", "pip",
	"pipes", "pkgutil", "platform", "poplib", "popen2", "posix", "profile", "pty",
	"py_compile", "pydoc", "requests", "runpy", "setuptools", "shelve", "shutil", "signal",
	"site", "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "sys",
	"tempfile", "timeit", "torch._C", "torch.hub", "torch.jit", "torch.multiprocessing",
	"torch.package", "torch.utils.cpp_extension", "torch.utils.tensorboard", "trace", "types",
	"unittest", "urllib", "urllib2", "uu", "venv", "webbrowser", "xmlrpc", "zipimport",
}

// harmless are classes that hold data, though they are in lower case or in a dangerous
// module.
var harmless = []string{
	"array array", "array _array_reconstructor", "collections deque",
	"datetime date", "datetime datetime", "datetime time", "datetime timedelta",
	"datetime timezone", "re _compile", "types SimpleNamespace", "types MappingProxyType",
}

// tensorLibraries are packages whose classes hold tensors, or describe them.
var tensorLibraries = []string{"torch", "torchao", "numpy", "ml_dtypes", "optimum.quanto",
	"bitsandbytes"}

// within reports whether a module is one of a list, or below one.
func within(module string, list []string) bool {
	return slices.ContainsFunc(list, func(m string) bool {
		return strings.HasPrefix(module, m) && (len(module) == len(m) || module[len(m)] == '.')
	})
}

// isClass reports whether a name, and each class that it is nested in, begins with a
// capital letter: pickles do not say whether a name is a class.
func isClass(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		first, _ := utf8.DecodeRuneInString(strings.TrimLeft(part, "_"))
		if !unicode.IsUpper(first) {
			return false
		}
	}
	return true
}

// code returns the code of the finding for a global, "" for none: CodeRunsCode for
// functions that are called and for all names of dangerous modules, CodeUnknownClass for
// other names. A class of a library of tensors is a finding only if it is called, which
// runs its constructor. Pickles make instances without a call, except members of an
// enumeration.
func (g *global) code() string {
	isHarmless := slices.Contains(harmless, g.module+" "+g.name)
	switch {
	case g.kind == attribute:
		if g.risky || !g.called {
			return tensor.CodeRunsCode
		}
		return ""
	case g.kind != unknownName:
		return ""
	case isHarmless:
		return tensor.CodeUnknownClass
	case within(g.module, dangerousModules) && !(g.module == "builtins" && isClass(g.name)):
		return tensor.CodeRunsCode
	case g.called && !isClass(g.name):
		return tensor.CodeRunsCode
	case (!g.called || g.member) && within(g.module, tensorLibraries):
		return ""
	}
	return tensor.CodeUnknownClass
}
