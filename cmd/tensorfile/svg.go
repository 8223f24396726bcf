package main

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"unicode/utf8"
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
)

// svg draws the groups one below the other, each in layers from its inputs down
// to its outputs.
func (g *graph) svg() []byte {
	var body []byte
	width, y := 0.0, float64(svgMargin)
	for i := range g.groups {
		var w, h float64
		body, w, h = g.groups[i].draw(body, svgMargin, y)
		width = max(width, w)
		y += h + svgMargin
	}
	for _, l := range g.links {
		body = fmt.Appendf(body, "<!-- %s of node %d in group %d is group %d -->\n", commentSafe(l.label), l.node, l.group, l.to)
	}
	var b []byte
	b = fmt.Appendf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="monospace" font-size="%d">`+"\n",
		width+2*svgMargin, y, width+2*svgMargin, y, svgFont)
	b = append(b, `<style>
.group{fill:none;stroke:#bbb}.title{font-weight:bold}.edge{fill:none;stroke:#888}.detail{fill:#666;font-size:9px}
.node{stroke:#555;fill:#fff}.input,.output{fill:#e3f1e3}.constant{fill:#f4f0e0;stroke-dasharray:3}.operator{fill:#e6eefb}
.delegate{fill:#fbe6f0;stroke-width:2}.state{fill:#eee6fb}.label{font-size:9px;fill:#666}
</style>
<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>
`...)
	b = append(b, body...)
	return append(b, "</svg>\n"...)
}

func commentSafe(s string) string {
	var b []rune
	for _, r := range clean(s) {
		if r == '-' {
			r = '_'
		}
		b = append(b, r)
	}
	return string(b)
}

// A placed node has its layer, its place in the layer, and its box.
type placed struct {
	layer int
	order float64
	x, w  float64
}

// draw lays a group out at x, y and appends its picture.
func (gr *graphGroup) draw(b []byte, x, y float64) (out []byte, width, height float64) {
	places, layers := gr.layout()
	widest := float64(8+utf8.RuneCountInString(gr.name)) * svgChar
	rows := make([]float64, len(layers))
	for i, layer := range layers {
		for _, n := range layer {
			rows[i] += places[n].w + svgGapX
		}
		widest = max(widest, rows[i])
	}
	for i, layer := range layers {
		at := x + svgGapX + (widest-rows[i])/2
		for _, n := range layer {
			places[n].x = at
			at += places[n].w + svgGapX
		}
	}
	width = widest + 2*svgGapX
	height = svgTitle + svgMargin + float64(len(layers))*(svgNodeH+svgGapY)
	top := func(n int) float64 { return y + svgTitle + svgMargin/2 + float64(places[n].layer)*(svgNodeH+svgGapY) }

	b = fmt.Appendf(b, `<g><rect class="group" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6"/><text class="title" x="%.1f" y="%.1f">%s</text>`+"\n",
		x, y, width, height, x+10, y+16, text4svg(gr.name))
	for _, e := range gr.edges {
		f, t := &places[e.from], &places[e.to]
		x1, y1 := f.x+f.w/2, top(e.from)+svgNodeH
		x2, y2 := t.x+t.w/2, top(e.to)
		mid := (y1 + y2) / 2
		if t.layer <= f.layer { // back to an earlier layer: around the side
			b = fmt.Appendf(b, `<path class="edge" d="M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f" marker-end="url(#to)" stroke-dasharray="4"/>`+"\n",
				x1, y1, x1+60, y1+30, x2+60, y2-30, x2, y2)
			continue
		}
		b = fmt.Appendf(b, `<path class="edge" d="M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f" marker-end="url(#to)"/>`+"\n", x1, y1, x1, mid, x2, mid, x2, y2)
		if e.label != "" {
			b = fmt.Appendf(b, `<text class="label" x="%.1f" y="%.1f">%s</text>`+"\n", (x1+x2)/2+3, mid, text4svg(e.label))
		}
	}
	for i, n := range gr.nodes {
		p := &places[i]
		radius := 4.0
		if n.kind == nodeInput || n.kind == nodeOutput {
			radius = svgNodeH / 2
		}
		b = fmt.Appendf(b, `<g><title>%s</title><rect class="node %s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="%.0f"/>`,
			text4svg(n.label+" "+n.detail), n.kind, p.x, top(i), p.w, svgNodeH, radius)
		line := top(i) + svgNodeH/2 + 4
		if n.detail != "" {
			line -= 7
			b = fmt.Appendf(b, `<text class="detail" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, p.x+p.w/2, line+13, text4svg(n.detail))
		}
		b = fmt.Appendf(b, `<text text-anchor="middle" x="%.1f" y="%.1f">%s</text></g>`+"\n", p.x+p.w/2, line, text4svg(n.label))
	}
	return append(b, "</g>\n"...), width, height
}

func text4svg(s string) string { return html.EscapeString(clean(s)) }

// layout gives every node a layer, the longest way from a node without
// predecessors, and orders the layers so that few edges cross: each node goes to
// the mean place of its neighbours, a few times up and down.
func (gr *graphGroup) layout() ([]placed, [][]int) {
	n := len(gr.nodes)
	places := make([]placed, n)
	next, before := make([][]int, n), make([][]int, n)
	waiting := make([]int, n)
	for _, e := range gr.edges {
		next[e.from] = append(next[e.from], e.to)
		before[e.to] = append(before[e.to], e.from)
		waiting[e.to]++
	}
	var ready []int
	done := make([]bool, n)
	for i := range n {
		if waiting[i] == 0 {
			ready = append(ready, i)
		}
	}
	first := 0 // no node below it waits to be taken out of a cycle
	for taken := 0; taken < n; {
		if len(ready) == 0 { // a cycle: take its first node as if nothing came before
			for done[first] {
				first++
			}
			ready = append(ready, first)
		}
		i := ready[0]
		ready = ready[1:]
		if done[i] {
			continue
		}
		done[i] = true
		taken++
		for _, j := range next[i] {
			if done[j] {
				continue
			}
			places[j].layer = max(places[j].layer, places[i].layer+1)
			if waiting[j]--; waiting[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	// Constants and inputs stand right above what they are used for.
	for i, node := range gr.nodes {
		if len(before[i]) == 0 && len(next[i]) > 0 && node.kind != nodeOperator {
			low := places[next[i][0]].layer
			for _, j := range next[i] {
				low = min(low, places[j].layer)
			}
			places[i].layer = max(low-1, 0)
		}
	}
	deepest := -1
	for i := range places {
		deepest = max(deepest, places[i].layer)
	}
	layers := make([][]int, deepest+1)
	for i := range places {
		l := places[i].layer
		places[i].order = float64(len(layers[l]))
		layers[l] = append(layers[l], i)
		text := max(utf8.RuneCountInString(clean(gr.nodes[i].label)), utf8.RuneCountInString(clean(gr.nodes[i].detail))*9/svgFont)
		places[i].w = max(float64(text)*svgChar+16, 48)
	}
	settle := func(l int, side [][]int) {
		for _, i := range layers[l] {
			if len(side[i]) == 0 {
				continue
			}
			sum := 0.0
			for _, j := range side[i] {
				sum += places[j].order
			}
			places[i].order = sum / float64(len(side[i]))
		}
		slices.SortStableFunc(layers[l], func(a, b int) int { return cmp.Compare(places[a].order, places[b].order) })
		for k, i := range layers[l] {
			places[i].order = float64(k)
		}
	}
	for range 4 {
		for l := 1; l < len(layers); l++ {
			settle(l, before)
		}
		for l := len(layers) - 2; l >= 0; l-- {
			settle(l, next)
		}
	}
	return places, layers
}
