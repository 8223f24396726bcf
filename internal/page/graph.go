package page

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tensorfile/tensorfile/inspect"
	"github.com/tensorfile/tensorfile/tensor"
)

// maxNodes is how many nodes of a program the page draws.
const maxNodes = 20_000

// A graph is a program with the places of its nodes.
type graph struct {
	Groups []group        `json:"groups"`
	Links  []inspect.Link `json:"links"`
}

// A group is a method or a subgraph. For a node that is a collapsed block, Blocks has the
// number, which a call opens; -1 for others.
type group struct {
	inspect.Group
	Layout *inspect.Layout `json:"layout"`
	Blocks []int           `json:"blocks,omitempty"`
}

// graph draws the program; if open is not nil with repeated blocks collapsed, but for
// those.
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

// A repeat is a sequence of operators that comes several times, one after the other.
type repeat struct{ start, period, times int }

// collapse makes one node of each repeated block of a group. number counts blocks; those
// in open stay. at says which node each node of gr is in.
func collapse(gr inspect.Group, open []int, number *int) (out inspect.Group, blocks, at []int) {
	var operators []int
	var kinds []string
	for i, n := range gr.Nodes {
		if n.Kind == inspect.NodeOperator || n.Kind == inspect.NodeDelegate {
			operators = append(operators, i)
			kinds = append(kinds, kindOf(n))
		}
	}
	in := make([]int, len(gr.Nodes)) // the block of each node, -1 for none
	for i := range in {
		in[i] = -1
	}
	r := longestRepeat(kinds)
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

// absorb puts what only one block uses, such as its constants, into that block.
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

// kindOf is what an operator does, without the numbers in its name.
func kindOf(n inspect.Node) string {
	s := n.Detail
	if s == "" || n.Kind == inspect.NodeDelegate {
		s = n.Label
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return '#'
		}
		return r
	}, s)
}

// maxPeriod bounds how long a block is, so that the search stays short.
const maxPeriod = 2000

// longestRepeat returns the repeat that covers most: three times or more, or blocks of at
// least eight; of those that cover as much the shortest block.
func longestRepeat(kinds []string) (best repeat) {
	for period := 2; period <= min(len(kinds)/2, maxPeriod); period++ {
		run := 0
		for i := period; i <= len(kinds); i++ {
			if i < len(kinds) && kinds[i] == kinds[i-period] {
				run++
				continue
			}
			times := run/period + 1
			if (times >= 3 || times == 2 && period >= 8) &&
				times*period > best.times*best.period {
				best = repeat{i - run - period, period, times}
			}
			run = 0
		}
	}
	return best
}
