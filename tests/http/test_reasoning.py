"""Reasoning of /v1/chat/completions, on a scripted model through the whole engine."""

import pytest
from chat_stream import collect, message_of, whole
from scripted import FAMILIES, THINKERS, TOOLS, say, script
from server_process import chat


def ask(server, text, **more):
    body = chat(script(*text) if isinstance(text, tuple) else script(text), **more)
    a = server.post("/v1/chat/completions", body)
    assert a.status == 200, a.text
    choices = whole(a.json)
    deltas = collect(server.post("/v1/chat/completions", {**body, "stream": True}).events())
    assert [message_of(c) for c in deltas] == choices
    return choices, deltas, a.json["usage"]


@pytest.mark.parametrize("name", THINKERS)
def test_split(scripted, name):
    family = FAMILIES[name]
    (choice,), (streamed,), usage = ask(scripted(name), family.thinking("Two,\n\nand two.") + say(family, "Four."))
    assert choice["reasoning"] == "Two,\n\nand two." and choice["content"] == "Four."
    # in the stream the thoughts come first, never inside content
    kinds = ["reasoning" if "reasoning" in d else "content" for d in streamed["deltas"] if d.get("reasoning") or d.get("content")]
    assert kinds == sorted(kinds, reverse=True) and kinds.count("reasoning") > 5
    assert 14 <= usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


@pytest.mark.parametrize("name", THINKERS)
def test_cut_off_inside_the_thoughts(scripted, name):
    family = FAMILIES[name]
    (choice,), _, usage = ask(scripted(name), family.thinking("Two and two, " * 20) + say(family, "Four."), max_tokens=60)
    assert choice["content"] == "" and choice["finish_reason"] == "length"
    assert choice["reasoning"].startswith("Two and two")
    assert 40 < usage["completion_tokens_details"]["reasoning_tokens"] <= usage["completion_tokens"] == 60


@pytest.mark.parametrize("name", ["qwen3", "qwen35", "glm", "deepseek"])
@pytest.mark.parametrize("off", [{"enable_thinking": False}, {"reasoning_effort": "none"}, {"reasoning": {"effort": "none"}},
                                 {"reasoning": {"enabled": False}}, {"chat_template_kwargs": {"enable_thinking": False}}])
def test_switched_off(scripted, name, off):
    (choice,), _, usage = ask(scripted(name), "Four.", **off)
    assert choice["content"] == "Four." and choice["reasoning"] == ""
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0


def test_reasoning_tokens_are_counted_in_tokens(scripted):
    # bytes are tokens: <think>\nabc\n</think> are 7 + 1 + 3 + 1 + 8; the first 6 bytes may still become an answer
    _, _, usage = ask(scripted("qwen3"), "<think>\nabc\n</think>\n\nFour.")
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 14
    _, _, usage = ask(scripted("qwen35"), "abc\n</think>\n\nFour.")
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 12


def test_two_choices_count_together(scripted):
    choices, _, usage = ask(scripted("qwen35"), ("abc\n</think>\n\nOne.", "abcdef\n</think>\n\nTwo."), n=2)
    assert [c["reasoning"] for c in choices] == ["abc", "abcdef"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 12 + 15


def test_left_out_of_the_answer(scripted):
    text = "<think>\nTwo.\n</think>\n\nFour."
    for more in ({"include_reasoning": False}, {"reasoning": {"exclude": True}}):
        body = chat(script(text), **more)
        a = scripted("qwen3").post("/v1/chat/completions", body).json
        assert a["choices"][0]["message"] == {"role": "assistant", "content": "Four.", "refusal": None}
        assert a["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
        events = scripted("qwen3").post("/v1/chat/completions", {**body, "stream": True}).text
        assert "reasoning" not in events and "Two." not in events


def test_left_in_the_content(scripted):
    text = "<think>\nTwo.\n</think>\n\nFour."
    for more in ({"separate_reasoning": False}, {"reasoning_format": "none"}):
        (choice,), _, _ = ask(scripted("qwen3"), text, **more)
        assert choice["content"] == text and choice["reasoning"] == ""


def test_streamed_in_one_piece(scripted):
    (choice,), (streamed,), _ = ask(scripted("qwen3"), "<think>\nTwo and two.\n</think>\n\nFour.", stream_reasoning=False)
    assert choice["reasoning"] == "Two and two."
    assert [d["reasoning"] for d in streamed["deltas"] if "reasoning" in d] == ["Two and two."]
    # also where nothing follows them
    (choice,), (streamed,), _ = ask(scripted("qwen3"), "<think>\nTwo and two.", stream_reasoning=False)
    assert [d["reasoning"] for d in streamed["deltas"] if "reasoning" in d] == ["Two and two."]


def test_a_message_that_goes_on_inside_its_thoughts(scripted):
    template = scripted("qwen3")
    messages = [{"role": "user", "content": script(" and two.\n</think>\n\nFour.")}, {"role": "assistant", "content": "<think>\nTwo"}]
    a = template.post("/v1/chat/completions", chat(messages=messages, continue_final_message=True))
    assert a.status == 200, a.text
    assert whole(a.json)[0]["reasoning"] == "and two." and whole(a.json)[0]["content"] == "Four."


def test_thoughts_in_history_reach_the_template(scripted):
    for field in ("reasoning_content", "reasoning"):
        messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello.", field: "Be nice."},
                    {"role": "user", "content": "Bye"}]
        prompt = scripted("qwen3").post("/apply-template", {"messages": messages}).json["prompt"]
        assert "(thought: Be nice.)Hello." in prompt


def test_tags_in_an_answer_without_thoughts_stay(scripted):
    text = "The tags are <think> and </think>.\n"
    (choice,), _, usage = ask(scripted("qwen3"), text)
    assert choice["content"] == text and choice["reasoning"] == ""
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0


def test_with_and_without_tools_the_same(scripted):
    text = "<think>\nTwo.\n</think>\n\nFour.\n"
    assert ask(scripted("qwen3"), text)[0] == ask(scripted("qwen3"), text, tools=TOOLS)[0]


@pytest.mark.parametrize("field, value, param", [
    ("reasoning_effort", "huge", "reasoning_effort"), ("reasoning_effort", 1, "reasoning_effort"),
    ("reasoning", "high", "reasoning"), ("reasoning", {"effort": "huge"}, "reasoning.effort"),
    ("reasoning", {"exclude": 1}, "reasoning.exclude"), ("include_reasoning", "no", "include_reasoning"),
    ("separate_reasoning", 1, "separate_reasoning"), ("stream_reasoning", "x", "stream_reasoning"),
    ("reasoning_format", "other", "reasoning_format"), ("enable_thinking", "yes", "enable_thinking")])
def test_malformed(scripted, field, value, param):
    a = scripted("qwen3").post("/v1/chat/completions", chat(**{field: value}))
    assert a.status == 400 and a.error["param"] == param, a.text


def test_completions_stay_raw(scripted):
    a = scripted("qwen3").post("/v1/completions", {"prompt": script("<think>\nTwo.\n</think>\n\nFour."), "max_tokens": 5})
    assert a.status == 200 and "reasoning" not in str(a.json["choices"])


def test_an_effort_that_the_template_refuses(scripted):
    template = ("{% set e = reasoning_effort | default('xhigh') %}{% if e not in ['xhigh', 'medium', 'low'] %}"
                "{{ raise_exception('Unknown effort ' ~ e) }}{% endif %}[{{ e }}|{{ enable_thinking }}|{{ thinking }}]")
    server = scripted.of_template(template)
    for effort, shown in (("low", "[low|True|True]"), ("high", "[xhigh|True|True]"), ("max", "[xhigh|True|True]"),
                          ("minimal", "[low|True|True]"), ("none", "[xhigh|False|False]")):
        a = server.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort})
        assert a.status == 200 and a.json["prompt"] == shown, a.text
    refused = server.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"reasoning_effort": 5}})
    assert refused.status == 400 and "Unknown effort 5" in refused.error["message"]


@pytest.mark.parametrize("more", [{"thinking_token_budget": 20}, {"reasoning": {"max_tokens": 20}}])
def test_budget(scripted, more):
    thoughts = "abcdefghij" * 5
    (choice,), _, usage = ask(scripted("qwen35"), thoughts + "\n</think>\n\nFour.", **more)
    # bytes are tokens: 20 of the thoughts, then the 8 of the closing tag
    assert choice["reasoning"] == thoughts[:20] and choice["content"].endswith("Four.")
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 28
    # thoughts that end in time are left alone
    (choice,), _, _ = ask(scripted("qwen35"), "abc\n</think>\n\nFour.", **more)
    assert choice["reasoning"] == "abc" and choice["content"] == "Four."


def test_budget_bounds(scripted):
    for body, param in (({"thinking_token_budget": -1}, "thinking_token_budget"), ({"thinking_token_budget": "x"}, "thinking_token_budget"),
                        ({"reasoning": {"max_tokens": -1}}, "reasoning.max_tokens"), ({"reasoning": {"max_tokens": 1.5}}, "reasoning.max_tokens")):
        a = scripted("qwen35").post("/v1/chat/completions", chat(**body))
        assert a.status == 400 and a.error["param"] == param, a.text
    assert scripted("llama").post("/v1/chat/completions", chat(thinking_token_budget=5)).status == 200
    a = scripted("harmony").post("/v1/chat/completions", chat(thinking_token_budget=5))
    assert a.status == 400 and a.error["code"] == "unsupported_parameter" and a.error["param"] == "thinking_token_budget"
