"""`slipstream doctor` as a program: exit codes, the JSON document, one-line errors; on files of tiny models and on the
default model. What it finds in broken backends is shown by tests/model/test_doctor.cpp."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {"attention", "embed", "gather_rows", "qkv_norm_rope_cache", "sample", "swiglu"}


def doctor(binary, *words):
    return subprocess.run([binary, "doctor", *words], capture_output=True, text=True, timeout=240)


def tiny(folder, *flags):
    done = subprocess.run([sys.executable, ROOT / "scripts/make_tiny_model", "--out", folder, *flags], capture_output=True,
                          text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def check_document(document, layers):
    assert list(document) == ["ok", "verdict", "model", "machine", "kernels", "checks", "ops", "failing_ops", "layers",
                              "first_bad_layer", "seconds"]
    assert document["machine"]["backend"] == "cpu" and document["machine"]["processor"]
    assert all(set(k) == {"op", "kernel", "built_for", "why"} for k in document["kernels"]) and len(document["kernels"]) >= 4
    assert {c["part"] for c in document["checks"]} == {"checkpoint", "text", "engine"}
    assert all(c["status"] in ("ok", "failed", "skipped") and c["text"] for c in document["checks"])
    for op in document["ops"]:
        assert set(op) == {"family", "cases", "failed", "error", "bound", "ok"} and op["cases"] > 0
    assert FAMILIES <= {op["family"].split(",")[0] for op in document["ops"]}
    assert [layer["layer"] for layer in document["layers"]] == [*range(layers), "logits"]


@pytest.mark.parametrize("flags", [("--arch", "llama", "--format", "gguf", "--dtype", "Q4_K"), ("--arch", "qwen3"),
                                   ("--arch", "mistral", "--dtype", "BF16")])
def test_healthy_tiny_models(binary, tmp_path, flags):
    model = tiny(tmp_path, *flags, "--layers", "2")
    result = doctor(binary, model, "--backend", "cpu", "--json")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    document = json.loads(result.stdout)
    check_document(document, 2)
    assert document["ok"] is True and document["verdict"] == "nothing wrong was found"
    assert document["first_bad_layer"] is None and document["failing_ops"] == []
    assert {c["name"]: c["status"] for c in document["checks"] if c["part"] == "text"} == {
        "tokenizer": "ok", "round trip": "ok", "token ids": "ok", "chat template": "ok"}


def test_the_default_model(binary, smollm2):
    result = doctor(binary, smollm2, "--backend", "cpu", "--rows", "24", "--prompt", "Once upon a time, in a land far away,")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "linear Q4_1" in result.stdout and "layer 29" in result.stdout and "logits" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("ok: nothing wrong was found (")


def test_layers_and_dummy_weights(binary, tmp_path):
    model = tiny(tmp_path, "--arch", "qwen2", "--layers", "3")
    for extra in (("--layers", "1"), ("--load-format", "dummy", "--seed", "5", "--layers", "2")):
        result = doctor(binary, model, "--backend", "cpu", "--json", *extra)
        assert result.returncode == 0, result.stdout + result.stderr
        document = json.loads(result.stdout)
        layers = int(extra[-1])
        check_document(document, layers)
        assert f"{layers} of 3 layers" in document["checks"][0]["text"]


def test_a_damaged_model_is_a_finding(binary, tmp_path):
    """A norm weight of one layer that is not a number: status 1, and the tensor's name."""
    tiny(tmp_path, "--arch", "qwen3")
    path = tmp_path / "model.safetensors"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])["model.layers.1.post_attention_layernorm.weight"]
    first = 8 + size + entry["data_offsets"][0]
    data[first:first + 4] = b"\x00\x00\xc0\x7f"
    path.write_bytes(data)
    result = doctor(binary, tmp_path, "--backend", "cpu", "--json")
    assert result.returncode == 1, result.stdout + result.stderr
    document = json.loads(result.stdout)
    assert document["ok"] is False
    assert document["verdict"].startswith("checkpoint, values: 'model.layers.1.post_attention_layernorm.weight': row 0, column 0 is nan")
    (tmp_path / "config.json").write_text("{")
    result = doctor(binary, tmp_path, "--backend", "cpu")
    assert result.returncode == 1 and result.stdout.splitlines()[-1].startswith("FAILED: checkpoint, readable: ")


@pytest.mark.parametrize("words,said", [
    (("/no/such/model",), "/no/such/model"),
    (("org/never-downloaded",), "org/never-downloaded"),
    ((), "model is required"),
    (("m", "--rows", "7"), "--rows"),
    (("m", "--rows", "513"), "--rows"),
    (("m", "--layers", "-1"), "--layers"),
    (("m", "--backend", "tpu"), "--backend"),
    (("m", "--no-such-flag"), "--no-such-flag"),
])
def test_bad_words_are_one_line(binary, words, said):
    result = doctor(binary, *words)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("slipstream doctor: ") and len(result.stderr.splitlines()) == 1 and said in result.stderr


def test_a_backend_that_is_not_there(binary, tmp_path):
    model = tiny(tmp_path, "--arch", "qwen3")
    result = doctor(binary, model, "--backend", "cpu", "--cuda-feature-level", "sm80")
    assert (result.returncode, result.stderr) == (2, "slipstream doctor: cuda-feature-level sm80 needs backend cuda, not cpu\n")


def test_help(binary):
    result = doctor(binary, "--help")
    assert result.returncode == 0
    for flag in ("--backend", "--load-format", "--layers", "--rows", "--prompt", "--json", "--cuda-feature-level", "--kv-cache-dtype"):
        assert flag in result.stdout
