//go:build !linux

package source

func (*Source) mapAtOnce(string) bool { return false }
