"""Clients that read slowly, or not at all, or have closed one half of the connection."""

import json
import re
import socket
import time

import pytest
from server_process import Connection, build, chat

CHAT = "/v1/chat/completions"
AT_ONCE = 3  # seconds, on any machine: whoever waits for a slow reader waits 5, until that is cut


def send_quietly(s, data):
    """As much as the server takes."""
    s.settimeout(0.2)
    try:
        s.sendall(data)
    except OSError:
        pass


def seconds(work):
    start = time.monotonic()
    work()
    return time.monotonic() - start


def test_a_hundred_slow_readers_of_plain_answers(start_stub):
    """They hold their slots and nothing else: whoever finds no slot is told so at once, and health always answers."""
    server = start_stub("--stub-context=60000", "--max-num-batched-tokens=4096", "--max-streams=8", "--max-num-queued-reqs=100")
    big = build("POST", CHAT, chat("q" * 8000, logprobs=True, top_logprobs=1))
    slow = [server.connect(receive_buffer=4096) for _ in range(100)]
    start = time.monotonic()
    for s in slow:
        s.sendall(big)
        if s in slow[::10]:
            assert seconds(lambda: server.get("/health")) < AT_ONCE
    while server.metric("request_success_total", 'finished_reason="stop"') < 8:
        assert time.monotonic() - start < 20
        time.sleep(0.05)
    for _ in range(10):
        assert seconds(lambda: server.get("/health")) < AT_ONCE
        assert seconds(lambda: server.get("/v1/models")) < AT_ONCE
        time.sleep(0.1)
    refused = server.post(CHAT, chat("hi"))
    assert refused.status == 429 and refused.error["code"] == "too_many_requests"
    # each is cut after five seconds without progress, and its slot is free again
    while server.post(CHAT, chat("hi")).status != 200:
        assert time.monotonic() - start < 40
        time.sleep(0.2)
    server.wait_idle()
    for s in slow:
        s.close()


def test_a_reader_by_drops_is_cut(start_stub):
    """Progress that never ends a wait: a total deadline counts, too."""
    server = start_stub("--stub-context=60000", "--max-num-batched-tokens=4096", "--max-streams=1")
    s = server.connect(receive_buffer=4096)
    s.sendall(build("POST", CHAT, chat("q" * 12000, logprobs=True, top_logprobs=1)))
    taken = len(s.recv(2048))
    start = time.monotonic()
    while server.metric("http_timed_out_total") == 0:
        assert time.monotonic() - start < 20
        taken += len(s.recv(2048))
        time.sleep(0.25)
    assert taken > 8000 and time.monotonic() - start > 4
    assert server.post(CHAT, chat("hi")).status == 200
    s.close()


def test_pipelined_answers_that_nobody_reads(start_stub):
    """Small answers, many of them, on connections that are never read: no worker waits for them."""
    server = start_stub("--max-streams=4", "--max-num-seqs=4")
    many = build("GET", "/metrics") * 400  # several MB of answers each
    slow = [server.connect(receive_buffer=4096) for _ in range(100)]
    for s in slow:
        send_quietly(s, many)
    for _ in range(20):
        assert seconds(lambda: server.get("/health")) < AT_ONCE
        assert seconds(lambda: server.post(CHAT, chat("hi"))) < AT_ONCE
        time.sleep(0.05)
    for s in slow:
        s.close()


def test_streams_that_nobody_reads_leave_the_reserve(start_stub):
    server = start_stub("--stub-context=60000", "--max-num-batched-tokens=4096", "--max-streams=8", "--max-num-seqs=8")
    slow = [server.connect(receive_buffer=4096) for _ in range(100)]
    for s in slow:
        s.sendall(build("POST", CHAT, chat("q" * 8000, stream=True, logprobs=True, top_logprobs=1)))
    for _ in range(20):
        assert seconds(lambda: server.get("/health")) < AT_ONCE
        time.sleep(0.05)
    for s in slow:
        s.close()
    server.wait_idle(10)
    assert server.post(CHAT, chat("hi")).status == 200


def test_a_slow_reader_gets_the_whole_answer(stub):
    """What does not fit the kernel's buffers at once arrives complete and in order, and the connection lives on."""
    with stub.connect(receive_buffer=4096) as s:
        prompt = "".join(chr(ord("a") + i % 26) for i in range(900))
        s.sendall(build("POST", CHAT, chat(prompt, n=16, logprobs=True, top_logprobs=1)) + build("GET", "/version"))
        time.sleep(1)
        c = Connection(s)
        answer = c.answer()
        assert len(answer.body) > 1_000_000
        assert [choice["message"]["content"] for choice in answer.json["choices"]] == [prompt] * 16
        assert "version" in c.answer().json


def test_a_steady_reader_above_the_promised_rate_is_never_cut(start_stub):
    """24 KiB/s, in 3 KiB bites: the kernel calls the socket writable only every few seconds, the bytes move all the time."""
    server = start_stub("--stub-context=60000", "--max-num-batched-tokens=4096", "--max-streams=1")
    prompt = "".join(chr(ord("a") + i % 26) for i in range(4200))
    with server.connect(receive_buffer=4096) as s:
        s.sendall(build("POST", CHAT, chat(prompt, logprobs=True, top_logprobs=1)))
        taken = b""
        while b"\r\n\r\n" not in taken:
            taken += s.recv(3072)
        head, _, body = taken.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        assert length > 400_000
        start = time.monotonic()
        while len(body) < length:
            bite = s.recv(3072)
            assert bite, f"cut after {len(body)} of {length} bytes"
            body += bite
            time.sleep(max(0.0, start + len(body) / 24576 - time.monotonic()))
    assert json.loads(body)["choices"][0]["message"]["content"] == prompt
    assert server.metric("http_timed_out_total") == 0


def half_closed(server, data):
    with server.connect() as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return Connection(s).answer()


def test_half_close_is_answered_where_nothing_is_generated(stub):
    assert half_closed(stub, build("GET", "/health")).status == 200
    assert half_closed(stub, build("POST", "/tokenize", {"prompt": "ab"})).json["tokens"] == [97, 98]


@pytest.mark.parametrize("stream", [False, True])
def test_half_close_ends_a_generation_and_says_so(start_stub, stream):
    """docs/compatibility.md: the end of the client's input is a disconnect, as in nginx, uvicorn and Go."""
    server = start_stub("--stub-step-us=5000")
    a = half_closed(server, build("POST", CHAT, chat("z" * 1000, stream=stream)))
    if stream:
        events = a.events()
        assert events[-1] == "[DONE]" and events[-2]["error"]["code"] == "client_closed_request"
    else:
        assert a.status == 499 and a.error["code"] == "client_closed_request"
        assert "keep it open" in a.error["message"]
    server.wait_idle(1)
    assert "client_closed" not in json.dumps(server.post(CHAT, chat("hi")).json)
