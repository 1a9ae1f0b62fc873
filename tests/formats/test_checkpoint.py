"""Checkpoint's view of whole models against the gguf and safetensors packages: names, dtypes, shapes, bytes."""

import gguf
import numpy as np
import pytest
import safetensors


def digest(data):
    data = np.frombuffer(data, dtype=np.uint8).astype(np.uint64)
    return f"{int(((data + np.uint64(1)) * np.arange(1, 2 * len(data), 2, dtype=np.uint64)).sum()):016x}"


def listed(dequant, path):
    rows = [line.split("\t") for line in dequant("list", path).decode().splitlines()]
    return {name: (dtype, shape, total) for name, dtype, shape, total in rows}


def shape_text(shape):
    return "x".join(str(int(dimension)) for dimension in shape)


@pytest.mark.parametrize("args", (
    ("--arch", "llama", "--dtype", "F32"), ("--arch", "qwen2", "--dtype", "BF16"), ("--arch", "qwen3", "--dtype", "Q8_0"),
    ("--arch", "llama", "--dtype", "Q5_0", "--split", "4"), ("--dtype", "Q4_1", "--split", "2", "--empty-first"),
    ("--arch", "mistral", "--dtype", "F16"), ("--dtype", "Q6_K", "--layers", "1"), ("--dtype", "MXFP4"),
))
def test_gguf(dequant, make_tiny_model, args):
    path = make_tiny_model("--format", "gguf", *args)
    files = sorted(path.parent.glob("*.gguf"))
    assert (len(files) > 1) == ("--split" in args)
    theirs = {}
    for file in files:
        for tensor in gguf.GGUFReader(file).tensors:
            shape = [int(dimension) for dimension in tensor.shape][::-1]
            theirs[tensor.name] = (tensor.tensor_type.name, shape_text(shape), digest(tensor.data.tobytes()))
    assert listed(dequant, path) == theirs and len(theirs) > 10

    meta = dict(line.split("\t") for line in dequant("meta", path).decode().splitlines())
    fields = gguf.GGUFReader(files[0]).fields
    for key, field in fields.items():
        if key.startswith("GGUF."):
            continue
        value = field.contents()
        if isinstance(value, str):
            expected = f"{len(value.encode())} bytes"
        elif isinstance(value, list):
            expected = f"{len(value)} {'strings' if isinstance(value[0], str) else 'numbers'}"
        elif isinstance(value, float):
            assert float(meta.pop(key)) == value
            continue
        else:
            expected = str(value)
        assert meta.pop(key) == expected, key
    assert meta == {}


@pytest.mark.parametrize("args", (
    ("--arch", "llama", "--dtype", "F32"), ("--arch", "qwen3", "--dtype", "BF16", "--split", "3"),
    ("--arch", "qwen2", "--dtype", "F16"),
))
def test_safetensors(dequant, make_tiny_model, args):
    folder = make_tiny_model(*args)
    files = sorted(folder.glob("*.safetensors"))
    assert (len(files) > 1) == ("--split" in args)
    theirs = {}
    for file in files:
        for name, tensor in safetensors.deserialize(file.read_bytes()):
            theirs[name] = (tensor["dtype"], shape_text(tensor["shape"]), digest(tensor["data"]))
    assert listed(dequant, folder) == theirs and len(theirs) > 10
