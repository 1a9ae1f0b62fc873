"""Finds the `dequant` tool: SLIPSTREAM_BIN_DIR (a build folder), else the newest one under build/."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


def find_tool(name):
    roots = [pathlib.Path(os.environ["SLIPSTREAM_BIN_DIR"])] if "SLIPSTREAM_BIN_DIR" in os.environ else [ROOT / "build"]
    found = [path for root in roots for path in root.rglob(name) if path.is_file() and os.access(path, os.X_OK)]
    return max(found, key=lambda path: path.stat().st_mtime) if found else None


@pytest.fixture(scope="session")
def dequant():
    """Runs the tool; returns its output as bytes."""
    tool = find_tool("dequant")
    assert tool is not None, "build the target 'dequant' first, or set SLIPSTREAM_BIN_DIR"

    def run(*args, data=b""):
        done = subprocess.run([str(tool), *map(str, args)], input=data, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture(scope="session")
def make_tiny_model(tmp_path_factory):
    """Runs scripts/make_tiny_model with the arguments; returns the path it prints."""

    def make(*args):
        out = tmp_path_factory.mktemp("tiny")
        done = subprocess.run([sys.executable, str(ROOT / "scripts" / "make_tiny_model"), "--out", str(out), *args],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return pathlib.Path(done.stdout.strip())

    return make
