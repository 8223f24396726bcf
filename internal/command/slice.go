package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfile/tensorfile/tensor"
)

// splitSlice separates NAME[SLICE]. Names may have brackets themselves, so the
// caller looks for the whole text first.
func splitSlice(arg string) (name, slice string, ok bool) {
	if !strings.HasSuffix(arg, "]") {
		return arg, "", false
	}
	i := strings.LastIndexByte(arg, '[')
	if i < 0 {
		return arg, "", false
	}
	return arg[:i], arg[i+1 : len(arg)-1], true
}

// parseSlice reads what is between the brackets, as Python does: integers,
// start:stop:step, and one ... for the dimensions that are not named.
func parseSlice(text string, rank int) ([]tensor.Index, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	text = strings.TrimSuffix(text, ",")
	items := strings.Split(text, ",")
	var all []tensor.Index
	hasDots := false
	for _, item := range items {
		item = strings.TrimSpace(item)
		if item == "..." {
			if hasDots {
				return nil, errors.New("a slice has at most one ellipsis")
			}
			hasDots = true
			for range rank - (len(items) - 1) {
				all = append(all, tensor.All)
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
		return nil, fmt.Errorf("%s for %s", indices(len(all)), count(rank, "dimension"))
	}
	return all, nil
}

func indices(n int) string {
	if n == 1 {
		return "1 index"
	}
	return strconv.Itoa(n) + " indices"
}

func parseIndex(item string) (tensor.Index, error) {
	fields := strings.Split(item, ":")
	number := func(i int, missing int64) (int64, error) {
		if i >= len(fields) || strings.TrimSpace(fields[i]) == "" {
			return missing, nil
		}
		v, err := strconv.ParseInt(strings.TrimSpace(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", fields[i])
		}
		return v, nil
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
		first = tensor.End
	}
	start, err := number(0, first)
	if err != nil {
		return nil, err
	}
	stop, err := number(1, tensor.End)
	switch {
	case err != nil:
		return nil, err
	case len(fields) == 1:
		return tensor.At(start), nil
	case step == 1:
		return tensor.Range{Start: start, Stop: stop}, nil
	}
	return tensor.Stride{Start: start, Stop: stop, Step: step}, nil
}
