package pte

// A Flow describes where each instruction of a method gets its data. See [Method.Flow].
type Flow struct {
	Steps []Step // one for each instruction
	// Outputs are the sources of each output of the method: several for a list.
	Outputs [][]Source
}

// A Step is an instruction with the data that it reads and writes.
type Step struct {
	Instruction Instruction
	// Reads has each value once, and the elements of a list in place of the list. If
	// several moves write a value, as in branches, it has a source for each move.
	Reads  []Source
	Writes []int // values
}

// A Source is where data that is read comes from.
type Source struct {
	Value int // the value that is read
	// Origin is the value that was written or stored. It is Value itself, unless Value is
	// a view that the exporter elided: then it is the tensor that Value is a view of.
	Origin int
	// Step is the index of the step that wrote Origin, -1 if no step did.
	Step int
}

// maxFlowElements bounds the sum of list elements that are followed. Many instructions
// may name the same long list.
const maxFlowElements = 1 << 20

// Flow follows the data through the instructions in their order. It ignores jumps.
//
// Exporters elide views by default: no instruction writes such a view, which has the same
// place in memory as its tensor. So Flow follows places in memory too. The file does not
// say which arguments a delegate writes. Flow assumes that it reads the arguments up to
// the last one that was written before, and writes the rest.
//
// Elements of lists beyond a million in a method are left out.
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
	from     map[int][]int // the steps that wrote a value last, -1 for before the first step
	moved    map[int]bool  // values that a move wrote last
	computed map[int]bool  // values that any kernel or move of the method writes
	places   map[Place]int // the value that was written last at a place in memory
	last     map[int]int   // the last step that uses a value
	budget   int           // list elements and sources that may still be followed
}

// scan finds the last step that uses each value, and the values that kernels and moves
// write. Outputs of the method are used one step after the last.
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

// writes returns the values that a kernel or a move writes. The last argument of a kernel
// is its result; et_copy_index writes into its first argument.
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

// write records that a step writes a value. It keeps the moves before a move: each may be
// the end of a branch.
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

// read adds the values that a step reads: args without the values that it writes, unless
// these held data before, as state and inputs do.
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

// delegateInputs returns how many arguments of a delegate it reads. Inputs come before
// outputs, and there is at least one output. If no step wrote a tensor, but its place in
// memory was written, it is an elided view or an output that reuses the memory. It is
// taken for an output if a later step or the caller uses it.
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
