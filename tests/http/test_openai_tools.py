"""The official `openai` client with tools and thoughts: its stream helper, its parser of pydantic tools, and a loop that runs tools,
against a scripted model."""

import json

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from scripted import FAMILIES, TOOLS, script

FAMILY = FAMILIES["qwen3"]
CALL = FAMILY.calls(("weather", {"city": "Paris", "days": 2}))
THINKS_AND_CALLS = FAMILY.thinking("I look it up.") + "One moment.\n" + CALL


def turn(text):
    return [{"role": "user", "content": script(text)}]


@pytest.fixture
def client(scripted):
    return OpenAI(base_url=scripted("qwen3").base_url, api_key="unused", max_retries=0, timeout=60)


def test_stream_helper(client):
    names, fragments, content = [], [], []
    with client.chat.completions.stream(model="stub", messages=turn(THINKS_AND_CALLS), tools=TOOLS) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                names.append(event.name)
                fragments.append(event.arguments_delta)
            if event.type == "content.delta":
                content.append(event.delta)
        final = stream.get_final_completion()
    (choice,) = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "".join(content) == "One moment."
    (call,) = choice.message.tool_calls
    assert call.function.name == "weather" and set(names) == {"weather"}
    assert json.loads(call.function.arguments) == json.loads("".join(fragments)) == {"city": "Paris", "days": 2}
    assert choice.message.reasoning_content == "I look it up."


def test_stream_helper_of_an_answer(client):
    with client.chat.completions.stream(model="stub", messages=turn("It is late."), tools=TOOLS) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "It is late." and final.choices[0].finish_reason == "stop"
    assert not final.choices[0].message.tool_calls


def test_whole_answer(client):
    answer = client.chat.completions.create(model="stub", messages=turn(THINKS_AND_CALLS), tools=TOOLS)
    message = answer.choices[0].message
    assert message.reasoning_content == message.reasoning == "I look it up."
    assert message.tool_calls[0].type == "function" and message.tool_calls[0].id.startswith("call_")
    assert answer.usage.completion_tokens_details.reasoning_tokens > 10


def test_deltas_by_hand(client):
    chunks = list(client.chat.completions.create(model="stub", messages=turn(CALL), tools=TOOLS, stream=True))
    calls = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or []]
    assert calls[0].id and calls[0].function.name == "weather" and calls[0].index == 0
    assert all(c.id is None and c.function.name is None and c.index == 0 for c in calls[1:])
    assert json.loads("".join(c.function.arguments for c in calls)) == {"city": "Paris", "days": 2}


def test_a_loop_that_runs_tools(client):
    said = {"Paris": "Sunny.", "Rome": "Rain."}
    both = FAMILY.calls(("weather", {"city": "Paris"}), ("weather", {"city": "Rome"}))
    messages = turn(both)
    for _ in range(3):
        message = client.chat.completions.create(model="stub", messages=messages, tools=TOOLS).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            city = json.loads(call.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said[city]})
        messages[-1]["content"] += script("Sunny in Paris, rain in Rome.")
    assert message.content == "Sunny in Paris, rain in Rome."
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "assistant"]


def test_cut_off_arguments_are_reported_as_such(client):
    answer = client.chat.completions.create(model="stub", messages=turn(CALL), tools=TOOLS, max_tokens=55)
    assert answer.choices[0].finish_reason == "length"
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.choices[0].message.tool_calls[0].function.arguments)


@pytest.mark.asyncio
async def test_asynchronous(scripted):
    client = AsyncOpenAI(base_url=scripted("qwen3").base_url, api_key="unused", max_retries=0, timeout=60)
    stream = await client.chat.completions.create(model="stub", messages=turn(THINKS_AND_CALLS), tools=TOOLS, stream=True)
    thoughts, finish = "", None
    async for chunk in stream:
        thoughts += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
        finish = chunk.choices[0].finish_reason or finish
    assert thoughts == "I look it up." and finish == "tool_calls"


class weather(BaseModel):
    """Of a city."""

    city: str
    days: int


def test_bad_tools_raise(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="stub", messages=turn("x"), tools=[{"type": "function", "function": {"name": "a b"}}])
    assert caught.value.param == "tools.0.function.name"


def test_pydantic_tools(client):
    """The helper sends strict: true, and reads the arguments back as the model's class."""
    tool = openai.pydantic_function_tool(weather)
    completion = client.chat.completions.parse(model="stub", messages=turn(CALL), tools=[tool])
    (call,) = completion.choices[0].message.tool_calls
    assert call.function.parsed_arguments == weather(city="Paris", days=2)
    with client.chat.completions.stream(model="stub", messages=turn(CALL), tools=[tool], tool_choice="required") as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == weather(city="Paris", days=2)
