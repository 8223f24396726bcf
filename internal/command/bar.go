package command

import (
	"cmp"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// barDelay is how long an operation takes before its progress is shown.
const barDelay = 500 * time.Millisecond

// A progress is called with the bytes that are done and with all bytes of an operation.
type progress = func(done, total int64)

// A bar shows progress on standard error if that is a terminal, also while no bytes are
// done. A nil bar shows nothing. It is safe for concurrent use.
type bar struct {
	a                *app
	begin            time.Time
	mu               sync.Mutex
	p                *progressbar.ProgressBar
	timer            *time.Timer // draws the bar again if there is no progress
	hasTimes         bool
	isShown, isEnded bool
	done, total      int64
}

// bar begins a bar for the work on a file of about total bytes. The caller calls end.
func (a *app) bar(what string, total int64) *bar {
	if !a.bars || a.quiet {
		return nil
	}
	b := &bar{a: a, begin: time.Now(), total: total}
	b.p, b.hasTimes = a.draw(what, total, cmp.Or(terminalWidth(a.stderr), 80))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(barDelay, b.tick)
	return b
}

// tick draws the bar with the time that has passed, and calls itself after barDelay.
func (b *bar) tick() {
	b.a.mu.Lock() // not within a message
	defer b.a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isEnded {
		if b.show(); b.isShown {
			b.p.RenderBlank() // with the time
		}
		b.timer.Reset(barDelay)
	}
}

// progress returns a function that shows progress, and a function that removes the bar.
func (a *app) progress(what string) (show progress, end func()) {
	b := a.bar(what, 0)
	return b.set, b.end
}

// draw makes a bar of width columns, not yet visible, with times if they fit.
func (a *app) draw(what string, total int64, width int) (p *progressbar.ProgressBar,
	hasTimes bool) {
	opts := []progressbar.Option{
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionThrottle(100 * time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetVisibility(false),
	}
	// The bar must fit one line: a second line would stay on the screen each time that
	// the bar is drawn.
	rest := width - len(" 100% || (1023 MiB/s) [59m59s:59m59s] ")
	if hasTimes = rest >= 20; !hasTimes {
		opts = append(opts, progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false))
		rest = width - len(" 100% ||   ")
	} else {
		opts = append(opts, progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true))
	}
	name := shortenMiddle([]byte(display(baseName(what))), max(1, min(30, rest-10)))
	opts = append(opts, progressbar.OptionSetDescription(string(name)),
		progressbar.OptionSetWidth(max(1, min(40, rest-columns(name)))))
	p = progressbar.NewOptions64(max(total, 1), opts...)
	p.StartWithoutRender()
	return p, hasTimes
}

// baseName returns a name without its directories; of an address also without its query.
func baseName(name string) string {
	if strings.Contains(name, "://") {
		name, _, _ = strings.Cut(name, "?")
		return path.Base(name)
	}
	return filepath.Base(name)
}

// withoutBar calls write without the bar on the screen, which comes back with the next
// progress.
func (a *invocation) withoutBar(write func()) {
	if b := a.shown.Load(); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.p.Clear()
	}
	write()
}

func (b *bar) set(done, total int64) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done, b.total = done, total
		b.show()
	}
}

func (b *bar) add(n int64) {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done += n
		b.show()
	}
}

// show draws the bar, if the operation has taken longer than barDelay.
func (b *bar) show() {
	b.total = max(b.total, b.done)
	if !b.isShown {
		if b.isEnded || time.Since(b.begin) < barDelay {
			return
		}
		b.isShown = true
		progressbar.OptionSetVisibility(true)(b.p)
		b.p.RenderBlank()
		b.a.shown.Store(b)
	}
	if total := max(b.total, 1); b.p.GetMax64() != total {
		progressbar.OptionSetVisibility(false)(b.p)
		b.p.ChangeMax64(total) // which switches the times on, also where they do not fit
		progressbar.OptionSetPredictTime(b.hasTimes)(b.p)
		progressbar.OptionSetVisibility(true)(b.p)
	}
	b.p.Set64(b.done)
}

// end removes the bar. A second call does nothing.
func (b *bar) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	if b.isEnded = true; b.a.shown.CompareAndSwap(b, nil) {
		b.p.Clear()
		b.p.Exit()
	}
}
