package pte

import (
	"math/rand/v2"
	"testing"

	"github.com/tensorfile/tensorfile/tensor"
)

// TestPlannerKeepsWhatIsStillRead runs random methods, with branches and loops, in an
// interpreter that writes marks into planned memory: every tensor must still have its own
// marks when it is read.
func TestPlannerKeepsWhatIsStillRead(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		b := NewBuilder()
		m := b.Method("forward")
		newTensor := func() Ref {
			return m.Tensor(tensor.U8, tensor.Shape{1 + rnd.Int64N(100)})
		}
		known := []Ref{m.Input(tensor.U8, tensor.Shape{1 + rnd.Int64N(50)})}
		pick := func() Ref { return known[rnd.IntN(len(known))] }
		never := m.Value(false)
		for range 3 + rnd.IntN(20) {
			switch rnd.IntN(6) {
			case 0: // a loop over what is known, with a temporary inside
				head := m.Label()
				m.Mark(head)
				for range 1 + rnd.IntN(3) {
					y := newTensor()
					m.Call("f", pick(), pick(), y, y)
					known = append(known, y)
				}
				m.JumpFalse(never, head)
			case 1: // two branches that write the same tensor
				other, end := m.Label(), m.Label()
				y := newTensor()
				m.JumpFalse(never, other)
				m.Call("f", pick(), y, y)
				m.JumpFalse(never, end)
				m.Mark(other)
				m.Call("f", pick(), pick(), y, y)
				m.Mark(end)
				known = append(known, y)
			case 2:
				y := newTensor()
				m.Call("f", m.TensorList(pick(), pick()), y, y)
				known = append(known, y)
			default:
				y := newTensor()
				m.Call("f", pick(), pick(), y, y)
				known = append(known, y)
			}
		}
		m.Return(pick(), pick())
		sizes, places, err := m.plan()
		if err != nil {
			t.Fatal(err)
		}
		memory := make([]int32, sizes[1])
		mark := make(map[int32]int32)
		next := int32(1)
		write := func(v int32) {
			x := m.values[v].tensor
			mark[v] = next
			for i := range x.bytes {
				memory[int64(places[v].Offset)+i] = next
			}
			next++
		}
		read := func(at int, v int32) {
			items := []int{int(v)}
			if m.values[v].kind == kindTensorList {
				items = m.values[v].items
			}
			for _, v := range items {
				x := m.values[v].tensor
				for i := range x.bytes {
					if got := memory[int64(places[v].Offset)+i]; got != mark[int32(v)] {
						t.Fatalf(
							"seed %d: instruction %d reads value %d, whose memory has been overwritten", seed, at, v)
					}
				}
			}
		}
		write(m.inputs[0])
		for at, steps := 0, 0; at < len(m.code) && steps < 500; steps++ {
			ins := m.code[at]
			if ins.op == OpJumpFalse {
				if at++; rnd.IntN(2) == 0 {
					at = int(ins.label.at)
				}
				continue
			}
			out := ins.operands[len(ins.operands)-1]
			for _, v := range ins.operands {
				if v != out && (mark[v] != 0 || m.values[v].kind == kindTensorList) {
					read(at, v)
				}
			}
			write(out)
			at++
		}
		for _, v := range m.outputs {
			if mark[v] != 0 {
				read(len(m.code), v)
			}
		}
	}
}
