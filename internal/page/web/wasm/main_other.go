//go:build !js

// Command wasm is built for js/wasm only: see internal/page/web/build.sh.
package main

func main() {}
