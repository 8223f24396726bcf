package tensor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseSlice reads what NumPy takes between brackets, for [Slice] of a tensor of rank
// dimensions: integers, start:stop:step, and one ... for the dimensions that are not
// named.
func ParseSlice(text string, rank int) ([]Index, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	text = strings.TrimSuffix(text, ",")
	items := strings.Split(text, ",")
	var all []Index
	hasDots := false
	for _, item := range items {
		item = strings.TrimSpace(item)
		if item == "..." {
			if hasDots {
				return nil, errors.New("a slice has at most one ellipsis")
			}
			hasDots = true
			for range rank - (len(items) - 1) {
				all = append(all, All)
			}
			continue
		}
		index, err := parseIndex(item)
		if err != nil {
			return nil, fmt.Errorf("dimension %d: %w", len(all), err)
		}
		all = append(all, index)
	}
	if len(all) > rank {
		return nil, fmt.Errorf("%d indices for %d dimensions", len(all), rank)
	}
	return all, nil
}

func parseIndex(item string) (Index, error) {
	fields := strings.Split(item, ":")
	number := func(i int, missing int64) (int64, error) {
		if i >= len(fields) || strings.TrimSpace(fields[i]) == "" {
			return missing, nil
		}
		v, err := strconv.ParseInt(strings.TrimSpace(fields[i]), 10, 64)
		if err != nil && (len(fields) == 1 || !errors.Is(err, strconv.ErrRange)) {
			return 0, fmt.Errorf("%q is not a number", fields[i])
		}
		return max(-End+1, min(v, End-1)), nil // as NumPy does; End means no bound
	}
	switch {
	case len(fields) > 3:
		return nil, fmt.Errorf("%q has more than start:stop:step", item)
	case item == "":
		return nil, errors.New("an index is missing")
	}
	step, err := number(2, 1)
	if err != nil {
		return nil, err
	}
	first := int64(0)
	if step < 0 {
		first = End
	}
	start, err := number(0, first)
	if err != nil {
		return nil, err
	}
	stop, err := number(1, End)
	switch {
	case err != nil:
		return nil, err
	case len(fields) == 1:
		return At(start), nil
	case step == 1:
		return Range{Start: start, Stop: stop}, nil
	}
	return Stride{Start: start, Stop: stop, Step: step}, nil
}
