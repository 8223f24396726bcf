// Package memory touches memory that may be mapped from a file: under a guard against
// faults, and from one order of elements to another.
//
// A page of a mapping that someone cut off the file meanwhile cannot be read: touching it
// ends the process, in whichever goroutine that happens, unless that goroutine runs under
// Guard.
package memory

import (
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"runtime"
	"runtime/debug"
)

// Guard calls f, which may touch mem. A fault in mem during f, on the goroutine of the
// caller, is an error that wraps io.ErrUnexpectedEOF; any other panic goes on.
func Guard(mem []byte, f func() error) (err error) {
	defer end(debug.SetPanicOnFault(true), mem, &err)
	return f()
}

func end(before bool, mem []byte, err *error) {
	debug.SetPanicOnFault(before)
	r := recover()
	if r == nil {
		return
	}
	at, ok := offset(r, mem)
	if !ok {
		panic(r)
	}
	*err = fmt.Errorf("the file was truncated while it was mapped (byte %d of %d): %w",
		at, len(mem), io.ErrUnexpectedEOF)
}

// offset returns where in mem the fault is that a panic reports, and whether it is one.
func offset(r any, mem []byte) (at uintptr, ok bool) {
	e, ok := r.(interface{ Addr() uintptr })
	if !ok {
		return 0, false
	}
	base, addr := reflect.ValueOf(mem).Pointer(), e.Addr()
	if at = addr - base; at >= uintptr(len(mem)) && runtime.GOARCH == "s390x" {
		// qemu-user, which the tests run under, swaps the halves of the address.
		at = uintptr(bits.RotateLeft64(uint64(addr), 32)) - base
	}
	return at, at < uintptr(len(mem)) // an address before mem wraps round
}
