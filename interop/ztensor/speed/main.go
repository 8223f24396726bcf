//go:build unix

// Command speed does the work of interop/ztensor/speed.sh by our package: speed VERB
// ARGUMENT... prints the wall clock and the processor time of the best of some rounds,
// in nanoseconds. Reading the input into memory is not part of it.
//
//	speed payload FILE BYTES    random weights: bfloat16, normally distributed
//	speed many FILE N           a file of N tensors of 512 bytes
//	speed list FILE             open, validate and list
//	speed verify FILE           and check all digests
//	speed write PAYLOAD FILE BYTES    canonical, in tensors of so many bytes
//	speed encode PAYLOAD FILE BYTES   compressed
//	speed read FILE             decode all tensors, each into new memory
//	speed decode FILE           decode all tensors into memory that is there
//	speed stored FILE           prints how many bytes the tensors take in the file
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tensorfile/tensorfile/tensor"
	"github.com/tensorfile/tensorfile/ztensor"
)

const rounds = 3

func main() {
	log.SetFlags(0)
	verb, name := os.Args[1], os.Args[2]
	number := func(i int) int {
		n, err := strconv.Atoi(os.Args[i])
		check(err)
		return n
	}
	switch verb {
	case "payload":
		payload(name, number(3))
	case "many":
		check(ztensor.WriteFile(context.Background(), name, many(number(3)),
			&ztensor.WriterOptions{Version: "2", Alignment: 4096, KeepOrder: true}))
	case "list":
		best(func() {
			r, err := ztensor.Open(name, nil)
			check(err)
			n := int64(0)
			for t := range r.Tensors() {
				n += int64(len(t.Shape)+len(t.Name)) + t.Size()
			}
			if n == 0 {
				log.Fatal("nothing listed")
			}
			check(r.Close())
		})
	case "verify":
		best(func() {
			r, err := ztensor.Open(name, nil)
			check(err)
			_, err = r.Verify(context.Background(), nil)
			check(err)
			check(r.Close())
		})
	case "write", "encode":
		data, err := os.ReadFile(name)
		check(err)
		opts := &ztensor.WriterOptions{Version: "2"}
		if verb == "encode" {
			opts.Level = 3
		}
		name = os.Args[3]
		bestOf(func() { os.Remove(name) },
			func() {
				check(ztensor.WriteFile(context.Background(), name, pieces(data, number(4)),
					opts))
			})
	case "read":
		best(func() {
			r, err := ztensor.Open(name, nil)
			check(err)
			for t := range r.Tensors() {
				_, err := t.Data.ReadAll()
				check(err)
			}
			check(r.Close())
		})
	case "decode":
		var buf []byte
		best(func() {
			r, err := ztensor.Open(name, nil)
			check(err)
			for t := range r.Tensors() {
				buf = slices.Grow(buf[:0], int(t.Size()))[:t.Size()]
				check(t.Data.ReadInto(buf))
			}
			check(r.Close())
		})
	case "stored":
		r, err := ztensor.Open(name, nil)
		check(err)
		n := int64(0)
		for t := range r.Tensors() {
			s, _ := t.Data.Stored()
			n += s.Size
		}
		fmt.Println(n)
		check(r.Close())
	default:
		log.Fatalf("what is %s?", verb)
	}
}

// best prints the times of the best round.
func best(work func()) { bestOf(func() {}, work) }

func bestOf(prepare, work func()) {
	wall, cpu := int64(math.MaxInt64), int64(math.MaxInt64)
	for range rounds {
		prepare()
		from, used := time.Now(), processor()
		work()
		wall = min(wall, time.Since(from).Nanoseconds())
		cpu = min(cpu, processor()-used)
	}
	fmt.Println(wall, cpu)
}

// processor is how long all threads of this process have run.
func processor() int64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

func payload(name string, n int) {
	f, err := os.Create(name)
	check(err)
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for range n / 2 {
		var b [2]byte
		binary.LittleEndian.PutUint16(b[:],
			uint16(math.Float32bits(float32(rng.NormFloat64()*0.02))>>16))
		w.Write(b[:])
	}
	check(w.Flush())
	check(f.Close())
}

func many(n int) iter.Seq2[*tensor.Tensor, error] {
	return func(yield func(*tensor.Tensor, error) bool) {
		for i := range n {
			x := make([]float32, 128)
			x[0], x[1] = float32(i), float32(i>>16)
			if !yield(tensor.New(fmt.Sprintf("model.layers.%d.self_attn.q_proj.weight", i),
				tensor.Shape{16, 8}, x), nil) {
				return
			}
		}
	}
}

func pieces(data []byte, size int) iter.Seq2[*tensor.Tensor, error] {
	return func(yield func(*tensor.Tensor, error) bool) {
		for i := 0; i*size < len(data); i++ {
			b := data[i*size : min((i+1)*size, len(data))]
			t := &tensor.Tensor{Name: fmt.Sprintf("tensor %05d", i), DType: tensor.BF16,
				Shape: tensor.Shape{int64(len(b) / 2)}, Data: tensor.BlobOf(b)}
			if !yield(t, nil) {
				return
			}
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
