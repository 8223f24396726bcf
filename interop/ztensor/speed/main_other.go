//go:build !unix

package main

import "log"

func main() { log.Fatal("speed counts processor time as unix has it") }
