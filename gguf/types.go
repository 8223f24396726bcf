package gguf

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/tensorfile/tensorfile/internal/format"
	"github.com/tensorfile/tensorfile/internal/ggml"
	"github.com/tensorfile/tensorfile/internal/numpy"
	"github.com/tensorfile/tensorfile/tensor"
)

// A storage is how a type stores elements: in blocks of that many elements and bytes. The
// block of a dense type has one element.
type storage struct {
	name     string
	elements int64
	bytes    int64
	dtype    tensor.DType // Unknown for quantised blocks
}

// storageOf returns the storage of type number n. The name is "" if the type is unknown
// or withdrawn.
func storageOf(n uint32) storage {
	if t, ok := ggml.Number(n); ok {
		return storage{t.Name, t.Elements, t.Bytes, tensor.Unknown}
	}
	return plain[n]
}

// plain has the dense types, by number.
var plain = map[uint32]storage{
	0:  {"F32", 1, 4, tensor.F32},
	1:  {"F16", 1, 2, tensor.F16},
	24: {"I8", 1, 1, tensor.I8},
	25: {"I16", 1, 2, tensor.I16},
	26: {"I32", 1, 4, tensor.I32},
	27: {"I64", 1, 8, tensor.I64},
	28: {"F64", 1, 8, tensor.F64},
	30: {"BF16", 1, 2, tensor.BF16},
}

// foreignNames has the names of types that ggml has withdrawn, and of types of two forks,
// bitnet.cpp and ik_llama.cpp (ggml.h of each), by number.
var foreignNames = map[uint32]string{
	4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	36: "I2_S", 37: "I8_S", 38: "TL1", 97: "Q8_0_X4", 98: "Q8_1_X4", 99: "Q8_2_X4",
	133: "Q6_0", 134: "IQ1_BN", 135: "IQ2_BN", 136: "Q8_K64", 137: "IQ2_K", 138: "IQ3_K",
	139: "IQ4_K", 140: "IQ5_K", 141: "IQ6_K", 144: "IQ4_KS", 145: "IQ2_KS", 146: "IQ4_KSS",
	147: "Q8_K16", 148: "Q8_K32", 149: "Q8_KR8", 150: "Q8_K128", 151: "Q8_KV",
	152: "IQ5_KS", 153: "IQ2_KT", 154: "IQ3_KT", 155: "IQ4_KT", 156: "IQ3_KS",
	157: "IQ2_KL", 158: "IQ1_KT", 202: "Q4_0_R8", 206: "Q5_0_R4", 208: "Q8_0_R8",
	210: "Q2_K_R4", 211: "Q3_K_R4", 212: "Q4_K_R4", 213: "Q5_K_R4", 214: "Q6_K_R4",
	216: "IQ2_XXS_R4", 217: "IQ2_XS_R4", 218: "IQ3_XXS_R4", 219: "IQ1_S_R4",
	220: "IQ4_NL_R4", 221: "IQ3_S_R4", 222: "IQ2_S_R4", 223: "IQ4_XS_R8", 229: "IQ1_M_R4",
	230: "BF16_R16", 233: "Q6_0_R4", 335: "IQ2_BN_R4", 337: "IQ2_K_R4", 338: "IQ3_K_R4",
	339: "IQ4_K_R4", 340: "IQ5_K_R4", 344: "IQ4_KS_R4", 352: "IQ5_KS_R4", 398: "Q8_KV_R8",
	399: "Q8_K_R8",
}

// typeName returns the name of a type.
func typeName(kind uint32) string {
	return cmp.Or(storageOf(kind).name, foreignTypeName(kind))
}

// foreignTypeName returns the number of a type that ggml does not have, and its name if
// that is known: "ggml_type 4 (Q4_2)".
func foreignTypeName(kind uint32) string {
	name := "ggml_type " + strconv.FormatUint(uint64(kind), 10)
	if foreign := foreignNames[kind]; foreign != "" {
		name += " (" + foreign + ")"
	}
	return name
}

const (
	q2  = 42  // Q2_0, in blocks of 64 elements
	pq2 = 142 // PQ2_0, in blocks of 128
)

// resolveTypes sets the types of entries whose number has two meanings: Q2_0 and PQ2_0,
// and PQ2_0 and IQ2_TN. Entries must be sorted by offset.
func (r *Reader) resolveTypes(available int64) {
	for _, kind := range []uint32{q2, pq2} {
		isPQ2, isWarned := r.h.isPQ2(kind, available), false
		for i := range r.h.entries {
			e := &r.h.entries[i]
			switch {
			case e.kind != kind:
			case !isPQ2 && kind == pq2:
				e.t = storage{} // IQ2_TN of an old ik_llama.cpp
			case isPQ2:
				if e.t = storageOf(pq2); kind == q2 && !isWarned {
					format.Warn(&r.Base, errs.Malformed(e.at, e.field(".type"), "Q2_0 in blocks "+
						"of 128, which is PQ2_0 of PrismML: ggml refuses the file"))
					isWarned = true
				}
			}
		}
	}
}

// isPQ2 reports whether the data of all tensors of a type number, q2 or pq2, has the size
// of PQ2_0, and for q2 not the size of Q2_0.
func (h *header) isPQ2(kind uint32, available int64) bool {
	isTooSmall := kind == pq2
	for i, e := range h.entries {
		if e.kind != kind {
			continue
		}
		space := e.space(available, h.entries[i+1:])
		e.t = storageOf(pq2)
		n, err := e.size(available, nil)
		if err != nil || n > space || n > 0 && space-n >= h.alignment {
			return false
		}
		e.t = storageOf(q2)
		n, err = e.size(available, nil)
		isTooSmall = isTooSmall || err != nil || n > space
	}
	return isTooSmall
}

// float16Offsets has the offsets of float16s in the blocks of the types that
// gguf-convert-endian converts. The rest of these blocks is bytes.
var float16Offsets = map[uint32][]int{2: {0}, 8: {0}, 12: {0, 2}, 14: {208}, 39: nil, 40: nil}

// littleEndian returns the big-endian data of a tensor in little-endian order.
func (e *entry) littleEndian(b tensor.Blob) (tensor.Blob, error) {
	at, known := float16Offsets[e.kind]
	size := int(e.t.bytes)
	switch {
	case e.t.dtype.Known() && size > 1:
		return numpy.LittleEndian(b, size), nil
	case !e.t.dtype.Known() && !known:
		return b, errs.At(e.at, e.field(".type"), errors.ErrUnsupported,
			"big-endian blocks of %s", typeName(e.kind))
	case len(at) == 0:
		return b, nil
	}
	return numpy.Change(b, size, "big-endian", func(p []byte) {
		for ; len(p) > 0; p = p[size:] {
			for _, i := range at {
				p[i], p[i+1] = p[i+1], p[i]
			}
		}
	}), nil
}
