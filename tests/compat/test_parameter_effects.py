"""Every request parameter that is used has its documented effect, on the real default model."""
import itertools
import json
import math
import pathlib
import threading
import time

import numpy as np
import pytest

from checks import shows

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
QUESTION = [{"role": "user", "content": "Name three colours."}]
BASE = {"chat": {"messages": QUESTION}, "completions": {"prompt": "The capital of France is"}}
END = 2  # <|im_end|>, the model's end token
both = pytest.mark.parametrize("route", ["chat", "completions"])


def post(http, route, **more):
    body = {"temperature": 0, "max_tokens": 12, **BASE[route], **more}
    return http.post(PATHS[route], json={k: v for k, v in body.items() if v is not ...})


def ask(http, route, **more):
    answer = post(http, route, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(answer, choice=0):
    made = answer["choices"][choice]
    return made["message"]["content"] if "message" in made else made["text"]


def ids_of(http, route, choice=0, **more):
    return ask(http, route, return_token_ids=True, **more)["choices"][choice]["token_ids"]


def tokens(http, **body):
    return http.post("/tokenize", json=body).json()["tokens"]


def spelled(http, ids):
    return http.post("/detokenize", json={"tokens": ids}).json()["prompt"]


def events_of(http, route, **more):
    answer = post(http, route, stream=True, **more)
    assert answer.status_code == 200, answer.text
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(d) for d in data[:-1]]


# ---- what is asked ----

@shows("messages")
def test_messages(server):
    def prompt(messages):
        return spelled(server, ask(server, "chat", messages=messages, return_token_ids=True)["prompt_token_ids"])
    turns = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "one"}, "two"]},
             {"role": "assistant", "content": "three"}, {"role": "user", "content": "four"}]
    assert prompt(turns) == ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none\ntwo<|im_end|>\n"
                             "<|im_start|>assistant\nthree<|im_end|>\n<|im_start|>user\nfour<|im_end|>\n<|im_start|>assistant\n")
    other = [{"role": "user", "content": "What is 2 + 2?"}]
    assert text_of(ask(server, "chat")) != text_of(ask(server, "chat", messages=other))


@shows("prompt")
def test_prompt(server):
    words = BASE["completions"]["prompt"]
    ids = tokens(server, prompt=words)
    expected = text_of(ask(server, "completions"))
    assert expected and expected != text_of(ask(server, "completions", prompt="Once upon a time"))
    for form in ([words], ids, [ids]):
        assert text_of(ask(server, "completions", prompt=form)) == expected
    assert [text_of(ask(server, "completions", prompt=["Once", words]), i) for i in (1,)] == [expected]


@shows("model")
@both
def test_model(server, route):
    answer = post(server, route, model="other")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "model_not_found"
    assert ask(server, route, model="m")["model"] == ask(server, route)["model"] == "m"


# ---- length and ending ----

@shows("max_tokens", "max_completion_tokens")
@both
def test_max_tokens(server, route):
    for count in (1, 5):
        answer = ask(server, route, max_tokens=count, ignore_eos=True)
        assert answer["usage"]["completion_tokens"] == count and answer["choices"][0]["finish_reason"] == "length"
    if route == "chat":
        assert ask(server, route, max_tokens=9, max_completion_tokens=4, ignore_eos=True)["usage"]["completion_tokens"] == 4


@shows("min_tokens", "min_new_tokens")
@both
@pytest.mark.parametrize("name", ["min_tokens", "min_new_tokens"])
def test_min_tokens(server, route, name):
    """The end token is made the most likely one."""
    wanted = {"logit_bias": {str(END): 100}}
    at_once = ask(server, route, **wanted)
    assert at_once["usage"]["completion_tokens"] == 1 and at_once["choices"][0]["finish_reason"] == "stop"
    later = ask(server, route, **wanted, **{name: 6})
    assert later["usage"]["completion_tokens"] == 7 and later["choices"][0]["finish_reason"] == "stop"
    assert END not in ids_of(server, route, **wanted, **{name: 12})


@shows("stop")
@both
def test_stop(server, route):
    whole = text_of(ask(server, route))
    for stop in (whole[6:9], [whole[6:9], "never said"]):
        answer = ask(server, route, stop=stop)
        assert text_of(answer) == whole[:whole.index(whole[6:9])]
        assert answer["choices"][0]["finish_reason"] == "stop" and answer["choices"][0]["stop_reason"] == whole[6:9]


@shows("include_stop_str_in_output", "no_stop_trim")
@both
@pytest.mark.parametrize("name", ["include_stop_str_in_output", "no_stop_trim"])
def test_include_stop(server, route, name):
    whole = text_of(ask(server, route))
    stop = whole[6:9]
    assert text_of(ask(server, route, stop=stop, **{name: True})) == whole[:whole.index(stop) + len(stop)]
    assert text_of(ask(server, route, stop=stop, **{name: False})) == whole[:whole.index(stop)]


@shows("stop_token_ids")
@both
def test_stop_token_ids(server, route):
    ids = ids_of(server, route)
    stop = ids[4]
    answer = ask(server, route, stop_token_ids=[stop], return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == ids[:ids.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop" and answer["choices"][0]["stop_reason"] == stop


@shows("ignore_eos")
@both
def test_ignore_eos(server, route):
    wanted = {"logit_bias": {str(END): 100}, "max_tokens": 5}
    assert ask(server, route, **wanted)["usage"]["completion_tokens"] == 1
    answer = ask(server, route, **wanted, ignore_eos=True, return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == [END] * 5 and answer["choices"][0]["finish_reason"] == "length"


@shows("skip_special_tokens")
@both
def test_skip_special_tokens(server, route):
    wanted = {"logit_bias": {str(END): 100}, "max_tokens": 2, "ignore_eos": True}
    assert text_of(ask(server, route, **wanted)) == text_of(ask(server, route, **wanted, skip_special_tokens=True)) == ""
    assert text_of(ask(server, route, **wanted, skip_special_tokens=False)) == "<|im_end|><|im_end|>"


# ---- sampling ----

@shows("temperature")
@both
def test_temperature(server, route):
    greedy = ids_of(server, route)
    assert {tuple(ids_of(server, route, seed=s)) for s in (1, 2, 3)} == {tuple(greedy)}
    assert len({tuple(ids_of(server, route, seed=s, temperature=1.5)) for s in (1, 2, 3)}) == 3
    # the colder, the nearer to greedy
    cold = [ids_of(server, route, seed=s, temperature=0.02) for s in (1, 2, 3)]
    assert sum(ids == greedy for ids in cold) >= 2


@both
@pytest.mark.parametrize("name, value", [
    pytest.param("top_k", 1, id="top_k"), pytest.param("top_p", 1e-6, id="top_p"), pytest.param("min_p", 1, id="min_p")])
@shows("top_k", "top_p", "min_p")
def test_only_the_best_token_is_left(server, route, name, value):
    """At the tightest value a hot draw is greedy; at the loosest it is as without the parameter."""
    hot = {"temperature": 1.5, "seed": 11}
    greedy, free = ids_of(server, route), ids_of(server, route, **hot)
    assert greedy != free
    assert ids_of(server, route, **hot, **{name: value}) == greedy
    for loose in {"top_k": (0, -1, 1 << 20), "top_p": (1,), "min_p": (0,)}[name]:
        assert ids_of(server, route, **hot, **{name: loose}) == free


@shows("presence_penalty", "frequency_penalty")
@both
@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
def test_penalties(server, route, name):
    """More different tokens with it, fewer when it is negative."""
    def distinct(value):
        return sum(len(set(ids_of(server, route, temperature=1, seed=s, max_tokens=40, ignore_eos=True, **{name: value})))
                   for s in (1, 2))
    assert distinct(2) > distinct(0) > distinct(-2)


@shows("repetition_penalty", "repeat_penalty")
@both
@pytest.mark.parametrize("name", ["repetition_penalty", "repeat_penalty"])
def test_repetition_penalty(server, route, name):
    """The prompt counts: what it repeats is not said again."""
    words = " cat dog" * 10 + " cat"
    asked = {"prompt": words} if route == "completions" else {"messages": [{"role": "user", "content": "Say dog:" + words}]}
    asked["max_tokens"] = 1
    asked["logit_bias"] = {str(tokens(server, prompt=" dog")[0]): 10}  # makes it the likeliest
    for harmless in (..., 1):
        assert spelled(server, ids_of(server, route, **asked, **{name: harmless})) == " dog"
    assert spelled(server, ids_of(server, route, **asked, **{name: 10})) != " dog"


@shows("logit_bias")
@both
def test_logit_bias(server, route):
    greedy = ids_of(server, route)
    chosen = tokens(server, prompt=" zebra")[0]
    assert chosen not in greedy
    assert ids_of(server, route, logit_bias={str(chosen): 100}, max_tokens=4) == [chosen] * 4
    assert greedy[0] not in ids_of(server, route, logit_bias={str(greedy[0]): -100})


@shows("seed")
@both
def test_seed(server, route):
    def drawn(seed):
        return ids_of(server, route, temperature=1, seed=seed)
    assert drawn(5) == drawn(5)
    assert len({tuple(drawn(s)) for s in (5, 6, 7, -8, 2**62)}) == 5
    assert ids_of(server, route, temperature=1, seed=...) != ids_of(server, route, temperature=1, seed=...)


@shows("n")
@both
def test_n(server, route):
    answer = ask(server, route, n=3, temperature=1, seed=4, ignore_eos=True)
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2]
    assert len({text_of(answer, i) for i in range(3)}) == 3
    assert answer["usage"]["completion_tokens"] == 36


# ---- what comes back ----

@shows("logprobs", "top_logprobs")
def test_logprobs_of_chat(server):
    assert ask(server, "chat")["choices"][0]["logprobs"] is None
    assert ask(server, "chat", logprobs=False)["choices"][0]["logprobs"] is None
    bare = ask(server, "chat", logprobs=True)["choices"][0]["logprobs"]["content"]
    assert [t["top_logprobs"] for t in bare] == [[]] * len(bare)
    whole = ask(server, "chat", logprobs=True, top_logprobs=20)
    entries = whole["choices"][0]["logprobs"]["content"]
    assert "".join(t["token"] for t in entries) == text_of(whole)
    assert [t["logprob"] for t in entries] == [t["logprob"] for t in bare]
    for entry in entries:
        top = [t["logprob"] for t in entry["top_logprobs"]]
        assert len(top) == 20 and top == sorted(top, reverse=True)
        assert entry["top_logprobs"][0]["token"] == entry["token"] and top[0] == entry["logprob"]
        assert 0.2 < sum(math.exp(v) for v in top) <= 1.0001


@shows("logprobs")
def test_logprobs_of_completions(server):
    assert ask(server, "completions")["choices"][0]["logprobs"] is None
    for count in (0, 3):
        whole = ask(server, "completions", logprobs=count)
        entries = whole["choices"][0]["logprobs"]
        assert "".join(entries["tokens"]) == text_of(whole)
        assert [len(t) for t in entries["top_logprobs"]] == [count] * len(entries["tokens"])
        assert entries["text_offset"][:2] == [0, len(entries["tokens"][0])]
    assert [max(t.values()) for t in entries["top_logprobs"]] == entries["token_logprobs"]  # greedy


@shows("stream")
@both
def test_stream(server, route):
    events = events_of(server, route)
    assert len(events) > 5
    pieces = [c["delta"].get("content") or "" if route == "chat" else c["text"] for e in events for c in e["choices"]]
    assert "".join(pieces) == text_of(ask(server, route, stream=False))


@shows("stream_options")
@both
def test_stream_options(server, route):
    assert all(e["choices"] and not e.get("usage") for e in events_of(server, route))
    events = events_of(server, route, stream_options={"include_usage": True})
    assert [bool(e["choices"]) for e in events] == [True] * (len(events) - 1) + [False]
    assert events[-1]["usage"] == {**ask(server, route)["usage"], "prompt_tokens_details": events[-1]["usage"]["prompt_tokens_details"]}
    assert not any(e["usage"] for e in events[:-1])
    running = events_of(server, route, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [e["usage"]["completion_tokens"] for e in running]
    assert counts == sorted(counts) and len(set(counts)) > 3
    assert post(server, route, stream_options={"include_usage": True}).status_code == 400


@shows("echo")
def test_echo(server):
    plain, echoed = (text_of(ask(server, "completions", echo=e)) for e in (False, True))
    assert echoed == BASE["completions"]["prompt"] + plain
    streamed = "".join(c["text"] for e in events_of(server, "completions", echo=True) for c in e["choices"])
    assert streamed == echoed


GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "fixtures/golden/smollm2.npz"


def scored_case(index):
    """A prompt and its greedy text, as ids, with the log-probs that transformers gives to the text."""
    with np.load(GOLDEN) as file:
        prompt, text = (file[f"{name}{index}"].astype(int).tolist() for name in ("prompt", "text"))
        return prompt, text, file[f"top_logprobs{index}"].astype(float)[:, 0]


@shows("echo", "logprobs")
def test_echo_with_logprobs(server):
    prompt, text, expected = scored_case(2)
    for stream in (False, True):
        body = {"prompt": prompt + text, "echo": True, "logprobs": 1, "max_tokens": 3, "skip_special_tokens": False}
        if stream:
            lists = [c["logprobs"] for e in events_of(server, "completions", **body) for c in e["choices"] if c["logprobs"]]
            entries = {key: sum((part[key] for part in lists), []) for key in lists[0]}
        else:
            whole = ask(server, "completions", **body)
            entries = whole["choices"][0]["logprobs"]
            assert "".join(entries["tokens"]) == text_of(whole)
            assert [text_of(whole)[a:b] for a, b in itertools.pairwise(entries["text_offset"])] == entries["tokens"][:-1]
        assert len(entries["tokens"]) == len(prompt) + len(text) + 3
        assert entries["token_logprobs"][0] is None and entries["top_logprobs"][0] is None
        ours = np.array(entries["token_logprobs"][len(prompt):len(prompt) + len(text)])
        assert np.sqrt(np.mean((ours - expected) ** 2)) < 0.15 and np.abs(ours - expected).max() < 0.8


@shows("prompt_logprobs")
@both
def test_prompt_logprobs(server, route):
    more = {"prompt": "The capital of France is Paris"} if route == "completions" else {}
    answer = ask(server, route, prompt_logprobs=4, return_token_ids=True, max_tokens=2, **more)
    holder = answer if route == "chat" else answer["choices"][0]
    entries, ids = holder["prompt_logprobs"], holder["prompt_token_ids"]
    assert len(entries) == len(ids) and entries[0] is None
    for token, entry in zip(ids[1:], entries[1:]):
        own = entry[str(token)]
        assert own["decoded_token"] == spelled(server, [token])
        best = sorted((e for e in entry.values() if e["rank"]), key=lambda e: e["rank"])
        assert [e["rank"] for e in best] == [1, 2, 3, 4] and len(entry) == 4 + (own["rank"] is None)
        assert [e["logprob"] for e in best] == sorted((e["logprob"] for e in best), reverse=True)
        assert own["logprob"] <= best[0]["logprob"]
    # the same numbers as the text's own, drawn one after another
    for last in range(1, 3) if route == "completions" else ():
        drawn = ask(server, route, prompt=ids[:-last], max_tokens=1, logprobs=4)["choices"][0]["logprobs"]
        top = {e["decoded_token"]: e["logprob"] for e in entries[-last].values() if e["rank"]}
        assert top == drawn["top_logprobs"][0]
    assert "prompt_logprobs" not in ask(server, route, **more) | ask(server, route, **more)["choices"][0]
    refused = post(server, route, prompt_logprobs=1, stream=True)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "prompt_logprobs"


@shows("max_tokens")
def test_no_output(server):
    whole = ask(server, "completions", max_tokens=0, echo=True, logprobs=0, prompt=["one two", "three"], n=2)
    assert [c["text"] for c in whole["choices"]] == ["one two"] * 2 + ["three"] * 2
    assert {c["finish_reason"] for c in whole["choices"]} == {"length"} and whole["usage"]["completion_tokens"] == 0
    assert all(len(c["logprobs"]["tokens"]) == len(tokens(server, prompt=c["text"])) for c in whole["choices"])
    assert [c["text"] for e in events_of(server, "completions", max_tokens=0, echo=True) for c in e["choices"]] == \
        [BASE["completions"]["prompt"], ""]


@shows("return_token_ids")
@both
def test_return_token_ids(server, route):
    assert "token_ids" not in ask(server, route)["choices"][0]
    answer = ask(server, route, return_token_ids=True)
    assert spelled(server, answer["choices"][0]["token_ids"]) == text_of(answer)
    prompt = answer["prompt_token_ids"] if route == "chat" else answer["choices"][0]["prompt_token_ids"]
    asked = {k: v for k, v in BASE[route].items()}
    assert prompt == tokens(server, **asked)


# ---- the template ----

def rendered(http, **more):
    return http.post("/apply-template", json={"messages": QUESTION, **more}).json()["prompt"]


def shown(second, **more):
    """The variables that the second server's template shows in the prompt of a real answer."""
    ids = ask(second.http, "chat", return_token_ids=True, max_tokens=1, **more)["prompt_token_ids"]
    return spelled(second.http, ids).split("<|im_end|>\n[")[1].split("]")[0]


@shows("chat_template_kwargs", "enable_thinking", "reasoning_effort", "--chat-template", "--default-chat-template-kwargs")
def test_template_variables(second):
    assert shown(second) == "red||"
    assert shown(second, chat_template_kwargs={"colour": "blue"}) == "blue||"
    assert shown(second, enable_thinking=False) == "red|False|"
    assert shown(second, reasoning_effort="high") == "red|True|high"
    assert shown(second, reasoning_effort="none") == "red|False|none"


@shows("add_generation_prompt")
def test_add_generation_prompt(server):
    def prompt(**more):
        return spelled(server, ask(server, "chat", return_token_ids=True, **more)["prompt_token_ids"])
    assert prompt() == prompt(add_generation_prompt=True) == prompt(add_generation_prompt=False) + "<|im_start|>assistant\n"
    assert prompt() == rendered(server)


@shows("continue_final_message")
def test_continue_final_message(server):
    messages = QUESTION + [{"role": "assistant", "content": "Three colours are red, green and"}]
    answer = ask(server, "chat", messages=messages, continue_final_message=True, return_token_ids=True)
    assert spelled(server, answer["prompt_token_ids"]).endswith("<|im_start|>assistant\nThree colours are red, green and")
    assert text_of(answer) == text_of(ask(server, "completions", prompt=answer["prompt_token_ids"]))
    assert "blue" in text_of(answer)


# ---- serving ----

@shows("priority", "--max-num-seqs")
def test_priority(second):
    """With room for one sequence, the later request of lower number starts before the earlier one."""
    finished, threads = [], []

    def run(name, priority, count):
        ask(second.http, "completions", max_tokens=count, ignore_eos=True, priority=priority)
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


@shows("cache_salt")
@both
def test_cache_salt(server, route):
    long = "Count the words of this sentence, which was made long so that it fills some cache blocks. " * 6
    asked = {"prompt": long + route} if route == "completions" else {"messages": [{"role": "user", "content": long}]}

    def cached(**more):
        return ask(server, route, max_tokens=1, **asked, **more)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached(cache_salt="one") == 0
    hit = cached(cache_salt="one")
    assert hit > 60
    assert cached(cache_salt="two") == 0 and cached() == 0
    assert cached(cache_salt="two") == hit


@shows("request_id", "rid")
@both
@pytest.mark.parametrize("name", ["request_id", "rid"])
def test_request_id(second, route, name):
    mine = f"{name}-of-{route}"
    assert post(second.http, route, max_tokens=1, **{name: mine}).headers["x-request-id"] == mine
    assert post(second.http, route, max_tokens=1).headers["x-request-id"].startswith("req_")
    assert mine in second.log()


@shows("speculate")
@both
def test_speculate(second, route):
    """Drafts are made from a text that repeats itself, unless the request says no; the text is the same."""
    repeated = "one two three four five six seven " * 8
    asked = {"prompt": repeated} if route == "completions" else {"messages": [{"role": "user", "content": repeated}]}
    asked["max_tokens"] = 30

    def drafted(**more):
        answer = ask(second.http, route, **asked, **more)
        details = answer["usage"]["completion_tokens_details"]
        return text_of(answer), details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"]
    with_drafts, without = drafted(), drafted(speculate=False)
    assert with_drafts[1] > 0 and without[1] == 0
    assert with_drafts[0] == without[0]
    again = drafted(speculate=True)  # how many drafts are worth it follows from measured times
    assert again[0] == with_drafts[0] and again[1] > 0


# ---- accepted without effect ----

SAMPLES = {"bool": [True, False], "int": [3], "string": ["x"], "object": [{"a": "b"}], "any": ["x", {"a": [1]}]}


def test_accepted(server, tables):
    """The answer is the same with and without, apart from its id, its time and the echoed tier."""
    def kept(answer):
        usage = {k: v for k, v in answer["usage"].items() if k != "prompt_tokens_details"}
        return answer["choices"], usage, answer["model"]
    checked = 0
    for route in ("chat", "completions"):
        plain = ask(server, route, temperature=1, seed=3)
        for row in tables["parameters"]:
            if row["treatment"] != "accepted" or not row[route]:
                continue
            for value in SAMPLES[row["type"]]:
                answer = ask(server, route, temperature=1, seed=3, **{row["name"]: value})
                assert kept(answer) == kept(plain), row["name"]
                if row["name"] == "service_tier":
                    assert answer["service_tier"] == value
                checked += 1
    assert checked > 25
