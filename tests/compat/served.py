"""Starts the program on a model, with chosen flags, and waits until it is ready."""
import subprocess
import tempfile
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx

from processes import backend_environment, clean_environment, free_port


@contextmanager
def running(binary, model, *flags, environment=None, host="127.0.0.1"):
    """A ready server: `.http` is a client of it, `.log()` what it wrote, `.process`, `.port` and `.ops_port`. It must end
    with `.exit_code`."""
    port = free_port()
    ops_port = free_port()
    log = tempfile.TemporaryFile()
    ops = [] if "--ops-port" in flags else ["--ops-port", str(ops_port)]
    process = subprocess.Popen([binary, "serve", model, *flags, "--port", str(port), *ops], stdout=log, stderr=log,
                               env={**clean_environment(), **backend_environment(), **(environment or {})})

    def text():
        log.seek(0)
        return log.read().decode(errors="replace")

    try:
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=120) as client:
            deadline = time.monotonic() + 60
            while True:
                assert process.poll() is None, f"the server ended with status {process.returncode}:\n{text()}"
                assert time.monotonic() < deadline, f"not ready in 60 s:\n{text()}"
                try:
                    if client.get("/health/ready").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.02)
            made = SimpleNamespace(http=client, log=text, process=process, port=port, ops_port=ops_port, exit_code=0)
            yield made
            if process.poll() is None:
                process.terminate()
            assert process.wait(30) == made.exit_code, text()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        log.close()
