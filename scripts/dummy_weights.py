"""The Python twin of engine/weights/dummy_weights.h: the same bits from (seed, tensor name, element index).

The law is specified there; tests/formats/test_dummy_weights.py compares the two.
"""

import numpy as np

MASK64 = (1 << 64) - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# name -> (elements per block, bytes per block)
BLOCKS = {
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "MXFP4": (32, 17),
}
# name -> (offset of d, root mean square of the values at d = 1, offset of m or dmin or None, m at d = 1)
SCALES = {
    "Q4_0": (0, 4.6368, None, 0.0),
    "Q4_1": (0, 4.6098, 2, -7.5),
    "Q5_0": (0, 9.2466, None, 0.0),
    "Q5_1": (0, 9.2331, 2, -15.5),
    "Q8_0": (0, 73.902, None, 0.0),
    "Q2_K": (80, 14.71, 82, 1.5),
    "Q3_K": (108, 43.34, None, 0.0),
    "Q4_K": (0, 259.0, 2, 7.5),
    "Q5_K": (0, 527.0, 2, 15.5),
    "Q6_K": (208, 1365.9, None, 0.0),
    "IQ4_NL": (0, 68.27, None, 0.0),
    "IQ4_XS": (0, 1261.6, None, 0.0),
}


def mix(x):
    """The finaliser of splitmix64, elementwise on uint64."""
    x = np.asarray(x, dtype=np.uint64)
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def tensor_key(seed, name):
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = ((fnv ^ byte) * 0x100000001B3) & MASK64
    seeded = int(mix(np.uint64((seed + int(GOLDEN)) & MASK64)))
    return mix(np.uint64(fnv ^ seeded))


def words(key, first, count):
    index = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return mix(key + index * GOLDEN)


def values(seed, name, shape, first=0, count=None):
    """Float32 elements [first, first + count) in row-major order."""
    if count is None:
        count = int(np.prod(shape))
    w = words(tensor_key(seed, name), first, count)
    lane = np.uint64(0xFFFF)
    total = (w & lane) + ((w >> np.uint64(16)) & lane) + ((w >> np.uint64(32)) & lane) + (w >> np.uint64(48))
    centred = (total.astype(np.int64) - 131070).astype(np.float32)
    unit = np.sqrt(np.float64(3.0)) / 65536.0
    if name.endswith(("weight_scale", "weight_scale_inv")):  # of F8_E4M3 matrices
        return (np.float32(0.75) + (w >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-25)) * np.float32(2.0**-10)
    if len(shape) == 1:
        small = centred * np.float32(0.1 * unit)
        return np.float32(1.0) + small if "norm" in name and name.endswith(".weight") else small
    return centred * np.float32(unit / np.sqrt(np.float64(shape[-1])))


def e4m3_values(codes):
    """Codes of FP8 E4M3 (torch.float8_e4m3fn) as float32."""
    magnitude = np.arange(128)
    exponent, mantissa = magnitude >> 3, magnitude & 7
    table = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0)).astype(np.float32)
    table[127] = np.nan
    return np.concatenate([table, -table])[codes]


def e4m3_codes(values):
    """The nearest codes, ties to even, saturated at 448. Values are finite."""
    magnitude = np.abs(values).astype(np.float32)
    levels = e4m3_values(np.arange(127, dtype=np.uint8)).astype(np.float64)
    middles = (levels[1:] + levels[:-1]) / 2
    below = np.searchsorted(middles, magnitude, side="left")   # a tie goes down
    above = np.searchsorted(middles, magnitude, side="right")  # a tie goes up
    codes = np.where(below % 2 == 0, below, above).astype(np.uint8)
    return codes | np.where(np.signbit(values), 128, 0).astype(np.uint8)


def f8_codes(seed, name, shape):
    """A matrix in F8_E4M3, without its scales."""
    return e4m3_codes(values(seed, name, shape) * np.float32(1024.0)).reshape(shape)


def blocks(seed, name, shape, dtype):
    """Valid random blocks of a matrix: uint8 [rows, bytes per row]."""
    elements, size = BLOCKS[dtype]
    assert len(shape) >= 2 and shape[-1] % elements == 0, (name, shape, dtype)
    count = int(np.prod(shape)) // elements
    per_block = (size + 7) // 8 + 1
    w = words(tensor_key(seed, name), 0, count * per_block).reshape(count, per_block)
    out = np.ascontiguousarray(w[:, :-1]).view(np.uint8)[:, :size].copy()
    last = w[:, -1]
    fan_in = shape[-1]
    if dtype == "MXFP4":
        out[:, 0] = (125 - fan_in.bit_length() // 2 + (last >> np.uint64(62)).astype(np.int64) % 3 - 1).astype(np.uint8)
    else:
        d_at, rms, m_at, m_ratio = SCALES[dtype]
        base = np.float32(1.0 / (rms * np.sqrt(np.float64(fan_in))))
        jitter = np.float32(0.75) + (last >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-25)
        sign = np.where(last & np.uint64(1), np.float32(-1.0), np.float32(1.0))
        d = base * jitter * sign
        out[:, d_at:d_at + 2] = d.astype(np.float16).reshape(-1, 1).view(np.uint8)
        if m_at is not None:
            second = ((last >> np.uint64(8)) & np.uint64(0xFFFFFF)).astype(np.float32)
            wobble = np.float32(0.875) + second * np.float32(2.0**-26)
            m = d * np.float32(m_ratio) * wobble
            out[:, m_at:m_at + 2] = m.astype(np.float16).reshape(-1, 1).view(np.uint8)
    return out.reshape(int(np.prod(shape[:-1])), shape[-1] // elements * size)
