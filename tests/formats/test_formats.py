"""Block formats against the gguf package, bit for bit, on blocks of random bytes."""

import gguf
import numpy as np
import pytest

import make_golden


def same(ours, theirs):
    """Equal bits; any NaN equals any NaN, since payloads are the processor's affair."""
    both_nan = np.isnan(ours) & np.isnan(theirs)
    return np.array_equal(np.where(both_nan, 0, ours.view(np.uint32)), np.where(both_nan, 0, theirs.view(np.uint32)))


@pytest.mark.parametrize("name", make_golden.DECODED)
def test_decode(dequant, name):
    blocks = make_golden.random_blocks(np.random.default_rng(7), name, 4000)
    with np.errstate(all="ignore"):
        theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).ravel()
    ours = np.frombuffer(dequant("decode", name, data=blocks.tobytes()), dtype=np.float32)
    assert ours.shape == theirs.shape and len(ours) >= 4000
    assert np.isfinite(ours).mean() > 0.5
    assert same(ours, np.ascontiguousarray(theirs))


@pytest.mark.parametrize("name", make_golden.ENCODED)
def test_encode(dequant, name):
    values = make_golden.random_values(np.random.default_rng(8), 4000)
    theirs = np.ascontiguousarray(gguf.quants.quantize(values, gguf.GGMLQuantizationType[name])).tobytes()
    assert dequant("encode", name, data=values.tobytes()) == theirs


def test_every_half(dequant):
    halves = np.arange(65536, dtype=np.uint16)
    for name, theirs in (("F16", halves.view(np.float16).astype(np.float32)),
                         ("BF16", (halves.astype(np.uint32) << 16).view(np.float32))):
        ours = np.frombuffer(dequant("decode", name, data=halves.tobytes()), dtype=np.float32)
        assert same(ours, theirs)


def test_encode_half_rounds_as_numpy(dequant):
    values = np.random.default_rng(9).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    edges = np.array([0, -0.0, 65504, 65519.996, 65520, -65520, 6e-8, 2.98e-8, 2.99e-8, 6.1e-5, np.inf, -np.inf], np.float32)
    values = np.concatenate([values[~np.isnan(values)], edges]).astype(np.float32)
    ours = np.frombuffer(dequant("encode", "F16", data=values.tobytes()), dtype=np.uint16)
    with np.errstate(over="ignore"):
        assert np.array_equal(ours, values.astype(np.float16).view(np.uint16))
