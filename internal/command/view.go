package command

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tensorfile/tensorfile/internal/page"
)

func viewCommand(a *app) *cobra.Command {
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "view FILE [OTHER]",
		Short: "Show a file in the browser: values, program, differences",
		Long: `Show a file, the directory of a model or the file at an address as a page
in the browser, until the command is interrupted. OTHER is a file to compare it with. The
page is served to this machine only, at an address with a random secret.`,
		Example: `  tensorfile view model.gguf
  tensorfile view --no-open a.safetensors b.safetensors`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.openExternals(); err != nil {
				return err
			}
			var sources []page.Source
			for _, name := range args {
				in, err := a.open(name)
				if err != nil {
					return onFile(name, err)
				}
				defer in.Close()
				sources = append(sources, a.source(in))
			}
			return a.serve(page.NewSession(sources...), noOpen)
		},
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address, and open no browser")
	return cmd
}

// serve shows a page until the command is interrupted.
func (a *app) serve(s *page.Session, noOpen bool) error {
	server, err := listen(s)
	if err != nil {
		return onFile("view", err)
	}
	fmt.Fprintln(a.out, server.address())
	if err := a.flush(); err != nil {
		return err
	}
	if !noOpen {
		if err := openBrowser(server.address()); err != nil {
			a.note("no browser could be opened: %v", err)
		}
	}
	return onFile("view", server.serve(a.ctx))
}

// openBrowser opens an address as the system does.
func openBrowser(address string) error {
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
