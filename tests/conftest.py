"""What all Python tests share: --full, the program under test and the default model."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the tests that take minutes")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    skip = pytest.mark.skip(reason="takes minutes; runs with --full")
    for item in items:
        if "full" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def binary():
    """The program under test: SLIPSTREAM_BINARY, or the release build."""
    path = Path(os.environ.get("SLIPSTREAM_BINARY", ROOT / "build/release/slipstream"))
    if not path.is_file():
        pytest.fail(f"{path} is missing: cmake --preset release && cmake --build --preset release")
    return path


@pytest.fixture(scope="session")
def smollm2():
    """The default model's path: SLIPSTREAM_TEST_MODEL, or what scripts/fetch_model finds or downloads."""
    if os.environ.get("SLIPSTREAM_TEST_MODEL"):
        return Path(os.environ["SLIPSTREAM_TEST_MODEL"])
    found = subprocess.run([ROOT / "scripts/fetch_model", "smollm2"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return Path(found.stdout.strip())
