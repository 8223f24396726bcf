package readtest

import (
	"context"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Accessors calls every exported method of root and of the values that it leads to,
// after the loops that yielded them have ended and from several goroutines at once. It
// finds nothing by itself: run it under the race detector. names are the arguments for
// string parameters. It returns the methods called, as in "*ptd.Reader.Len".
func Accessors(t testing.TB, root any, names ...string) (called map[string]bool) {
	t.Helper()
	a := &accessors{names: append(names, ""), count: make(map[reflect.Type]int),
		seen: make(map[any]bool)}
	a.keep(reflect.ValueOf(root))
	called = make(map[string]bool)
	for i := 0; i < len(a.values); i++ {
		a.call(a.values[i], a.keep, func(method string) { called[method] = true })
	}
	// One value from two goroutines, and the next one, which may share memory with
	// it, from a third: at once, so that no lock that was taken meanwhile orders what
	// they do.
	for i, v := range a.values {
		next := a.values[(i+1)%len(a.values)]
		var wg sync.WaitGroup
		for _, x := range []reflect.Value{v, v, next} {
			wg.Go(func() { a.call(x, func(reflect.Value) {}, func(string) {}) })
		}
		wg.Wait()
	}
	return called
}

type accessors struct {
	names  []string
	values []reflect.Value
	count  map[reflect.Type]int
	seen   map[any]bool
}

// perLoop is how many values are taken of one loop or slice.
const perLoop = 600

// perType is how many values of one type are kept.
const perType = 100

// keep notes a value of this module, or what a slice of them holds.
func (a *accessors) keep(v reflect.Value) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || v.IsZero() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Struct) {
		return
	}
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		for i := range min(v.Len(), perLoop) {
			a.keep(v.Index(i))
		}
	}
	t := v.Type()
	named := t
	if t.Kind() == reflect.Pointer {
		named = t.Elem()
	}
	if t.Comparable() && v.Comparable() {
		if a.seen[v.Interface()] {
			return
		}
		a.seen[v.Interface()] = true
	}
	if t.Implements(reflect.TypeFor[io.Reader]()) {
		return // a stream is for one goroutine
	}
	if a.count[t] == perType || !strings.Contains(named.PkgPath(), "tensorfile") {
		return
	}
	a.count[t]++
	isInternal := strings.Contains(named.PkgPath(), "/internal/") // whose fields are not public
	if fields := reflect.Indirect(v); fields.Kind() == reflect.Struct && !isInternal {
		for i := range fields.NumField() {
			if named.Field(i).IsExported() {
				a.keep(fields.Field(i))
			}
		}
	}
	if t.NumMethod() > 0 {
		a.values = append(a.values, v)
	}
}

// call calls the methods of v that change nothing.
func (a *accessors) call(v reflect.Value, found func(reflect.Value), called func(string)) {
	t := v.Type()
	for i := range t.NumMethod() {
		name := t.Method(i).Name
		if name == "Close" || name == "Init" || strings.HasPrefix(name, "Mutate") {
			continue
		}
		m := v.Method(i)
		for _, args := range a.arguments(m.Type()) {
			called(t.String() + "." + name)
			results := callBounded(m, args)
			if n := len(results); n > 1 && results[n-1].Kind() == reflect.Bool &&
				!results[n-1].Bool() {
				continue // what comes with a false has no meaning
			}
			for _, out := range results {
				loop(out, found)
			}
		}
	}
}

// arguments are sets of arguments for a method, none if it takes something unusual.
func (a *accessors) arguments(m reflect.Type) [][]reflect.Value {
	sets := [][]reflect.Value{nil}
	for i := range m.NumIn() {
		var options []reflect.Value
		switch p := m.In(i); {
		case m.IsVariadic() && i == m.NumIn()-1:
			continue
		case p == reflect.TypeFor[context.Context]():
			options = []reflect.Value{reflect.ValueOf(context.Background())}
		case p == reflect.TypeFor[io.Writer]():
			options = []reflect.Value{reflect.ValueOf(io.Discard)}
		case p.Kind() == reflect.String:
			for _, n := range a.names {
				options = append(options, reflect.ValueOf(n).Convert(p))
			}
		case p.Kind() == reflect.Func || p.Kind() == reflect.Interface:
			return nil
		case p.Kind() == reflect.Int:
			options = []reflect.Value{reflect.Zero(p), reflect.ValueOf(1).Convert(p)}
		default:
			options = []reflect.Value{reflect.Zero(p)}
		}
		var longer [][]reflect.Value
		for _, s := range sets {
			for _, o := range options {
				longer = append(longer, append(s[:len(s):len(s)], o))
			}
		}
		sets = longer
	}
	return sets
}

// callBounded calls m; an index beyond a short list panics there, as a slice does.
func callBounded(m reflect.Value, args []reflect.Value) (out []reflect.Value) {
	if m.Type().NumIn() > 0 {
		defer func() {
			if e := recover(); e != nil {
				if _, ok := e.(runtime.Error); !ok {
					panic(e)
				}
			}
		}()
	}
	return m.Call(args)
}

// loop runs an iterator, and gives found what it yields or the value itself.
func loop(v reflect.Value, found func(reflect.Value)) {
	t := v.Type()
	switch {
	case t.Kind() != reflect.Func:
		found(v)
	case v.IsNil():
	case t.CanSeq2():
		n := 0
		for k, x := range v.Seq2() {
			found(k)
			found(x)
			if n++; n == perLoop {
				break
			}
		}
	case t.CanSeq():
		n := 0
		for x := range v.Seq() {
			found(x)
			if n++; n == perLoop {
				break
			}
		}
	}
}
