"""Shapes of answers and the stream grammar, on the echo model."""

import json

import pytest
from server_process import chat


def test_answer_shape(stub):
    a = stub.post("/v1/chat/completions", chat("hello"))
    assert a.status == 200
    assert a.headers["content-type"].startswith("application/json")
    body = a.json
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "stub"
    assert body["system_fingerprint"].startswith("fp_")
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["message"] == {"role": "assistant", "content": "hello", "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert choice["logprobs"] is None
    # <|user|> hello <|end|> <|assistant|>; hello and the end token were drawn
    assert body["usage"]["prompt_tokens"] == 8
    assert body["usage"]["completion_tokens"] == 6
    assert body["usage"]["total_tokens"] == 14
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


def stream(stub, body):
    a = stub.post("/v1/chat/completions", body)
    assert a.status == 200, a.text
    assert a.headers["content-type"].startswith("text/event-stream")
    assert a.headers["cache-control"] == "no-cache"
    events = a.events()
    assert events[-1] == "[DONE]"
    return events[:-1]


def check_grammar(events, choices, usage):
    """serving rules 2, 3, 7, 8 for any chat stream."""
    if usage:
        last = events.pop()
        assert last["choices"] == [] and last["usage"]["total_tokens"] > 0
    assert len({(e["id"], e["created"], e["model"]) for e in events}) == 1
    texts = {}
    for e in events:
        assert e["object"] == "chat.completion.chunk"
        assert e.get("usage") is None
        (c,) = e["choices"]
        i, delta = c["index"], c["delta"]
        if i not in texts:
            assert delta["role"] == "assistant"
            texts[i] = {"text": delta.get("content") or "", "finish": None}
        else:
            assert "role" not in delta
            assert texts[i]["finish"] is None, "a chunk behind the finish chunk"
            texts[i]["text"] += delta.get("content") or ""
        if c["finish_reason"] is not None:
            assert delta == {}
            texts[i]["finish"] = c["finish_reason"]
    assert sorted(texts) == list(range(choices))
    assert all(t["finish"] for t in texts.values())
    return [texts[i]["text"] for i in range(choices)]


@pytest.mark.parametrize("text", ["hello", "x", "grüße, 世界 🌍 e\u0301 👩‍👩‍👧", "line\nbreak \"quoted\" \\ tab\t", "\u2028\u0000\u007f"])
@pytest.mark.parametrize("n", [1, 3])
def test_stream_equals_whole(stub, text, n):
    whole = stub.post("/v1/chat/completions", chat(text, n=n)).json
    events = stream(stub, chat(text, n=n, stream=True))
    assert check_grammar(events, n, usage=False) == [c["message"]["content"] for c in whole["choices"]] == [text] * n


def test_usage_chunk(stub):
    events = stream(stub, chat("hello", stream=True, stream_options={"include_usage": True}))
    assert events[-1]["usage"]["prompt_tokens"] == 8
    assert events[-1]["usage"]["completion_tokens"] == 6
    check_grammar(events, 1, usage=True)


def test_continuous_usage(stub):
    events = stream(stub, chat("hello", stream=True,
                               stream_options={"include_usage": True, "continuous_usage_stats": True}))
    counts = [e["usage"]["completion_tokens"] for e in events]
    assert counts == sorted(counts) and counts[-1] == 6
    assert all(e["usage"]["total_tokens"] == 8 + e["usage"]["completion_tokens"] for e in events)


def test_stream_options_without_stream(stub):
    a = stub.post("/v1/chat/completions", chat(stream_options={"include_usage": True}))
    assert a.status == 400 and a.error["param"] == "stream_options"


def test_stop_string_across_tokens(stub):
    body = chat("one two three", stop=["two"])
    a = stub.post("/v1/chat/completions", body).json["choices"][0]
    assert a["message"]["content"] == "one " and a["finish_reason"] == "stop" and a["stop_reason"] == "two"
    events = stream(stub, {**body, "stream": True})
    assert events[-1]["choices"][0]["stop_reason"] == "two"
    assert check_grammar(events, 1, usage=False) == ["one "]


def test_stop_string_is_held_back_and_released(stub):
    # every prefix of the stop string appears without being completed
    events = stream(stub, chat("tw twx two", stop="two!", stream=True))
    assert check_grammar(events, 1, usage=False) == ["tw twx two"]
    for e in events:
        content = e["choices"][0]["delta"].get("content")
        if content:
            assert content in "tw twx two"


def test_include_stop(stub):
    a = stub.post("/v1/chat/completions", chat("one two three", stop="two", include_stop_str_in_output=True)).json
    assert a["choices"][0]["message"]["content"] == "one two"


def test_stop_inside_a_character(stub):
    a = stub.post("/v1/chat/completions", chat("a世b", stop="世")).json
    assert a["choices"][0]["message"]["content"] == "a"


def test_stop_usage_excludes_the_overrun(stub):
    a = stub.post("/v1/chat/completions", chat("abcSTOP" + "x" * 50, stop="STOP")).json
    assert a["usage"]["completion_tokens"] == 7


def test_length(stub):
    a = stub.post("/v1/chat/completions", chat("hello world", max_tokens=5)).json
    assert a["choices"][0]["message"]["content"] == "hello"
    assert a["choices"][0]["finish_reason"] == "length"
    assert a["usage"]["completion_tokens"] == 5
    b = stub.post("/v1/chat/completions", chat("hello world", max_tokens=9, max_completion_tokens=5)).json
    assert b["choices"][0]["message"]["content"] == "hello"


def test_split_character_at_the_end(stub):
    # three of the four bytes of an emoji: one replacement character, also in the stream
    body = chat("🌍", max_tokens=3)
    whole = stub.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"]
    assert whole == "\ufffd"
    assert check_grammar(stream(stub, {**body, "stream": True}), 1, usage=False) == [whole]


def test_stop_token_ids(stub):
    a = stub.post("/v1/chat/completions", chat("abc", stop_token_ids=[ord("c")])).json["choices"][0]
    assert a["message"]["content"] == "ab" and a["finish_reason"] == "stop" and a["stop_reason"] == ord("c")


def test_ignore_eos(stub):
    a = stub.post("/v1/chat/completions", chat("ab", ignore_eos=True, max_tokens=4, skip_special_tokens=False)).json
    assert a["choices"][0]["message"]["content"] == "ab<|end|><|end|>"
    assert a["choices"][0]["finish_reason"] == "length"


def test_logprobs(stub):
    body = chat("hé", logprobs=True, top_logprobs=1)
    choice = stub.post("/v1/chat/completions", body).json["choices"][0]
    content = choice["logprobs"]["content"]
    assert bytes(b for t in content for b in t["bytes"]).decode() == "hé"
    assert all(t["logprob"] == -0.5 for t in content)
    assert all(len(t["top_logprobs"]) == 1 for t in content)
    streamed = [t for e in stream(stub, {**body, "stream": True}) for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert streamed == content


def test_top_logprobs_zero_gives_empty_lists(stub):
    content = stub.post("/v1/chat/completions", chat("ab", logprobs=True, top_logprobs=0)).json["choices"][0]["logprobs"]["content"]
    assert [t["top_logprobs"] for t in content] == [[], []]


def test_logprobs_stop_with_the_text(stub):
    content = stub.post("/v1/chat/completions", chat("abcSTOPx", logprobs=True, stop="STOP")).json["choices"][0]["logprobs"]["content"]
    assert "".join(t["token"] for t in content) == "abc"


def test_top_logprobs_needs_logprobs(stub):
    a = stub.post("/v1/chat/completions", chat(top_logprobs=2))
    assert a.status == 400 and a.error["param"] == "top_logprobs"


def test_special_text_in_user_message_is_text(stub):
    a = stub.post("/v1/chat/completions", chat("a<|end|>b")).json
    assert a["choices"][0]["message"]["content"] == "a<|end|>b"


def test_request_id(stub):
    a = stub.post("/v1/chat/completions", chat(), {"X-Request-Id": "my-id.1"})
    assert a.headers["x-request-id"] == "my-id.1"
    b = stub.post("/v1/chat/completions", chat(), {"X-Request-Id": "bad id\tx"})
    assert b.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("name", ["request_id", "rid"])
def test_request_id_in_the_body(stub, name):
    """As vLLM's and SGLang's clients send it; the header wins; errors carry it too, and the log line."""
    for path, body in (("/v1/chat/completions", chat()), ("/v1/completions", {"prompt": "x"})):
        a = stub.post(path, {**body, name: f"body-{name}"})
        assert a.status == 200 and a.headers["x-request-id"] == f"body-{name}"
        b = stub.post(path, {**body, name: "body"}, {"X-Request-Id": "header"})
        assert b.headers["x-request-id"] == "header"
        c = stub.post(path, {**body, name: "wrong", "temperature": 9})
        assert c.status == 400 and c.headers["x-request-id"] == "wrong"
        d = stub.post(path, {**body, name: "a\r\nx: y"})
        assert d.status == 400 and d.error["param"] == name and d.headers["x-request-id"].startswith("req_")
    streamed = stub.post("/v1/chat/completions", chat(stream=True, **{name: "in-a-stream"}))
    assert streamed.headers["x-request-id"] == "in-a-stream"
    assert f"body-{name}" in stub.log() and "in-a-stream" in stub.log()


def test_output_of_one_request_is_bounded(start_stub):
    """Choices times max_tokens; what is not asked for is cut to the bound, not refused."""
    s = start_stub("--stub-context=100000")
    a = s.post("/v1/completions", {"prompt": ["a"] * 64, "max_tokens": 16385})
    assert a.status == 400 and a.error["param"] == "max_tokens"
    assert "1048640 output tokens; the limit is 1048576 a request" in a.error["message"]
    b = s.post("/v1/chat/completions", chat("x", n=16, max_tokens=20000, logprobs=True, top_logprobs=20))
    assert b.status == 400 and "the limit is 199728 a request with 20 top log-probabilities" in b.error["message"]
    assert s.post("/v1/completions", {"prompt": ["a"] * 8, "n": 8, "max_tokens": 16384, "stop": "a"}).status == 200


def test_token_ids(stub):
    body = chat("ab", return_token_ids=True)
    a = stub.post("/v1/chat/completions", body).json
    assert a["choices"][0]["token_ids"] == [97, 98]
    assert a["prompt_token_ids"] == [257, 97, 98, 256, 258]
    events = stream(stub, {**body, "stream": True})
    assert events[0]["prompt_token_ids"] == [257, 97, 98, 256, 258]
    assert sum((e["choices"][0].get("token_ids", []) for e in events), []) == [97, 98]


def test_message_forms(stub):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    a = stub.post("/v1/chat/completions", {"messages": [{"role": "developer", "content": "be brief"},
                                                        {"role": "user", "content": parts}]})
    assert a.json["choices"][0]["message"]["content"] == "one\ntwo"
    prompt = stub.post("/apply-template", {"messages": [{"role": "developer", "content": "x"}]}).json["prompt"]
    assert prompt == "<|system|>x<|end|><|assistant|>"


@pytest.mark.parametrize("messages, param", [
    (None, "messages"), ([], "messages"), ("x", "messages"), (7, "messages"), ([None], "messages.0"), (["x"], "messages.0"),
    ([{}], "messages.0.role"), ([{"role": "robot", "content": "x"}], "messages.0.role"),
    ([{"role": "user"}], "messages.0.content"), ([{"role": "user", "content": 3}], "messages.0.content"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages.0.content.0.type"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages.0.content.0.type"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
    ([{"role": "user", "content": "a"}] * 4097, "messages"),
])
def test_bad_messages(stub, messages, param):
    a = stub.post("/v1/chat/completions", {"model": "stub", "messages": messages})
    assert a.status == 400 and a.error["param"] == param, a.text
    assert a.error["type"] == "invalid_request_error"


def test_tool_history_is_passed_through(stub):
    history = [{"role": "user", "content": "q"},
               {"role": "assistant", "content": None, "tool_calls": [
                   {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{broken"}}]},
               {"role": "tool", "tool_call_id": "c1", "content": "r"}, {"role": "user", "content": "z"}]
    assert stub.post("/v1/chat/completions", {"messages": history}).json["choices"][0]["message"]["content"] == "z"


def test_template_errors_are_the_clients(stub):
    a = stub.post("/v1/chat/completions", chat("raise"))
    assert a.status == 400 and a.error["param"] == "messages"


def test_continue_final_message(stub):
    body = {"messages": [{"role": "user", "content": "abcdef"}, {"role": "assistant", "content": "abc"}],
            "continue_final_message": True}
    assert stub.post("/v1/chat/completions", body).json["choices"][0]["message"]["content"] == "def"


def test_context_length(stub):
    a = stub.post("/v1/chat/completions", chat("x" * 3000))
    assert a.status == 400 and a.error["code"] == "context_length_exceeded"
    assert a.error["n_ctx"] == 2048
    b = stub.post("/v1/chat/completions", chat("x" * 2000, max_tokens=100, stream=True))
    assert b.status == 400 and b.error["code"] == "context_length_exceeded"
    assert b.error["n_prompt_tokens"] == 2003 and "2048" in b.error["message"] and "2003" in b.error["message"]
    assert stub.post("/v1/chat/completions", chat("x" * 1000, max_tokens=1045)).status == 200


def test_model_names(stub):
    a = stub.post("/v1/chat/completions", {**chat(), "model": "other"})
    assert a.status == 404 and a.error["code"] == "model_not_found" and a.error["param"] == "model"
    assert stub.post("/v1/chat/completions", {"messages": chat()["messages"]}).status == 200


@pytest.mark.parametrize("body", [
    {"modalities": ["audio"]}, {"functions": [{}]}, {"best_of": 2, "prompt": "x"}, {"chat_template": "{{ 1 }}"}, {"suffix": "y", "prompt": "x"},
    {"lora_path": "x"}, {"use_beam_search": True},
])
def test_refused_by_name(stub, body):
    path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
    a = stub.post(path, {**chat(), **body} if "prompt" not in body else body)
    assert a.status == 400 and a.error["code"] == "unsupported_parameter"
    assert a.error["param"] in body and a.error["param"] in a.error["message"]


@pytest.mark.parametrize("body", [
    {"tools": []}, {"tools": None}, {"tool_choice": None}, {"tool_choice": "none"}, {"response_format": {"type": "text"}},
    {"user": "u"}, {"store": True}, {"metadata": {"a": "b"}}, {"service_tier": "auto"}, {"never_heard_of": {"x": [1]}},
    {"modalities": ["text"]}, {"parallel_tool_calls": False}, {"n": None, "temperature": None, "stop": None},
    {"logit_bias": {"97": -100}}, {"logprobs": False}, {"reasoning_effort": "low"}, {"chat_template_kwargs": {"a": 1}},
])
def test_accepted(stub, body):
    a = stub.post("/v1/chat/completions", {**chat(), **body})
    assert a.status == 200, a.text


def test_stream_bytes_are_one_event_per_block(stub):
    a = stub.post("/v1/chat/completions", chat("a\nb\r\nc\u2028d", stream=True))
    for block in a.body.decode().split("\n\n")[:-1]:
        assert block.startswith("data: ") and "\n" not in block and "\r" not in block
    assert a.body.endswith(b"data: [DONE]\n\n")
    assert json.loads(a.body.decode().split("\n\n")[0][6:])["choices"][0]["delta"]["role"] == "assistant"
