"""C16 of the reliability goals: whole model folders with one file damaged, through the loader of `slipstream serve`.

Every damage ends in a refusal of one clear line, or in a model that loads and answers; never in a crash or a hang.
"""

import json
import os
import random
import re
import shutil
import subprocess

import pytest
from conftest import find_tool

FULL_ROUNDS, SHORT_ROUNDS = 40, 8


class Loader:
    """One long-lived process; a crash is seen as the end of its output."""

    def __init__(self):
        tool = find_tool("slip_load")
        assert tool is not None, "build the target 'slip_load' first, or set SLIPSTREAM_BIN_DIR"
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def load(self, path):
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the loader died of {path} with {self.process.wait()}"
        result = json.loads(line)
        assert result["path"] == str(path)
        return result


@pytest.fixture(scope="module")
def loader():
    loader = Loader()
    yield loader
    loader.process.stdin.close()
    assert loader.process.wait(20) == 0


def damages(data, rounds, rng):
    """(what, bytes) for one file's content."""
    yield "empty", b""
    for i in range(1, rounds + 1):
        yield f"cut {i}", data[:len(data) * i // (rounds + 1)]
    yield "one byte short", data[:-1]
    for i in range(rounds):
        flipped = bytearray(data)
        # half of the flips in the first kilobyte, where the structure is
        at = rng.randrange(min(1024, len(data)) if i % 2 else len(data))
        flipped[at] ^= 1 << rng.randrange(8)
        yield f"bit of byte {at}", bytes(flipped)
    for i in range(rounds // 2):
        at, length = rng.randrange(len(data)), rng.randrange(1, 64)
        yield f"{length} random bytes at {at}", data[:at] + rng.randbytes(length) + data[at + length:]
    yield "zeros", bytes(len(data))
    yield "ones", b"\xff" * len(data)
    yield "noise", rng.randbytes(len(data))
    yield "twice", data + data
    yield "deep", b"[" * 100_000 + b"]" * 100_000
    yield "deep objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def wrong_numbers(data, rng, count):
    """JSON with one number replaced by one that is absurd."""
    text = data.decode()
    numbers = list(re.finditer(r"(?<=[:\s\[,])-?\d+(\.\d+)?(e[+-]?\d+)?(?=[,\s\]}])", text))
    for match in rng.sample(numbers, min(count, len(numbers))):
        value = rng.choice(["-1", "0", "2147483648", "9223372036854775807", "1e308", "0.5", "null", '"x"', "[]", "{}", "true"])
        yield f"{match.group()} at {match.start()} is {value}", (text[:match.start()] + value + text[match.end():]).encode()


def check(result, name, what, tally):
    where = f"{name}, {what}: {result}"
    if "answer" in result:
        tally["answered"] += 1
        assert result["answer"] in ("length", "stop") or result["answer"].startswith(("error: the model produced", "refused: ")), where
        return
    message = result["error"]
    tally["refused"] += 1
    assert 15 < len(message) < 800 and "\n" not in message and message.isprintable(), where
    assert "exception" not in result, where


def try_file(loader, folder, model, name, contents, tally):
    """`model` is what is loaded when the file `name` of `folder` is damaged."""
    path = folder / name
    valid = path.read_bytes()
    for what, data in contents(valid):
        path.write_bytes(data)
        check(loader.load(model), name, what, tally)
    path.unlink()
    check(loader.load(model), name, "missing", tally)
    path.mkdir()
    check(loader.load(model), name, "a folder", tally)
    path.rmdir()
    path.symlink_to(path.name)
    check(loader.load(model), name, "a link to itself", tally)
    path.unlink()
    path.symlink_to("/etc/hostname")
    result = loader.load(model)
    assert "error" in result or name in ("tokenizer_config.json", "generation_config.json"), (name, result)
    check(result, name, "a link out of the folder", tally)
    path.unlink()
    path.write_bytes(valid)


@pytest.mark.parametrize("split", ["1", "3"])
def test_safetensors_folder(loader, make_tiny_model, pytestconfig, split):
    folder = make_tiny_model("--arch", "qwen3", "--split", split, "--dtype", "BF16")
    names = sorted(p.name for p in folder.iterdir())
    assert {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"} < set(names)
    assert ("model.safetensors.index.json" in names) == (split != "1")
    assert loader.load(folder)["answer"] in ("length", "stop")
    rounds = FULL_ROUNDS if pytestconfig.getoption("--full") else SHORT_ROUNDS
    rng = random.Random(16)
    for name in names:
        tally = {"refused": 0, "answered": 0}
        def contents(valid):
            yield from damages(valid, rounds, rng)
            if name.endswith(".json"):
                yield from wrong_numbers(valid, rng, rounds * 2)
        try_file(loader, folder, folder, name, contents, tally)
        assert tally["refused"] >= rounds, (name, tally)
    assert loader.load(folder)["answer"] in ("length", "stop")  # everything was put back


def test_what_a_folder_cannot_do_without(loader, make_tiny_model):
    folder = make_tiny_model("--arch", "llama")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        assert name.split(".")[0] in loader.load(folder)["error"], name
        for cut in range(1, 20):
            (folder / name).write_bytes(data[:len(data) * cut // 20])
            assert name.split(".")[0] in loader.load(folder)["error"], (name, cut)
        (folder / name).write_bytes(data)
    assert "answer" in loader.load(folder)


@pytest.mark.parametrize("dtype", ["Q8_0", "Q4_K"])
def test_gguf(loader, make_tiny_model, pytestconfig, dtype):
    model = make_tiny_model("--arch", "llama", "--format", "gguf", "--dtype", dtype)
    assert loader.load(model)["answer"] in ("length", "stop")
    rounds = (FULL_ROUNDS if pytestconfig.getoption("--full") else SHORT_ROUNDS) * 4
    tally = {"refused": 0, "answered": 0}
    try_file(loader, model.parent, model, model.name, lambda valid: damages(valid, rounds, random.Random(dtype)), tally)
    assert tally["refused"] > rounds and tally["answered"] > 0, tally
    assert loader.load(model)["answer"] in ("length", "stop")


def test_folders_that_lead_nowhere(loader, tmp_path, make_tiny_model):
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    valid = make_tiny_model("--arch", "llama")
    shutil.copytree(valid, tmp_path / "no-weights", ignore=lambda *_: ["model.safetensors"])
    shutil.copytree(valid, tmp_path / "other-config")
    config = json.loads((valid / "config.json").read_text())
    for key, value in {"num_hidden_layers": 10**9, "hidden_size": 2**31, "vocab_size": 2**40, "num_attention_heads": 0,
                       "num_key_value_heads": 3, "intermediate_size": -1, "max_position_embeddings": 2**62,
                       "rms_norm_eps": -1, "rope_theta": 0, "architectures": ["AlienForCausalLM"]}.items():
        (tmp_path / "other-config/config.json").write_text(json.dumps({**config, key: value}))
        result = loader.load(tmp_path / "other-config")
        check(result, key, value, {"refused": 0, "answered": 0})
        if key != "max_position_embeddings":  # only what fits is served
            assert "error" in result, (key, result)
    for name in ("empty", "loop", "no-weights", "absent"):
        result = loader.load(tmp_path / name)
        assert "error" in result and name in result["error"], (name, result)
    os.mkfifo(tmp_path / "pipe")
    assert "error" in loader.load(tmp_path / "pipe")
