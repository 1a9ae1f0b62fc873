"""Writes tests/fixtures/formats/golden.bin: random blocks and what the `gguf` package makes of them.

Run by hand when a format is added: python tests/formats/make_golden.py. The file starts with a line that names the
package's version. Records: name (16 bytes), u32 kind (0 decode, 1 encode), u32 bytes, u32 floats, bytes, floats.
"""

import importlib.metadata
import pathlib
import struct

import gguf
import numpy as np

DECODED = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
           "IQ4_XS", "MXFP4")
ENCODED = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
SEED = 20260101


def random_blocks(rng, name, count):
    """Any bytes at all, so that scales include NaN, infinities and subnormals; then all zero and all one bits."""
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0] = 0
    blocks[1] = 255
    return blocks


def random_values(rng, count):
    """Groups of 32: normal, tiny, huge, constant, zero, one-sided, ties."""
    values = rng.standard_normal((count, 32)).astype(np.float32)
    scale = np.float32(10.0) ** rng.uniform(-6, 4, (count, 1)).astype(np.float32)
    values *= scale
    values[0] = 0
    values[1] = 1.5
    values[2] = np.abs(values[2])
    values[3] = -np.abs(values[3])
    values[4] = np.arange(32, dtype=np.float32) - 16
    values[5] = np.arange(32, dtype=np.float32) / 2
    return values


def main():
    rng = np.random.default_rng(SEED)
    out = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "formats" / "golden.bin"
    out.parent.mkdir(parents=True, exist_ok=True)
    with open(out, "wb") as file, np.errstate(all="ignore"):
        version = importlib.metadata.version("gguf")
        file.write(f"gguf {version}, numpy {np.__version__}, seed {SEED}\n".encode())

        def record(name, kind, stored, values):
            stored, values = np.ascontiguousarray(stored).tobytes(), np.ascontiguousarray(values, np.float32).tobytes()
            file.write(struct.pack("<16sIII", name.encode(), kind, len(stored), len(values) // 4) + stored + values)

        for name in DECODED:
            blocks = random_blocks(rng, name, 8 if gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0] == 256
                                   else 32)
            record(name, 0, blocks, gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]))
        for name in ENCODED:
            values = random_values(rng, 24)
            record(name, 1, gguf.quants.quantize(values, gguf.GGMLQuantizationType[name]), values)
    print(out, out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
