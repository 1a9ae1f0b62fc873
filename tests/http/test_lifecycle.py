"""Binding, loading, readiness, drain, second signal, exit codes."""

import resource
import signal
import socket
import time

import pytest
from server_process import Connection, Server, build, chat, free_port, run_to_end

CHAT = "/v1/chat/completions"


def test_port_in_use(stub_binary):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        start = time.monotonic()
        run = run_to_end(stub_binary, f"--port={port}", f"--ops-port={free_port()}", "--stub-load-ms=5000")
        assert run.returncode == 3 and time.monotonic() - start < 1
        assert str(port) in run.stderr and "cannot listen" in run.stderr


def test_bad_config_exits_2(stub_binary):
    start = time.monotonic()
    run = run_to_end(stub_binary, "--no-such-flag=1")
    assert run.returncode == 2 and time.monotonic() - start < 1 and "no-such-flag" in run.stderr
    run = run_to_end(stub_binary, "--api-key-file=/does/not/exist", f"--port={free_port()}", f"--ops-port={free_port()}")
    assert run.returncode == 2 and "api-key-file" in run.stderr


def test_health_while_loading(stub_binary):
    with Server(stub_binary, "--stub-load-ms=1500", wait_ready=False) as server:
        deadline = time.monotonic() + 5
        while True:
            try:
                ready = server.get("/health/ready")
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert ready.status == 503 and ready.json["status"] == "loading"
        assert server.get("/health/live").status == 200
        assert server.get("/health").status == 503
        assert server.request("GET", "/health/ready", port=server.ops_port).status == 503
        a = server.post(CHAT, chat())
        assert a.status == 503 and a.error["code"] == "loading" and int(a.headers["retry-after"]) >= 1
        assert "ready" in server.get("/metrics").text
        server.wait_ready()
        assert server.post(CHAT, chat()).status == 200
        assert server.get("/health").json["status"] == "ready"


def test_sigterm_while_loading(stub_binary):
    with Server(stub_binary, "--stub-load-ms=20000", wait_ready=False) as server:
        time.sleep(0.3)
        server.terminate()
        assert server.exit_code(2) == 0


def test_drain_lets_streams_finish(start_stub):
    server = start_stub("--stub-step-us=3000")
    streams = []
    for i in range(8):
        s = server.connect()
        s.sendall(build("POST", CHAT, chat("d" * 150, stream=True)))
        streams.append(Connection(s))
        s.recv(1, socket.MSG_PEEK)
    server.terminate()
    deadline = time.monotonic() + 0.5
    while server.get("/health/ready").status != 503:
        assert time.monotonic() < deadline
    assert server.get("/health/ready", port=server.ops_port).json["status"] == "draining"
    assert server.get("/health/live").status == 200
    refused = server.post(CHAT, chat())
    assert refused.status == 503 and refused.error["code"] == "draining"
    for c in streams:
        events = c.answer().events()
        assert events[-1] == "[DONE]" and events[-2]["choices"][0]["finish_reason"] == "stop"
    assert server.exit_code(5) == 0


def test_drain_timeout_ends_with_an_error_event(start_stub):
    server = start_stub("--stub-step-us=20000", "--shutdown-timeout=1")
    s = server.connect()
    s.sendall(build("POST", CHAT, chat("d" * 1500, stream=True)))
    s.recv(1, socket.MSG_PEEK)
    whole = server.connect()
    whole.sendall(build("POST", CHAT, chat("d" * 1500)))
    time.sleep(0.1)
    start = time.monotonic()
    server.terminate()
    events = Connection(s).answer().events()
    assert events[-1] == "[DONE]" and not any(e.get("choices") and e["choices"][0]["finish_reason"] for e in events[:-1])
    plain = Connection(whole).answer()
    assert plain.status == 503 and int(plain.headers["retry-after"]) >= 1
    for error in (events[-2]["error"], plain.error):
        assert error["code"] == "shutting_down" and error["type"] == "unavailable_error"
        assert "shutting down" in error["message"]
    assert server.exit_code(5) == 0 and time.monotonic() - start < 4


def settle(server, path, status):
    """Returns the steps that the engine made until then: time as the load goes, on a slow machine, too."""
    first = server.metric("steps_total")
    deadline = time.monotonic() + 30
    while server.get(path).status != status:
        assert time.monotonic() < deadline, f"{path} is not {status}"
    return server.metric("steps_total") - first


def test_drain_of_32_streams(start_stub, pytestconfig):
    """C14: whether they may finish or are cut, no stream ends without its terminal event. In short; --full: 100 times."""
    for i in range(100 if pytestconfig.getoption("--full") else 4):
        cut = i % 2 == 1
        server = start_stub("--stub-step-us=2000", "--max-num-seqs=16", f"--shutdown-timeout={1 if cut else 25}")
        streams = []
        for k in range(32):  # half of them wait for a slot of the batch
            s = server.connect()
            s.sendall(build("POST", CHAT, chat("d" * (1500 if cut else 20 + 8 * k), stream=True, n=1 + k % 2)))
            streams.append(Connection(s))
        deadline = time.monotonic() + 10
        while server.metric("num_requests_running") < 16:
            assert time.monotonic() < deadline
        start = time.monotonic()
        server.terminate()
        # a step takes 2 ms or more
        assert settle(server, "/health/ready", 503) < (100 if pytestconfig.getoption("--full") else 250)
        assert server.metric("num_requests_running") > 0
        assert server.get("/health/live").status == 200
        ends = {"finished": 0, "cut": 0}
        for k, c in enumerate(streams):
            events = c.answer().events()
            assert events[-1] == "[DONE]"
            if "error" in events[-2]:
                assert cut and events[-2]["error"]["code"] in ("shutting_down", "draining", "unavailable"), events[-2]
                ends["cut"] += 1
            else:
                finishes = [e["choices"][0]["index"] for e in events[:-1] if e["choices"][0]["finish_reason"]]
                assert sorted(finishes) == list(range(1 + k % 2))
                ends["finished"] += 1
        assert ends == ({"finished": 0, "cut": 32} if cut else {"finished": 32, "cut": 0})
        # what is cut would need three rounds of 1500 steps, 9 s
        assert server.exit_code(30) == 0 and time.monotonic() - start < (1 if cut else 25) + 5
        for c in streams:
            c.sock.close()


def test_second_signal_exits_at_once(start_stub):
    server = start_stub("--stub-step-us=20000")
    s = server.connect()
    s.sendall(build("POST", CHAT, chat("d" * 1500, stream=True)))
    s.recv(1, socket.MSG_PEEK)
    server.terminate()
    time.sleep(0.3)
    assert server.process.poll() is None
    start = time.monotonic()
    server.terminate(signal.SIGINT)
    assert server.exit_code(2) == 1 and time.monotonic() - start < 0.5


def test_no_thread_to_be_had(stub_binary):
    """Start-up in a system that refuses threads: one line and an exit code, no abort."""
    def no_room_for_stacks():
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.RLIM_INFINITY))

    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the hard limit on stacks cannot be raised here")
    run = run_to_end(stub_binary, f"--port={free_port()}", f"--ops-port={free_port()}", preexec_fn=no_room_for_stacks)
    assert run.returncode == 3, (run.returncode, run.stderr)
    (line,) = [line for line in run.stderr.splitlines() if "cannot_start" in line]
    assert "thread" in line and "ulimit -u" in line


def test_no_thread_to_load_with(stub_binary):
    """The listener had its threads, the loader gets none: the same code and wording, since restarting does not help."""
    run = run_to_end(stub_binary, "--stub-no-thread", f"--port={free_port()}", f"--ops-port={free_port()}")
    assert run.returncode == 3, (run.returncode, run.stderr)
    assert "listening" in run.stderr and "cannot_load" not in run.stderr
    (line,) = [line for line in run.stderr.splitlines() if "cannot_start" in line]
    assert "no thread for loading" in line and "ulimit -u" in line


def test_sigterm_idle(start_stub):
    server = start_stub()
    start = time.monotonic()
    server.terminate()
    assert server.exit_code(5) == 0 and time.monotonic() - start < 1.5


def test_kill_and_restart(start_stub):
    server = start_stub()
    port = server.port
    with server.connect():
        server.kill()
    again = start_stub(port=port)
    assert again.get("/health/ready").status == 200
