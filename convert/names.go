package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/gguf"
	"github.com/tensorfile/tensorfile/internal/naming"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/primitiv"
	"github.com/tensorfile/tensorfile/ztensor"
)

// names are those that are taken in the target.
type names struct {
	all  map[string]struct{}
	next map[string]int // the number to try next for a name that is taken
	// Readers look for a name as it is, then with this suffix: each name takes both.
	suffix string
}

func (n *names) taken(name string) bool {
	_, taken := n.all[name]
	if !taken && n.suffix != "" {
		_, taken = n.all[name+n.suffix]
	}
	return taken
}

func (n *names) take(name string) {
	if n.all == nil {
		n.all, n.next = map[string]struct{}{}, map[string]int{}
	}
	n.all[name] = struct{}{}
	n.all[name+n.suffix] = struct{}{}
}

func (n *names) release(name string) {
	delete(n.all, name)
	delete(n.all, name+n.suffix)
}

// unique returns name, or the first NAME~2, NAME~3, … that is not taken.
func (n *names) unique(name string) string {
	if !n.taken(name) {
		return name
	}
	for i := max(2, n.next[name]); ; i++ {
		if u := name + "~" + strconv.Itoa(i); !n.taken(u) {
			n.next[name] = i + 1
			return u
		}
	}
}

// planName gives the tensor its name in the target: one that can be represented
// there, and that no other has.
func (p *Plan) planName(it *item, name string) {
	field := fieldOf(it.src)
	it.t.Name = name
	switch {
	case p.caps.Names == tensorfile.OneName:
		if name != "data" {
			p.lose(LossNames, field, "names cannot be represented in %v", p.target)
		}
		return
	case p.caps.Names == tensorfile.MayRepeat && name == "":
		if it.owner.Format() != p.target {
			p.lose(LossNames, field, "an empty name is no name in %v", p.target)
		}
		return
	case p.kind != 0:
		return
	}
	good := nameFor(p.target, p.version, name)
	if keep := p.row.keep; keep != nil && name == it.src.Name && keep(p, it, good) {
		return
	}
	it.t.Name = p.names.unique(good)
	if it.t.Name != name {
		what := "is taken"
		if good != name {
			what = "cannot be represented in " + p.describeTarget()
		}
		p.loseName(it, name, "the name "+what)
	}
	p.names.take(it.t.Name)
}

// loseName notes that a tensor has another name than old.
func (p *Plan) loseName(it *item, old, reason string) {
	p.lose(LossNames, fieldOf(it.src), "%s", reason)
	p.losses[len(p.losses)-1].Detail = naming.Quote(old) + " becomes " + naming.Quote(it.t.Name)
}

// keepEmpty keeps an empty key of a .ptd, which no program finds.
func keepEmpty(p *Plan, it *item, _ string) bool {
	if it.t.Name != "" || it.owner.Format() != p.target || p.names.taken("") {
		return false
	}
	p.names.take("")
	return true
}

// keepPath keeps a tensor of primitiv at its path where that is not what its name
// makes when it is cut at dots.
func keepPath(p *Plan, it *item, good string) bool {
	o, ok := primitiv.OriginOf(&it.t)
	if !ok || len(o.Path) == 0 {
		return false
	}
	value := strings.Join(o.Path, ".")
	if good == it.t.Name && slices.Equal(strings.Split(value, "."), o.Path) {
		return false
	}
	key := fmt.Sprintf("\x00%q %t %q", o.Path, o.IsStatistic, o.Statistic)
	if p.names.taken(key) {
		return false
	}
	p.names.take(key)
	return true
}

// nameFor returns the name itself where the format can represent it, or a similar
// one that it can.
func nameFor(target tensorfile.Format, version, name string) string {
	name = strings.ToValidUTF8(name, "\ufffd")
	if similar := targets[target].name; similar != nil {
		return similar(version, name)
	}
	return name
}

func ptdName(_, name string) string { return orUnderscore(withoutNUL(name)) }

func safetensorsName(_, name string) string {
	if name == "__metadata__" {
		return "_" + name
	}
	return name
}

// npzName: readers of archives cut a name at a NUL.
func npzName(_, name string) string { return shortened(withoutNUL(name), npz.MaxName, 16) }

// ggufName: llama.cpp cuts a name at a NUL.
func ggufName(_, name string) string { return shortened(withoutNUL(name), gguf.MaxName, 8) }

func primitivName(_, name string) string {
	keys := strings.Split(name, ".")
	for i := range keys {
		keys[i] = orUnderscore(keys[i])
	}
	return strings.Join(keys, ".")
}

func ztensorName(version, name string) string {
	if version != ztensor.Version2 {
		return name
	}
	const longest = 1024 // bytes
	return shortened(orUnderscore(withoutNUL(name)), longest, 16)
}

func withoutNUL(name string) string { return strings.ReplaceAll(name, "\x00", "\ufffd") }

func orUnderscore(name string) string { return cmp.Or(name, "_") }

// shortened returns a name of at most longest bytes. One that it cuts leaves spare bytes
// for a number.
func shortened(name string, longest, spare int) string {
	if len(name) <= longest {
		return name
	}
	return strings.ToValidUTF8(name[:longest-spare], "")
}
