"""/v1/messages on the echo model: shapes, the order of a stream, errors in this API's own words, and what is refused."""

import time

import anthropic
import pytest
from anthropic import Anthropic
from anthropic.types import ErrorResponse
from event_machines import checked_message, message_of
from server_process import Server, build

HELLO = {"role": "user", "content": "hello"}
PATHS = ("/v1/messages", "/messages", "/v1/messages/count_tokens", "/messages/count_tokens")


@pytest.fixture(scope="module")
def client(stub):
    return Anthropic(base_url=stub.base_url.removesuffix("/v1"), api_key="unused", max_retries=0, timeout=30)


def post(server, path="/v1/messages", **body):
    return server.post(path, {k: v for k, v in {"model": "stub", "max_tokens": 100, "messages": [HELLO], **body}.items() if v is not ...})


def ask(server, **body):
    answer = post(server, **body)
    assert answer.status == 200, answer.text
    return checked_message(answer.json)


def streamed(server, **body):
    answer = post(server, stream=True, **body)
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return message_of(answer.named_events())


def error_of(answer, status, kind):
    """The error object, in this API's shape."""
    assert answer.status == status, answer.text
    body = answer.json
    if kind != "request_too_large":  # documented for 413, and not among the client's models
        ErrorResponse.model_validate(body)
    assert set(body) == {"type", "error", "request_id"} and body["type"] == "error" and set(body["error"]) == {"type", "message"}
    assert body["error"]["type"] == kind and body["error"]["message"]
    return body


def text_of(message):
    return "".join(b["text"] for b in message["content"] if b["type"] == "text")


def without_id(message):
    same = {k: v for k, v in message.items() if k != "id"}
    cached = {"input_tokens", "cache_read_input_tokens"}
    same["usage"] = {k: v for k, v in message["usage"].items() if k not in cached} | {
        "prompt": sum(message["usage"][k] for k in cached)}
    return same


def test_answer_shape(stub):
    message = ask(stub)
    assert message["id"].startswith("msg_") and message["type"] == "message" and message["role"] == "assistant"
    assert message["model"] == "stub" and message["stop_reason"] == "end_turn" and message["stop_sequence"] is None
    assert message["content"] == [{"type": "text", "text": "hello", "citations": None}]
    usage = message["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == 8 and usage["output_tokens"] == 6
    assert usage["cache_creation_input_tokens"] == 0 and usage["service_tier"] == "standard"
    assert "timings" not in message


def test_what_came_from_the_cache_is_counted_apart(stub_binary):
    with Server(stub_binary) as server:
        long = {"role": "user", "content": "y" * 400}
        first, second = (ask(server, messages=[long], max_tokens=1)["usage"] for _ in range(2))
        assert first["cache_read_input_tokens"] == 0 and first["input_tokens"] == 403
        assert second["cache_read_input_tokens"] > 300 and second["input_tokens"] == 403 - second["cache_read_input_tokens"]
        assert streamed(server, messages=[long], max_tokens=1)["usage"]["cache_read_input_tokens"] == second["cache_read_input_tokens"]


@pytest.mark.parametrize("more", [{}, {"max_tokens": 3}, {"stop_sequences": ["l"]}, {"system": "x"}, {"messages": [{"role": "user", "content": ""}]},
                                  {"messages": [{"role": "user", "content": "grüße, 世界 🌍"}]}],
                         ids=["plain", "max_tokens", "stop", "system", "empty", "unicode"])
def test_stream_equals_whole(stub, more):
    assert without_id(streamed(stub, **more)) == without_id(ask(stub, **more))


@pytest.mark.parametrize("more,reason,sequence,text", [
    ({}, "end_turn", None, "hello"), ({"max_tokens": 3}, "max_tokens", None, "hel"),
    ({"stop_sequences": ["zz", "lo"]}, "stop_sequence", "lo", "hel"), ({"stop_sequences": []}, "end_turn", None, "hello"),
    ({"max_tokens": 16_000_000}, "end_turn", None, "hello"),
    ({"max_tokens": 100_000, "ignore_eos": True}, "model_context_window_exceeded", None, "hello"),
])
def test_stop_reasons(stub, more, reason, sequence, text):
    for message in (ask(stub, **more), streamed(stub, **more)):
        assert (message["stop_reason"], message["stop_sequence"], text_of(message)) == (reason, sequence, text)


def count(server, **body):
    answer = post(server, "/v1/messages/count_tokens", max_tokens=..., **body)
    assert answer.status == 200, answer.text
    assert set(answer.json) == {"input_tokens"}
    return answer.json["input_tokens"]


def test_count_tokens(stub):
    assert count(stub) == 8
    assert count(stub, system="abc") == 8 + 5
    assert count(stub, system=[{"type": "text", "text": "abc"}, {"type": "text", "text": "d", "cache_control": {"type": "ephemeral"}}]) == 8 + 7
    assert count(stub, messages=[{"role": "user", "content": [{"type": "text", "text": "hello"}]}]) == 8
    assert count(stub, messages=[HELLO, HELLO]) == 8 + 6  # turns of one role are one turn
    assert count(stub, messages=[HELLO, {"role": "assistant", "content": "yes"}, HELLO]) == 2 * 7 + 5 + 1
    assert count(stub, messages=[{"role": "system", "content": "abc"}, HELLO]) == 8 + 5
    assert count(stub, messages=[{"role": "user", "content": "x" * 5000}]) == 5003


def test_the_billing_block_of_an_agent_is_no_prompt(stub):
    block = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0a1b2;"}
    assert count(stub, system=[block, {"type": "text", "text": "abc"}]) == 8 + 5
    assert count(stub, system=[block]) == 8


def test_a_last_assistant_turn_is_continued(stub):
    for content in ("he", [{"type": "text", "text": "he"}]):
        message = ask(stub, messages=[HELLO, {"role": "assistant", "content": content}])
        assert text_of(message) == "llo" and message["stop_reason"] == "end_turn"


USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}


@pytest.mark.parametrize("turns", [
    [{"role": "assistant", "content": "Hi!"}, HELLO],
    [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}, HELLO],
    [{"role": "assistant", "content": [{"type": "text", "text": "let me see"}, USE]},
     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]},
                                  {"type": "text", "text": "hello"}]}],
    [{"role": "assistant", "content": [USE]},
     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True}, {"type": "text", "text": "hello"}]}],
    [{"role": "assistant", "content": [USE]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}, {"type": "text", "text": "hello"}]}],
    [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "xx"},
                                       {"type": "text", "text": "yes"}]}, HELLO],
], ids=["text", "result", "blocks", "error", "empty", "thinking"])
def test_histories(stub, turns):
    assert text_of(ask(stub, messages=[{"role": "user", "content": "Weather?"}, *turns])) == "hello"


def test_an_error_of_a_tool_is_seen(stub):
    def tokens(**result):
        return count(stub, messages=[HELLO, {"role": "assistant", "content": [USE]},
                                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x", **result}]}])
    assert tokens(is_error=True) == tokens() + len("Error: ") and tokens(is_error=False) == tokens()


@pytest.mark.parametrize("thinking", [{"type": "enabled", "budget_tokens": 50}, {"type": "adaptive"}, {"type": "disabled"},
                                      {"type": "adaptive", "display": "omitted"}])
def test_thinking_is_taken(stub, thinking):
    assert text_of(ask(stub, thinking=thinking)) == "hello"


def test_fields_of_agents_are_taken(stub):
    message = ask(stub, metadata={"user_id": "u"}, temperature=0.5, top_p=0.9, top_k=40, service_tier="auto", betas=["x"],
                  context_management={"edits": []}, output_config={"effort": "high"}, cache_control={"type": "ephemeral"},
                  messages=[{"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}]}])
    assert text_of(message) == "hello"


# ---- what is refused ----

REFUSED = [
    ({"container": "c"}, "container"), ({"mcp_servers": [{}]}, "mcp_servers"), ({"stop": ["x"]}, "stop"), ({"n": 2}, "n"),
    ({"prompt": "x"}, "prompt"), ({"response_format": {}}, "response_format"), ({"max_tokens_to_sample": 5}, "max_tokens_to_sample"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "messages.0.content.0.type"),
    ({"messages": [HELLO, {"role": "assistant", "content": [{"type": "server_tool_use"}]}]}, "messages.1.content.0.type"),
    ({"system": [{"type": "image"}]}, "system.0.type"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}]}]},
     "messages.0.content.0.content.0.type"),
]
INVALID = [
    ({"max_tokens": ...}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": "5"}, "max_tokens"),
    ({"messages": ...}, "messages"), ({"messages": []}, "messages"), ({"messages": None}, "messages"), ({"messages": "hi"}, "messages"),
    ({"messages": [5]}, "messages.0"), ({"messages": [{}]}, "messages.0.role"), ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"), ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": [5]}]}, "messages.0.content.0"),
    ({"messages": [{"role": "user", "content": [{}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
    ({"messages": [{"role": "user", "content": [{"type": "poem"}]}]}, "messages.0.content.0.type"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "messages.0.content.0.tool_use_id"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": 1}]}]}, "messages.0.content.0.is_error"),
    ({"messages": [{"role": "assistant", "content": [{**USE, "input": "{}"}]}, HELLO]}, "messages.0.content.0.input"),
    ({"messages": [{"role": "assistant", "content": [{**USE, "id": 5}]}, HELLO]}, "messages.0.content.0.id"),
    ({"messages": [HELLO, {"role": "assistant", "content": [USE]}]}, "messages.1"),
    ({"messages": [HELLO] * 4097}, "messages"), ({"system": 5}, "system"), ({"system": [{"type": "text"}]}, "system.0.text"),
    ({"stop_sequences": ["x"] * 33}, "stop_sequences"), ({"stop_sequences": [""]}, "stop_sequences.0"), ({"stop_sequences": "x"}, "stop_sequences"),
    ({"temperature": 5}, "temperature"), ({"top_k": 1.5}, "top_k"), ({"stream": 1}, "stream"), ({"thinking": {"type": "deep"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"), ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "display": "loud"}}, "thinking.display"), ({"thinking": True}, "thinking"),
    ({"output_config": {"effort": "extreme"}}, "output_config.effort"), ({"metadata": "x"}, "metadata"),
]


@pytest.mark.parametrize("more,param", REFUSED + INVALID, ids=lambda v: v if isinstance(v, str) else "")
def test_refusals_name_the_field(stub, more, param):
    for stream in (False, True):
        body = error_of(post(stub, **{"stream": stream, **more}), 400, "invalid_request_error")
        assert body["error"]["message"].startswith(f"{param}: ")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":' + b"[" * 100 + b"]" * 100 + b"}", b'{"max_tokens": 1e999}', b"\xff"],
                         ids=["empty", "list", "cut", "deep", "huge", "utf8"])
def test_hostile_bodies(stub, path, body):
    error_of(stub.post(path, body), 400, "invalid_request_error")


WRONG = [None, True, 5, -1.5, "", "x", [], {}, [[]], [{}], {"type": 5}, {"type": "x" * 1000}, [None] * 50]


def test_wrong_types_everywhere(stub):
    full = {"text": "x", "id": "t", "name": "f", "input": {}, "tool_use_id": "t", "content": "x", "is_error": False, "thinking": "x",
            "signature": "s", "data": "x", "source": {}, "cache_control": None}
    fields = ["model", "messages", "system", "max_tokens", "stop_sequences", "stream", "thinking", "output_config", "metadata", "tools",
              "tool_choice", "temperature", "top_p", "top_k", "chat_template_kwargs", "seed", "priority", "cache_salt", "request_id"]
    seen = set()
    for value in WRONG:
        bodies = [{field: value} for field in fields]
        for kind in ("text", "tool_use", "tool_result", "thinking", "redacted_thinking"):
            for role in ("user", "assistant"):
                bodies += [{"messages": [{"role": role, "content": [{**full, "type": kind, member: value}]}, HELLO]} for member in full]
        for body in bodies:
            answer = post(stub, **{"max_tokens": 2, **body})
            seen.add(answer.status)
            assert answer.status in (200, 400, 404), (body, answer.text)
            assert answer.status == 200 or answer.json["type"] == "error", body
    assert seen >= {200, 400}
    stub.wait_idle()


# ---- errors of whoever refuses ----

def test_errors_of_the_edge(stub):
    for path in PATHS:
        body = error_of(stub.get(path), 405, "invalid_request_error")
        assert body["request_id"]
        error_of(stub.request("POST", path, b"{}", {"Content-Type": "text/plain"}), 415, "invalid_request_error")
        error_of(stub.raw(build("POST", path, b"{}", {"Content-Length": str(1 << 30)})[:-2]), 413, "request_too_large")
        error_of(stub.raw(f"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n".encode()), 501, "invalid_request_error")
    error_of(stub.get("/v1/messages/nothing"), 404, "not_found_error")
    error_of(stub.post("/v1/messages/batches", {}), 404, "not_found_error")
    error_of(post(stub, model="other"), 404, "not_found_error")
    assert "error" in stub.get("/v1/chat/completions").json and "type" not in stub.get("/v1/chat/completions").json


def test_the_request_id_is_where_its_clients_look(stub):
    answer = stub.post("/v1/messages", {}, {"X-Request-Id": "mine"})
    assert answer.headers["request-id"] == answer.headers["x-request-id"] == answer.json["request_id"] == "mine"
    assert stub.get("/v1/models").headers.get("request-id") is None


def test_a_prompt_beyond_the_context(stub):
    """In the words by which agents know that they must shorten it."""
    body = error_of(post(stub, messages=[{"role": "user", "content": "a" * 2046}]), 400, "invalid_request_error")
    assert body["error"]["message"] == "prompt is too long: 2049 tokens > 2048 maximum"


def test_keys(stub_binary):
    with Server(stub_binary, "--api-key=right", "--max-streams=1", "--stub-step-us=5000") as server:
        url = server.base_url.removesuffix("/v1")
        error_of(post(server), 401, "authentication_error")
        with pytest.raises(anthropic.AuthenticationError):
            Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(model="stub", max_tokens=5, messages=[HELLO])
        right = Anthropic(base_url=url, api_key="right", max_retries=0)
        assert right.messages.create(model="stub", max_tokens=9, messages=[HELLO]).content[0].text == "hello"
        assert server.post("/v1/messages", {"max_tokens": 2, "messages": [HELLO]}, {"Authorization": "Bearer right"}).status == 200
        with right.messages.create(model="stub", max_tokens=900, messages=[{"role": "user", "content": "x" * 900}], stream=True) as busy:
            next(iter(busy))
            with pytest.raises(anthropic.RateLimitError) as caught:
                right.messages.create(model="stub", max_tokens=5, messages=[HELLO])
            assert int(caught.value.response.headers["retry-after"]) >= 1
        server.wait_idle()


def test_errors_while_loading(stub_binary):
    with Server(stub_binary, "--stub-load-ms=60000", wait_ready=False) as server:
        answer = None
        while answer is None:
            assert server.process.poll() is None
            try:
                answer = post(server)
            except OSError:
                time.sleep(0.02)
        error_of(answer, 503, "overloaded_error")


def test_an_error_inside_a_stream(stub_binary):
    with Server(stub_binary, "--stub-nan-row=3") as server:
        events = post(server, stream=True).named_events()
        name, data = events[-1]
        assert name == "error" and data["type"] == "error" and data["error"]["type"] == "api_error" and data["request_id"]
        assert "message_stop" not in [n for n, _ in events]
    with Server(stub_binary, "--stub-nan-row=3") as server:
        error_of(post(server), 500, "api_error")


def test_a_stream_that_waits_hears_pings(stub_binary):
    with Server(stub_binary, "--stub-step-us=15000", "--max-num-seqs=1", "--keep-alive-comment=2") as server:
        def start(text):
            s = server.connect()
            body = {"model": "stub", "max_tokens": 2000, "stream": True, "messages": [{"role": "user", "content": text}]}
            s.sendall(build("POST", "/v1/messages", body))
            return s
        with start("k" * 1000) as first:
            assert first.recv(20)
            with start("hi") as second:
                second.settimeout(6)
                heard = b""
                while heard.count(b"event: ping") < 2:  # one belongs to every stream's beginning
                    heard += second.recv(4096)
                assert b"content_block" not in heard and b": keep-alive" not in heard


# ---- the official client ----

def test_client_create(client):
    message = client.messages.create(model="stub", max_tokens=20, messages=[HELLO], system="Be kind.")
    assert message.content[0].text == "hello" and message.stop_reason == "end_turn" and message._request_id


def test_client_stream_helper(client):
    with client.messages.stream(model="stub", max_tokens=20, messages=[HELLO]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = client.messages.create(model="stub", max_tokens=20, messages=[HELLO])
    assert text == "hello" and final.content[0].text == whole.content[0].text and final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens == 6


def test_client_raw_stream(client):
    kinds = [e.type for e in client.messages.create(model="stub", max_tokens=20, messages=[HELLO], stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-2:] == ["message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"} and kinds[-3] == "content_block_stop"


def test_client_count_tokens_and_errors(client):
    assert client.messages.count_tokens(model="stub", messages=[HELLO]).input_tokens == 8
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(model="stub", max_tokens=5, messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}])
    assert caught.value.body["error"]["type"] == "invalid_request_error" and caught.value.request_id
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="other", max_tokens=5, messages=[HELLO])


def test_slow_requests_end_when_the_client_leaves(stub_binary):
    with Server(stub_binary, "--stub-step-us=5000") as server:
        client = Anthropic(base_url=server.base_url.removesuffix("/v1"), api_key="x", max_retries=0)
        stream = client.messages.create(model="stub", max_tokens=900, stream=True, messages=[{"role": "user", "content": "x" * 900}])
        assert next(iter(stream)).type == "message_start"
        stream.close()
        server.wait_idle()
