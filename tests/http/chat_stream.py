"""A chat stream put together as clients do, with the rules of the stream's grammar asserted on the way."""

import json


def collect(events, usage=False):
    """The choices of a stream: [{content, reasoning, tool_calls, finish_reason, deltas}], in order."""
    assert events[-1] == "[DONE]"
    events = events[:-1]
    if usage:
        assert events[-1]["choices"] == [] and events[-1]["usage"]["total_tokens"] > 0
        events = events[:-1]
    assert len({(e["id"], e["created"], e["model"]) for e in events}) == 1
    choices = {}
    for event in events:
        assert event["object"] == "chat.completion.chunk"
        (c,) = event["choices"]
        delta = c["delta"]
        if c["index"] not in choices:
            assert delta["role"] == "assistant"
            choices[c["index"]] = {"content": None, "reasoning": "", "tool_calls": [], "finish_reason": None, "deltas": []}
        else:
            assert "role" not in delta
        choice = choices[c["index"]]
        assert choice["finish_reason"] is None, "a chunk behind the finish chunk"
        choice["deltas"].append(delta)
        if c["finish_reason"]:
            assert delta == {}
            choice["finish_reason"] = c["finish_reason"]
        add(choice, delta)
    assert sorted(choices) == list(range(len(choices)))
    assert all(c["finish_reason"] for c in choices.values())
    return [choices[i] for i in range(len(choices))]


def add(choice, delta):
    if delta.get("content") is not None:
        choice["content"] = (choice["content"] or "") + delta["content"]
    assert delta.get("reasoning_content") == delta.get("reasoning")
    choice["reasoning"] += delta.get("reasoning_content") or ""
    for call in delta.get("tool_calls", []):
        calls = choice["tool_calls"]
        if call["index"] == len(calls):  # the first delta of a call
            assert call["type"] == "function" and call["id"] and call["function"]["name"]
            assert isinstance(call["function"]["arguments"], str)
            calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
            continue
        # later ones bring arguments for the newest call, nothing else
        assert call["index"] == len(calls) - 1
        assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}
        calls[-1]["function"]["arguments"] += call["function"]["arguments"]


def message_of(choice):
    """What a whole answer's message would say, for comparison; ids differ."""
    return {"content": choice["content"] or "", "reasoning": choice["reasoning"], "calls": calls_of(choice["tool_calls"]),
            "finish_reason": choice["finish_reason"]}


def whole(answer):
    """The choices of a whole answer in the same shape."""
    out = []
    for c in answer["choices"]:
        m = c["message"]
        assert m["role"] == "assistant" and "content" in m and m["refusal"] is None
        assert m.get("reasoning_content") == m.get("reasoning")
        assert m.get("tool_calls") != []
        out.append({"content": m["content"] or "", "reasoning": m.get("reasoning_content", ""), "calls": calls_of(m.get("tool_calls", [])),
                    "finish_reason": c["finish_reason"]})
    return out


def calls_of(calls):
    assert len({c["id"] for c in calls}) == len(calls)
    return [(c["function"]["name"], c["function"]["arguments"]) for c in calls]


def parsed(calls):
    return [(name, json.loads(arguments)) for name, arguments in calls]
