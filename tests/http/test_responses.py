"""/v1/responses on the echo model: shapes, the order of a stream, what is stored, and what is refused."""

import json

import openai
import pytest
from event_machines import response_of
from openai import OpenAI
from openai.types.responses import Response
from server_process import Server

ITEM = {"type": "message", "role": "user", "content": "hello"}


@pytest.fixture(scope="module")
def client(stub):
    return OpenAI(base_url=stub.base_url, api_key="unused", max_retries=0, timeout=30)


def post(server, path="/v1/responses", **body):
    return server.post(path, body)


def ask(server, text="hello", **more):
    answer = post(server, **{"input": text, **more})
    assert answer.status == 200, answer.text
    Response.model_validate(answer.json)
    return answer.json


def streamed(server, text="hello", **more):
    answer = post(server, **{"input": text, "stream": True, **more})
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return response_of(answer.named_events())


def text_of(response):
    return "".join(p["text"] for i in response["output"] if i["type"] == "message" for p in i["content"])


def without_ids(response):
    """What two runs of one request have in common."""
    same = {k: v for k, v in response.items() if k not in ("id", "created_at", "completed_at")}
    same["output"] = [{k: v for k, v in item.items() if k != "id"} for item in response["output"]]
    same["usage"] = {k: v for k, v in response["usage"].items() if k != "input_tokens_details"}  # the second one is cached
    return same


def test_answer_shape(stub):
    body = ask(stub, "hello")
    assert body["object"] == "response" and body["status"] == "completed" and body["id"].startswith("resp_")
    assert body["created_at"] <= body["completed_at"] and body["error"] is None and body["incomplete_details"] is None
    (item,) = body["output"]
    assert item.pop("id").startswith("msg_")
    assert item == {"type": "message", "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}]}
    # <|user|> hello <|end|> <|assistant|>; hello and the end token were drawn
    assert body["usage"]["input_tokens"] == 8 and body["usage"]["output_tokens"] == 6 and body["usage"]["total_tokens"] == 14
    assert body["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
    assert body["usage"]["input_tokens_details"]["cached_tokens"] >= 0


def test_what_was_not_asked_for_is_there_with_its_default(stub):
    body = ask(stub)
    expected = {"background": False, "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
                "model": "stub", "parallel_tool_calls": True, "previous_response_id": None, "prompt_cache_key": None,
                "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": "default",
                "store": False, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
                "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "user": None,
                "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert {k: body[k] for k in expected} == expected


def test_what_was_asked_for_is_repeated(stub):
    asked = {"instructions": "Be kind.", "max_output_tokens": 20, "max_tool_calls": 3, "metadata": {"a": "b"}, "model": "stub",
             "prompt_cache_key": "k", "safety_identifier": "s", "temperature": 0.7, "top_p": 0.3, "user": "u",
             "parallel_tool_calls": False, "presence_penalty": 0.5, "frequency_penalty": -0.25}
    body = ask(stub, **asked)
    assert {k: body[k] for k in asked} == asked
    body = post(stub, input="x", text={"format": {"type": "text"}, "verbosity": "low"}, reasoning={"effort": "high", "summary": "auto"},
                service_tier="auto", truncation="disabled", background=False, stream_options=None).json
    assert body["text"]["verbosity"] == "low" and body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["service_tier"] == "default"


@pytest.mark.parametrize("more", [{}, {"max_output_tokens": 3}, {"instructions": "x"}, {"stop": ["l"]},
                                  {"include": ["message.output_text.logprobs"], "top_logprobs": 1}],
                         ids=lambda m: next(iter(m), "plain"))
def test_stream_equals_whole(stub, more):
    whole = ask(stub, "grüße, 世界 🌍", **more)
    assert without_ids(streamed(stub, "grüße, 世界 🌍", **more)) == without_ids(whole)


def test_length_makes_it_incomplete(stub):
    for body in (ask(stub, "hello", max_output_tokens=3), streamed(stub, "hello", max_output_tokens=3)):
        assert body["status"] == "incomplete" and body["incomplete_details"] == {"reason": "max_output_tokens"}
        assert body["output"][0]["status"] == "incomplete" and text_of(body) == "hel" and body["completed_at"] is None
        assert body["usage"]["output_tokens"] == 3


def test_an_empty_answer_is_an_empty_message(stub):
    for body in (ask(stub, ""), streamed(stub, "")):
        assert [i["type"] for i in body["output"]] == ["message"] and text_of(body) == ""


def test_logprobs(stub):
    body = ask(stub, "hé", include=["message.output_text.logprobs"], top_logprobs=1)
    entries = body["output"][0]["content"][0]["logprobs"]
    assert bytes(b for e in entries for b in e["bytes"]).decode() == "hé"
    assert all(e["logprob"] == -0.5 and len(e["top_logprobs"]) == 1 for e in entries)
    assert all(e["top_logprobs"] == [] for e in ask(stub, include=["message.output_text.logprobs"])["output"][0]["content"][0]["logprobs"])
    assert ask(stub)["output"][0]["content"][0]["logprobs"] == []


@pytest.mark.parametrize("items", [
    [ITEM],
    [{"role": "user", "content": "hello"}],
    [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
    [{"role": "system", "content": "Be kind."}, ITEM],
    [{"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]}, ITEM],
    [{"role": "user", "content": "My name is Alice."}, {"role": "assistant", "content": "Hello Alice!"}, ITEM],
    [{"role": "user", "content": "x"}, {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                                        "content": [{"type": "output_text", "text": "y", "annotations": []}]}, ITEM],
    [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
     {"role": "assistant", "content": "y"}, ITEM],
    [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
     {"type": "function_call_output", "call_id": "c", "output": "42"}, ITEM],
    [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "not json"},
     {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "42"}]}, ITEM],
], ids=range(10))
def test_input_items(stub, items):
    assert text_of(ask(stub, items)) == "hello"


def prompt_tokens(server, **body):
    answer = post(server, "/v1/responses/input_tokens", **body)
    assert answer.status == 200, answer.text
    assert answer.json["object"] == "response.input_tokens" and set(answer.json) == {"object", "input_tokens"}
    return answer.json["input_tokens"]


def test_input_tokens(stub):
    assert prompt_tokens(stub, input="hello") == 8
    assert prompt_tokens(stub, input="hello", instructions="abc") == 8 + 5
    # instructions and the system items that lead the input are one system message
    assert prompt_tokens(stub, input=[{"role": "developer", "content": "de"}, ITEM], instructions="abc") == 8 + 5 + len("\n\nde")
    assert prompt_tokens(stub, input=[ITEM, {"role": "assistant", "content": "yes"}, ITEM]) == 2 * 7 + 5 + 1
    assert prompt_tokens(stub, input="x" * 5000) == 5003  # more than the context holds: counting needs no room
    for text in ("hello", "x"):
        assert prompt_tokens(stub, input=text) == ask(stub, text)["usage"]["input_tokens"]


def test_turns_of_the_assistant_are_one_message(stub):
    """Reasoning and texts that follow each other: the template sees one assistant turn, not three."""
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    said = {"role": "assistant", "content": "yes"}
    assert prompt_tokens(stub, input=[ITEM, thought, said, ITEM]) == prompt_tokens(stub, input=[ITEM, said, ITEM]) == 2 * 7 + 5 + 1
    assert prompt_tokens(stub, input=[ITEM, said, said, ITEM]) == 2 * 7 + 2 + len("yes\nyes") + 1
    assert prompt_tokens(stub, input=[ITEM, said, thought, said, ITEM]) == 2 * 7 + 2 * 5 + 1


@pytest.mark.parametrize("path", ["/responses", "/responses/input_tokens"])
def test_without_the_prefix(stub, path):
    assert post(stub, path, input="hello").status == 200


# ---- what is refused ----

REFUSED = [
    ({"background": True}, "background"), ({"truncation": "auto"}, "truncation"), ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"), ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"messages": []}, "messages"), ({"max_tokens": 3}, "max_tokens"), ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"reasoning_effort": "low"}, "reasoning_effort"), ({"n": 2}, "n"), ({"logprobs": True}, "logprobs"),
    ({"input": [{**ITEM, "content": [{"type": "input_image", "image_url": "data:"}]}]}, "input.0.content.0.type"),
    ({"input": [{**ITEM, "content": [{"type": "input_file", "file_id": "f"}]}]}, "input.0.content.0.type"),
    ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input.0.type"),
    ({"input": [{"type": "local_shell_call", "id": "x"}]}, "input.0.type"),
    ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}]}, "input.0.encrypted_content"),
]


@pytest.mark.parametrize("more,param", REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_refused_by_name(stub, more, param):
    answer = post(stub, **{"input": "hello", **more})
    assert answer.status == 400, answer.text
    assert (answer.error["type"], answer.error["code"], answer.error["param"]) == ("invalid_request_error", "unsupported_parameter", param)
    assert post(stub, **{"input": "hello", "stream": True, **more}).status == 400


INVALID = [
    ({"input": None}, "input"), ({"input": []}, "input"), ({"input": 5}, "input"), ({"input": {}}, "input"),
    ({"input": [5]}, "input.0"), ({"input": [{}]}, "input.0.type"), ({"input": [{"type": "nonsense"}]}, "input.0.type"),
    ({"input": [{"type": 5, "role": "user"}]}, "input.0.type"), ({"input": [{"role": "narrator", "content": "x"}]}, "input.0.role"),
    ({"input": [{"role": "user"}]}, "input.0.content"), ({"input": [{"role": "user", "content": None}]}, "input.0.content"),
    ({"input": [{"role": "user", "content": [5]}]}, "input.0.content.0"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input.0.content.0.text"),
    ({"input": [{"role": "user", "content": [{"type": "poem", "text": "x"}]}]}, "input.0.content.0.type"),
    ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input.0.call_id"),
    ({"input": [{"type": "function_call", "call_id": "c", "arguments": "{}"}]}, "input.0.name"),
    ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]}, "input.0.arguments"),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input.0.output"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input.0.call_id"),
    ({"input": [{"type": "reasoning", "summary": "x"}]}, "input.0.summary"),
    ({"input": [{"type": "reasoning", "content": [{"type": "summary_text", "text": "x"}]}]}, "input.0.content.0.type"),
    ({"input": [{"type": "item_reference"}]}, "input.0.id"), ({"input": [ITEM] * 4097}, "input"),
    ({"instructions": 5}, "instructions"), ({"max_output_tokens": 0}, "max_output_tokens"), ({"temperature": 3}, "temperature"),
    ({"top_p": 0}, "top_p"), ({"top_logprobs": 21}, "top_logprobs"), ({"stream": "yes"}, "stream"), ({"store": 1}, "store"),
    ({"metadata": {"a": 1}}, "metadata.a"), ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
    ({"metadata": {"k" * 65: ""}}, "metadata"), ({"metadata": {"k": "v" * 513}}, "metadata.k"), ({"metadata": []}, "metadata"),
    ({"include": ["everything"]}, "include.0"), ({"include": [5]}, "include.0"), ({"include": "x"}, "include"),
    ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"), ({"reasoning": {"summary": 5}}, "reasoning.summary"),
    ({"reasoning": "high"}, "reasoning"), ({"text": {"verbosity": "loud"}}, "text.verbosity"), ({"text": {"format": 5}}, "text.format"),
    ({"text": {"format": {}}}, "text.format.type"), ({"text": []}, "text"), ({"previous_response_id": 5}, "previous_response_id"),
]


@pytest.mark.parametrize("more,param", INVALID, ids=lambda v: v if isinstance(v, str) else "")
def test_invalid_values_are_named(stub, more, param):
    answer = post(stub, **{"input": "hello", **more})
    assert answer.status == 400, answer.text
    assert answer.error["type"] == "invalid_request_error" and answer.error["param"] == param and answer.error["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"input": "' + b"\xff" + b'"}', b'{"input":' + b"[" * 100 + b"]" * 100 + b"}",
                                  b'{"input": "a", "input": "b"}', b'{"temperature": 1e999, "input": "a"}'],
                         ids=["empty", "list", "null", "cut", "utf8", "deep", "twice", "huge"])
def test_hostile_bodies(stub, body):
    for path in ("/v1/responses", "/v1/responses/input_tokens"):
        answer = stub.post(path, body)
        assert answer.status == 400 and answer.error["type"] == "invalid_request_error"


WRONG = [None, True, 5, -1.5, "", "x", [], {}, [[]], [{}], {"type": 5}, {"type": "x" * 1000}, "\ud83d\ude00", [None] * 50]


def test_wrong_types_everywhere(stub):
    """Each value in each field, and in each member of each item: an answer or a 4xx, never anything else."""
    full = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "call_id": "c", "name": "f",
            "arguments": "{}", "output": "x", "summary": [], "id": "i", "encrypted_content": None}
    fields = [p for p in ask(stub)] + ["input", "include", "stream_options", "chat_template_kwargs", "prompt_cache_retention"]
    seen = set()
    for value in WRONG:
        bodies = [{"input": "a", field: value} for field in fields]
        for kind in ("message", "function_call", "function_call_output", "reasoning", "item_reference"):
            bodies += [{"input": [{**full, "type": kind, member: value}]} for member in full]
        for body in bodies:
            answer = post(stub, **{**body, "max_output_tokens": body.get("max_output_tokens", 2)})
            seen.add(answer.status)
            assert answer.status in (200, 400, 404), (body, answer.text)
            assert answer.status == 200 or answer.error["message"], body
    assert seen >= {200, 400}
    stub.wait_idle()


def test_a_prompt_beyond_the_context(stub):
    answer = post(stub, input="x" * 3000, stream=True)
    assert answer.status == 400 and answer.error["code"] == "context_length_exceeded"


def test_unknown_model(stub):
    answer = post(stub, input="x", model="other")
    assert answer.status == 404 and answer.error["code"] == "model_not_found"


def test_an_error_inside_a_stream(stub_binary):
    with Server(stub_binary, "--stub-nan-row=3") as server:
        answer = post(server, input="hello world", stream=True)
        events = answer.named_events()
        names = [name for name, _ in events]
        assert names[-3:] == ["error", "response.failed", ""]
        failed = events[-2][1]["response"]
        assert failed["status"] == "failed" and failed["error"]["code"] == "server_error" and failed["error"]["message"]
        Response.model_validate(failed)
        assert [e["sequence_number"] for _, e in events[:-1]] == list(range(len(events) - 1))
    with Server(stub_binary, "--stub-nan-row=3") as server:
        answer = post(server, input="hello world")
        assert answer.status == 500 and answer.error["type"] == "server_error"


# ---- what is stored ----

def test_store(stub):
    made = ask(stub, "hello", store=True, metadata={"k": "v"})
    assert made["store"] is True
    assert stub.get(f"/v1/responses/{made['id']}").json == made
    again = streamed(stub, "more", store=True)
    assert stub.get(f"/responses/{again['id']}").json == again
    gone = stub.request("DELETE", f"/v1/responses/{made['id']}")
    assert gone.json == {"id": made["id"], "object": "response", "deleted": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
        answer = stub.request(method, f"/v1/responses/{made['id']}{path}", {} if method == "POST" else None)
        assert answer.status == 404 and answer.error["code"] == "not_found" and answer.error["param"] == "response_id"


def test_nothing_is_stored_unasked(stub):
    assert stub.get(f"/v1/responses/{ask(stub)['id']}").status == 404
    assert stub.get(f"/v1/responses/{ask(stub, store=False)['id']}").status == 404


def test_previous_response(stub):
    first = ask(stub, "one", store=True, instructions="Be kind.")
    second = ask(stub, "two", store=True, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"] and text_of(second) == "two"
    # one <end> two turns of each; the instructions of the first are not carried over
    assert second["usage"]["input_tokens"] == 5 + 5 + 5 + 1
    third = ask(stub, "x", previous_response_id=second["id"])
    assert third["usage"]["input_tokens"] == 4 * 5 + 3 + 1
    # what is gone is not found, and what was built on it stays
    assert stub.request("DELETE", f"/v1/responses/{first['id']}").status == 200
    answer = post(stub, input="x", previous_response_id=first["id"])
    assert answer.status == 404 and answer.error["param"] == "previous_response_id"
    assert ask(stub, "x", previous_response_id=second["id"])["usage"]["input_tokens"] == 4 * 5 + 3 + 1


def test_item_reference(stub):
    first = ask(stub, "one", store=True)
    (item,) = first["output"]
    whole = prompt_tokens(stub, input=[{"role": "user", "content": "one"}, {"role": "assistant", "content": "one"}, ITEM])
    assert prompt_tokens(stub, input=[{"role": "user", "content": "one"}, {"type": "item_reference", "id": item["id"]}, ITEM]) == whole
    answer = post(stub, input=[{"type": "item_reference", "id": "msg_unknown"}])
    assert answer.status == 404 and answer.error["param"] == "input.0.id"


def test_input_items_of_a_stored_response(stub):
    items = [{"type": "message", "role": "user", "content": str(i)} for i in range(25)]
    made = ask(stub, items, store=True)
    path = f"/v1/responses/{made['id']}/input_items"
    page = stub.get(path).json
    assert page["object"] == "list" and page["has_more"] is True and len(page["data"]) == 20
    assert [d["content"] for d in page["data"][:2]] == [[{"type": "input_text", "text": "24"}], [{"type": "input_text", "text": "23"}]]
    assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
    rest = stub.get(f"{path}?after={page['last_id']}&limit=100").json
    assert [d["content"][0]["text"] for d in rest["data"]] == ["4", "3", "2", "1", "0"] and rest["has_more"] is False
    assert stub.get(f"{path}?order=asc&limit=1").json["data"][0]["content"][0]["text"] == "0"
    for query, param in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=no", "after")):
        answer = stub.get(f"{path}?{query}")
        assert answer.status == 400 and answer.error["param"] == param


def test_cancel_is_honest(stub):
    made = ask(stub, store=True)
    answer = stub.post(f"/v1/responses/{made['id']}/cancel", {})
    assert answer.status == 400 and "background" in answer.error["message"]
    assert stub.get(f"/v1/responses/{made['id']}?stream=true").status == 400


def test_methods(stub):
    assert stub.request("POST", "/v1/responses/resp_1", {}).headers["allow"] == "GET, HEAD, DELETE, OPTIONS"
    assert stub.get("/v1/responses").status == 405
    assert stub.get("/v1/responses/").status == 404
    assert stub.get("/v1/responses/a/b").status == 404
    assert stub.post("/v1/responses/compact", {}).error["code"] == "unsupported_endpoint"


def test_keys_see_only_their_own(stub_binary):
    with Server(stub_binary, "--api-key=one", "--api-key=two") as server:
        one, two = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        made = server.post("/v1/responses", {"input": "secret", "store": True}, one).json
        path = f"/v1/responses/{made['id']}"
        assert server.get(path, one).status == 200
        assert server.get(path, two).status == server.request("DELETE", path, None, two).status == 404
        for more in ({"previous_response_id": made["id"]}, {"input": [{"type": "item_reference", "id": made["output"][0]["id"]}]}):
            assert server.post("/v1/responses", {"input": "x", **more}, two).status == 404
        assert server.get(path).status == 401 and server.get(path, one).status == 200


def test_store_off_and_bounded(stub_binary):
    with Server(stub_binary, "--response-store-mb=0") as server:
        answer = post(server, input="x", store=True)
        assert answer.status == 400 and answer.error["param"] == "store" and "--response-store-mb" in answer.error["message"]
        assert ask(server, "x", store=False)["store"] is False
        assert "--response-store-mb" in server.get("/v1/responses/resp_1").error["message"]
    with Server(stub_binary, "--response-store-mb=1") as server:
        note = "n" * 100_000
        made = [ask(server, [{"role": "assistant", "content": "a", "note": note}, ITEM], store=True)["id"] for _ in range(8)]
        kept = [server.get(f"/v1/responses/{i}").status for i in made]
        assert kept[-1] == 200 and kept == sorted(kept, reverse=True) and 0 < kept.count(200) <= 4
        oldest = made[kept.index(200)]  # used again, it outlives the next one
        server.get(f"/v1/responses/{oldest}")
        ask(server, [{"role": "assistant", "content": "a", "note": note}, ITEM], store=True)
        assert server.get(f"/v1/responses/{oldest}").status == 200


# ---- the official client ----

def test_client_create_and_stream(client):
    made = client.responses.create(model="stub", input=[{"role": "system", "content": "Book"}, {"role": "user", "content": "best"}])
    assert made.id.startswith("resp_") and made.output[0].id.startswith("msg_") and made.output_text == "best"
    text, seen = "", []
    for event in client.responses.create(model="stub", input="best", stream=True):
        seen.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text == "best" and seen[:2] == ["response.created", "response.in_progress"] and seen[-1] == "response.completed"


def test_client_stream_helper(client):
    with client.responses.stream(model="stub", input="hello") as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert final.output_text == "hello" and "response.output_text.delta" in kinds and final.status == "completed"


def test_client_store(client):
    first = client.responses.create(model="stub", input="one", store=True)
    assert client.responses.retrieve(first.id).output_text == "one"
    second = client.responses.create(model="stub", input="two", previous_response_id=first.id)
    assert second.output_text == "two" and second.previous_response_id == first.id
    assert [i.content[0].text for i in client.responses.input_items.list(first.id)] == ["one"]
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(first.id)
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_client_input_tokens_and_errors(client):
    assert client.responses.input_tokens.count(model="stub", input="hello").input_tokens == 8
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="stub", input="x", background=True)
    assert caught.value.code == "unsupported_parameter" and caught.value.param == "background"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="other", input="x")


def test_slow_requests_end_when_the_client_leaves(stub_binary):
    with Server(stub_binary, "--stub-step-us=5000") as server:
        stream = OpenAI(base_url=server.base_url, api_key="x", max_retries=0).responses.create(model="stub", input="x" * 900, stream=True)
        assert next(iter(stream)).type == "response.created"
        stream.close()
        server.wait_idle()


def test_the_log_holds_no_text(stub_binary):
    with Server(stub_binary, "--log-format=json") as server:
        ask(server, "a secret", store=True)
        post(server, input=[{"type": "secret"}])
        lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
        assert any(line.get("path") == "/v1/responses" for line in lines) and "secret" not in server.log()
