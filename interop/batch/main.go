// batch makes 1,000 files, of which some are damaged, and serves them over http, the
// second half of them only once there is a file GATE, so that no run ends before:
//
//	go run ./interop/batch DIR GATE
//
// It prints the address of each file, and an empty line when it serves.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tensorfile/tensorfile/safetensors"
	"github.com/tensorfile/tensorfile/tensor"
)

const files = 1000

func main() {
	dir, gate := os.Args[1], os.Args[2]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	out := bufio.NewWriter(os.Stdout)
	for i := range files {
		name := fmt.Sprintf("%04d.safetensors", i)
		path := filepath.Join(dir, name)
		w := tensor.New("w", tensor.Shape{4}, []int32{int32(i), 1, 2, 3})
		check(safetensors.Save(path, map[string]*tensor.Tensor{"w": w}))
		if i%100 == 7 {
			info, err := os.Stat(path)
			check(err)
			check(os.Truncate(path, info.Size()-1))
		}
		fmt.Fprintf(out, "http://%s/%s\n", l.Addr(), name)
	}
	fmt.Fprintln(out)
	check(out.Flush())
	serve := http.FileServer(http.Dir(dir))
	check(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.URL.Path >= fmt.Sprintf("/%04d", files/2) {
			if _, err := os.Stat(gate); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", r.URL.Path))
		serve.ServeHTTP(w, r)
	})))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
