package core

import (
	"github.com/klauspost/compress/zstd"
)

// An Encoder compresses one component after the other, each into one frame.
type Encoder struct{ *zstd.Encoder }

// NewFrames makes an encoder of frames in memory, for several goroutines at once.
func NewFrames(level int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, append(EncoderOptions(level), zstd.WithEncoderConcurrency(0))...)
}

// NewEncoder makes an encoder that works in the goroutine of its caller, so that
// its output depends on nothing but its input. Below its "better" level the
// encoder would store blocks without repetitions as they are; weights have none,
// but bytes of uneven frequency, so its entropy coder is always asked.
func NewEncoder(level int) (*Encoder, error) {
	e, err := zstd.NewWriter(nil, EncoderOptions(level)...)
	return &Encoder{e}, err
}

// bestLevel is the first at which no time is spared.
const bestLevel = 16

// EncoderOptions are those of a level. Windows and tables are most of an encoder's memory, which is
// 2, 3, 9 and 40 MiB.
func EncoderOptions(level int) []zstd.EOption {
	speed, window := zstd.SpeedBestCompression, 4<<20
	switch {
	case level < 3:
		speed, window = zstd.SpeedFastest, 1<<20
	case level < 7:
		speed, window = zstd.SpeedDefault, 1<<20
	case level < bestLevel:
		speed = zstd.SpeedBetterCompression
	}
	return []zstd.EOption{
		zstd.WithEncoderLevel(speed),
		zstd.WithAllLitEntropyCompression(true),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true),
	}
}
