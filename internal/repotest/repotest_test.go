// Package repotest has the tests that read the tree, its imports, pages and examples, and
// those that go over all formats.
package repotest

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the module.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
