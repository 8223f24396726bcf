package command

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// minBarBytes is how many bytes an operation must have for its progress to be shown.
const minBarBytes = 64 << 20

// A bar shows progress on standard error when that is a terminal. A nil one
// shows nothing. It is safe for concurrent use.
type bar struct {
	a  *app
	mu sync.Mutex
	p  *progressbar.ProgressBar
}

// bar begins one for the work on a file of total bytes. It ends with done.
func (a *app) bar(what string, total int64) *bar {
	if !a.bars || a.quiet || total < minBarBytes {
		return nil
	}
	width, _, err := term.GetSize(int(a.stderr.(*os.File).Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	opts := []progressbar.Option{
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true),
	}
	// One line, whatever the name: what does not fit would stay behind on the
	// screen each time that the bar is drawn.
	rest := width - len(" 100% || (1023 MiB/s) [59m59s:59m59s] ")
	if rest < 20 {
		opts = append(opts, progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false))
		rest = width - len(" 100% ||   ")
	} else {
		opts = append(opts, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
	}
	name := shortenMiddle([]byte(display(baseName(what))), max(1, min(30, rest-10)))
	opts = append(opts, progressbar.OptionSetDescription(string(name)),
		progressbar.OptionSetWidth(max(1, min(40, rest-columns(name)))))
	b := &bar{a: a, p: progressbar.NewOptions64(total, opts...)}
	a.shown.Store(b)
	return b
}

// progress returns a function that shows progress from when it is known of how much, and
// one that ends it.
func (a *app) progress(what string) (show func(done, total int64), end func()) {
	var b *bar
	show = func(done, total int64) {
		if b == nil {
			b = a.bar(what, total)
		}
		b.set(done)
	}
	return show, func() { b.done() }
}

// baseName is a name without its directories, and an address without its query.
func baseName(name string) string {
	if strings.Contains(name, "://") {
		name, _, _ = strings.Cut(name, "?")
		return path.Base(name)
	}
	return filepath.Base(name)
}

// hide takes the bar from the screen, where something else is about to be
// written; it comes back with the next progress.
func (a *program) hide() {
	if b := a.shown.Load(); b != nil {
		b.mu.Lock()
		b.p.Clear()
		b.mu.Unlock()
	}
}

func (b *bar) set(done int64) {
	if b != nil {
		b.mu.Lock()
		b.p.Set64(done)
		b.mu.Unlock()
	}
}

func (b *bar) add(n int64) {
	if b != nil {
		b.mu.Lock()
		b.p.Add64(n)
		b.mu.Unlock()
	}
}

// done takes the bar away. A second done does nothing.
func (b *bar) done() {
	if b != nil && b.a.shown.CompareAndSwap(b, nil) {
		b.mu.Lock()
		b.p.Clear()
		b.p.Exit()
		b.mu.Unlock()
	}
}
