"""The program with a device that fails at a chosen step (fault_server): who is told, how soon, and the exit code.

SLIPSTREAM_TEST_BACKEND=cuda runs it on a GPU, where kernels really fault; otherwise the failure is an exception."""

import os
import subprocess
import sys
import threading
import time

import pytest
from server_process import Connection, Server, build

COMPLETIONS = "/v1/completions"
BACKEND = os.environ.get("SLIPSTREAM_TEST_BACKEND", "cpu")
gpu_only = pytest.mark.skipif(BACKEND != "cuda", reason="a real device fault: needs a GPU and SLIPSTREAM_TEST_BACKEND=cuda")
RUNNING, WAITING = 6, 2


@pytest.fixture(scope="session")
def tiny_model(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    done = subprocess.run([sys.executable, root / "scripts/make_tiny_model", "--arch", "qwen3", "--dtype", "BF16", "--out", folder],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.fixture
def start_faulty(fault_binary, tiny_model):
    servers = []

    def start(*args):
        flags = [f"--backend={BACKEND}", f"--max-num-seqs={RUNNING}", f"--fault-spans={RUNNING}", "--served-model-name=tiny", "--threads=1"]
        servers.append(Server(fault_binary, *flags, *args, tiny_model, timeout=120))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def ask(stream, tokens=400):
    return {"model": "tiny", "prompt": "abc", "max_tokens": tokens, "ignore_eos": True, "temperature": 0, "stream": stream}


class Probe(threading.Thread):
    """Asks for readiness again and again on the ops port; `seen` is (when asked, status, or None once nobody answers)."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.seen = server, []

    def run(self):
        while True:
            asked = time.monotonic()
            try:
                self.seen.append((asked, self.server.request("GET", "/health/ready", port=self.server.ops_port, timeout=5).status))
            except (OSError, ConnectionError):
                self.seen.append((asked, None))
                return
            time.sleep(0.005)


def ends_of(server):
    """Everybody's answer to a request that outlives the device, half of them streams; [(when it ended, answer)]."""
    ends = [None] * (RUNNING + WAITING)
    lines = []
    for i in range(RUNNING + WAITING):
        s = server.connect()
        s.sendall(build("POST", COMPLETIONS, ask(stream=i % 2 == 0)))
        lines.append(s)

    def read(i):
        answer = Connection(lines[i]).answer()
        ends[i] = (time.monotonic(), answer)

    threads = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(len(lines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(end is not None for end in ends), "somebody was left without an end:\n" + server.log()
    return ends


def require_honest_death(server, code, reason):
    probe = Probe(server)
    probe.start()
    ends = ends_of(server)
    first = min(when for when, _ in ends)
    assert server.exit_code(10) == code, server.log()
    gone = time.monotonic()
    probe.join(10)
    for i, (when, answer) in enumerate(ends):
        if i % 2 == 0 and answer.status == 200:
            events = answer.events()
            assert events[-1] == "[DONE]" and "server restarts" in events[-2]["error"]["message"], events[-2:]
            assert not any(e.get("choices") and e["choices"][0]["finish_reason"] for e in events[:-2])
        else:
            assert answer.status in (500, 503) and "server restarts" in answer.error["message"]
        assert when - first < 1.0
    assert gone - first < 5.0
    assert [status for asked, status in probe.seen if asked < first - 0.5 and status != 200] == []
    assert [status for asked, status in probe.seen if asked > first + 0.2 and status == 200] == []
    assert f"exit_code={code}" in server.log() or f'"exit_code":{code}' in server.log()
    assert reason in server.log(), server.log()


@pytest.mark.parametrize("fault, reason", [
    ("device_error", "a fault that the test asked for"),
    pytest.param("illegal_read", "cudaErrorIllegalAddress", marks=gpu_only),
    pytest.param("trap", "cudaErrorLaunchFailure", marks=gpu_only)])
def test_a_device_fault_ends_the_process(start_faulty, fault, reason):
    """C20, G5: readiness 503 at once, a terminal event for everybody within a second, exit 70 within five; and what comes
    after finds a device that works."""
    require_honest_death(start_faulty(f"--fault={fault}@20"), 70, reason)
    again = start_faulty()
    answer = again.post(COMPLETIONS, ask(stream=False, tokens=5))
    assert answer.status == 200 and answer.json["usage"]["completion_tokens"] == 5
    again.terminate()
    assert again.exit_code(10) == 0


def test_a_hung_step_ends_the_process(start_faulty):
    """C21: the watchdog's limit and a second, exit 71, though the device never answers."""
    server = start_faulty("--fault=hang@20", "--watchdog-timeout=1")
    begin = time.monotonic()
    require_honest_death(server, 71, "a step did not end within 1 s")
    assert time.monotonic() - begin > 1.0
    assert "plan" in server.log() and "prompt_tokens" in server.log()  # the step that hung, without its text
