"""Tiny models as files, written by scripts/make_tiny_model: safetensors and GGUF (permuted q and k for llama) of the
same values give the same logits, through the real readers."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IDS = "3 1 4 1 5 9 2 6 5 35 89 79 32 38 46 264 33 83 279 50\n"


def written(folder, *flags):
    done = subprocess.run([sys.executable, ROOT / "scripts/make_tiny_model", "--out", folder, *flags],
                          capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def logits(folder, model, *flags):
    tool = os.environ.get("SLIPSTREAM_LOGITS", ROOT / "build/release/tests/tools/logits/slip_logits")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ids").write_text(IDS)
    done = subprocess.run([tool, model, "--prompts", folder / "ids", "--out", folder / "out", "--rows", "all", *flags],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    values = np.fromfile(folder / "out", np.float32).reshape(-1, json.loads(done.stdout)["vocab"])
    assert values.shape[0] == len(IDS.split()) and np.isfinite(values).all() and values.std() > 0.1
    return values


@pytest.mark.parametrize("arch,flags", [
    ("llama", ()), ("llama", ("--rope-scaling", "llama3")), ("llama", ("--tied",)), ("mistral", ()), ("qwen2", ()),
    ("qwen2", ("--no-tied",)), ("qwen3", ()), ("qwen3", ("--split", "3")),
])
def test_both_containers_hold_the_same_model(tmp_path, arch, flags):
    hf = written(tmp_path / "hf", "--arch", arch, *flags)
    gguf = written(tmp_path / "gguf", "--arch", arch, "--format", "gguf", *flags)
    expected = logits(tmp_path / "a", hf, "--backend", "reference")
    # Permuting q and k reorders each head's dot products: equal but for rounding.
    assert np.abs(logits(tmp_path / "b", gguf, "--backend", "reference") - expected).max() < 2e-5
    assert np.abs(logits(tmp_path / "c", gguf, "--backend", "cpu") - expected).max() < 2e-5


@pytest.mark.parametrize("dtype", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "Q4_1", "Q8_0",
                                   "F16", "BF16"])
def test_stored_formats(tmp_path, dtype):
    """The reference on the blocks equals itself on their dequantised values; the cpu backend stays near it."""
    gguf = written(tmp_path / "gguf", "--arch", "qwen2", "--format", "gguf", "--dtype", dtype)
    # GGUF keeps vectors in F32 whatever the matrices are in.
    hf = written(tmp_path / "hf", "--arch", "qwen2", "--values-of", dtype, "--override", "norm=F32", "--override", "bias=F32")
    expected = logits(tmp_path / "a", hf, "--backend", "reference")
    assert np.abs(logits(tmp_path / "b", gguf, "--backend", "reference") - expected).max() < 2e-5
    relative = np.linalg.norm(logits(tmp_path / "c", gguf, "--backend", "cpu") - expected) / np.linalg.norm(expected)
    assert relative < (1e-5 if dtype in ("F16", "BF16") else 0.03), relative


@pytest.mark.parametrize("scheme", ["fp8-block", "fp8-channel"])
@pytest.mark.parametrize("arch", ["llama", "qwen3"])
def test_fp8_folders(tmp_path, scheme, arch):
    """FP8 codes with their scales give the logits of the very values that they stand for."""
    flags = ("--arch", arch, "--quantization", scheme)
    fp8 = written(tmp_path / "fp8", *flags)
    expected = logits(tmp_path / "a", written(tmp_path / "hf", *flags, "--dequantised"), "--backend", "reference")
    assert np.array_equal(logits(tmp_path / "b", fp8, "--backend", "reference"), expected)
    assert np.abs(logits(tmp_path / "c", fp8, "--backend", "cpu") - expected).max() < 2e-5
