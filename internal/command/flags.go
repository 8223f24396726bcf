package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A size is a flag for a number of bytes or things: 4096, 1e6, 64MiB, 2G.
type size int64

func (s *size) Type() string { return "size" }

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if scale := size(1) << (10 * (4 - i)); *s%scale == 0 {
			return strconv.FormatInt(int64(*s/scale), 10) + unit
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *size) Set(text string) error {
	n, err := parseSize(text)
	if err == nil {
		*s = size(n)
	}
	return err
}

// parseSize reads a positive number with an optional unit. K, M, G, T and KiB …
// are powers of 1024, KB … powers of 1000.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "KMGTiBkmgtb")
	unit := strings.ToUpper(text[len(number):])
	scale := 1.0
	if unit != "" && unit != "B" {
		i := strings.IndexByte("KMGT", unit[0])
		base := 1024.0
		switch unit[1:] {
		case "", "IB":
		case "B":
			base = 1000
		default:
			i = -1
		}
		if i < 0 {
			return 0, fmt.Errorf("no unit is called %q", text[len(number):])
		}
		scale = math.Pow(base, float64(i+1))
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if v *= scale; err != nil || !(v >= 1) || v >= math.MaxInt64 || v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is no whole number above 0", text)
	}
	return int64(v), nil
}
