"""Which test shows what a row of docs/compatibility.md promises. scripts/make_compat reads the names out of the sources and
writes them into the tables, so they are literals: @shows("stop") for a request parameter, @shows("--port") for a flag."""


def shows(*names):
    """Above a test in this folder: it fails if one of these had no effect."""
    assert names and all(isinstance(n, str) for n in names)
    return lambda test: test


# Flags whose effect takes more than a model and a few requests, with the test that shows it.
ELSEWHERE = {
    "--api-key": "tests/http/test_access.py::test_auth_matrix",
    "--api-key-file": "tests/http/test_access.py::test_auth_matrix",
    "--metrics-api-key": "tests/http/test_access.py::test_auth_matrix",
    "--allowed-origins": "tests/http/test_access.py::test_cors",
    "--max-num-queued-reqs": "tests/http/test_http.py::test_queue_full",
    "--max-streams": "tests/http/test_http.py::test_stream_limit",
    "--max-connections": "tests/http/test_http.py::test_connection_limit_evicts_the_idle",
    "--keep-alive-comment": "tests/http/test_http.py::test_keep_alive_comments_follow_progress",
    "--shutdown-timeout": "tests/http/test_lifecycle.py::test_drain_timeout_ends_with_an_error_event",
}
