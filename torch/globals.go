package torch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// A globalKind is the meaning of a global.
type globalKind uint8

const (
	unknownName      globalKind = iota // calls are objects with arguments
	inert                              // known, and calls are objects with arguments too
	orderedDict                        // collections.OrderedDict
	defaultDict                        // and Counter
	listCall                           // list, tuple
	setCall                            // set, frozenset
	bytesCall                          // bytes, bytearray
	complexCall                        // complex
	encodeCall                         // _codecs.encode: bytes of protocol 2
	storageClass                       // torch.FloatStorage
	dtypeName                          // torch.float32
	sizeCall                           // torch.Size
	deviceCall                         // torch.device
	layoutCall                         // torch.serialization._get_layout
	tensorClass                        // torch.Tensor, Parameter
	rebuildTensor                      // and _v2
	rebuildV3                          //
	rebuildWrapped                     // a parameter, or a tensor of a device: the first argument
	rebuildTyped                       // _rebuild_from_type_v2: what a function makes, and a state
	rebuildSubclass                    // _rebuild_wrapper_subclass: a tensor without a storage
	rebuildSparse                      //
	rebuildQuantized                   //
	rebuildMeta                        //
	numpyScalar                        //
	numpyDType                         //
	numpyArray                         // _reconstruct
	numpyBuffer                        // _frombuffer
	attribute                          // getattr
	scriptList                         // torch.jit._pickle.build_intlist
	scriptTag                          // torch.jit._pickle.restore_type_tag
)

// kinds has the known globals, by module and name.
var kinds = map[string]globalKind{
	"collections OrderedDict": orderedDict,
	"collections defaultdict": defaultDict,
	"collections Counter":     defaultDict,
	"builtins list":           listCall,
	"builtins tuple":          listCall,
	"builtins set":            setCall,
	"builtins frozenset":      setCall,
	"builtins bytearray":      bytesCall,
	"builtins bytes":          bytesCall,
	"builtins complex":        complexCall,
	"builtins dict":           defaultDict,
	"builtins int":            inert,
	"builtins float":          inert,
	"builtins bool":           inert,
	"builtins str":            inert,
	"builtins slice":          inert,
	"builtins xrange":         inert,
	"builtins range":          inert,
	"builtins object":         inert,
	"builtins getattr":        attribute,
	"copyreg _reconstructor":  inert,
	"_codecs encode":          encodeCall,

	"torch Size":                                          sizeCall,
	"torch device":                                        deviceCall,
	"torch Tensor":                                        tensorClass,
	"torch._tensor Tensor":                                tensorClass,
	"torch.nn.parameter Parameter":                        tensorClass,
	"torch.nn.parameter Buffer":                           tensorClass,
	"torch.storage UntypedStorage":                        storageClass,
	"torch.storage TypedStorage":                          storageClass,
	"torch.storage _TypedStorage":                         storageClass,
	"torch.storage _UntypedStorage":                       storageClass,
	"torch.serialization _get_layout":                     layoutCall,
	"torch per_tensor_affine":                             inert,
	"torch per_channel_affine":                            inert,
	"torch per_channel_affine_float_qparams":              inert,
	"torch._utils _rebuild_tensor":                        rebuildTensor,
	"torch._utils _rebuild_tensor_v2":                     rebuildTensor,
	"torch._utils _rebuild_tensor_v3":                     rebuildV3,
	"torch._utils _rebuild_parameter":                     rebuildWrapped,
	"torch._utils _rebuild_parameter_with_state":          rebuildWrapped,
	"torch._utils _rebuild_device_tensor_from_cpu_tensor": rebuildWrapped,
	"torch._utils _rebuild_device_tensor_from_numpy":      rebuildWrapped,
	"torch._utils _rebuild_xla_tensor":                    rebuildWrapped,
	"torch._utils _rebuild_sparse_tensor":                 rebuildSparse,
	"torch._utils _rebuild_sparse_csr_tensor":             rebuildSparse,
	"torch._utils _rebuild_qtensor":                       rebuildQuantized,
	"torch._utils _rebuild_meta_tensor_no_storage":        rebuildMeta,
	"torch._utils _rebuild_nested_tensor":                 inert,
	"torch._utils _rebuild_wrapper_subclass":              rebuildSubclass,
	"torch._tensor _rebuild_from_type":                    rebuildTyped,
	"torch._tensor _rebuild_from_type_v2":                 rebuildTyped,
	"torch.tensor _rebuild_from_type":                     rebuildTyped,
	"torch.nested._internal.nested_tensor _rebuild_njt":   inert,

	"numpy dtype":                         numpyDType,
	"numpy ndarray":                       inert,
	"numpy.core.multiarray scalar":        numpyScalar,
	"numpy._core.multiarray scalar":       numpyScalar,
	"numpy.core.multiarray _reconstruct":  numpyArray,
	"numpy._core.multiarray _reconstruct": numpyArray,
	"numpy.core.numeric _frombuffer":      numpyBuffer,
	"numpy._core.numeric _frombuffer":     numpyBuffer,

	"numpy.random._pickle __randomstate_ctor":   inert,
	"numpy.random._pickle __generator_ctor":     inert,
	"numpy.random._pickle __bit_generator_ctor": inert,

	"numpy.random.bit_generator __pyx_unpickle_SeedSequence":         inert,
	"numpy.random.bit_generator __pyx_unpickle_SeedlessSeedSequence": inert,

	"torch.jit._pickle build_intlist":    scriptList,
	"torch.jit._pickle build_doublelist": scriptList,
	"torch.jit._pickle build_boollist":   scriptList,
	"torch.jit._pickle build_tensorlist": scriptList,
	"torch.jit._pickle restore_type_tag": scriptTag,

	metadataModule + " Metadata":                                           inert,
	metadataModule + " TensorStorageMetadata":                              inert,
	metadataModule + " BytesStorageMetadata":                               inert,
	metadataModule + " ChunkStorageMetadata":                               inert,
	metadataModule + " MetadataIndex":                                      inert,
	metadataModule + " TensorProperties":                                   inert,
	metadataModule + " StorageMeta":                                        inert,
	metadataModule + " _MEM_FORMAT_ENCODING":                               inert,
	"torch.distributed.checkpoint.filesystem _StorageInfo":                 inert,
	"torch.distributed._shard.sharded_tensor.metadata TensorProperties":    inert,
	"torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING": inert,
	"pathlib PosixPath":                                                    inert,
	"pathlib WindowsPath":                                                  inert,
	"pathlib PurePosixPath":                                                inert,
	"pathlib PureWindowsPath":                                              inert,
	"pathlib._local PosixPath":                                             inert,
	"pathlib._local WindowsPath":                                           inert,
}

// metadataModule is the module of the classes of a distributed checkpoint.
const metadataModule = "torch.distributed.checkpoint.metadata"

// kindOf returns the kind of a global. A name with dots, which Python looks up attribute
// by attribute, is compared as a whole.
func kindOf(module, name string, script bool) globalKind {
	if len(module)+len(name) > 1<<8 {
		return unknownName
	}
	if k, ok := kinds[module+" "+name]; ok && !strings.ContainsRune(module, ' ') {
		return k
	}
	switch {
	case module == "torch" || module == "torch.cuda":
		dtype, ok := strings.CutSuffix(name, "Storage")
		if ok && (storageTypes[dtype] != "" || dtype == "Untyped" || dtype == "Typed") {
			return storageClass
		}
		if _, ok := dtypeOf(name); ok && module == "torch" {
			return dtypeName
		}
	case script && (module == "__torch__" || strings.HasPrefix(module, "__torch__.")):
		return inert
	}
	return unknownName
}

var errArguments = fmt.Errorf("%w: arguments that it does not take", tensor.ErrMalformed)

// construct returns the value of a call of a global with these arguments.
func (m *machine) construct(g *global, args []any) (any, error) {
	switch g.kind {
	case unknownName, inert:
		return &object{class: g, args: args}, nil
	case orderedDict:
		return m.dictOf(args, true)
	case defaultDict:
		if len(args) > 0 && g.name == "defaultdict" {
			args = args[1:]
		}
		return m.dictOf(args, false)
	case listCall, setCall, sizeCall, scriptList:
		return m.sequenceOf(g, args)
	case encodeCall:
		return encode(args)
	case bytesCall:
		if len(args) > 0 {
			if s, ok := args[0].(bytestring); ok {
				return s, nil
			}
			return encode(args)
		}
		return bytestring(""), nil
	case complexCall:
		return complexOf(args)
	case deviceCall:
		return deviceOf(args)
	case layoutCall:
		if len(args) == 1 {
			if s, ok := textOf(args[0]); ok {
				return s, nil
			}
		}
		return nil, errArguments
	case scriptTag:
		if len(args) == 0 {
			return nil, errArguments
		}
		return args[0], nil
	case numpyScalar, numpyDType, numpyArray, numpyBuffer:
		return numpyCall(g, args)
	case attribute:
		return m.attribute(g, args)
	case storageClass, dtypeName:
		return nil, fmt.Errorf("%w: it is not called", tensor.ErrMalformed)
	}
	return m.rebuild(g, args)
}

// attribute returns the value of a call of getattr: a global for a class that is nested
// in another one, as pickles of protocols 2 and 3 name it, or else an object.
func (m *machine) attribute(g *global, args []any) (any, error) {
	if len(args) == 2 {
		outer, ok1 := args[0].(*global)
		name, ok2 := args[1].(string)
		if ok1 && ok2 && outer.kind != attribute {
			inner := m.newGlobal(outer.module, outer.name+"."+name)
			g.risky = g.risky || !isClass(inner.name)
			return inner, nil
		}
	}
	g.risky = true
	return &object{class: g, args: args}, nil
}

// dictOf returns a dict without items, with the items of another dict, or of a list of
// keys and values, as Python 2 writes it.
func (m *machine) dictOf(args []any, ordered bool) (any, error) {
	d := &dict{ordered: ordered}
	if len(args) == 0 || len(args) == 1 && args[0] == nil {
		return d, nil
	}
	if from, ok := args[0].(*dict); ok && len(args) == 1 {
		d.items = slices.Clone(from.items)
		return d, nil
	}
	pairs, ok := itemsOf(args[0])
	if !ok || len(args) > 1 {
		return nil, errArguments
	}
	for _, p := range pairs {
		kv, ok := itemsOf(p)
		if !ok || len(kv) != 2 {
			return nil, errArguments
		}
		m.checkKey(kv[0])
		d.add(m, kv[0], kv[1])
	}
	return d, m.err
}

func (m *machine) sequenceOf(g *global, args []any) (any, error) {
	s := new(sequence)
	if g.kind == setCall {
		s.kind = setKind
	} else if g.kind == sizeCall || g.name == "tuple" {
		s.kind = tupleKind
	}
	if len(args) == 0 {
		return s, nil
	}
	items, ok := itemsOf(args[0])
	if !ok || len(args) > 1 {
		return nil, errArguments
	}
	s.items = items[:len(items):len(items)]
	if s.kind != tupleKind {
		s.items = slices.Clone(items)
	}
	return s, nil
}

// encode returns a string of characters below 256 as bytes.
func encode(args []any) (any, error) {
	if len(args) != 2 {
		return nil, errArguments
	}
	s, ok := args[0].(string)
	if encoding, _ := args[1].(string); !ok || encoding != "latin1" && encoding != "latin-1" {
		return nil, errArguments
	}
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, malformed("a character that is not Latin-1")
		}
		b = append(b, byte(r))
	}
	return bytestring(b), nil
}

func complexOf(args []any) (any, error) {
	if len(args) == 2 {
		re, ok1 := args[0].(float64)
		im, ok2 := args[1].(float64)
		if ok1 && ok2 {
			return complex(re, im), nil
		}
	}
	return nil, errArguments
}

// deviceOf returns the name of a device, such as cpu or cuda:0.
func deviceOf(args []any) (any, error) {
	if len(args) == 1 || len(args) == 2 {
		if name, ok := textOf(args[0]); ok {
			if len(args) == 1 {
				return name, nil
			}
			if i, ok := countOf(args[1]); ok {
				return fmt.Sprintf("%s:%d", name, i), nil
			}
		}
	}
	return nil, errArguments
}

// build gives a value its state, for the opcode BUILD.
func build(v, state any) error {
	switch v := v.(type) {
	case *dict:
		if v.ordered {
			v.attributes = state
			return nil
		}
	case *object:
		v.state = state
		return nil
	case *array:
		return v.build(state)
	case *numpyType:
		return v.build(state)
	}
	return fmt.Errorf("%w: a state for a value that has none", tensor.ErrMalformed)
}
