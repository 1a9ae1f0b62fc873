"""Every parameter of /v1/responses and /v1/messages that is used has its documented effect, on the real default model. Where chat
has the same parameter, the two endpoints' texts are equal with it, and differ from the text without it."""
import json
import threading
import time

import pytest

from checks import shows

QUESTION = "Name three colours."
TURNS = [{"role": "user", "content": QUESTION}]
BASE = {"temperature": 1.0, "seed": 11}
PATHS = {"responses": "/v1/responses", "messages": "/v1/messages"}
LENGTH = {"responses": "max_output_tokens", "messages": "max_tokens", "chat": "max_tokens"}
both = pytest.mark.parametrize("api", ["responses", "messages"])


def post(http, api, count=24, **more):
    body = {**BASE, **({"input": QUESTION} if api == "responses" else {"messages": TURNS}), LENGTH[api]: count, **more}
    return http.post(PATHS[api], json={k: v for k, v in body.items() if v is not ...})


def ask(http, api, **more):
    answer = post(http, api, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(answer):
    if "output" in answer:
        return "".join(p["text"] for i in answer["output"] if i["type"] == "message" for p in i["content"])
    return "".join(b["text"] for b in answer["content"] if b["type"] == "text")


def chat_text(http, **more):
    answer = http.post("/v1/chat/completions", json={"messages": TURNS, "max_tokens": 24, **BASE, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def prompt_tokens(http, api, **more):
    path = {"responses": "/v1/responses/input_tokens", "messages": "/v1/messages/count_tokens"}[api]
    body = {"input": QUESTION} if api == "responses" else {"messages": TURNS}
    answer = http.post(path, json={**body, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["input_tokens"]


SAMPLING = {"temperature": 0, "top_p": 0.05, "top_k": 1, "min_p": 0.9, "presence_penalty": 2, "frequency_penalty": 2,
            "repetition_penalty": 8, "seed": 12}


@shows("responses:temperature", "responses:top_p", "responses:top_k", "responses:min_p", "responses:presence_penalty",
       "responses:frequency_penalty", "responses:repetition_penalty", "responses:seed",
       "messages:temperature", "messages:top_p", "messages:top_k", "messages:min_p", "messages:presence_penalty",
       "messages:frequency_penalty", "messages:repetition_penalty", "messages:seed")
@both
@pytest.mark.parametrize("name", SAMPLING)
def test_sampling_of_responses_and_messages(server, api, name):
    # a penalty shows where words come again: in the greedy text, and a longer one
    base, count = ({"temperature": 0}, 60) if name.endswith("_penalty") else ({}, 24)
    text = text_of(ask(server, api, count=count, **{**base, name: SAMPLING[name]}))
    assert text == chat_text(server, max_tokens=count, **{**base, name: SAMPLING[name]})
    assert text != text_of(ask(server, api, count=count, **base))


@shows("responses:input", "responses:instructions", "messages:messages", "messages:system")
def test_what_is_asked_of_responses_and_messages(server):
    turns = [{"role": "system", "content": "Answer in French."}, *TURNS]
    expected = chat_text(server, messages=turns)
    assert expected != chat_text(server)
    assert text_of(ask(server, "responses", instructions="Answer in French.")) == expected
    assert text_of(ask(server, "responses", input=turns)) == expected
    assert text_of(ask(server, "messages", system="Answer in French.")) == expected
    assert text_of(ask(server, "messages", messages=turns)) == expected


@shows("responses:model", "messages:model")
@both
def test_model_of_responses_and_messages(server, api):
    assert post(server, api, model="other").status_code == 404
    assert ask(server, api, model="m")["model"] == ask(server, api)["model"] == "m"


@shows("responses:max_output_tokens", "messages:max_tokens", "responses:ignore_eos", "messages:ignore_eos")
@both
def test_length_of_responses_and_messages(server, api):
    for count in (1, 5):
        assert ask(server, api, count=count, ignore_eos=True)["usage"]["output_tokens"] == count
    long = {"count": 300, "temperature": 0}
    assert ask(server, api, **long)["usage"]["output_tokens"] < 300 == ask(server, api, ignore_eos=True, **long)["usage"]["output_tokens"]


@shows("responses:stop", "messages:stop_sequences")
@both
def test_stop_of_responses_and_messages(server, api):
    whole = text_of(ask(server, api))
    stop = whole[6:9]
    more = {"stop": stop} if api == "responses" else {"stop_sequences": [stop]}
    assert text_of(ask(server, api, **more)) == whole[:whole.index(stop)]


@shows("responses:stream", "messages:stream")
@both
def test_stream_of_responses_and_messages(server, api):
    answer = post(server, api, stream=True)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    kinds = {"responses": ("response.created", "response.output_text.delta", "response.completed"),
             "messages": ("message_start", "content_block_delta", "message_stop")}[api]
    assert {kinds[0], kinds[1]} <= {e["type"] for e in events}
    deltas = [e["delta"] if api == "responses" else e["delta"]["text"] for e in events if e["type"] == kinds[1]]
    assert "".join(deltas) == text_of(ask(server, api))


@shows("responses:include", "responses:top_logprobs")
def test_logprobs_of_responses(server):
    assert ask(server, "responses")["output"][0]["content"][0]["logprobs"] == []
    entries = ask(server, "responses", include=["message.output_text.logprobs"], top_logprobs=2)["output"][0]["content"][0]["logprobs"]
    assert "".join(e["token"] for e in entries) == text_of(ask(server, "responses"))
    assert all(len(e["top_logprobs"]) == 2 and e["logprob"] <= 0 for e in entries)


@shows("responses:metadata", "responses:store", "responses:previous_response_id")
def test_stored_responses(server):
    first = ask(server, "responses", store=True, metadata={"a": "b"})
    assert first["metadata"] == {"a": "b"} and server.get(f"/v1/responses/{first['id']}").json() == first
    assert server.get(f"/v1/responses/{ask(server, 'responses')['id']}").status_code == 404
    turns = [*TURNS, {"role": "assistant", "content": text_of(first)}, {"role": "user", "content": "Again."}]
    second = ask(server, "responses", input="Again.", previous_response_id=first["id"])
    assert text_of(second) == chat_text(server, messages=turns) != text_of(ask(server, "responses", input="Again."))


@shows("responses:text")
def test_text_of_responses(server):
    assert ask(server, "responses", text={"verbosity": "high"})["text"] == {"format": {"type": "text"}, "verbosity": "high"}
    assert post(server, "responses", text={"format": {"type": "poem"}}).status_code == 400


@shows("responses:chat_template_kwargs", "responses:enable_thinking", "responses:reasoning", "messages:chat_template_kwargs",
       "messages:thinking", "messages:output_config")
def test_template_variables_of_responses_and_messages(second):
    """The template shows its variables: longer values, longer prompts."""
    def tokens(api, **more):
        return prompt_tokens(second.http, api, **more)

    def chat(**more):
        answer = second.http.post("/tokenize", json={"messages": TURNS, **more})
        return answer.json()["count"]
    long = {"colour": "a rather long name of a colour"}
    cases = {"responses": [({"chat_template_kwargs": long}, {"chat_template_kwargs": long}), ({"enable_thinking": False}, {"enable_thinking": False}),
                           ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"})],
             "messages": [({"chat_template_kwargs": long}, {"chat_template_kwargs": long}),
                          ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}), ({"thinking": {"type": "adaptive"}}, {"enable_thinking": True}),
                          ({"output_config": {"effort": "high"}}, {"reasoning_effort": "high"})]}
    for api, pairs in cases.items():
        assert tokens(api) == chat()
        for mine, theirs in pairs:
            assert tokens(api, **mine) == chat(**theirs) > chat()


@shows("responses:priority", "messages:priority")
@both
def test_priority_of_responses_and_messages(second, api):
    """With room for one sequence, the later request of lower number starts before the earlier one."""
    finished, threads = [], []

    def run(name, priority, count):
        ask(second.http, api, count=count, ignore_eos=True, priority=priority)
        finished.append(name)

    for waiting, (name, priority, count) in enumerate([("running", 0, 60), ("late", 5, 1), ("early", -5, 1)]):
        threads.append(threading.Thread(target=run, args=(name, priority, count)))
        threads[-1].start()
        deadline = time.monotonic() + 20
        while True:  # until it runs, or waits behind the others
            state = second.http.get("/v1/info").json()["engine"]
            if state["running"] == 1 and state["waiting"] == waiting:
                break
            assert time.monotonic() < deadline and "running" not in finished, (name, state)
            time.sleep(0.002)
    for thread in threads:
        thread.join()
    assert finished == ["running", "early", "late"]


def cached(http, api, **more):
    usage = ask(http, api, count=1, **more)["usage"]
    return usage["input_tokens_details"]["cached_tokens"] if api == "responses" else usage["cache_read_input_tokens"]


@shows("responses:cache_salt", "messages:cache_salt")
@both
def test_cache_salt_of_responses_and_messages(server, api):
    long = f"Count the words of this sentence for {api}, which was made long so that it fills some cache blocks. " * 6
    asked = {"input": long} if api == "responses" else {"messages": [{"role": "user", "content": long}]}
    assert cached(server, api, cache_salt="one", **asked) == 0
    hit = cached(server, api, cache_salt="one", **asked)
    assert hit > 60 and cached(server, api, cache_salt="two", **asked) == 0 == cached(server, api, **asked)


@shows("responses:request_id", "responses:rid", "messages:request_id", "messages:rid")
@both
@pytest.mark.parametrize("name", ["request_id", "rid"])
def test_request_id_of_responses_and_messages(second, api, name):
    mine = f"{name}-of-{api}"
    headers = post(second.http, api, count=1, **{name: mine}).headers
    assert headers["x-request-id"] == mine and headers.get("request-id") == (mine if api == "messages" else None)
    assert mine in second.log()


@shows("responses:speculate", "messages:speculate")
@both
def test_speculate_of_responses_and_messages(second, api):
    """Drafts are made from a text that repeats itself, unless the request says no; the text is the same."""
    repeated = "one two three four five six seven " * 8
    asked = {"input": repeated} if api == "responses" else {"messages": [{"role": "user", "content": repeated}]}

    def drafted(**more):
        def drafts():
            lines = second.http.get("/metrics").text.splitlines()
            return sum(float(line.split()[-1]) for line in lines if "spec_decode_num_draft_tokens_total{" in line)
        before = drafts()
        text = text_of(ask(second.http, api, count=30, temperature=0, **asked, **more))
        return text, drafts() - before
    with_drafts, without = drafted(), drafted(speculate=False)
    assert with_drafts[1] > 0 == without[1] and with_drafts[0] == without[0]


# ---- accepted without effect ----

SAMPLES = {"bool": True, "int": 3, "string": "x", "object": {"a": "b"}, "list": ["x"], "any": "x"}


@both
def test_accepted_of_responses_and_messages(server, tables, api):
    """The text is the same with and without."""
    expected = text_of(ask(server, api))
    rows = [row for row in tables[api] if row["treatment"] == "accepted"]
    assert len(rows) > 5
    assert {row["name"]: text_of(ask(server, api, **{row["name"]: SAMPLES[row["type"]]})) for row in rows} == {
        row["name"]: expected for row in rows}
