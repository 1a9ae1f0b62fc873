"""The C++ dummy law against its Python twin, bit for bit."""

import numpy as np
import pytest

import dummy_weights


@pytest.mark.parametrize("seed", (0, 1, 2**64 - 1))
@pytest.mark.parametrize("name,shape", (
    ("model.layers.1.self_attn.q_proj.weight", (24, 96)),
    ("model.layers.0.mlp.experts.weight", (2, 3, 40)),
    ("model.norm.weight", (64,)),
    ("model.layers.0.self_attn.q_proj.bias", (64,)),
))
def test_plain(dequant, seed, name, shape):
    values = dummy_weights.values(seed, name, shape)
    ours = np.frombuffer(dequant("dummy", seed, name, "F32", 0, values.size, *shape), dtype=np.float32)
    assert np.array_equal(ours.view(np.uint32), values.view(np.uint32))
    half = np.frombuffer(dequant("dummy", seed, name, "F16", 0, values.size, *shape), dtype=np.uint16)
    assert np.array_equal(half, values.astype(np.float16).view(np.uint16))
    part = dequant("dummy", seed, name, "F32", 17, 30, *shape)
    assert part == values[17:47].tobytes()


def test_f8(dequant):
    shape, name = (24, 96), "model.layers.1.self_attn.q_proj.weight"
    codes = dummy_weights.f8_codes(3, name, shape)
    assert dequant("dummy", 3, name, "F8_E4M3", 0, 24 * 96, *shape) == codes.tobytes()
    assert dequant("dummy", 3, name, "F8_E4M3", 7 * 96, 96, *shape) == codes[7].tobytes()
    decoded = np.frombuffer(dequant("decode", "F8_E4M3", data=codes.tobytes()), dtype=np.float32)
    assert np.array_equal(decoded, dummy_weights.e4m3_values(codes).ravel()) and np.abs(decoded).max() <= 448
    for suffix, dims in (("weight_scale_inv", (3, 5)), ("weight_scale", (24, 1)), ("weight_scale", (1,))):
        scale_name = name.replace("weight", suffix)
        scales = dummy_weights.values(3, scale_name, dims)
        ours = np.frombuffer(dequant("dummy", 3, scale_name, "F32", 0, scales.size, *dims), dtype=np.float32)
        assert np.array_equal(ours, scales)
        assert ours.min() >= 0.75 / 1024 and ours.max() < 1.25 / 1024
    values = decoded * np.float32(2.0**-10)
    assert 0.9 < values.std() * np.sqrt(96) < 1.1


@pytest.mark.parametrize("dtype", dummy_weights.BLOCKS)
def test_blocks(dequant, dtype):
    shape, name = (6, 768), "blk.weight"
    blocks = dummy_weights.blocks(5, name, shape, dtype)
    assert dequant("dummy", 5, name, dtype, 0, 6 * 768, *shape) == blocks.tobytes()
    assert dequant("dummy", 5, name, dtype, 2 * 768, 768, *shape) == blocks[2].tobytes()
    values = np.frombuffer(dequant("decode", dtype, data=blocks.tobytes()), dtype=np.float32)
    assert np.isfinite(values).all()
    assert 0.7 < values.std() * np.sqrt(768) < 1.3
    assert abs(values.mean()) * np.sqrt(768) < 0.1
