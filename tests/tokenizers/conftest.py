"""The tokenize tool and the vocabularies that the tests compare."""
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import rebuild  # noqa: E402

SDIST = "llama-cpp-python==0.3.36"
SDIST_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


@pytest.fixture(scope="session")
def tokenize(root):
    """The tool: SLIPSTREAM_TOKENIZE, or the release build's."""
    path = Path(os.environ.get("SLIPSTREAM_TOKENIZE", root / "build/release/tests/tools/tokenize/tokenize"))
    assert path.is_file(), f"{path} is missing: build the target tokenize"
    return path


@pytest.fixture(scope="session")
def smollm2_json(smollm2, tmp_path_factory):
    path = tmp_path_factory.mktemp("smollm2") / "tokenizer.json"
    path.write_text(json.dumps(rebuild.tokenizer_json(smollm2, rebuild.SMOLLM2)))
    return path


@pytest.fixture(scope="session")
def qwen(root, tmp_path_factory):
    """tokenizer.json of Qwen3.6, and the ids of tokens that no merge reaches."""
    folder = Path(os.environ.get("SLIPSTREAM_QWEN_TOKENIZER") or tmp_path_factory.mktemp("qwen"))
    if not (folder / "tokenizer.json").is_file():
        done = subprocess.run([sys.executable, root / "scripts/make_qwen_tokenizer", folder], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder / "tokenizer.json", json.loads((folder / "unreachable.json").read_text())


@pytest.fixture(scope="session")
def ggml_vocabularies(tmp_path_factory):
    """The folder with ggml-vocab-*.gguf: in SLIPSTREAM_LLAMACPP_SDIST, or from the sdist on PyPI."""
    inside = "vendor/llama.cpp/models"
    if os.environ.get("SLIPSTREAM_LLAMACPP_SDIST"):
        given = Path(os.environ["SLIPSTREAM_LLAMACPP_SDIST"])
        return given / inside if (given / inside).is_dir() else given
    folder = tmp_path_factory.mktemp("sdist")
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:",
                    "-q", "-d", folder, SDIST], check=True)
    archive = next(folder.glob("*.tar.gz"))
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert digest == SDIST_SHA256, digest
    with tarfile.open(archive) as tar:
        members = [m for m in tar.getmembers() if "/vendor/llama.cpp/models/ggml-vocab-" in m.name and m.isfile()]
        tar.extractall(folder, members=members, filter="data")
    return next(folder.glob(f"*/{inside}"))
