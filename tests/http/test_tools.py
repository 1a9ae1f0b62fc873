"""Tool calls of /v1/chat/completions in every family's format, on a scripted model through the whole engine."""

import json

import pytest
from chat_stream import collect, message_of, parsed, whole
from scripted import FAMILIES, NOW, THINKERS, TOOLS, WEATHER, say, script
from server_process import chat

PARIS = ("weather", {"city": "Paris", "days": 2})
FAMILY_NAMES = list(FAMILIES)


def ask(server, text, **more):
    """One request twice, whole and streamed; the two must agree. Returns the choices and the streamed ones."""
    body = chat(script(*text) if isinstance(text, tuple) else script(text), **{"tools": TOOLS, **more})
    a = server.post("/v1/chat/completions", body)
    assert a.status == 200, a.text
    choices = whole(a.json)
    streamed = server.post("/v1/chat/completions", {**body, "stream": True})
    assert streamed.status == 200, streamed.text
    deltas = collect(streamed.events())
    assert [message_of(c) for c in deltas] == choices
    return choices, deltas


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_one_call(scripted, name):
    family = FAMILIES[name]
    (choice,), _ = ask(scripted(name), family.calls(PARIS))
    assert parsed(choice["calls"]) == [PARIS]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["content"] == ""


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_content_is_null_when_there_are_only_calls(scripted, name):
    body = chat(script(FAMILIES[name].calls(PARIS)), tools=TOOLS)
    message = scripted(name).post("/v1/chat/completions", body).json["choices"][0]["message"]
    assert message["content"] is None
    (call,) = message["tool_calls"]
    assert set(call) == {"id", "type", "function"} and call["type"] == "function"
    assert set(call["function"]) == {"name", "arguments"} and isinstance(call["function"]["arguments"], str)


@pytest.mark.parametrize("name", [n for n in FAMILY_NAMES if n != "harmony"])
def test_several_calls(scripted, name):
    calls = [PARIS, ("now", {}), ("weather", {"city": "Rome \"the\" <b>\\n", "exact": True})]
    (choice,), (streamed,) = ask(scripted(name), FAMILIES[name].calls(*calls))
    assert parsed(choice["calls"]) == calls
    assert [c["index"] for d in streamed["deltas"] for c in d.get("tool_calls", []) if "id" in c] == [0, 1, 2]


@pytest.mark.parametrize("name", [n for n in FAMILY_NAMES if n not in ("llama", "harmony")])
def test_text_before_a_call(scripted, name):
    (choice,), _ = ask(scripted(name), "I look it up.\n\n" + FAMILIES[name].calls(PARIS), enable_thinking=False)
    assert choice["content"] == "I look it up." and parsed(choice["calls"]) == [PARIS]


@pytest.mark.parametrize("name", THINKERS)
def test_thoughts_before_a_call(scripted, name):
    family = FAMILIES[name]
    (choice,), _ = ask(scripted(name), family.thinking("I look it up.") + family.calls(PARIS))
    assert choice["reasoning"] == "I look it up."
    assert choice["content"] == "" and parsed(choice["calls"]) == [PARIS]


@pytest.mark.parametrize("name", THINKERS)
def test_thoughts_before_an_answer(scripted, name):
    family = FAMILIES[name]
    (choice,), _ = ask(scripted(name), family.thinking("It is late.") + say(family, "Good night."))
    assert choice == {"reasoning": "It is late.", "content": "Good night.", "calls": [], "finish_reason": "stop"}


@pytest.mark.parametrize("name", [n for n in FAMILY_NAMES if n != "harmony"])
def test_no_call_when_none_is_offered(scripted, name):
    family = FAMILIES[name]
    text = family.calls(PARIS)
    for more in ({"tools": None}, {"tools": []}, {"tool_choice": "none"}):
        body = chat(script("Well: " + text), **{"tools": TOOLS, "enable_thinking": False, **more})
        (choice,) = scripted(name).post("/v1/chat/completions", body).json["choices"]
        assert "tool_calls" not in choice["message"] and choice["finish_reason"] == "stop"
        assert choice["message"]["content"].startswith("Well: ")
        for special in family.specials:
            assert special not in choice["message"]["content"]


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_no_call_in_plain_text(scripted, name):
    family = FAMILIES[name]
    text = say(family, "No tool is needed for 1 < 2, {x} or [y].")
    (choice,), _ = ask(scripted(name), text, enable_thinking=False)
    assert choice["calls"] == [] and choice["finish_reason"] == "stop"
    assert choice["content"] == "No tool is needed for 1 < 2, {x} or [y]."


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_cut_off_inside_the_arguments(scripted, name):
    family = FAMILIES[name]
    whole_call = family.calls(("write", {"path": "a.txt", "text": "x" * 100}))
    # tokens are bytes, but a special token is one
    length = whole_call.index("xxx") + 40
    tokens = length - sum(whole_call[:length].count(s) * (len(s) - 1) for s in family.specials)
    (choice,), _ = ask(scripted(name), whole_call, max_tokens=len(whole_call[:length].encode()) - (length - tokens))
    ((name_called, arguments),) = choice["calls"]
    assert name_called == "write" and choice["finish_reason"] == "length"
    assert arguments.startswith('{"path": "a.txt", "text": "xxx') and not arguments.endswith("}")


@pytest.mark.parametrize("name", [n for n in FAMILY_NAMES if n != "harmony"])
def test_parallel_tool_calls_false(scripted, name):
    family = FAMILIES[name]
    server = scripted(name)
    (choice,), _ = ask(server, family.calls(PARIS, ("now", {})) + " and more", parallel_tool_calls=False)
    assert parsed(choice["calls"]) == [PARIS]
    assert choice["finish_reason"] == "tool_calls" and choice["content"] == ""
    server.wait_idle()


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_choices_stand_alone(scripted, name):
    family = FAMILIES[name]
    texts = (family.calls(PARIS), say(family, "No."), family.calls(("now", {})))
    choices, _ = ask(scripted(name), texts, n=3, enable_thinking=False)
    assert [parsed(c["calls"]) for c in choices] == [[PARIS], [], [("now", {})]]
    assert [c["finish_reason"] for c in choices] == ["tool_calls", "stop", "tool_calls"]
    assert [c["content"] for c in choices] == ["", "No.", ""]


def test_arguments_stream_in_many_deltas(scripted):
    (_,), (streamed,) = ask(scripted("qwen35"), FAMILIES["qwen35"].calls(("write", {"path": "a", "text": "word " * 40})))
    fragments = [c["function"]["arguments"] for d in streamed["deltas"] for c in d.get("tool_calls", []) if "id" not in c]
    assert len(fragments) > 30


def test_prose_about_the_format_streams(scripted):
    text = "Write <tool_call> and a newline.\n<tool_call>\nnot a call"
    (choice,), (streamed,) = ask(scripted("qwen3"), text)
    assert choice["content"] == text and not choice["calls"]
    assert sum(1 for d in streamed["deltas"] if d.get("content")) > 20


def test_a_function_that_was_not_offered(scripted):
    (choice,), _ = ask(scripted("qwen3"), FAMILIES["qwen3"].calls(("unheard_of", {"a": 1})))
    assert parsed(choice["calls"]) == [("unheard_of", {"a": 1})]
    (choice,), _ = ask(scripted("llama"), FAMILIES["llama"].calls(("unheard_of", {"a": 1})))
    assert choice["calls"] == [] and json.loads(choice["content"])["name"] == "unheard_of"


def test_ids(scripted):
    ids = {}
    for name in ("qwen3", "mistral"):
        body = chat(script(FAMILIES[name].calls(PARIS)), tools=TOOLS)
        ids[name] = scripted(name).post("/v1/chat/completions", body).json["choices"][0]["message"]["tool_calls"][0]["id"]
    assert ids["qwen3"].startswith("call_") and len(ids["qwen3"]) > 20
    assert len(ids["mistral"]) == 9 and ids["mistral"].isalnum()


def test_stop_string_in_the_text_before_a_call(scripted):
    (choice,), _ = ask(scripted("qwen3"), "I look. STOP\n" + FAMILIES["qwen3"].calls(PARIS), stop=["STOP"])
    assert choice["content"] == "I look. " and choice["calls"] == [] and choice["finish_reason"] == "stop"


def test_stop_string_inside_a_call(scripted):
    (choice,), _ = ask(scripted("qwen3"), FAMILIES["qwen3"].calls(PARIS), stop=["Paris"])
    ((name, arguments),) = choice["calls"]
    assert name == "weather" and arguments == '{"city": "'


def test_stop_string_across_a_hidden_special_token(scripted):
    family = FAMILIES["harmony"]
    text = family.thinking("AB") + say(family, "CD. EF")
    (choice,), _ = ask(scripted("harmony"), text, stop=["D. E"])
    assert choice["reasoning"] == "AB" and choice["content"] == "C"


def test_log_probabilities_and_ids_beside_calls(scripted):
    text = FAMILIES["qwen3"].calls(PARIS)
    body = chat(script(text), tools=TOOLS, logprobs=True, return_token_ids=True)
    (choice,) = scripted("qwen3").post("/v1/chat/completions", body).json["choices"]
    assert "".join(e["token"] for e in choice["logprobs"]["content"]) == text
    assert bytes(choice["token_ids"]).decode() == text
    events = scripted("qwen3").post("/v1/chat/completions", {**body, "stream": True}).events()
    (streamed,) = collect(events)
    assert parsed([(c["function"]["name"], c["function"]["arguments"]) for c in streamed["tool_calls"]]) == [PARIS]
    tokens = [e["token"] for event in events[:-1] for e in (event["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert "".join(tokens) == text


def test_special_tokens_show_when_asked_for(scripted):
    text = say(FAMILIES["harmony"], "Fo<|constrain|>ur.")
    for skip, content in ((True, "Four."), (False, "Fo<|constrain|>ur.")):
        (choice,), _ = ask(scripted("harmony"), text, skip_special_tokens=skip)
        assert choice["content"] == content


def test_the_prompt_shows_the_tools(scripted):
    answer = scripted("qwen3").post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS})
    assert answer.status == 200, answer.text
    first = json.loads(answer.json["prompt"].split("\n")[0])
    assert first == WEATHER


def test_history_goes_to_the_template_as_mappings(scripted):
    messages = [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris", "days": 2}'}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "Sun."}]
    prompt = scripted("qwen3").post("/apply-template", {"messages": messages, "tools": TOOLS}).json["prompt"]
    assert "[assistant](thought: Hm.)(called weather city=Paris days=2)[tool]Sun." in prompt


def test_a_conversation_with_a_tool(scripted):
    family = FAMILIES["qwen3"]
    server = scripted("qwen3")
    messages = [{"role": "user", "content": script(family.calls(PARIS))}]
    first = server.post("/v1/chat/completions", chat(tools=TOOLS, messages=messages)).json["choices"][0]["message"]
    messages += [first, {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": script("It is sunny.")}]
    answer = server.post("/v1/chat/completions", chat(tools=TOOLS, messages=messages))
    assert answer.status == 200, answer.text
    assert answer.json["choices"][0]["message"]["content"] == "It is sunny."


def test_broken_arguments_in_history_are_never_a_5xx(scripted):
    for arguments in ('{"city": "Par', "", "[1]", "nonsense", "null", {"city": "Paris"}):
        messages = [{"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": "", "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": script("Sun.")}]
        for name in ("qwen3", "harmony"):
            a = scripted(name).post("/v1/chat/completions", chat(tools=TOOLS, messages=messages))
            assert a.status in (200, 400), a.text
            if a.status == 400:
                assert a.error["param"] == "messages.1.tool_calls.0.function.arguments"


BAD_TOOLS = [
    ("tools", {"a": 1}, "tools"),
    ("tools", [1], "tools.0"),
    ("tools", [{}], "tools.0.type"),
    ("tools", [{"type": "custom", "custom": {"name": "x"}}], "tools.0.type"),
    ("tools", [{"type": "function"}], "tools.0.function"),
    ("tools", [{"type": "function", "function": {}}], "tools.0.function.name"),
    ("tools", [{"type": "function", "function": {"name": ""}}], "tools.0.function.name"),
    ("tools", [{"type": "function", "function": {"name": "a b"}}], "tools.0.function.name"),
    ("tools", [{"type": "function", "function": {"name": "x" * 129}}], "tools.0.function.name"),
    ("tools", [{"type": "function", "function": {"name": "x", "parameters": []}}], "tools.0.function.parameters"),
    ("tools", [{"type": "function", "function": {"name": "x", "description": 1}}], "tools.0.function.description"),
    ("tools", [{"type": "function", "function": {"name": "x", "strict": 1}}], "tools.0.function.strict"),
    ("tools", [NOW, NOW], "tools.1.function.name"),
    ("tools", [{"type": "function", "function": {"name": f"f{i}"}} for i in range(513)], "tools"),
    ("tools", [{"type": "function", "function": {"name": "x", "description": "y" * (1 << 20)}}], "tools"),
    ("tool_choice", "always", "tool_choice"),
    ("tool_choice", 1, "tool_choice"),
    ("tool_choice", {"type": "function"}, "tool_choice.name"),
    ("tool_choice", {"type": "function", "function": {"name": "unheard_of"}}, "tool_choice.function.name"),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, "tool_choice.allowed_tools.tools"),
    ("tool_choice", {"type": "allowed_tools", "allowed_tools": {"mode": "all", "tools": [NOW]}}, "tool_choice.allowed_tools.mode"),
    ("parallel_tool_calls", "no", "parallel_tool_calls"),
]


@pytest.mark.parametrize("field, value, param", BAD_TOOLS, ids=[f"{i}-{b[2]}" for i, b in enumerate(BAD_TOOLS)])
def test_malformed_tools(scripted, field, value, param):
    a = scripted("qwen3").post("/v1/chat/completions", chat(**{"tools": TOOLS, field: value}))
    assert a.status == 400, a.text
    assert a.error["param"] == param and a.error["type"] == "invalid_request_error"


def test_tool_choice_required_without_tools(scripted):
    a = scripted("qwen3").post("/v1/chat/completions", chat(tool_choice="required"))
    assert a.status == 400 and a.error["param"] == "tool_choice"


def test_tool_choice_null_is_absent(scripted):
    (choice,), _ = ask(scripted("qwen3"), FAMILIES["qwen3"].calls(PARIS), tool_choice=None, parallel_tool_calls=None)
    assert parsed(choice["calls"]) == [PARIS]


def test_allowed_tools_are_the_only_ones_in_the_prompt(scripted):
    chosen = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "now"}}]}}
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "tool_choice": chosen}
    prompt = scripted("qwen3").post("/apply-template", body).json["prompt"]
    assert "now" in prompt and "weather" not in prompt


def test_info_says_which_format_and_why(scripted):
    for name, calls, reasoning in (("qwen3", "hermes", "think"), ("qwen35", "qwen3_xml", "think"), ("glm", "glm45", "think"),
                                   ("llama", "llama3_json", "none"), ("mistral", "mistral", "mistral"), ("deepseek", "deepseek_v3", "think"),
                                   ("dsml", "deepseek_v32", "think"), ("harmony", "openai", "openai")):
        said = scripted(name).get("/v1/info").json["output_format"]
        assert (said["tool_calls"], said["reasoning"]) == (calls, reasoning)
        assert "the chat template has" in said["tool_calls_why"] and said["tools_shown_by"] == "the chat template"


def test_a_forced_parser(scripted):
    server = scripted("qwen3", "--tool-call-parser=qwen3_coder", "--reasoning-parser=none")
    (choice,), _ = ask(server, "<think>\nHm.\n</think>\n" + FAMILIES["qwen35"].calls(PARIS))
    assert choice["content"] == "<think>\nHm.\n</think>" and parsed(choice["calls"]) == [PARIS]


def test_ids_of_other_servers_in_a_mistral_history(scripted):
    source = "{% for t in tools or [] %}{{ t }}{% endfor %}{% for m in messages %}{% for c in m.tool_calls or [] %}<{{ c.id }}>{% endfor %}{% if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}{% endfor %}[TOOL_CALLS]"
    messages = [{"role": "user", "content": "Hi"},
                {"role": "assistant", "tool_calls": [
                    {"id": i, "type": "function", "function": {"name": "now", "arguments": "{}"}} for i in ("call_abc-1", "abcdEFG12")]},
                {"role": "tool", "tool_call_id": "call_abc-1", "content": "12:00"}]
    prompt = scripted.of_template(source).post("/apply-template", {"messages": messages}).json["prompt"]
    first, second, answered = prompt[1:10], prompt[12:21], prompt[23:32]
    assert prompt == f"<{first}><{second}>({answered})[TOOL_CALLS]"
    assert first.isalnum() and first == answered and second == "abcdEFG12"


def test_a_template_without_tools_gets_them_as_text(scripted):
    source = "{# knows the role system #}{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    server = scripted.of_template(source)
    assert server.get("/v1/info").json["output_format"]["tools_shown_by"] == "the server"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "12:00"}]
    prompt = server.post("/apply-template", {"messages": messages, "tools": TOOLS}).json["prompt"]
    system, user, assistant, result = prompt.split("\n[")
    assert all(json.dumps(t["function"], separators=(",", ":")) in system for t in TOOLS)
    assert user == "user]Hi"
    assert assistant == 'assistant]<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert result == "user]<tool_response>\n12:00\n</tool_response>\n"
    (choice,), _ = ask(server, FAMILIES["qwen3"].calls(PARIS))
    assert parsed(choice["calls"]) == [PARIS]
