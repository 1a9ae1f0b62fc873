"""The program with CUDA kernels where there is no driver: it starts, serves on the CPU and says why. Runs when
SLIPSTREAM_CUDA_BINARY names it, as scripts/test does."""
import json
import os
import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from processes import clean_environment, free_port

pytestmark = [
    pytest.mark.skipif("SLIPSTREAM_CUDA_BINARY" not in os.environ, reason="no CUDA build: SLIPSTREAM_CUDA_BINARY is not set"),
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver"),
]


@pytest.fixture(scope="module")
def cuda_binary():
    return Path(os.environ["SLIPSTREAM_CUDA_BINARY"])


def test_it_needs_no_cuda_library(cuda_binary):
    listed = subprocess.run(["ldd", cuda_binary], capture_output=True, text=True, check=True).stdout
    assert "libc.so" in listed
    assert not re.search(r"libcuda|libcudart|libcublas|libnccl|libnvidia", listed), listed


def test_the_backend_asked_for_is_refused_in_one_line(cuda_binary, smollm2):
    result = subprocess.run([cuda_binary, "serve", smollm2, "--backend", "cuda", "--port", str(free_port()), "--ops-port", "0"],
                            capture_output=True, text=True, timeout=60, env=clean_environment())
    assert result.returncode == 2
    errors = [line for line in (result.stdout + result.stderr).splitlines() if " error " in line]
    assert len(errors) == 1
    assert "backend cuda: no NVIDIA driver is loaded" in errors[0]


def test_it_serves_on_the_cpu_and_says_why(cuda_binary, smollm2, tmp_path):
    port = free_port()
    log = tmp_path / "log"
    with open(log, "w") as out:
        server = subprocess.Popen([cuda_binary, "serve", smollm2, "--port", str(port), "--ops-port", "0"],
                                  stdout=out, stderr=out, env=clean_environment())
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(url + "/health/ready", timeout=5)
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                time.sleep(0.1)
        body = json.dumps({"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}).encode()
        request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=120))
        assert answer["choices"][0]["text"] == " Paris.\n\n"
        assert json.load(urllib.request.urlopen(url + "/v1/info", timeout=10))["model"]["load"]["backend"] == "cpu"
    finally:
        server.terminate()
        assert server.wait(40) == 0
    assert 'backend=cpu why_not_cuda="no NVIDIA driver is loaded"' in log.read_text()
