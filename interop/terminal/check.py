"""check.py COMMAND DIR: run the command on pseudo-terminals and look at the bytes that it sends there."""
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, threading, time, unicodedata

command, directory = sys.argv[1:]
passed = failed = 0
for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:  # also where whoever runs this ignores them, as nohup does
    signal.signal(number, signal.SIG_DFL)


def proves(what, ok, *seen):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(("ok: " if ok else "FAIL: ") + what, *([] if ok else map(repr, seen)), flush=True)


class Run:
    """A process on a terminal of its own, with standard output or standard error on it, or both."""

    def __init__(self, *args, out=True, err=True, columns=80, slow=False, **env):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")} | {"TERM": "xterm"} | env
        self.other = os.path.join(directory, "other")
        with open(self.other, "wb") as other:
            stopped = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh"] if slow else []
            self.process = subprocess.Popen(
                [*stopped, command, *args], stdin=slave, stdout=slave if out else other, stderr=slave if err else other, env=env,
                start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.master, self.slave, self.seen = master, slave, b""
        if slow:
            self.slowing = threading.Thread(target=self.slow, daemon=True)
            self.slowing.start()

    def slow(self):
        """Stops the process most of the time, as on a slow machine, until it shows a bar: which it does after half a second."""
        while self.process.poll() is None and not re.search(bar, self.seen):
            for number, seconds in (signal.SIGSTOP, 0.1), (signal.SIGCONT, 0.005):
                self.process.send_signal(number)
                time.sleep(seconds)

    def stop_with(self, stop):
        """Has the process stand still at its bar, so that it has not ended before what stops it is sent."""
        self.until(bar)
        self.slowing.join()
        self.process.send_signal(signal.SIGSTOP)
        stop(self)
        self.process.send_signal(signal.SIGCONT)
        return self.end()

    def until(self, pattern=None, seconds=600):
        """Reads what comes until it has the pattern, or the process ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (pattern and re.search(pattern, self.seen)):
            ended = self.process.poll() is not None  # before looking: afterwards nothing more comes
            if not select.select([self.master], [], [], 0.05)[0]:
                if ended:
                    break
                continue
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                break
        return self

    def read(self, keys):
        """Types the keys, and waits until the process has read them."""
        self.type(keys).until(re.escape(keys.strip()))  # the echo
        end = time.monotonic() + 600
        while time.monotonic() < end and struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, bytes(4)))[0]:
            time.sleep(0.01)
        return self

    def type(self, keys):
        os.write(self.master, keys)
        return self

    def end(self):
        self.until()
        self.status = self.process.wait(60)
        os.close(self.slave)
        os.close(self.master)
        with open(self.other, "rb") as other:
            self.elsewhere = other.read()
        return self


def slowly(*args, **options):
    """Runs the command as on a slow machine. Where this machine is so busy that the command ran on when it should have stood
    still, and ended before it had to show a bar, it has another turn."""
    for turn in range(5):
        again = ["--force"] if turn and args[0] not in ("hash", "stats", "diff", "verify") else []  # what it wrote is there
        r = Run(*args, *again, slow=True, **options).end()
        if re.search(bar, r.seen):
            break
    return r


def screen(seen, columns):
    """The lines that somebody sees at the end, and whether one was ever longer than the terminal is wide."""
    lines, at, wide = [""], 0, False
    for c in re.sub(r"\x1b\[[0-9;]*m", "", seen.decode()):
        if c == "\n":
            lines.append("")
        elif c == "\r":
            at = 0
        else:
            lines[-1] = lines[-1][:at].ljust(at) + c + lines[-1][at + 1:]
            at += 2 if unicodedata.east_asian_width(c) in "WF" else 1
            wide |= at > columns
    return [line.rstrip() for line in lines], wide


def npy(name, size):
    head = b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }" % size
    head = head.ljust(117) + b"\n"
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))


def path(name):
    return os.path.join(directory, name)


def files():
    return sorted(os.listdir(directory))


big, small = path("big.npy"), "testdata/ztensor/crate-1.2.3-digests.zt"
bar = rb"\d% \|"
npy(big, 200 << 20)
npy(path("a name that is so long that no terminal of the usual width has room for it.npy"), 100 << 20)

# Progress.
for columns in 20, 40, 60, 80, 200:
    r = slowly("hash", big, columns=columns)
    lines, _ = screen(r.seen, columns)
    wide = screen(r.seen[:r.seen.rindex(b"\r", 0, -2)], columns)[1]  # without the digest
    proves(f"progress on {columns} columns stays on its line and goes away",
           r.status == 0 and re.search(bar, r.seen) and not wide and len(lines) == 2 and re.fullmatch(r"[0-9a-f]{64}  data", lines[0]), r.seen)
r = slowly("hash", path("a name that is so long that no terminal of the usual width has room for it.npy"))
lines, wide = screen(r.seen, 80)
proves("a long name is cut", re.search(bar, r.seen) and not wide and "…".encode() in r.seen and len(lines) == 2, r.seen)
r = slowly("hash", big, out=False)
proves("progress is on standard error", re.search(bar, r.seen) and screen(r.seen, 80)[0] == [""] and len(r.elsewhere) == 71, r.seen, r.elsewhere)
r = Run("hash", big, err=False).end()
proves("no progress where standard error is a file", not re.search(bar, r.seen + r.elsewhere) and r.elsewhere == b"", r.seen, r.elsewhere)
r = Run("hash", big, TERM="dumb").end()
proves("no progress on a dumb terminal", not re.search(bar, r.seen), r.seen)
r = Run("hash", small).end()
proves("no progress for what takes no time", not re.search(bar, r.seen), r.seen)
for args in (["stats", big], ["diff", big, big, "--stat"], ["convert", big, path("o.safetensors")], ["extract", big, "-o", path("x")],
             ["edit", path("o.safetensors"), path("o2.safetensors"), "--set", "a=b"], ["merge", path("o.safetensors"), small, path("m.zt")],
             ["split", path("m.zt"), "--max", "100MB", "-o", path("s")],
             ["convert", big, path("d.zt"), "--to", "ztensor@1.0", "--digest", "sha256"], ["verify", path("d.zt")]):
    r = slowly(*args)
    lines, wide = screen(r.seen, 80)
    proves(f"progress of {args[0]}", r.status == 0 and re.search(bar, r.seen) and not any("% |" in line for line in lines), r.seen)
    if args[-1] == path("o.safetensors"):
        kept = open(path("o.safetensors"), "rb").read()
for name in "o2.safetensors", "m.zt", "d.zt":
    os.remove(path(name))

# Colours.
coloured = rb"\x1b\["
for args in ["ls", small], ["info", small], ["verify", "testdata/safetensors/many.safetensors", small], ["stats", small]:
    plain = Run(*args, err=False, NO_COLOR="1").end()
    r = Run(*args, err=False).end()
    proves(f"{args[0]}: colours change nothing else", re.sub(rb"\x1b\[[0-9;]*m", b"", r.seen) == plain.seen, r.seen, plain.seen)
    proves(f"{args[0]}: NO_COLOR", not re.search(coloured, plain.seen), plain.seen)
    proves(f"{args[0]}: none on a dumb terminal", not re.search(coloured, Run(*args, TERM="dumb").end().seen))
    proves(f"{args[0]}: none in a file", not re.search(coloured, Run(*args, out=False).end().elsewhere))
proves("a title is bold", re.search(coloured, Run("ls", small).end().seen))
proves("an empty NO_COLOR is none", re.search(coloured, Run("ls", small, NO_COLOR="").end().seen))

# Messages are as wide as the terminal of standard error, and one line each where there is none.
wrong = "ls", "--sort", "colour", small
for columns in 40, 80, 120:
    r = Run(*wrong, columns=columns, COLUMNS="").end()
    lines = r.seen.decode().split("\r\n")
    proves(f"a message fits {columns} columns", len(lines) > 3 and max(map(len, lines)) <= columns, r.seen)
r = Run(*wrong, err=False, columns=40, COLUMNS="").end()
proves("a message in a file is one line", len(r.elsewhere.decode().splitlines()) == 2, r.elsewhere)
proves("bytes are not for a terminal", Run("cat", big, "data", "--raw").end().status == 2)

# Ctrl-C. The exit status shows that a command did not go on, not a clock: machines are as slow as they are.
before = files()
for signal_name, ended, stop in (("Ctrl-C", 130, lambda r: r.type(b"\x03")), ("SIGTERM", 143, lambda r: r.process.send_signal(signal.SIGTERM)),
                                 ("SIGHUP", 129, lambda r: r.process.send_signal(signal.SIGHUP))):
    for target in "o.zt", "o.ptd", "o.safetensors", "o.npz":
        there = os.path.exists(path(target))
        args = ["convert", big, path(target), "--force", "--allow", "all"]
        args += ["--level", "22"] if target == "o.zt" else ["--compress"] if target == "o.npz" else []
        r = Run(*args, slow=True).stop_with(stop)
        lines, _ = screen(r.seen, 80)
        ok = r.status == ended and not any("% |" in line for line in lines) and files() == before
        new = sorted(set(files()) - set(before))
        if target in ("o.ptd", "o.safetensors") and (r.status == 0 or r.status == ended and new == [target] and
                                                     Run("verify", path(target)).end().status == 0):  # it was faster
            ok = True
            if not there:
                os.remove(path(target))
        proves(f"{signal_name} while {target} is written: status {ended}, nothing is left", ok, r.status, files(), r.seen)
        if there and r.status == ended:
            proves(f"{signal_name} leaves the target as it was", open(path(target), "rb").read() == kept)
    for args in ["hash", big], ["verify", path("o.safetensors")], ["stats", big], ["diff", big, path("o.safetensors")]:
        r = Run(*args, slow=True).stop_with(stop)
        proves(f"{signal_name} ends {args[0]}", r.status in (0, ended), r.status, r.seen)
    r = Run("ls", "-").read(b"waiting\n")
    stop(r)
    r.end()
    proves(f"{signal_name} ends a command that waits for standard input", r.status == ended, r.status, r.seen)

print(f"interop terminal: {passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
