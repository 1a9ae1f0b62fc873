"""Which test shows what a row of docs/compatibility.md promises. scripts/make_compat reads the names out of the sources and
writes them into the tables, so they are literals: @shows("stop") for a request parameter, @shows("--port") for a flag."""


def shows(*names):
    """Above a test in this folder: it fails if one of these had no effect."""
    assert names and all(isinstance(n, str) for n in names)
    return lambda test: test


# What takes more than a model and a few requests to show (a model that calls, a full queue), with the test that shows it.
ELSEWHERE = {
    "tools": "tests/http/test_tools.py::test_one_call",
    "tool_choice": "tests/http/test_tools.py::test_no_call_when_none_is_offered",
    "parallel_tool_calls": "tests/http/test_tools.py::test_parallel_tool_calls_false",
    "reasoning": "tests/http/test_reasoning.py::test_switched_off",
    "include_reasoning": "tests/http/test_reasoning.py::test_left_out_of_the_answer",
    "separate_reasoning": "tests/http/test_reasoning.py::test_left_in_the_content",
    "reasoning_format": "tests/http/test_reasoning.py::test_left_in_the_content",
    "stream_reasoning": "tests/http/test_reasoning.py::test_streamed_in_one_piece",
    "thinking_token_budget": "tests/http/test_reasoning.py::test_budget",
    "--tool-call-parser": "tests/http/test_tools.py::test_a_forced_parser",
    "--reasoning-parser": "tests/http/test_tools.py::test_a_forced_parser",
    "--api-key": "tests/http/test_access.py::test_auth_matrix",
    "--api-key-file": "tests/http/test_access.py::test_auth_matrix",
    "--metrics-api-key": "tests/http/test_access.py::test_auth_matrix",
    "--allowed-origins": "tests/http/test_access.py::test_cors",
    "--max-num-queued-reqs": "tests/http/test_http.py::test_queue_full",
    "responses:tools": "tests/http/test_api_tools.py::test_calls_of_a_response",
    "responses:tool_choice": "tests/http/test_api_tools.py::test_allowed_tools",
    "responses:parallel_tool_calls": "tests/http/test_api_tools.py::test_one_call_at_a_time",
    "messages:tools": "tests/http/test_api_tools.py::test_calls_of_a_message",
    "messages:tool_choice": "tests/http/test_api_tools.py::test_no_call_without_tools",
    "--response-store-mb": "tests/http/test_responses.py::test_store_off_and_bounded",
    "--max-streams": "tests/http/test_http.py::test_stream_limit",
    "--max-connections": "tests/http/test_http.py::test_connection_limit_evicts_the_idle",
    "--keep-alive-comment": "tests/http/test_http.py::test_keep_alive_comments_follow_progress",
    "--shutdown-timeout": "tests/http/test_lifecycle.py::test_drain_timeout_ends_with_an_error_event",
}
