"""odd.py VERSION DIR N: N files of zTensor 0.1, 1.0, 1.1 or 1.2 that no writer would make and that are right all the same: heads that are not the shortest,
indefinite lengths, keys in any order, keys that nobody knows, nulls, digests spelled otherwise, odd names and shapes, components that are shared.

We have to read what the wheel of that generation reads from them.
"""
import os, random, struct, sys

WIDTHS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1}
SHORT = {long: long.replace("bfloat", "bf").replace("uint", "u").replace("float", "f").replace("int", "i") for long in WIDTHS}


def crc32c(data):
    c = 0xFFFFFFFF
    for x in data:
        c ^= x
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 & -(c & 1))
    return c ^ 0xFFFFFFFF


class Ordered(dict):
    """A map whose order stays: wheels list tensors by name, we as they stand in the file."""


class Odd:
    def __init__(self, version, seed):
        self.version, self.chance = version, random.Random(seed)
        self.wide, self.indefinite, self.pieces, self.shuffled = (self.one_of(4) for _ in range(4))
        if version == "1.2":
            self.pieces = False  # its reader requires text in one piece
        self.file, self.last = bytearray(b"ZTEN0001" if version == "0.1" else b"ZTEN1000"), None

    def one_of(self, n):
        return self.chance.randrange(n) == 0

    def head(self, major, n):
        size = next(k for k in (0, 1, 2, 4, 8) if n < (24 if k == 0 else 1 << 8 * k))
        if self.wide and self.one_of(3):
            size = 8
        return bytes([major << 5 | n]) if size == 0 else bytes([major << 5 | {1: 24, 2: 25, 4: 26, 8: 27}[size]]) + n.to_bytes(size, "big")

    def cbor(self, v):
        if v is None or isinstance(v, bool):
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[v]
        if isinstance(v, int):
            return self.head(0, v) if v >= 0 else self.head(1, -1 - v)
        if isinstance(v, float):
            return b"\xfb" + struct.pack(">d", v)
        if isinstance(v, bytes):
            return self.head(2, len(v)) + v
        if isinstance(v, str):
            b = v.encode()
            half = len(v[: len(v) // 2].encode())
            if self.pieces and self.one_of(3):
                return b"\x7f" + self.head(3, half) + b[:half] + self.head(3, len(b) - half) + b[half:] + b"\xff"
            return self.head(3, len(b)) + b
        if isinstance(v, list):
            major, n, items = 4, len(v), [self.cbor(x) for x in v]
        else:
            major, n, items = 5, len(v), [self.cbor(k) + self.cbor(x) for k, x in v.items()]
            if self.shuffled and not isinstance(v, Ordered):
                self.chance.shuffle(items)
        if self.indefinite and self.one_of(3):
            return bytes([major << 5 | 31]) + b"".join(items) + b"\xff"
        return self.head(major, n) + b"".join(items)

    def more(self, d):
        """d with a key that no version knows."""
        if self.one_of(4):
            d[self.chance.choice(["zz", "Dtype", "Offset", "k" * 300])] = self.chance.choice([1, -1, 2.5, None, True, [1, [2, {"a": b"x"}]], {"m": {"n": []}}, "text", b"bytes"])
        return d

    def put(self, data):
        self.file += bytes(-len(self.file) % 64)
        self.file += data
        return len(self.file) - len(data)

    def digest(self, data):
        sum = crc32c(data)
        return self.chance.choice([f"crc32c:0x{sum:08X}", f"crc32c:0x{sum:08x}", "md5:00", None])

    def array(self):
        dtype = self.chance.choice(list(WIDTHS))
        shape = [self.chance.choice([0, 1, 2, 3, 7, 64]) for _ in range(self.chance.randrange(1, 5))]
        n = WIDTHS[dtype]
        for d in shape:
            n *= d
        return dtype, shape, bytes(self.chance.randrange(2 if dtype == "bool" else 256) for _ in range(n))

    def tensor(self):
        dtype, shape, data = self.array()
        if self.last and self.one_of(4):
            return self.last  # another name for the same bytes
        c = {"dtype": SHORT[dtype]} if self.version != "1.0" else {}
        c |= {"offset": self.put(data), "length": len(data)}
        if self.one_of(3):
            c["digest"] = self.digest(data)
        if self.one_of(4):
            c["encoding"] = "raw"
        t = {"dtype": dtype} if self.version == "1.0" else {"attributes": {"bits": 4, "n": {"a": [1, 2.5]}}} if self.one_of(4) else {}
        self.last = self.more(t | {"shape": shape, "format": "dense", "components": {"data": self.more(c)}})
        return self.last

    def entry(self, name):  # of 0.1
        dtype, shape, data = self.array()
        e = {"name": name, "offset": self.put(data), "size": len(data), "dtype": dtype, "layout": "dense", "shape": shape, "encoding": "raw"}
        if WIDTHS[dtype] > 1:
            e["data_endianness"] = self.chance.choice(["little", "big"])
        return self.more(e)

    def name(self, i):
        return self.chance.choice([f"t{i}", f"a/b.c[{i}]", f"ü重み{i}", "x" * self.chance.choice([23, 24, 255, 256, 70000]) + str(i), f" {i}", f"e\u0301{i}", f"😀{i}"])

    def made(self):
        names = sorted((self.name(i) for i in range(self.chance.randrange(1, 7))), key=str.encode)
        if self.version == "0.1":
            m = [self.entry(name) for name in names]
        else:
            list = Ordered((name, self.tensor()) for name in names)
            if self.version == "1.0":
                m = {"version": self.chance.choice(["1.0", "1.0.3", "1.7"]), "generator": "g" * self.chance.randrange(50), "attributes": {"": "", "license": "MIT"}, "tensors": list}
            else:
                m = {"version": self.version + ".0", "attributes": {"a": "b"} if self.version == "1.1" else {"f": 1.5, "l": [1, {"x": None}]}, "objects": list}
            m = self.more(m)
        b = self.cbor(m)
        self.put(b"") if len(self.file) == 8 else None
        return bytes(self.file) + b + struct.pack("<Q", len(b)) + (b"ZTEN1000" if self.version in ("1.1", "1.2") else b"")


version, directory, n = sys.argv[1:]
seed = int.from_bytes(os.urandom(4), "big")
for i in range(int(n)):
    with open(f"{directory}/odd-{version}-{seed + i}.zt", "wb") as f:  # the number makes it again
        f.write(Odd(version, seed + i).made())
