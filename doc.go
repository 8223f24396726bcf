// Package tensorfile reads and writes tensor container formats: ExecuTorch's .ptd and .pte, RTen's .rten, zTensor's .zt,
// and primitiv's files.
package tensorfile
