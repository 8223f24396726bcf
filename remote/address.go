package remote

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// isLocal reports whether host names this machine in any of its spellings: localhost
// and names below it, loopback and unspecified addresses, and the numeric forms that
// the C library reads as IPv4. It asks no name server; connections are checked once
// more when they are made.
func isLocal(host string) bool {
	host = strings.TrimRight(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		var ok bool
		if a, ok = parseNumeric(host); !ok {
			return false
		}
	}
	return isThisMachine(a)
}

// isThisMachine reports whether a connection to a reaches the machine that makes it.
func isThisMachine(a netip.Addr) bool {
	a = embedded(a.WithZone(""))
	return a.IsLoopback() || a.IsUnspecified() || thisNetwork.Contains(a)
}

// thisNetwork is 0.0.0.0/8 (RFC 1122, 3.2.1.3), which systems take for the machine
// itself.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// embedded returns the IPv4 address that an IPv6 address carries (IPv4-mapped,
// IPv4-compatible, NAT64, 6to4), or a itself.
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), compatible.Contains(a) && a != netip.IPv6Loopback() &&
		!a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:]))
	}
	return a
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// parseNumeric reads the forms of inet_aton: one to four parts, each decimal, octal or
// hexadecimal, the last of which fills the bytes that remain.
func parseNumeric(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, part := range parts {
		if strings.Contains(part, "_") { // which ParseUint allows with base 0
			return netip.Addr{}, false
		}
		n, err := strconv.ParseUint(part, 0, 32)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || n>>bits != 0 {
			return netip.Addr{}, false
		}
		v = v<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// A refusedError is an address that must not be connected to.
type refusedError struct {
	addr netip.Addr
	why  string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%v is %s", e.addr, e.why) }

// refuseLocal is a net.Dialer.Control that refuses connections to this machine: for
// hosts that a server elsewhere redirects to, whose names may resolve to anything.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if isThisMachine(ap.Addr()) {
		return &refusedError{ap.Addr().Unmap(),
			"this machine, and the server that redirects to it is not"}
	}
	return nil
}

// refusePrivate is a net.Dialer.Control that refuses connections to addresses that are
// not public.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := ap.Addr().Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || slices.ContainsFunc(special,
		func(p netip.Prefix) bool { return p.Contains(a) }) {
		return &refusedError{a, "not a public address"}
	}
	return nil
}

// special are networks that netip calls global unicast and that are not public: shared
// and reserved ones (RFC 6890), and those that carry an IPv4 address, whatever it is.
var special = []netip.Prefix{
	thisNetwork,
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	compatible,
	nat64,
	netip.MustParsePrefix("64:ff9b:1::/48"),
	sixToFour,
	netip.MustParsePrefix("fec0::/10"),
}

// hostPort is the address that a request for u connects to where there is no proxy.
func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), port(u)) }
