package pte

// A Flow describes where each instruction of a method gets its data from. See
// [Method.Flow].
type Flow struct {
	Steps []Step
	// Outputs are the sources of each output of the method: several for a list.
	Outputs [][]Source
}

// A Step is an instruction with the data that it reads and writes.
type Step struct {
	Instruction Instruction
	// Reads has each value once, of lists the elements. A value that several moves write,
	// as branches do, has a source for each.
	Reads  []Source
	Writes []int // values
}

// A Source is where data that is read comes from.
type Source struct {
	Value int // the value that is read
	// Origin is the value that was written or stored: Value itself, or for a view that
	// the exporter elided the value of which it is a view.
	Origin int
	// Step is the index of the step that wrote Origin, -1 where none did.
	Step int
}

// maxFlowElements bounds the elements of lists, which may name values repeatedly.
const maxFlowElements = 1 << 20

// Flow follows the data through the instructions in their order; jumps are not followed.
//
// It follows memory, not only values: exporters elide views by default, which leaves a
// value that no instruction writes, at the place of memory of the tensor that it is a
// view of. Which arguments a delegate writes the file does not say: what was written
// before is read, and the values after those are written.
//
// Where the lists of a method have more than a million elements in all, the rest is left
// out.
func (m Method) Flow() Flow {
	f := flow{m: m, from: make(map[int][]int), moved: make(map[int]bool),
		computed: make(map[int]bool), places: make(map[Place]int), last: make(map[int]int),
		budget: maxFlowElements}
	f.scan()
	for _, v := range m.Inputs() {
		f.write(v.index, -1, false)
	}
	for v := range m.Values() {
		if t, ok := v.Tensor(); ok && t.Planned && t.Role.Mutable() {
			f.write(v.index, -1, false)
		}
	}
	var out Flow
	for i := range m.Instructions() {
		s := Step{Instruction: i, Writes: f.writes(i)}
		reads := i.operands()
		switch i.Opcode() {
		case OpDelegateCall:
			n := f.delegateInputs(reads, len(out.Steps))
			for _, v := range reads[n:] {
				s.Writes = append(append(s.Writes, v), f.elements(v)...)
			}
			reads = reads[:n]
		case OpMove:
			reads = reads[:1]
		case OpFree:
			reads = nil
		}
		f.read(&s, reads)
		for _, v := range s.Writes {
			f.write(v, len(out.Steps), i.Opcode() == OpMove)
		}
		out.Steps = append(out.Steps, s)
	}
	for _, v := range m.Outputs() {
		var s Step
		f.read(&s, []int{v.index})
		out.Outputs = append(out.Outputs, s.Reads)
	}
	return out
}

type flow struct {
	m        Method
	from     map[int][]int // the step that wrote a value last, -1 before the first one
	moved    map[int]bool  // values that a move wrote last
	computed map[int]bool  // values that a kernel or a move writes, wherever it is
	places   map[Place]int // the value that was written last at a place of memory
	last     map[int]int   // the last step that names a value
	budget   int           // of elements of lists, and of sources of one value
}

// scan notes the last step at which each value is named, for outputs of the method one
// after the last step, and what kernels and moves write.
func (f *flow) scan() {
	step := 0
	for i := range f.m.Instructions() {
		for _, v := range i.operands() {
			f.last[v] = step
		}
		for _, v := range f.writes(i) {
			f.computed[v] = true
		}
		step++
	}
	for _, v := range f.m.Outputs() {
		f.last[v.index] = step
	}
	f.budget = maxFlowElements
}

// writes returns the values that a kernel or a move writes. The arguments of a kernel end
// with what it returns; et_copy_index writes into its first one.
func (f *flow) writes(i Instruction) []int {
	switch i.Opcode() {
	case OpKernelCall:
		args := i.Args()
		if len(args) == 0 {
			return nil
		}
		out := args[len(args)-1]
		if o, _ := f.m.operator(i.Operator()); o.Name == copyIndexOperator {
			out = args[0]
		}
		return append([]int{out}, f.elements(out)...)
	case OpMove:
		_, to := i.move()
		return []int{to}
	}
	return nil
}

// elements returns the elements of a list, nil for all other values.
func (f *flow) elements(v int) []int {
	x := f.m.Value(v)
	if !x.Kind().isList() || f.budget <= 0 {
		return nil
	}
	items := x.Items()
	if f.budget -= len(items); f.budget < 0 {
		return nil
	}
	return items
}

// write notes that a step writes a value. Moves, with which branches end, add up.
func (f *flow) write(v, step int, move bool) {
	if move && f.moved[v] {
		f.from[v] = append(f.from[v], step)
	} else {
		f.from[v] = []int{step}
	}
	f.moved[v] = move
	if t, ok := f.m.Value(v).Tensor(); ok && t.Planned {
		f.places[t.Place] = v
	}
}

// sources returns where the data of value v comes from: from one step, or several moves.
func (f *flow) sources(v int) []Source {
	origin := v
	if t, ok := f.m.Value(v).Tensor(); ok && t.Planned && !f.computed[v] && f.from[v] == nil {
		if x, ok := f.places[t.Place]; ok {
			origin = x
		}
	}
	if f.from[origin] == nil {
		f.write(v, -1, false) // what memory held before the call: state without a name
		return []Source{{v, v, -1}}
	}
	steps := f.from[origin]
	if f.budget -= len(steps) - 1; f.budget < 0 {
		steps = steps[len(steps)-1:]
	}
	var all []Source
	for _, step := range steps {
		all = append(all, Source{v, origin, step})
	}
	return all
}

// read adds what a step reads: args without what it writes, unless that is state.
func (f *flow) read(s *Step, args []int) {
	seen := make(map[int]bool)
	for _, v := range s.Writes {
		t, ok := f.m.Value(v).Tensor()
		before := f.from[v] != nil && f.from[v][0] < 0 // it held data when the call began
		seen[v] = !ok || !before && !t.Role.Mutable()
	}
	for _, a := range args {
		all := []int{a}
		if f.m.Value(a).Kind().isList() {
			all = f.elements(a)
		}
		for _, v := range all {
			if !seen[v] {
				seen[v] = true
				s.Reads = append(s.Reads, f.sources(v)...)
			}
		}
	}
}

// delegateInputs returns how many of the arguments of a delegate are read. Inputs come
// before outputs, of which there is at least one. A tensor that nothing wrote, at a place
// that was written, is either a view that was elided or an output that reuses the memory:
// it is an output if a later step or the caller uses it.
func (f *flow) delegateInputs(args []int, step int) int {
	n := 0
	for k, v := range args {
		t, ok := f.m.Value(v).Tensor()
		_, known := f.from[v]
		_, reused := f.places[t.Place]
		switch {
		case known, !ok, t.Role != RolePlanned && t.Role != RoleCaller,
			t.Planned && reused && f.last[v] <= step:
			n = k + 1
		}
	}
	return min(n, max(len(args)-1, 0))
}
