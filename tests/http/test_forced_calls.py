"""tool_choice required and named, and strict functions: what the model would say otherwise, a call comes, and it keeps to its schema.
The scripted model says what it likes; where the mask forbids that, the next allowed token comes. jsonschema judges."""

import json

import jsonschema
import pytest
from chat_stream import collect, message_of, parsed, whole
from scripted import FAMILIES, NOW, THINKERS, say, script
from server_process import chat

SWITCH = {"type": "function", "function": {"name": "switch", "parameters": {
    "type": "object", "additionalProperties": False, "required": ["mode", "exact", "level"],
    "properties": {"mode": {"type": "string", "enum": ["on", "off"]}, "exact": {"type": "boolean"},
                   "level": {"type": "integer", "enum": [1, 2, 30]}}}}}
STRICT = {"type": "function", "function": {**SWITCH["function"], "strict": True}}
GOOD = ("switch", {"mode": "on", "exact": True, "level": 30})
NAMES = list(FAMILIES)


def ask(server, text, **more):
    body = chat(script(*text) if isinstance(text, tuple) else script(text), **{"tools": [SWITCH], **more})
    a = server.post("/v1/chat/completions", body)
    assert a.status == 200, a.text
    choices = whole(a.json)
    deltas = collect(server.post("/v1/chat/completions", {**body, "stream": True}).events())
    assert [message_of(c) for c in deltas] == choices
    return choices


def check(call):
    name, arguments = call
    assert name == "switch"
    jsonschema.validate(json.loads(arguments), SWITCH["function"]["parameters"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "switch"}},
                                    {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
                                        {"type": "function", "function": {"name": "switch"}}]}}], ids=["required", "named", "allowed"])
def test_a_call_comes_whatever_the_model_wants(scripted, name, choice):
    family = FAMILIES[name]
    (made,) = ask(scripted(name), say(family, "No, I will not."), tools=[NOW, SWITCH] if choice != "required" else [SWITCH],
                  tool_choice=choice, enable_thinking=False)
    assert made["content"] == "" and made["finish_reason"] == "tool_calls"
    assert len(made["calls"]) >= 1
    for call in made["calls"]:
        check(call)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_the_model_wants_stays(scripted, name):
    (made,) = ask(scripted(name), FAMILIES[name].calls(GOOD), tool_choice="required", enable_thinking=False)
    assert parsed(made["calls"]) == [GOOD]


@pytest.mark.parametrize("name", THINKERS)
def test_thoughts_are_free(scripted, name):
    family = FAMILIES[name]
    # where the model opens its thoughts itself, it does so with a token of its own
    flags = ["--stub-special=<think>", "--stub-special=</think>"] if name == "qwen3" else []
    server = scripted(name, *flags)
    (made,) = ask(server, family.thinking("I would <b>rather</b> not {") + family.calls(GOOD), tool_choice="required")
    assert made["reasoning"] == "I would <b>rather</b> not {" and parsed(made["calls"]) == [GOOD]
    (made,) = ask(server, family.thinking("Hm.") + "No.", tool_choice="required")
    assert made["reasoning"].startswith("Hm.") and made["content"] == "" and made["calls"]
    for call in made["calls"]:
        check(call)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "harmony"])
def test_one_call_only(scripted, name):
    family = FAMILIES[name]
    (made,) = ask(scripted(name), family.calls(GOOD, GOOD), tool_choice="required", parallel_tool_calls=False, enable_thinking=False)
    assert parsed(made["calls"]) == [GOOD] and made["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("name", [n for n in NAMES if n != "llama"])
def test_strict_arguments_and_free_text(scripted, name):
    """Left alone, the model may answer in text; when it calls, the call keeps to the schema."""
    family = FAMILIES[name]
    server = scripted(name)
    (made,) = ask(server, say(family, "No need."), tools=[STRICT], enable_thinking=False)
    assert made["content"] == "No need." and made["calls"] == []
    (made,) = ask(server, family.calls(GOOD), tools=[STRICT], enable_thinking=False)
    assert parsed(made["calls"]) == [GOOD]
    (made,) = ask(server, family.calls(("switch", {"mode": "maybe", "exact": 1})), tools=[STRICT], enable_thinking=False)
    assert len(made["calls"]) == 1
    check(made["calls"][0])


def test_choices_are_forced_each(scripted):
    family = FAMILIES["qwen3"]
    made = ask(scripted("qwen3"), ("No.", family.calls(GOOD), "Never {"), n=3, tool_choice="required")
    for choice in made:
        for call in choice["calls"]:
            check(call)
        assert choice["calls"] and choice["content"] == ""


def test_a_keyword_that_is_not_enforced(scripted):
    odd = {"type": "object", "properties": {"a": {"type": "string"}}, "unevaluatedProperties": False, "if": {"required": ["a"]}, "then": {"maxProperties": 1}}
    tool = {"type": "function", "function": {"name": "odd", "parameters": odd}}
    strict = {"type": "function", "function": {"name": "odd", "parameters": odd, "strict": True}}
    server = scripted("qwen3")
    a = server.post("/v1/chat/completions", chat(tools=[strict]))
    assert a.status == 400 and a.error["param"].startswith("tools.0.function.parameters"), a.text
    # without strict any object will do
    (made,) = ask(server, FAMILIES["qwen3"].calls(("odd", {"b": [1]})), tools=[tool], tool_choice="required")
    assert parsed(made["calls"]) == [("odd", {"b": [1]})]


def test_forms_that_cannot_be_forced(scripted):
    server = scripted("llama", "--tool-call-parser=pythonic")
    for more in ({"tools": [SWITCH], "tool_choice": "required"}, {"tools": [STRICT]}):
        a = server.post("/v1/chat/completions", chat(**more))
        assert a.status == 400 and a.error["code"] == "unsupported_parameter" and a.error["param"] == "tool_choice"


def test_needs_tools(scripted):
    for choice in ("required", {"type": "function", "function": {"name": "switch"}}):
        a = scripted("qwen3").post("/v1/chat/completions", chat(tool_choice=choice))
        assert a.status == 400 and a.error["param"].startswith("tool_choice"), a.text
