"""The template files of the llama.cpp source package, each with twelve conversations: the bytes of jinja2, or refused
by name, and refused wherever jinja2 refuses.

SLIPSTREAM_LLAMACPP_SDIST names the unpacked package; without it the package is fetched with pip and checked."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from template_conversations import CONVERSATIONS
from template_oracle import reference

pytestmark = pytest.mark.full

PACKAGE = "llama-cpp-python==0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
# Every file of the families that we promise must render wherever jinja2 does.
FAMILIES = ["llama-3", "Llama-3", "Qwen", "QwQ", "GLM-4", "deepseek", "mistral", "Mistral", "Ministral", "gemma",
            "SmolLM", "gpt-oss"]


@pytest.fixture(scope="session")
def templates(tmp_path_factory):
    named = os.environ.get("SLIPSTREAM_LLAMACPP_SDIST")
    if named:
        folder = Path(named)
    else:
        cache = tmp_path_factory.mktemp("sdist")
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", cache,
                        PACKAGE], check=True)
        archive = next(cache.glob("*.tar.gz"))
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
        with tarfile.open(archive) as tar:
            tar.extractall(cache, [m for m in tar.getmembers() if m.name.endswith(".jinja")], filter="data")
        folder = cache
    found = sorted(folder.rglob("models/templates/*.jinja"))
    assert len(found) >= 65, f"only {len(found)} templates below {folder}"
    return found


def test_every_file_and_conversation(render, templates):
    counts = {"equal": 0, "both refuse": 0, "refused by name": 0}
    wrong = []
    for path in templates:
        source = path.read_text()
        for name, conversation in CONVERSATIONS.items():
            variables = {"add_generation_prompt": True, "tools": None, "documents": None, "bos_token": "<s>",
                         "eos_token": "</s>", **conversation}
            expected, error = reference(source, variables)
            extra = {k: v for k, v in conversation.items() if k not in ("messages", "tools", "add_generation_prompt")}
            got = render(template=source, messages=variables["messages"], tools=variables["tools"], extra=extra,
                         add_generation_prompt=variables["add_generation_prompt"], bos_token="<s>", eos_token="</s>")
            where = f"{path.name} / {name}"
            if error is not None:
                counts["both refuse"] += "error" in got
                if "error" not in got:
                    wrong.append(f"{where}: jinja2 refuses with {error!r}, we print")
            elif got.get("text") == expected:
                counts["equal"] += 1
            elif got.get("code") == "unsupported" and not any(family in path.name for family in FAMILIES):
                counts["refused by name"] += 1
            else:
                wrong.append(f"{where}: {got.get('error') or first_difference(expected, got['text'])}")
    print(counts, "of", len(templates), "templates")
    assert not wrong, "\n".join(wrong)
    assert counts["equal"] >= 600


def first_difference(expected, got):
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    return f"at character {at}: expected {expected[max(0, at - 40):at + 40]!r}, got {got[max(0, at - 40):at + 40]!r}"
