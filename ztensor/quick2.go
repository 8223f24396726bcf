package ztensor

import "github.com/tensorfile/tensorfile/tensor"

// quick is to be the short way for the entries that every writer makes.
func (s *scan2) quick(before *[]byte) bool { return false }

var _ tensor.DType
