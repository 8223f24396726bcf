package rten

import "strconv"

// A release is a version of RTen: 1301 is 0.13.1.
type release uint16

func (r release) String() string {
	return "0." + strconv.Itoa(int(r/100)) + "." + strconv.Itoa(int(r%100))
}
