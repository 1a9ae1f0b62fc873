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


def test_every_e4m3_code_as_torch(dequant):
    torch = pytest.importorskip("torch")
    codes = np.arange(256, dtype=np.uint8)
    theirs = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    ours = np.frombuffer(dequant("decode", "F8_E4M3", data=codes.tobytes()), dtype=np.float32)
    assert np.isnan(theirs).sum() == 2
    assert same(ours, theirs)


def test_encode_e4m3_rounds_as_torch(dequant):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(10)
    values = rng.integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)  # every tie between two codes
    values = np.concatenate([values, halves, rng.standard_normal(50_000).astype(np.float32)])
    values = values[np.abs(values) <= 464]  # above, torch gives NaN and we saturate
    ours = np.frombuffer(dequant("encode", "F8_E4M3", data=values.tobytes()), dtype=np.uint8)
    theirs = torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert len(values) > 200_000 and np.array_equal(ours, theirs)
    beyond = np.array([464.1, 1e30, np.inf, -500, -np.inf, np.nan, -np.nan], np.float32)
    ours = np.frombuffer(dequant("encode", "F8_E4M3", data=beyond.tobytes()), dtype=np.uint8)
    assert ours.tolist() == [0x7E, 0x7E, 0x7E, 0xFE, 0xFE, 0x7F, 0x7F]
