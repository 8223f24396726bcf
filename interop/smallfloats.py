# Prints what tensor/float_test.go holds our small floats against (pip install numpy==2.2.6 ml_dtypes==0.5.3):
# for each type the SHA-256 of two tables as ml_dtypes computes them:
#   decode: every code, in order, as little-endian float32 (NaN as 7fc00000)
#   encode: the codes of 524288 float32 bit patterns (every upper 17 bits, with four lower halves: zero, just above, the tie, just below the next); NaN as 0
import hashlib, numpy as np, ml_dtypes as M
pats = (np.arange(1<<17, dtype=np.uint64) << 15)
pats = np.concatenate([pats, pats | 1, pats | 0x4000, pats | 0x7fff]).astype(np.uint32)
def canon(x32):
    b = x32.view(np.uint32).copy(); b[np.isnan(x32)] = 0x7fc00000; return b
for name, dt, bits in [("F16", np.float16, 16), ("BF16", M.bfloat16, 16), ("F8E4M3FN", M.float8_e4m3fn, 8), ("F8E5M2", M.float8_e5m2, 8),
    ("F8E4M3FNUZ", M.float8_e4m3fnuz, 8), ("F8E5M2FNUZ", M.float8_e5m2fnuz, 8), ("F8E8M0FNU", M.float8_e8m0fnu, 8)]:
    ut = np.uint16 if bits == 16 else np.uint8
    codes = np.arange(1 << bits, dtype=np.uint32).astype(ut)
    with np.errstate(all="ignore"):
        dec = canon(codes.view(dt).astype(np.float32))
        enc32 = pats.view(np.float32)
        enc = enc32.astype(dt)
        back = canon(enc.astype(np.float32))   # compare by value, so that NaN codes do not matter
        encbits = enc.view(ut).copy()
        encbits[np.isnan(enc.astype(np.float32))] = 0
    print(name, hashlib.sha256(dec.astype("<u4").tobytes()).hexdigest(), hashlib.sha256(encbits.astype("<u%d" % (bits//8)).tobytes()).hexdigest())
