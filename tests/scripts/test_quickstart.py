"""scripts/quickstart --once on a machine where all is installed: the path of its second run."""
import os
import re
import socket
import subprocess
import time
from pathlib import Path

from processes import free_port

ROOT = Path(__file__).resolve().parent.parent.parent


def quickstart(binary, *arguments, timeout=180):
    environment = {**os.environ, "SLIPSTREAM_BINARY": str(binary)}
    return subprocess.run([ROOT / "scripts/quickstart", *arguments], capture_output=True, text=True, timeout=timeout,
                          env=environment)


def test_once_answers_and_stops(binary, smollm2):
    port = free_port()
    begin = time.monotonic()
    result = quickstart(binary, "--once", "--port", str(port))
    assert result.returncode == 0, result.stdout + result.stderr
    for step in ("[1/4] packages", "[2/4] build", "[3/4] model", f"[4/4] server on http://127.0.0.1:{port}"):
        assert step in result.stdout
    answer = result.stdout.split("SmolLM2: ", 1)[1].split("\n\n", 1)[0]
    assert len(answer) > 20
    assert re.search(r"\d+ tokens, first after \d+ ms, \d+ tokens/s", result.stdout)
    assert time.monotonic() - begin < 120
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "the server is still there"


def test_a_port_in_use_is_said(binary, smollm2):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = quickstart(binary, "--once", "--port", str(port))
    assert result.returncode == 3
    assert f"is port {port} in use? Try --port" in result.stderr


def test_bad_options(binary):
    assert quickstart(binary, "--port", "http").returncode == 2
    assert quickstart(binary, "--no-such-option").returncode == 2
    assert "--once" in quickstart(binary, "--help").stdout
