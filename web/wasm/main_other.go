//go:build !js

// Command wasm is built for js/wasm only: see web/build.sh.
package main

func main() {}
