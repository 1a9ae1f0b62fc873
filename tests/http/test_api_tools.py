"""Reasoning and tool calls of /v1/responses and /v1/messages, on a scripted model of each family through the whole engine."""

import json

import pytest
from anthropic import Anthropic, beta_tool
from event_machines import checked_message, message_of, response_of
from openai import OpenAI
from openai.types.responses import Response
from scripted import FAMILIES, THINKERS, TOOLS, say, script

CALLS = [("weather", {"city": "Paris", "days": 3, "exact": True}), ("write", {"path": "a.txt", "text": "one\n\"two\" {3}"})]
FLAT = [{"type": "function", **t["function"]} for t in TOOLS]
OWN = [{"name": t["function"]["name"], "description": t["function"].get("description", ""), "input_schema": t["function"]["parameters"]}
       for t in TOOLS]
every_family = pytest.mark.parametrize("name", FAMILIES)


def respond(server, text, **more):
    """The response, whole; the stream amounts to the same."""
    body = {"input": script(text), **more}
    answer = server.post("/v1/responses", body)
    assert answer.status == 200, answer.text
    whole = answer.json
    Response.model_validate(whole)
    streamed = response_of(server.post("/v1/responses", {**body, "stream": True}).named_events())

    def kept(response):
        items = [{k: v for k, v in i.items() if k not in ("id", "call_id")} for i in response["output"]]
        return [*items, response["status"], response["usage"]["output_tokens"], response["usage"]["output_tokens_details"]]
    assert kept(streamed) == kept(whole)
    return whole


def message(server, text, **more):
    body = {"model": "stub", "max_tokens": 1000, "messages": [{"role": "user", "content": script(text)}], **more}
    answer = server.post("/v1/messages", body)
    assert answer.status == 200, answer.text
    whole = checked_message(answer.json)
    streamed = message_of(server.post("/v1/messages", {**body, "stream": True}).named_events())
    for block in streamed["content"]:
        if block["type"] == "tool_use" and streamed["stop_reason"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
        block.pop("json", None)

    def kept(m):
        blocks = [{k: v for k, v in b.items() if k != "id"} for b in m["content"]]
        return [*blocks, m["stop_reason"], m["stop_sequence"], m["usage"]["output_tokens"], m["usage"]["output_tokens_details"]]
    if whole["stop_reason"] != "max_tokens":  # a cut call's input is what could be read of it
        assert kept(streamed) == kept(whole)
    return whole


# ---- calls ----

@every_family
def test_calls_of_a_response(scripted, name):
    family = FAMILIES[name]
    made = respond(scripted(name), family.calls(*CALLS), tools=FLAT)
    calls = [i for i in made["output"] if i["type"] == "function_call"]
    assert [(c["name"], json.loads(c["arguments"])) for c in calls] == CALLS
    assert all(c["id"].startswith("fc_") and c["call_id"] and c["status"] == "completed" for c in calls)
    assert len({c["call_id"] for c in calls}) == 2 and made["status"] == "completed"
    assert [t["name"] for t in made["tools"]] == ["weather", "write", "now"]


@every_family
def test_calls_of_a_message(scripted, name):
    family = FAMILIES[name]
    made = message(scripted(name), family.calls(*CALLS), tools=OWN)
    uses = [b for b in made["content"] if b["type"] == "tool_use"]
    assert [(u["name"], u["input"]) for u in uses] == CALLS
    assert len({u["id"] for u in uses}) == 2 and made["stop_reason"] == "tool_use"


def test_text_then_a_call(scripted):
    text = "Let me look.\n" + FAMILIES["qwen3"].calls(CALLS[0])
    made = respond(scripted("qwen3"), text, tools=FLAT)
    assert [i["type"] for i in made["output"]] == ["message", "function_call"]
    assert made["output"][0]["content"][0]["text"].strip() == "Let me look."
    blocks = message(scripted("qwen3"), text, tools=OWN)["content"]
    assert [b["type"] for b in blocks] == ["text", "tool_use"] and blocks[0]["text"].strip() == "Let me look."


def test_no_call_without_tools(scripted):
    text = FAMILIES["qwen3"].calls(CALLS[0])
    for more in ({}, {"tools": FLAT, "tool_choice": "none"}):
        made = respond(scripted("qwen3"), text, **more)
        assert [i["type"] for i in made["output"]] == ["message"]
    for more in ({}, {"tools": OWN, "tool_choice": {"type": "none"}}):
        made = message(scripted("qwen3"), text, **more)
        assert [b["type"] for b in made["content"]] == ["text"] and made["stop_reason"] == "end_turn"


def test_one_call_at_a_time(scripted):
    text = FAMILIES["qwen3"].calls(*CALLS)
    made = respond(scripted("qwen3"), text, tools=FLAT, parallel_tool_calls=False)
    assert [i["name"] for i in made["output"]] == ["weather"] and made["parallel_tool_calls"] is False
    blocks = message(scripted("qwen3"), text, tools=OWN, tool_choice={"type": "auto", "disable_parallel_tool_use": True})["content"]
    assert [b["name"] for b in blocks] == ["weather"]


def test_allowed_tools(scripted):
    """The model is told of those alone."""
    def tokens(**more):
        return scripted("qwen3").post("/v1/responses/input_tokens", {"input": "x", **more}).json["input_tokens"]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "write"}]}
    assert tokens(tools=FLAT, tool_choice=choice) == tokens(tools=[FLAT[1]]) < tokens(tools=FLAT)
    made = respond(scripted("qwen3"), FAMILIES["qwen3"].calls(CALLS[1]), tools=FLAT, tool_choice=choice)
    assert [i["name"] for i in made["output"]] == ["write"] and made["tool_choice"] == choice


def test_a_call_that_is_cut(scripted):
    text = FAMILIES["qwen3"].calls(("write", {"path": "a.txt", "text": "x" * 300}))
    made = respond(scripted("qwen3"), text, tools=FLAT, max_output_tokens=120)
    assert made["status"] == "incomplete" and made["output"][-1]["status"] == "incomplete"
    assert made["output"][-1]["arguments"].startswith('{"path": "a.txt", "text": "xxx')
    cut = message(scripted("qwen3"), text, tools=OWN, max_tokens=120)
    assert cut["stop_reason"] == "max_tokens" and cut["content"][-1]["input"] == {"path": "a.txt"}


def test_a_call_cut_anywhere_gives_what_was_complete(scripted):
    arguments = {"path": "a\\\"b", "text": "x", "days": [1, {"deep": ["y", -2.5e3]}, None], "exact": True, "last": {}}
    text = FAMILIES["qwen3"].calls(("write", arguments))
    seen = set()
    for cut in range(40, len(text), 3):
        answer = scripted("qwen3").post("/v1/messages", {"max_tokens": cut, "tools": OWN, "messages": [{"role": "user", "content": script(text)}]})
        for block in checked_message(answer.json)["content"]:
            if block["type"] == "tool_use":
                whole = {k: v for k, v in block["input"].items() if v == arguments[k]}
                assert list(block["input"])[:-1] == list(whole)[:len(block["input"]) - 1]  # only the last one may be cut inside
                seen.add(len(block["input"]))
    assert {0, 1, 2, 3} <= seen


def test_a_namespace_of_functions(scripted):
    tools = [{"type": "namespace", "name": "files", "description": "Of files.", "tools": [FLAT[1]]}, FLAT[0]]
    text = FAMILIES["qwen3"].calls(("files__write", CALLS[1][1]), CALLS[0])
    made = respond(scripted("qwen3"), text, tools=tools)
    calls = [(i.get("namespace"), i["name"]) for i in made["output"]]
    assert calls == [("files", "write"), (None, "weather")] and [t["type"] for t in made["tools"]] == ["namespace", "function"]
    # sent back, the call goes by the model's name for it
    history = [{"type": "function_call", "call_id": "c", "namespace": "files", "name": "write", "arguments": "{}"}]
    with_space = scripted("qwen3").post("/v1/responses/input_tokens", {"input": history}).json
    flat = scripted("qwen3").post("/v1/responses/input_tokens", {"input": [{**history[0], "namespace": None, "name": "files__write"}]}).json
    assert with_space == flat


def test_tools_of_a_server_are_left_out_and_named(scripted):
    offered = [{"type": "web_search", "external_web_access": False}, {"type": "image_generation"}, FLAT[0], {"type": "web_search"}]
    body = {"input": script(FAMILIES["qwen3"].calls(CALLS[0])), "tools": offered}
    for stream in (False, True):
        answer = scripted("qwen3").post("/v1/responses", {**body, "stream": stream})
        assert answer.status == 200 and answer.headers["x-ignored-tools"] == "web_search, image_generation"
    made = scripted("qwen3").post("/v1/responses", body).json
    assert [t["type"] for t in made["tools"]] == ["function"] and made["output"][0]["name"] == "weather"
    alone = scripted("qwen3").post("/v1/responses", {**body, "tools": [FLAT[0]]})
    assert "x-ignored-tools" not in alone.headers
    assert made["usage"]["input_tokens"] == alone.json["usage"]["input_tokens"]


@pytest.mark.parametrize("more,param", [
    ({"tools": [{"type": kind}]}, "tools.0.type") for kind in
    ("file_search", "code_interpreter", "computer", "computer_use_preview", "mcp", "custom", "local_shell", "shell", "apply_patch")
] + [({"tools": FLAT, "tool_choice": {"type": "web_search"}}, "tool_choice.type")])
def test_tools_that_are_refused(scripted, more, param):
    answer = scripted("qwen3").post("/v1/responses", {"input": "x", **more})
    assert answer.status == 400 and (answer.error["code"], answer.error["param"]) == ("unsupported_parameter", param)


@pytest.mark.parametrize("more,param", [
    ({"tools": {}}, "tools"), ({"tools": [5]}, "tools.0"), ({"tools": [{}]}, "tools.0.type"), ({"tools": [{"type": "poem"}]}, "tools.0.type"),
    ({"tools": [{"type": "function"}]}, "tools.0.name"), ({"tools": [{"type": "web_search"}, {"type": "function", "name": "a b"}]}, "tools.1.name"),
    ({"tools": [{"type": "function", "name": "f", "parameters": 5}]}, "tools.0.parameters"),
    ({"tools": [FLAT[0], FLAT[0]]}, "tools.1.name"), ({"tools": [FLAT[0]] * 513}, "tools"),
    ({"tools": [{"type": "namespace", "name": "n", "tools": [FLAT[0], {"type": "function", "name": 5}]}]}, "tools.0.tools.1.name"),
    ({"tools": [{"type": "namespace", "tools": []}]}, "tools.0.name"), ({"tools": [{"type": "namespace", "name": "n"}]}, "tools.0.tools"),
    ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": []}]}]}, "tools.0.tools.0.type"),
    ({"tools": FLAT, "tool_choice": "maybe"}, "tool_choice"), ({"tools": FLAT, "tool_choice": 5}, "tool_choice"),
    ({"tools": FLAT, "parallel_tool_calls": "no"}, "parallel_tool_calls"),
])
def test_tools_that_are_malformed(scripted, more, param):
    answer = scripted("qwen3").post("/v1/responses", {"input": "x", **more})
    assert answer.status == 400 and answer.error["param"] == param, answer.text


@pytest.mark.parametrize("more,param", [
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0.type"), ({"tools": [{"type": "web_search_20250305", "name": "w"}]}, "tools.0.type"),
    ({"tools": [{"name": "f"}]}, "tools.0.input_schema"), ({"tools": [{"name": "f", "input_schema": 5}]}, "tools.0.input_schema"),
    ({"tools": [{"input_schema": {}}]}, "tools.0.name"), ({"tools": [5]}, "tools.0"), ({"tools": {}}, "tools"), ({"tools": [OWN[0]] * 513}, "tools"),
    ({"tools": [OWN[0], OWN[0]]}, "tools.1.name"), ({"tools": [{**OWN[0], "name": "a b"}]}, "tools.0.name"),
    ({"tools": OWN, "tool_choice": "auto"}, "tool_choice"), ({"tools": OWN, "tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    ({"tools": OWN, "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "tool_choice.disable_parallel_tool_use"),
    ({"tools": OWN, "tool_choice": {"type": "tool"}}, "tool_choice.name"),
])
def test_tools_of_a_message_that_are_malformed(scripted, more, param):
    answer = scripted("qwen3").post("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **more})
    assert answer.status == 400 and answer.json["error"]["message"].startswith(f"{param}: "), answer.text


# ---- reasoning ----

@pytest.mark.parametrize("name", THINKERS)
def test_reasoning_of_a_response(scripted, name):
    family = FAMILIES[name]
    text = family.thinking("Two,\n\nand two.") + say(family, "Four.")
    made = respond(scripted(name), text)
    thought, said = made["output"]
    assert thought["type"] == "reasoning" and thought["id"].startswith("rs_") and thought["summary"] == []
    assert thought["content"] == [{"type": "reasoning_text", "text": "Two,\n\nand two."}]
    assert said["content"][0]["text"] == "Four." and 14 <= made["usage"]["output_tokens_details"]["reasoning_tokens"] < made["usage"]["output_tokens"]
    summed = respond(scripted(name), text, reasoning={"summary": "auto"})["output"][0]
    assert summed["summary"] == [{"type": "summary_text", "text": "Two,\n\nand two."}] and summed["content"] == []


@pytest.mark.parametrize("name", THINKERS)
def test_thinking_of_a_message(scripted, name):
    family = FAMILIES[name]
    text = family.thinking("Two,\n\nand two.") + say(family, "Four.")
    made = message(scripted(name), text, thinking={"type": "adaptive"})
    assert made["content"] == [{"type": "thinking", "thinking": "Two,\n\nand two.", "signature": "unsigned"},
                               {"type": "text", "text": "Four.", "citations": None}]
    assert 14 <= made["usage"]["output_tokens_details"]["thinking_tokens"] < made["usage"]["output_tokens"]
    hidden = message(scripted(name), text, thinking={"type": "adaptive", "display": "omitted"})["content"]
    assert [b.get("thinking") for b in hidden] == ["", None]


def test_thoughts_then_a_call(scripted):
    text = FAMILIES["qwen3"].thinking("I should look.") + FAMILIES["qwen3"].calls(CALLS[0])
    assert [i["type"] for i in respond(scripted("qwen3"), text, tools=FLAT)["output"]] == ["reasoning", "function_call"]
    assert [b["type"] for b in message(scripted("qwen3"), text, tools=OWN)["content"]] == ["thinking", "tool_use"]


def test_cut_off_inside_the_thoughts(scripted):
    text = FAMILIES["qwen3"].thinking("Two and two, " * 20) + "Four."
    made = respond(scripted("qwen3"), text, max_output_tokens=60)
    assert [(i["type"], i["status"]) for i in made["output"]] == [("reasoning", "incomplete")] and made["status"] == "incomplete"
    cut = message(scripted("qwen3"), text, max_tokens=60)
    assert [b["type"] for b in cut["content"]] == ["thinking"] and cut["stop_reason"] == "max_tokens"


def test_a_budget_of_thoughts(scripted):
    thoughts = "abcdefghij" * 5
    made = message(scripted("qwen35"), thoughts + "\n</think>\n\nFour.", thinking={"type": "enabled", "budget_tokens": 20})
    # bytes are tokens: 20 of the thoughts, then the 8 of the closing tag
    assert made["content"][0]["thinking"] == thoughts[:20] and made["usage"]["output_tokens_details"]["thinking_tokens"] == 28
    answer = scripted("harmony").post("/v1/messages", {"max_tokens": 5, "thinking": {"type": "enabled", "budget_tokens": 5},
                                                       "messages": [{"role": "user", "content": "x"}]})
    assert answer.status == 400 and answer.json["error"]["message"].startswith("thinking.budget_tokens: ")


def test_thinking_switched_off(scripted):
    assert [i["type"] for i in respond(scripted("qwen35"), "Four.", reasoning={"effort": "none"})["output"]] == ["message"]
    made = message(scripted("qwen35"), "Four.", thinking={"type": "disabled"})
    assert made["content"] == [{"type": "text", "text": "Four.", "citations": None}]


def test_logprobs_are_those_of_the_text(scripted):
    text = FAMILIES["qwen3"].thinking("Hm.") + "Four."
    made = respond(scripted("qwen3"), text, include=["message.output_text.logprobs"])
    spelled = bytes(b for e in made["output"][1]["content"][0]["logprobs"] for b in e["bytes"]).decode()
    assert spelled.endswith("Four.") and "Hm" not in spelled


# ---- histories ----

def rendered(server, **body):
    return server.post("/apply-template", body).json["count"]


def test_a_history_renders_as_in_chat(scripted):
    """The same conversation in the three APIs is the same prompt."""
    server = scripted("qwen3")
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Weather?"},
            {"role": "assistant", "reasoning_content": "I look.", "content": "Let me see.",
             "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, {"role": "user", "content": "Thanks."}]
    expected = rendered(server, messages=chat)
    items = [{"role": "user", "content": "Weather?"},
             {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I look."}]},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
             {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Paris"}'},
             {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}, {"role": "user", "content": "Thanks."}]
    assert server.post("/v1/responses/input_tokens", {"instructions": "Be kind.", "input": items}).json["input_tokens"] == expected
    messages = [{"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look.", "signature": "s"}, {"type": "text", "text": "Let me see."},
                                                  {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}, {"type": "text", "text": "Thanks."}]}]
    assert server.post("/v1/messages/count_tokens", {"system": "Be kind.", "messages": messages}).json["input_tokens"] == expected
    assert rendered(server, messages=chat, tools=TOOLS) == server.post(
        "/v1/responses/input_tokens", {"instructions": "Be kind.", "input": items, "tools": FLAT}).json["input_tokens"]


def test_what_was_answered_can_be_sent_back(scripted):
    """An agent's loop: the output is the next input, with the tool's result behind it."""
    server = scripted("qwen3")
    text = FAMILIES["qwen3"].thinking("I look.") + FAMILIES["qwen3"].calls(CALLS[0])
    made = respond(server, text, tools=FLAT)
    (call,) = [i for i in made["output"] if i["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    again = server.post("/v1/responses", {"input": [{"role": "user", "content": script("It is sunny.")}, *made["output"], result], "tools": FLAT})
    assert again.json["output"][0]["content"][0]["text"] == "It is sunny."
    stored = server.post("/v1/responses", {"input": script(text), "tools": FLAT, "store": True}).json
    result["call_id"] = stored["output"][-1]["call_id"]
    chained = server.post("/v1/responses", {"input": [result, {"role": "user", "content": script("Done.")}], "tools": FLAT,
                                            "previous_response_id": stored["id"]})
    assert chained.json["output"][0]["content"][0]["text"] == "Done."
    blocks = message(server, text, tools=OWN)["content"]
    turns = [{"role": "user", "content": script("It is sunny.")}, {"role": "assistant", "content": blocks},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": blocks[-1]["id"], "content": "sunny"}]}]
    assert server.post("/v1/messages", {"max_tokens": 50, "messages": turns, "tools": OWN}).json["content"][0]["text"] == "It is sunny."


# ---- the official clients ----

def test_openai_client_streams_a_call(scripted):
    client = OpenAI(base_url=scripted("qwen3").base_url, api_key="x", max_retries=0, timeout=30)
    with client.responses.stream(model="stub", input=script(FAMILIES["qwen3"].calls(CALLS[0])), tools=[{**FLAT[0], "strict": False}]) as stream:
        arguments = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
        final = stream.get_final_response()
    (call,) = final.output
    assert json.loads(arguments) == json.loads(call.arguments) == CALLS[0][1] and call.name == "weather"


def test_anthropic_client_streams_a_call(scripted):
    client = Anthropic(base_url=scripted("qwen3").base_url.removesuffix("/v1"), api_key="x", max_retries=0, timeout=30)
    text = FAMILIES["qwen3"].thinking("I look.") + FAMILIES["qwen3"].calls(CALLS[0])
    with client.messages.stream(model="stub", max_tokens=500, tools=OWN, messages=[{"role": "user", "content": script(text)}]) as stream:
        final = stream.get_final_message()
    thought, use = final.content
    assert thought.thinking == "I look." and thought.signature == "unsigned"
    assert use.input == CALLS[0][1] and final.stop_reason == "tool_use"


def test_anthropic_tool_runner(scripted):
    """The client's own loop: it calls the function, sends the result and takes the answer."""
    asked = []

    @beta_tool
    def weather(city: str) -> str:
        """Of a city.

        Args:
            city: which one
        """
        asked.append(city)
        return script("It is sunny.")  # the newest script in the prompt is what the model says next

    client = Anthropic(base_url=scripted("qwen3").base_url.removesuffix("/v1"), api_key="x", max_retries=0, timeout=30)
    runner = client.beta.messages.tool_runner(
        model="stub", max_tokens=500, tools=[weather],
        messages=[{"role": "user", "content": script(FAMILIES["qwen3"].calls(("weather", {"city": "Paris"})))}])
    final = runner.until_done()
    assert asked == ["Paris"] and final.content[0].text == "It is sunny."
