package h2

import "encoding/binary"

// Types of frames.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameRST          = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags of frames.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings.
const (
	settingHeaderTableSize   = 0x1
	settingEnablePush        = 0x2
	settingMaxStreams        = 0x3
	settingInitialWindow     = 0x4
	settingMaxFrame          = 0x5
	settingMaxHeaderListSize = 0x6
	settingConnectProtocol   = 0x8
)

const (
	// Preface is what a client's connection begins with.
	Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	frameHeaderLen = 9
	// maxFrame is the largest payload that we take, and that we send although
	// the other end might take more: streams take turns by the frame.
	maxFrame = 16 << 10

	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	maxStreamID   = 1<<31 - 1
)

// frameHeader is what each frame begins with.
type frameHeader struct {
	length int
	typ    byte
	flags  byte
	id     uint32
}

func (h *frameHeader) has(flag byte) bool { return h.flags&flag != 0 }

// parseFrameHeader reads the header at the start of b, which has nine bytes or
// more.
func parseFrameHeader(b []byte) frameHeader {
	_ = b[8]
	return frameHeader{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		typ:    b[3],
		flags:  b[4],
		id:     binary.BigEndian.Uint32(b[5:]) & maxStreamID, // the reserved bit is ignored
	}
}

func appendFrameHeader(dst []byte, length int, typ, flags byte, id uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), typ, flags,
		byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

func appendUint32(dst []byte, typ byte, id, v uint32) []byte {
	dst = appendFrameHeader(dst, 4, typ, 0, id)
	return binary.BigEndian.AppendUint32(dst, v)
}

func appendRST(dst []byte, id uint32, code ErrCode) []byte {
	return appendUint32(dst, frameRST, id, uint32(code))
}

func appendWindowUpdate(dst []byte, id uint32, n int) []byte {
	return appendUint32(dst, frameWindowUpdate, id, uint32(n))
}

func appendPing(dst []byte, flags byte, data [8]byte) []byte {
	dst = appendFrameHeader(dst, 8, framePing, flags, 0)
	return append(dst, data[:]...)
}

func appendGoAway(dst []byte, last uint32, code ErrCode, text string) []byte {
	dst = appendFrameHeader(dst, 8+len(text), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, text...)
}

type setting struct {
	id    uint16
	value uint32
}

func appendSettings(dst []byte, list ...setting) []byte {
	dst = appendFrameHeader(dst, 6*len(list), frameSettings, 0, 0)
	for _, s := range list {
		dst = binary.BigEndian.AppendUint16(dst, s.id)
		dst = binary.BigEndian.AppendUint32(dst, s.value)
	}
	return dst
}

// unpad takes the padding off a payload. It reports false if there is more
// padding than payload.
func unpad(h *frameHeader, p []byte) ([]byte, bool) {
	if !h.has(flagPadded) {
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}
