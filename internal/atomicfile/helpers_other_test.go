//go:build unix && !linux

package atomicfile

import "errors"

func mountTmpfs(string, int) error { return errors.ErrUnsupported }

func unmount(string) {}
