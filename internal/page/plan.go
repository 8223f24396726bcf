package page

import "github.com/tensorfile/tensorfile/pte"

// maxPlaces is how many places of a memory plan the page draws.
const maxPlaces = 20_000

// A place is the place of a tensor in a memory plan, and the first and last instruction
// that need it.
type place struct {
	Value  int    `json:"value"`
	Buffer uint32 `json:"buffer"`
	Offset uint64 `json:"offset"`
	Bytes  int64  `json:"bytes"`
	First  int    `json:"first"`
	Last   int    `json:"last"`
}

// plan returns the memory plan of each method of a .pte.
func (f *file) plan() [][]place {
	plans := [][]place{}
	r, ok := f.File.Sys().(*pte.Reader)
	if !ok {
		return plans
	}
	for m := range r.Program().Methods() {
		places := []place{}
		for _, x := range m.Lifetimes() {
			if len(places) == maxPlaces {
				break
			}
			places = append(places,
				place{x.Value, x.Place.Memory, x.Place.Offset, x.Bytes, x.First, x.Last})
		}
		plans = append(plans, places)
	}
	return plans
}
