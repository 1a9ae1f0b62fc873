"""The renderer that all template tests talk to, and the template files of the llama.cpp source package:
SLIPSTREAM_LLAMACPP_SDIST names the unpacked package; without it the package is fetched with pip and checked."""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from template_oracle import Renderer

PACKAGE = "llama-cpp-python==0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


@pytest.fixture(scope="session")
def render():
    renderer = Renderer()
    yield renderer
    renderer.close()


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
