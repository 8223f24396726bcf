package page

import (
	"fmt"
	"slices"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxNodes is how many nodes of a program the page draws.
const maxNodes = 20_000

// A graph is a program with the positions of its nodes.
type graph struct {
	Groups []group        `json:"groups"`
	Links  []inspect.Link `json:"links"`
}

// A group is a method or a subgraph. Blocks has the number of the block that each node
// stands for, -1 for other nodes. The method blocks takes numbers of blocks to expand.
type group struct {
	inspect.Group
	Layout *inspect.Layout `json:"layout"`
	Blocks []int           `json:"blocks,omitempty"`
}

// graph returns the program. If open is not nil, repeated blocks are collapsed, except
// the blocks in open.
func (f *file) graph(open *[]int) (*graph, error) {
	g, err := inspect.NewGraph(f.File)
	if err != nil {
		return nil, err
	}
	out := &graph{[]group{}, append([]inspect.Link{}, g.Links...)}
	number, nodes := 0, 0
	for i, gr := range g.Groups {
		one := group{Group: gr}
		if open != nil {
			var at []int
			one.Group, one.Blocks, at = collapse(gr, *open, &number)
			for j := range out.Links {
				if l := &out.Links[j]; l.Group == i {
					l.Node = at[l.Node]
				}
			}
		}
		if nodes += len(one.Nodes); nodes > maxNodes {
			return nil, fmt.Errorf("%w: the program has more than %d nodes", tensor.ErrLimit,
				maxNodes)
		}
		if one.Layout, err = one.Group.Layout(); err != nil {
			return nil, err
		}
		if one.Edges == nil {
			one.Edges = []inspect.Edge{}
		}
		out.Groups = append(out.Groups, one)
	}
	return out, nil
}

// A repeat is times copies of a sequence of period operators, one after the other.
type repeat struct{ start, period, times int }

// collapse makes one node of each repeated block of a group, except the blocks in open.
// number is the number of the next block. at has the new node of each node of gr.
func collapse(gr inspect.Group, open []int, number *int) (out inspect.Group, blocks, at []int) {
	var operators []int
	var kinds []string
	for i, n := range gr.Nodes {
		if n.Kind == inspect.NodeOperator || n.Kind == inspect.NodeDelegate {
			operators = append(operators, i)
			kinds = append(kinds, n.Label)
		}
	}
	in := make([]int, len(gr.Nodes)) // the block of each node, -1 for none
	for i := range in {
		in[i] = -1
	}
	var r repeat
	if len(gr.Nodes) >= minNodes {
		r = longestRepeat(kinds, newChain(gr.Edges, operators))
	}
	labels := map[int]inspect.Node{}
	for k := range r.times {
		id := *number
		*number++
		if slices.Contains(open, id) {
			continue
		}
		for _, i := range operators[r.start+k*r.period : r.start+(k+1)*r.period] {
			in[i] = id
		}
		labels[id] = inspect.Node{Label: fmt.Sprintf("block %d of %d", k+1, r.times),
			Detail: fmt.Sprintf("%d operators", r.period), Kind: inspect.NodeOperator}
	}
	absorb(gr, in)
	out = inspect.Group{Name: gr.Name}
	at = make([]int, len(gr.Nodes))
	node := map[int]int{} // of a block
	for i, n := range gr.Nodes {
		id := in[i]
		if k, ok := node[id]; ok && id >= 0 {
			at[i] = k
			continue
		}
		if id >= 0 {
			n, node[id] = labels[id], len(out.Nodes)
		}
		at[i] = len(out.Nodes)
		out.Nodes, blocks = append(out.Nodes, n), append(blocks, id)
	}
	seen := map[[2]int]bool{}
	for _, e := range gr.Edges {
		from, to := at[e.From], at[e.To]
		isBlock := blocks[from] >= 0 || blocks[to] >= 0
		if from == to && isBlock || isBlock && seen[[2]int{from, to}] {
			continue
		}
		seen[[2]int{from, to}] = true
		out.Edges = append(out.Edges, inspect.Edge{From: from, To: to, Label: e.Label})
	}
	return out, blocks, at
}

// absorb puts constants and state that only one block uses into that block. in has the
// block of each node.
func absorb(gr inspect.Group, in []int) {
	const none, many = -1, -2
	linked := make([]int, len(gr.Nodes))
	for i := range linked {
		linked[i] = none
	}
	note := func(i, id int) {
		if linked[i] == none {
			linked[i] = id
		} else if linked[i] != id {
			linked[i] = many
		}
		if id == none {
			linked[i] = many
		}
	}
	for _, e := range gr.Edges {
		note(e.From, in[e.To])
		note(e.To, in[e.From])
	}
	for i, n := range gr.Nodes {
		switch n.Kind {
		case inspect.NodeConstant, inspect.NodeState:
			if in[i] < 0 && linked[i] >= 0 {
				in[i] = linked[i]
			}
		}
	}
}

const (
	// minNodes is the smallest number of nodes of a group whose blocks are collapsed.
	minNodes = 60
	// minPeriod and maxPeriod are the smallest and largest number of operators of a
	// block.
	minPeriod, maxPeriod = 5, 2000
	// maxVisits is how many operators the search for chains may visit.
	maxVisits = 2_000_000
)

// longestRepeat returns the repeat that covers the most operators, of those the one with
// the shortest block, and of those the first. A block comes at least three times, or
// twice if it has eight operators or more.
func longestRepeat(kinds []string, c *chain) (best repeat) {
	covers := func(r repeat) bool {
		return (r.times >= 3 || r.times == 2 && r.period >= 8) &&
			r.times*r.period > best.times*best.period
	}
	for period := minPeriod; period <= min(len(kinds)/2, maxPeriod); period++ {
		run := 0
		for i := period; i <= len(kinds); i++ {
			if i < len(kinds) && kinds[i] == kinds[i-period] {
				run++
				continue
			}
			start := i - run - period
			shifts := min(period, run+1) // a block may begin at any operator
			if isShort(kinds[start : start+period]) {
				shifts = 0 // so are blocks that begin later
			}
			for shift := range shifts {
				r := repeat{start + shift, period, (run-shift)/period + 1}
				for covers(r) {
					n := c.length(r)
					if n == 0 {
						return best
					}
					if chained := (repeat{r.start, period, n}); covers(chained) {
						best = chained
					}
					r.start, r.times = r.start+n*period, r.times-n
				}
			}
			run = 0
		}
	}
	return best
}

// isShort reports whether a block is itself a repeat of blocks below minPeriod.
func isShort(kinds []string) bool {
	for n := 1; n < minPeriod; n++ {
		if len(kinds)%n == 0 && slices.Equal(kinds[n:], kinds[:len(kinds)-n]) {
			return true
		}
	}
	return false
}

// A chain finds out whether each block uses a result of the block before.
type chain struct {
	from   [][]int // of each operator the operators whose results it uses
	visits int
}

func newChain(edges []inspect.Edge, operators []int) *chain {
	at := map[int]int{}
	for i, node := range operators {
		at[node] = i
	}
	c := &chain{from: make([][]int, len(operators))}
	for _, e := range edges {
		from, ok1 := at[e.From]
		to, ok2 := at[e.To]
		if ok1 && ok2 {
			c.from[to] = append(c.from[to], from)
		}
	}
	return c
}

// length returns how many blocks from the first are a chain: each is connected and uses a
// result of the block before. Parallel branches, such as q, k and v, are not a chain:
// none uses another, and a block with the end of one and the start of the next is not
// connected. The result is at least 1, or 0 if the search takes too long.
func (c *chain) length(r repeat) int {
	for k := range r.times {
		if c.visits += r.period; c.visits > maxVisits {
			return 0
		}
		isWhole, follows := c.block(r.start+k*r.period, r.period)
		if !isWhole || k > 0 && !follows {
			return max(k, 1)
		}
	}
	return r.times
}

// block reports whether a block is connected, and whether it uses a result of the block
// before.
func (c *chain) block(start, period int) (isWhole, follows bool) {
	piece := make([]int, period) // a tree of connected operators: the parent of each
	for i := range piece {
		piece[i] = i
	}
	root := func(i int) int {
		for piece[i] != i {
			piece[i] = piece[piece[i]]
			i = piece[i]
		}
		return i
	}
	pieces := period
	for i := range piece {
		for _, from := range c.from[start+i] {
			switch from -= start; {
			case from >= 0 && from < period:
				if a, b := root(from), root(i); a != b {
					piece[a] = b
					pieces--
				}
			case from < 0 && from >= -period:
				follows = true
			}
		}
	}
	return pieces == 1, follows
}
