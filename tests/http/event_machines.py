"""The orders in which /v1/responses and /v1/messages may say things, from their documentation: each function walks a whole
stream, checks every step and gives back what the stream amounts to. The clients' own models judge the shape of each event."""

from anthropic.types import Message, RawMessageStreamEvent
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

RESPONSE_EVENT = TypeAdapter(ResponseStreamEvent)
MESSAGE_EVENT = TypeAdapter(RawMessageStreamEvent)
# what opens, grows and closes the one part of an item, by the item's type and where reasoning is
PARTS = {
    "message": ("response.content_part.added", "response.output_text.delta", "response.output_text.done",
                "response.content_part.done"),
    "reasoning": ("response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
                  "response.content_part.done"),
    "summary": ("response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
                "response.reasoning_summary_text.done", "response.reasoning_summary_part.done"),
}


class Steps:
    """The events one after another; take() insists on the next one's name."""

    def __init__(self, events):
        self.events, self.at = events, 0

    def peek(self):
        return self.events[self.at][0]

    def take(self, *names):
        name, data = self.events[self.at]
        assert name in names, f"event {self.at} is {name}, not one of {names}"
        self.at += 1
        return data

    def end(self):
        assert self.at == len(self.events), self.events[self.at]


def response_item(steps, index):
    """The events of one output item; the item as its last event shows it."""
    begun = steps.take("response.output_item.added")
    item = begun["item"]
    assert begun["output_index"] == index and item["status"] == "in_progress"
    kind = item["type"]
    if kind == "function_call":
        assert item["arguments"] == "" and item["name"] and item["call_id"]
        text = ""
        while steps.peek() == "response.function_call_arguments.delta":
            delta = steps.take("response.function_call_arguments.delta")
            assert (delta["item_id"], delta["output_index"]) == (item["id"], index)
            text += delta["delta"]
        done = steps.take("response.function_call_arguments.done")
        assert done["arguments"] == text and (done["item_id"], done["output_index"]) == (item["id"], index)
        ended = steps.take("response.output_item.done")
        assert ended["item"] == {**item, "arguments": text, "status": ended["item"]["status"]}
        return ended["item"]
    assert item.get("content", []) == [] and item.get("summary", []) == []
    if kind == "reasoning" and steps.peek() == "response.reasoning_summary_part.added":
        kind = "summary"
    added, grows, done, closed = PARTS[kind]
    part_index = "summary_index" if kind == "summary" else "content_index"

    def here(event):
        assert (event["item_id"], event["output_index"], event[part_index]) == (item["id"], index, 0)
        return event

    assert here(steps.take(added))["part"]["text"] == ""
    text, logprobs = "", []
    while steps.peek() == grows:
        delta = here(steps.take(grows))
        assert delta["delta"]
        text += delta["delta"]
        logprobs += delta.get("logprobs", [])
    whole = here(steps.take(done))
    assert whole["text"] == text
    part = here(steps.take(closed))["part"]
    assert part["text"] == text
    if kind == "message":
        assert whole["logprobs"] == part["logprobs"] and part["logprobs"][:len(logprobs)] == logprobs
    ended = steps.take("response.output_item.done")
    assert ended["output_index"] == index and ended["item"]["id"] == item["id"]
    assert ended["item"]["summary" if kind == "summary" else "content"] == [part]
    return ended["item"]


def response_of(events):
    """The response that a stream of /v1/responses ends with."""
    assert events[-1] == ("", "[DONE]")
    events = events[:-1]
    for number, (name, data) in enumerate(events):
        assert data["type"] == name and data["sequence_number"] == number
        RESPONSE_EVENT.validate_python(data)
    steps = Steps(events)
    created = steps.take("response.created")["response"]
    assert created["status"] == "in_progress" and created["output"] == [] and created["usage"] is None
    assert steps.take("response.in_progress")["response"] == created
    items = []
    while steps.peek() == "response.output_item.added":
        items.append(response_item(steps, len(items)))
    ended = steps.take("response.completed", "response.incomplete")
    steps.end()
    response = ended["response"]
    assert ended["type"] == f"response.{response['status']}" and response["output"] == items
    changed = {"status", "output", "usage", "completed_at", "incomplete_details"}
    assert {k: v for k, v in response.items() if k not in changed} == {k: v for k, v in created.items() if k not in changed}
    Response.model_validate(response)
    return response


def message_of(events):
    """The message that a stream of /v1/messages amounts to."""
    events = [(name, data) for name, data in events]
    assert events[1] == ("ping", {"type": "ping"})
    events = [e for e in events if e[0] != "ping"]
    for name, data in events:
        assert data["type"] == name
        MESSAGE_EVENT.validate_python(data)
    steps = Steps(events)
    message = steps.take("message_start")["message"]
    assert message["content"] == [] and message["stop_reason"] is None and message["usage"]["input_tokens"] > 0
    while steps.peek() == "content_block_start":
        begun = steps.take("content_block_start")
        index, block = begun["index"], begun["content_block"]
        assert index == len(message["content"])
        kind = block["type"]
        grows = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking"),
                 "tool_use": ("input_json_delta", "partial_json")}[kind]
        text, signature = "", ""
        while steps.peek() == "content_block_delta":
            event = steps.take("content_block_delta")
            assert event["index"] == index and signature == ""
            if kind == "thinking" and event["delta"]["type"] == "signature_delta":
                signature = event["delta"]["signature"]
                assert signature
            else:
                assert event["delta"]["type"] == grows[0]
                text += event["delta"][grows[1]]
        assert steps.take("content_block_stop")["index"] == index
        if kind == "tool_use":
            assert block["input"] == {}
            block = {**block, "json": text}
        elif kind == "thinking":
            assert signature and block == {"type": "thinking", "thinking": "", "signature": ""}
            block = {**block, "thinking": text, "signature": signature}
        else:
            assert block["text"] == ""
            block = {**block, "text": text}
        message["content"].append(block)
    delta = steps.take("message_delta")
    message |= delta["delta"]
    message["usage"] |= delta["usage"]
    steps.take("message_stop")
    steps.end()
    return message


def checked_message(message):
    """A whole message that the client's model takes."""
    Message.model_validate(message)
    return message
