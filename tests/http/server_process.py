"""Starts a server binary on free ports and talks to it over raw sockets. No test logic."""

import json
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from processes import backend_environment, clean_environment, free_port


def run_to_end(binary, *args, timeout=10, **more):
    return subprocess.run([binary, *args], capture_output=True, text=True, timeout=timeout, env=clean_environment(), **more)


class Server:
    """One process; `port` and `ops_port` are its listeners. Its log is in `log()`."""

    def __init__(self, binary, *args, wait_ready=True, timeout=60.0, port=None, env=None):
        self.port = port or free_port()
        self.ops_port = free_port()
        self._log = tempfile.TemporaryFile()
        env = env or {**clean_environment(), **backend_environment()}
        command = [binary, *args, f"--port={self.port}", f"--ops-port={self.ops_port}", "--host=127.0.0.1"]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=env)
        if wait_ready:
            self.wait_ready(timeout)

    def wait_ready(self, timeout=60.0):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"server exited with {self.process.returncode}:\n{self.log()}")
            try:
                if self.get("/health/ready").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"server not ready within {timeout} s:\n{self.log()}")

    def log(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def connect(self, port=None, receive_buffer=None):
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(30)
        s.connect(("127.0.0.1", port or self.port))
        return s

    def raw(self, data, port=None, timeout=30.0):
        """Sends bytes, returns the one Answer that follows."""
        with self.connect(port) as s:
            s.settimeout(timeout)
            s.sendall(data)
            return Connection(s).answer()

    def request(self, method, path, body=None, headers=None, port=None, timeout=30.0):
        return self.raw(build(method, path, body, headers), port, timeout)

    def get(self, path, headers=None, port=None):
        return self.request("GET", path, None, headers, port)

    def post(self, path, body, headers=None, timeout=30.0):
        return self.request("POST", path, body, headers, timeout=timeout)

    def metric(self, name, labels=""):
        """The value of the first series of that name whose labels contain `labels`."""
        text = self.get("/metrics").text
        for line in text.splitlines():
            match = re.match(rf"[a-z]+:{re.escape(name)}\{{(.*)\}} (\S+)$", line)
            if match and labels in match.group(1):
                return float(match.group(2))
        raise AssertionError(f"no series {name} {labels} in:\n{text[:2000]}")

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read()).group(1)) * 1024

    def threads(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"Threads:\s+(\d+)", f.read()).group(1))

    def wait_idle(self, timeout=5.0):
        """Until no request runs and every cache block is accounted for as free or cached."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if (self.metric("num_requests_running") == 0 and self.metric("num_requests_waiting") == 0
                    and self.metric("kv_blocks", 'state="used"') == 0):
                return
            time.sleep(0.02)
        raise AssertionError("the server did not become idle:\n" + self.get("/metrics").text[:3000])

    def terminate(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)

    def exit_code(self, timeout=30.0):
        return self.process.wait(timeout)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def build(method, path, body=None, headers=None):
    """The bytes of a request; a body that is not bytes is sent as JSON."""
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: test"]
    given = {k.lower() for k in (headers or {})}
    if body is not None and "content-type" not in given:
        lines.append("Content-Type: application/json")
    if body is not None and "content-length" not in given and "transfer-encoding" not in given:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{k}: {v}" for k, v in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def events(self):
        """The data of every server-sent event, [DONE] included as a string; comments are dropped."""
        out = []
        for block in self.body.decode().split("\n\n"):
            if not block or block.startswith(":"):
                continue
            assert block.startswith("data: ") and "\n" not in block, block
            data = block[6:]
            out.append(data if data == "[DONE]" else json.loads(data))
        return out


    def named_events(self):
        """(name, data) of every server-sent event that has a name; a last [DONE] is ("", "[DONE]"); comments are dropped."""
        out = []
        for block in self.body.decode().split("\n\n"):
            if not block or block.startswith(":"):
                continue
            if block == "data: [DONE]":
                out.append(("", "[DONE]"))
                continue
            name, data = block.split("\n")
            assert name.startswith("event: ") and data.startswith("data: "), block
            out.append((name[7:], json.loads(data[6:])))
        return out


class Connection:
    """Reads answers one after another from one socket."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("closed")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _take(self, count):
        while len(self.buffer) < count:
            self._more()
        out, self.buffer = self.buffer[:count], self.buffer[count:]
        return out

    def head(self):
        status = int(self._line().split()[1])
        headers = {}
        while line := self._line():
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        return status, headers

    def answer(self, is_head=False):
        status, headers = self.head()
        while status == 100:
            status, headers = self.head()
        body = b""
        if is_head or status == 204:
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(self._line(), 16):
                body += self._take(size)
                assert self._take(2) == b"\r\n"
            assert self._line() == b""
        elif "content-length" in headers:
            body = self._take(int(headers["content-length"]))
        else:
            try:
                while True:
                    self._more()
            except ConnectionError:
                body, self.buffer = self.buffer, b""
        return Answer(status, headers, body)


def in_parallel(count, work):
    """Runs work(i) on threads and returns the results; the first exception is raised."""
    results, errors = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as e:  # noqa: BLE001 - handed to the caller
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def chat(text="hello", **more):
    return {"model": "stub", "messages": [{"role": "user", "content": text}], **more}
