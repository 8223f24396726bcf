package inspect

import (
	"encoding/json"
	"math"
)

// A Float is a float64 in JSON: NaN and infinities, which JSON lacks, are
// {"$float": "nan"} and so on.
type Float float64

// MarshalJSON implements json.Marshaler.
func (f Float) MarshalJSON() ([]byte, error) {
	v := float64(f)
	switch {
	case math.IsNaN(v):
		return []byte(`{"$float":"nan"}`), nil
	case math.IsInf(v, 1):
		return []byte(`{"$float":"inf"}`), nil
	case math.IsInf(v, -1):
		return []byte(`{"$float":"-inf"}`), nil
	}
	return json.Marshal(v)
}
