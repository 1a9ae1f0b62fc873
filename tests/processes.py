"""What every test that starts a program needs."""
import os
import socket


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment():
    """Our own variables steer the tests; the program would read them as settings."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SLIPSTREAM_")}


def backend_environment():
    """SLIPSTREAM_TEST_BACKEND as the program's setting: a server that a test starts without --backend runs on it; on a GPU
    in the deterministic mode, since tests compare texts."""
    backend = os.environ.get("SLIPSTREAM_TEST_BACKEND")
    if not backend:
        return {}
    return {"SLIPSTREAM_BACKEND": backend, **({"SLIPSTREAM_DETERMINISTIC": "true"} if backend == "cuda" else {})}
