package inspect

import (
	"fmt"
	"html"
)

const svgStyle = `<style>
.group{fill:none;stroke:#bbb}.title{font-weight:bold}.edge{fill:none;stroke:#888}.back{stroke-dasharray:4}
.link{fill:none;stroke:#b70;stroke-dasharray:6 3}.detail{fill:#666;font-size:9px}
.node{stroke:#555;fill:#fff}.input,.output{fill:#e3f1e3}.constant{fill:#f4f0e0;stroke-dasharray:3}.operator{fill:#e6eefb}
.delegate{fill:#fbe6f0;stroke-width:2}.state{fill:#eee6fb}.label{font-size:9px;fill:#666}
</style>
<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>
`

// SVG returns a drawing of the groups, one below the other, each in layers from its
// inputs down to its outputs. It fails with tensor.ErrLimit if a group has too many edges
// to draw.
func (g *Graph) SVG() ([]byte, error) {
	groups, tops := make([]*layered, len(g.Groups)), make([]float64, len(g.Groups))
	width, y := 0.0, float64(svgMargin)
	for i := range g.Groups {
		l, err := newLayered(&g.Groups[i])
		if err != nil {
			return nil, err
		}
		groups[i], tops[i] = l, y
		width = max(width, l.width)
		y += l.height() + svgMargin
	}
	var body []byte
	for i, l := range groups {
		body = l.draw(body, tops[i])
	}
	right := svgMargin + width
	for _, l := range g.Links {
		right += svgLane
		body = drawLink(body, groups, tops, l, right)
	}
	right += svgMargin
	var b []byte
	b = fmt.Appendf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="monospace" font-size="%d">`+"\n",
		right, y, right, y, svgFont)
	b = append(b, svgStyle...)
	b = append(b, body...)
	return append(b, "</svg>\n"...), nil
}

// drawLink draws a link: from below a node to the right, along lane, and to the title of
// a group.
func drawLink(b []byte, groups []*layered, tops []float64, l Link, lane float64) []byte {
	from := groups[l.Group]
	node := &from.boxes[l.Node]
	x, y := svgMargin+node.x+node.w*3/4, tops[l.Group]+from.top(node.layer)+svgNodeH
	aside, target := y+svgGapY/4, tops[l.To]+svgTitle/2
	b = fmt.Appendf(b,
		`<path class="link" d="M%.1f %.1fV%.1fH%.1fV%.1fH%.1f" marker-end="url(#to)"/>`,
		x, y, aside, lane, target, svgMargin+groups[l.To].width)
	return fmt.Appendf(b, `<text class="label" text-anchor="end" x="%.1f" y="%.1f">%s</text>`+"\n",
		svgMargin+groups[l.To].width-6, target+4, svgText(l.Label))
}

// draw appends the picture of a group at y.
func (l *layered) draw(b []byte, y float64) []byte {
	const x = svgMargin
	b = fmt.Appendf(b, `<g>`+
		`<rect class="group" x="%d" y="%.1f" width="%.1f" height="%.1f" rx="6"/>`+
		`<text class="title" x="%d" y="%.1f">%s</text>`+"\n",
		x, y, l.width, l.height(), x+10, y+16, svgText(l.group.Name))
	labelled := map[int]bool{}
	for _, s := range l.steps {
		b = l.drawStep(b, s, x, y)
		if e := l.group.Edges[s.edge]; e.Label != "" && !labelled[s.edge] {
			labelled[s.edge] = true
			f, t := &l.boxes[s.from], &l.boxes[s.to]
			b = fmt.Appendf(b, `<text class="label" x="%.1f" y="%.1f">%s</text>`+"\n",
				x+(f.x+f.w/2+t.x+t.w/2)/2+3, y+l.top(f.layer)+svgNodeH+svgGapY/2, svgText(e.Label))
		}
	}
	for i, n := range l.group.Nodes {
		p, top := &l.boxes[i], y+l.top(l.boxes[i].layer)
		radius := 4.0
		if n.Kind == NodeInput || n.Kind == NodeOutput {
			radius = svgNodeH / 2
		}
		b = fmt.Appendf(b, `<g><title>%s</title>`+
			`<rect class="node %s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="%.0f"/>`,
			svgText(n.Label+" "+n.Detail), n.Kind, x+p.x, top, p.w, svgNodeH, radius)
		line := top + svgNodeH/2 + 4
		if n.Detail != "" {
			line -= 7
			b = fmt.Appendf(b,
				`<text class="detail" text-anchor="middle" x="%.1f" y="%.1f">%s</text>`,
				x+p.x+p.w/2, line+13, svgText(n.Detail))
		}
		b = fmt.Appendf(b, `<text text-anchor="middle" x="%.1f" y="%.1f">%s</text></g>`+"\n",
			x+p.x+p.w/2, line, svgText(n.Label))
	}
	return append(b, "</g>\n"...)
}

// drawStep draws a part of an edge.
func (l *layered) drawStep(b []byte, s step, x, y float64) []byte {
	f, t := &l.boxes[s.from], &l.boxes[s.to]
	class, marker := "edge", ""
	switch isNode := func(i int) bool { return i < len(l.group.Nodes) }; {
	case f.layer == t.layer:
		class, marker = "edge back", ` marker-end="url(#to)"`
	case s.back:
		class = "edge back"
		if isNode(s.from) {
			marker = ` marker-start="url(#to)"`
		}
	case isNode(s.to):
		marker = ` marker-end="url(#to)"`
	}
	b = fmt.Appendf(b, `<path class="%s" d="`, class)
	b = l.appendPath(b, s, x, y)
	return fmt.Appendf(b, `"%s/>`+"\n", marker)
}

// appendPath appends a step as a path of SVG: a curve in the gap between two layers, then
// a straight line if it ends in a bend; between nodes of one layer a curve below both.
func (l *layered) appendPath(b []byte, s step, x, y float64) []byte {
	f, t := &l.boxes[s.from], &l.boxes[s.to]
	x1, y1 := x+f.x+f.w/2, y+l.top(f.layer)+svgNodeH
	x2, y2 := x+t.x+t.w/2, y+l.top(t.layer)
	if f.layer == t.layer {
		return fmt.Appendf(b, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
			x1, y1, x1, y1+svgGapY, x2+4, y1+svgGapY, x2+4, y1)
	}
	mid := (y1 + y2) / 2
	b = fmt.Appendf(b, "M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
		x1, y1, x1, mid, x2, mid, x2, y2)
	if s.to >= len(l.group.Nodes) {
		b = fmt.Appendf(b, "V%.1f", y2+svgNodeH)
	}
	return b
}

// A Layout has the positions of the nodes and edges of a group, in pixels from its top
// left corner.
type Layout struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Nodes  []Box   `json:"nodes"` // in the order of the group
	// Edges is a path of SVG of all edges that go down, Back of the others.
	Edges string `json:"edges"`
	Back  string `json:"back"`
}

// A Box is the position and size of a node.
type Box struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

// Layout places the nodes of a group as SVG draws them. It fails with tensor.ErrLimit if
// the group has too many edges to draw.
func (gr *Group) Layout() (*Layout, error) {
	l, err := newLayered(gr)
	if err != nil {
		return nil, err
	}
	out := &Layout{Width: l.width, Height: l.height()}
	for i := range gr.Nodes {
		b := &l.boxes[i]
		out.Nodes = append(out.Nodes, Box{b.x, l.top(b.layer), b.w, svgNodeH})
	}
	var edges, back []byte
	for _, s := range l.steps {
		if s.back || l.boxes[s.from].layer == l.boxes[s.to].layer {
			back = l.appendPath(back, s, 0, 0)
		} else {
			edges = l.appendPath(edges, s, 0, 0)
		}
	}
	out.Edges, out.Back = string(edges), string(back)
	return out, nil
}

func svgText(s string) string { return html.EscapeString(printable(s)) }
