package format

import "sync"

// A Meter adds up bytes, and calls a progress function with the bytes done and the total.
// A nil Meter does nothing. It is safe for concurrent use.
type Meter struct {
	mu          sync.Mutex
	report      func(done, total int64)
	done, total int64
	ended       bool
}

// NewMeter returns a Meter of about total bytes; nil if report is nil. A total that is
// too small grows.
func NewMeter(report func(done, total int64), total int64) *Meter {
	if report == nil {
		return nil
	}
	return &Meter{report: report, total: total}
}

// Add reports that n more bytes are done.
func (m *Meter) Add(n int64) {
	if m == nil || n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.total = max(m.total, m.done)
	m.ended = m.done == m.total
	m.report(m.done, m.total)
}

// End reports that all bytes are done, unless the last Add did.
func (m *Meter) End() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		m.report(m.total, m.total)
	}
}
