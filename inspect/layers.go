package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/tensor"
)

// The measures of a drawing, in pixels.
const (
	svgFont   = 11
	svgChar   = 6.6 // of a monospaced font of that size
	svgNodeH  = 36
	svgGapX   = 18
	svgGapY   = 34
	svgMargin = 16
	svgTitle  = 24
	svgLane   = 10 // of an edge that passes a layer
)

// maxBends is the max number of bends of a group.
const maxBends = 1 << 18

// A layered group has its nodes in layers. An edge that passes a layer has a bend there,
// so that each step goes from one layer to the next.
type layered struct {
	group  *Group
	boxes  []box   // the nodes of the group, then the bends
	layers [][]int // indices of boxes, from left to right
	steps  []step
	width  float64
}

// A box is a node or a bend. up and down are the boxes that steps link it to, in the
// layers above and below.
type box struct {
	layer    int
	position int // in its layer
	x, w     float64
	up, down []int
}

// A step is the part of an edge between adjacent layers.
type step struct {
	from, to int // boxes: from is in the layer above to, or both are in one layer
	edge     int
	back     bool // the edge goes from a lower layer to a higher one
}

// newLayered lays a group out.
func newLayered(gr *Group) (*layered, error) {
	l := &layered{group: gr, boxes: make([]box, len(gr.Nodes))}
	l.assignLayers()
	if err := l.addSteps(); err != nil {
		return nil, err
	}
	for i := range l.boxes {
		b := &l.boxes[i]
		for b.layer >= len(l.layers) {
			l.layers = append(l.layers, nil)
		}
		b.position = len(l.layers[b.layer])
		l.layers[b.layer] = append(l.layers[b.layer], i)
		b.w = svgLane
		if i < len(gr.Nodes) {
			n := &gr.Nodes[i]
			text := max(utf8.RuneCountInString(printable(n.Label)),
				utf8.RuneCountInString(printable(n.Detail))*9/svgFont)
			b.w = max(float64(text)*svgChar+16, 48)
		}
	}
	l.order()
	l.spread()
	return l, nil
}

// assignLayers sets the layer of every node: the length of the longest path from a node
// without predecessors. In a cycle the first node counts as one without predecessors.
// Nodes that no path links to an input, such as constants, and inputs go to the layer
// above their first use.
func (l *layered) assignLayers() {
	n := len(l.boxes)
	next, waiting := make([][]int, n), make([]int, n)
	for _, e := range l.group.Edges {
		next[e.From] = append(next[e.From], e.To)
		waiting[e.To]++
	}
	var ready []int
	for i := range n {
		if waiting[i] == 0 {
			ready = append(ready, i)
		}
	}
	sorted, isReached := make([]int, 0, n), make([]bool, n) // isReached: from an input
	done, first := make([]bool, n), 0
	for len(sorted) < n {
		if len(ready) == 0 {
			for done[first] {
				first++
			}
			ready = append(ready, first)
		}
		i := ready[0]
		if ready = ready[1:]; done[i] {
			continue
		}
		done[i] = true
		sorted = append(sorted, i)
		for _, j := range next[i] {
			if done[j] {
				continue
			}
			isInput := l.group.Nodes[i].Kind == NodeInput
			isReached[j] = isReached[j] || isReached[i] || isInput
			l.boxes[j].layer = max(l.boxes[j].layer, l.boxes[i].layer+1)
			if waiting[j]--; waiting[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	for _, i := range slices.Backward(sorted) {
		done[i] = false // from here on: nodes that are not done come after i
		low := n
		for _, j := range next[i] {
			if !done[j] && j != i {
				low = min(low, l.boxes[j].layer)
			}
		}
		if !isReached[i] && low < n {
			l.boxes[i].layer = max(low-1, 0)
		}
	}
}

// addSteps splits edges into steps. Edges from one node share the bends of the layers
// that they all pass. It fails with tensor.ErrLimit beyond maxBends.
func (l *layered) addSteps() error {
	type key struct {
		node int
		back bool
	}
	lanes := map[key][]int{} // by node: its bends, from its own layer on
	for e, edge := range l.group.Edges {
		upper, lower, back := edge.From, edge.To, false
		switch above := l.boxes[upper].layer - l.boxes[lower].layer; {
		case above == 0: // of a cycle
			l.steps = append(l.steps, step{upper, lower, e, false})
			continue
		case above > 0:
			upper, lower, back = lower, upper, true
		}
		k := key{upper, back}
		at := upper
		for i := range l.boxes[lower].layer - l.boxes[upper].layer - 1 {
			if i < len(lanes[k]) {
				at = lanes[k][i]
				continue
			}
			if len(l.boxes)-len(l.group.Nodes) == maxBends {
				return fmt.Errorf("%w: the edges of %s pass more than %d layers together",
					tensor.ErrLimit, naming.Quote(l.group.Name), maxBends)
			}
			l.boxes = append(l.boxes, box{layer: l.boxes[at].layer + 1})
			bend := len(l.boxes) - 1
			l.join(at, bend, e, back)
			lanes[k] = append(lanes[k], bend)
			at = bend
		}
		l.join(at, lower, e, back)
	}
	return nil
}

func (l *layered) join(from, to, edge int, back bool) {
	l.steps = append(l.steps, step{from, to, edge, back})
	l.boxes[from].down = append(l.boxes[from].down, to)
	l.boxes[to].up = append(l.boxes[to].up, from)
}

// order sorts the boxes of each layer so that few edges cross: by the mean position of
// linked boxes, a few times down and up.
func (l *layered) order() {
	sort := func(layer []int, linked func(*box) []int) {
		mean := make(map[int]float64, len(layer))
		for _, i := range layer {
			b := &l.boxes[i]
			mean[i] = float64(b.position)
			if near := linked(b); len(near) > 0 {
				sum := 0
				for _, j := range near {
					sum += l.boxes[j].position
				}
				mean[i] = float64(sum) / float64(len(near))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
		for k, i := range layer {
			l.boxes[i].position = k
		}
	}
	for range 4 {
		for i := 1; i < len(l.layers); i++ {
			sort(l.layers[i], func(b *box) []int { return b.up })
		}
		for i := len(l.layers) - 2; i >= 0; i-- {
			sort(l.layers[i], func(b *box) []int { return b.down })
		}
	}
}

// spread sets the x of every box: near the boxes it is linked to, with gaps between them.
func (l *layered) spread() {
	place := func(layer []int, wanted func(b *box) float64) {
		shift, at := 0.0, 0.0
		for k, i := range layer {
			b := &l.boxes[i]
			x := wanted(b) - b.w/2
			if k > 0 {
				x = max(x, at)
			}
			shift += wanted(b) - b.w/2 - x
			b.x, at = x, x+b.w+svgGapX
		}
		for _, i := range layer {
			l.boxes[i].x += shift / float64(len(layer))
		}
	}
	mean := func(near []int, b *box) float64 {
		if len(near) == 0 {
			return b.x + b.w/2
		}
		sum := 0.0
		for _, j := range near {
			sum += l.boxes[j].x + l.boxes[j].w/2
		}
		return sum / float64(len(near))
	}
	for _, layer := range l.layers {
		at := 0.0
		for _, i := range layer {
			l.boxes[i].x, at = at, at+l.boxes[i].w+svgGapX
		}
		for _, i := range layer {
			l.boxes[i].x -= at / 2
		}
	}
	for range 3 {
		for _, layer := range l.layers {
			place(layer, func(b *box) float64 { return mean(b.up, b) })
		}
		for i := len(l.layers) - 1; i >= 0; i-- {
			place(l.layers[i], func(b *box) float64 { return mean(b.down, b) })
		}
	}
	left, right := 0.0, 0.0
	for i := range l.boxes {
		left, right = min(left, l.boxes[i].x), max(right, l.boxes[i].x+l.boxes[i].w)
	}
	for i := range l.boxes {
		l.boxes[i].x += svgGapX - left
	}
	l.width = max(right-left,
		float64(8+utf8.RuneCountInString(printable(l.group.Name)))*svgChar) + 2*svgGapX
}

// height returns the height of the whole group.
func (l *layered) height() float64 {
	return svgTitle + svgMargin + float64(len(l.layers))*(svgNodeH+svgGapY)
}

// top returns the y of a layer, below the top of the group.
func (l *layered) top(layer int) float64 {
	return svgTitle + svgMargin/2 + float64(layer)*(svgNodeH+svgGapY)
}
