package pte

import (
	"fmt"

	"github.com/tensorfile/tensorfile/internal/align"
	"github.com/tensorfile/tensorfile/internal/fb"
)

// A Memory is the plan for a method's intermediate results, inputs, outputs and state: buffers that the caller must have
// before the method can be loaded.
type Memory struct {
	// Buffers are the sizes as the file has them. The first is reserved and not allocated; a tensor's Place names the
	// others by their index.
	Buffers []int64
	// Devices says on which device each buffer is, as long as Buffers.
	Devices []Device
}

// Total is what all buffers take together, false when one is negative or the sum overflows.
func (m Memory) Total() (int64, bool) {
	var total int64
	for i, n := range m.Buffers {
		if i == 0 {
			continue
		}
		sum, ok := align.Add(total, n)
		if !ok {
			return 0, false
		}
		total = sum
	}
	return total, true
}

func (m Memory) String() string { return fmt.Sprint(m.Buffers) }

// Memory is the method's memory plan. Where each tensor lies in it is in its TensorInfo.
func (m Method) Memory() Memory {
	n := m.t.NonConstBufferSizesLength()
	mem := Memory{Buffers: make([]int64, n), Devices: make([]Device, n)}
	for i := range mem.Buffers {
		mem.Buffers[i] = m.t.NonConstBufferSizes(i)
	}
	for _, t := range fb.Each(m.t.NonConstBufferDeviceLength(), m.t.NonConstBufferDevice) {
		if k := t.BufferIdx(); k >= 0 && int(k) < n {
			mem.Devices[k] = Device{DeviceType(t.DeviceType()), t.DeviceIndex()}
		}
	}
	return mem
}

// PlannedPeak is the largest sum of bytes that planned tensors of the method take at one time, by their first and last
// use: what a planner without waste would need. Inputs count from the first instruction on, outputs to the last, state all
// the time. Against Memory.Total it says what could be saved; the runtime does not look at it.
func (m Method) PlannedPeak() int64 {
	n := m.NumValues()
	first, last := make([]int, n), make([]int, n)
	for i := range first {
		first[i], last[i] = -1, -1
	}
	steps := m.NumInstructions()
	touch := func(v, step int) {
		if v < 0 || v >= n {
			return
		}
		if first[v] < 0 || step < first[v] {
			first[v] = step
		}
		last[v] = max(last[v], step)
	}
	step, at := -1, Instruction{index: -1}
	for v, u := range m.Uses() {
		if u.Instruction.index != at.index || u.Instruction.c.Index != at.c.Index {
			at = u.Instruction
			step++
		}
		touch(v, step)
	}
	for v := range m.Values() { // what a list is used for, its elements are: once a list, however often it is named
		if i := v.index; v.Kind().IsList() && last[i] >= 0 {
			for _, x := range v.Items() {
				touch(x, first[i])
				touch(x, last[i])
			}
		}
	}
	for i := range m.t.InputsLength() {
		touch(int(m.t.Inputs(i)), 0)
	}
	for i := range m.t.OutputsLength() {
		touch(int(m.t.Outputs(i)), max(steps-1, 0))
	}
	change := make([]int64, steps+2)
	for v := range m.Values() {
		info, ok := v.Tensor()
		if !ok || !info.Planned {
			continue
		}
		size, ok := info.Bytes()
		if !ok {
			continue
		}
		from, to := max(first[v.index], 0), max(last[v.index], 0)
		if info.Role.Mutable() {
			from, to = 0, max(steps-1, 0)
		}
		change[from] = addTo(change[from], size)
		change[to+1] = addTo(change[to+1], -size)
	}
	var now, peak int64
	for _, c := range change {
		now = addTo(now, c)
		peak = max(peak, now)
	}
	return peak
}

// addTo adds, and stays at the end of the range where the sum would pass it.
func addTo(a, b int64) int64 {
	s := a + b
	if b > 0 && s < a {
		return 1<<63 - 1
	}
	if b < 0 && s > a {
		return -1 << 63
	}
	return s
}
