package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfile/tensorfile"
	"github.com/tensorfile/tensorfile/npz"
	"github.com/tensorfile/tensorfile/ptd"
	"github.com/tensorfile/tensorfile/rten"
	"github.com/tensorfile/tensorfile/ztensor"
)

// targetFlags are the flags of convert that not all targets have.
type targetFlags struct {
	names []string // the first is about the options of the Writer, if one is
	// options returns the options of the Writer; nil for no flag about them.
	options func(c *conversion) any
}

var flagsByTarget = map[tensorfile.Format]targetFlags{
	tensorfile.ZTensor: {[]string{"digest", "level", "sparse"}, func(c *conversion) any {
		return &ztensor.WriterOptions{Version: c.version, Level: c.level, Digest: c.digest}
	}},
	tensorfile.PTD: {[]string{"align"}, func(c *conversion) any {
		return &ptd.WriterOptions{SegmentAlignment: c.align, Alignment: c.align}
	}},
	tensorfile.PTE: {[]string{"align", "externalize", "internalize"}, nil},
	tensorfile.RTen: {[]string{"align"}, func(c *conversion) any {
		return &rten.WriterOptions{Alignment: c.align, Version: c.version}
	}},
	tensorfile.NPZ: {[]string{"compress"}, func(c *conversion) any {
		return &npz.WriterOptions{Compress: c.compress}
	}},
}

// checkFlags refuses flags that others than the target have.
func checkFlags(target tensorfile.Format, isGiven func(flag string) bool) error {
	var having []string
	other := ""
	for _, f := range tensorfile.Formats() {
		for _, flag := range flagsByTarget[f].names {
			if isGiven(flag) && !slices.Contains(flagsByTarget[target].names, flag) &&
				(other == "" || flag == other) {
				other, having = flag, append(having, f.String())
			}
		}
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("--%s is not for %v, only for %s", other, target,
		strings.Join(having, " "))
}
