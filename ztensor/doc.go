// Package ztensor reads and writes zTensor files (.zt).
package ztensor
