"""The official `openai` client, synchronous and asynchronous, streamed and not, against a real model.

Starts the program on the default model; SLIPSTREAM_BASE_URL tests any running server instead, SLIPSTREAM_BIN and
SLIPSTREAM_TEST_MODEL choose the program and the model. Nothing here depends on which model answers."""

import asyncio
import os
import re
import time

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from server_process import Server

QUESTION = [{"role": "user", "content": "Write two sentences about the sea."}]


@pytest.fixture(scope="module")
def server(request):
    if os.environ.get("SLIPSTREAM_BASE_URL"):
        yield None
        return
    program = os.environ.get("SLIPSTREAM_BIN") or str(request.getfixturevalue("binary"))
    model = str(request.getfixturevalue("smollm2"))
    with Server(program, "serve", model, "--served-model-name=smollm2", "--max-num-seqs=32", "--threads=2",
                timeout=120) as process:
        yield process
        assert process.process.poll() is None, process.log()  # it outlived every test


@pytest.fixture(scope="module")
def base_url(server):
    return os.environ.get("SLIPSTREAM_BASE_URL") or server.base_url


@pytest.fixture(scope="module")
def client(base_url):
    return OpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def text_of(stream):
    """Text, finish reason and usage of a chat stream."""
    text, finish, usage = "", None, None
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                assert finish is None, "two finish chunks"
                finish = choice.finish_reason
    return text, finish, usage


def ask(client, model, **more):
    options = {"temperature": 0, "max_tokens": 24, **more}
    return client.chat.completions.create(model=model, messages=options.pop("messages", QUESTION), **options)


def test_models(client, model):
    (m,) = [m for m in client.models.list() if m.id == model]
    assert m.object == "model" and m.owned_by and m.created > 0
    assert client.models.retrieve(model).id == model


def test_answer_and_usage(client, model):
    a = ask(client, model)
    assert a.object == "chat.completion" and a.id.startswith("chatcmpl-") and a.model == model
    assert a.choices[0].message.role == "assistant" and a.choices[0].message.content.strip()
    assert a.choices[0].finish_reason in ("stop", "length")
    assert a.usage.total_tokens == a.usage.prompt_tokens + a.usage.completion_tokens
    assert 0 < a.usage.completion_tokens <= 24
    assert a.system_fingerprint and a._request_id


def test_stream_equals_whole(client, model):
    whole = ask(client, model)
    text, finish, usage = text_of(ask(client, model, stream=True, stream_options={"include_usage": True}))
    assert (text, finish) == (whole.choices[0].message.content, whole.choices[0].finish_reason)
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens


def test_stream_helper(client, model):
    """The SDK's own accumulator: it checks the grammar and refuses an answer that was cut."""
    stop = re.findall(r"\w{3,}", ask(client, model).choices[0].message.content)[3]
    with client.chat.completions.stream(model=model, messages=QUESTION, max_tokens=24, temperature=0, stop=stop) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds and kinds[-1] == "content.done"
    assert final.choices[0].message.content == ask(client, model, stop=stop).choices[0].message.content
    with pytest.raises(openai.LengthFinishReasonError):
        with client.chat.completions.stream(model=model, messages=QUESTION, max_tokens=2, temperature=0) as stream:
            stream.get_final_completion()


def test_seed(client, model):
    def sampled(seed, **more):
        return ask(client, model, temperature=1.0, seed=seed, **more).choices[0].message.content
    assert sampled(1) == sampled(1) == text_of(ask(client, model, temperature=1.0, seed=1, stream=True))[0]
    assert len({sampled(s) for s in range(2, 7)}) > 1
    assert ask(client, model).choices[0].message.content == ask(client, model, seed=5).choices[0].message.content


def test_n(client, model):
    a = ask(client, model, n=3, temperature=1.0, seed=9)
    assert [c.index for c in a.choices] == [0, 1, 2]
    assert len({c.message.content for c in a.choices}) > 1
    texts = ["", "", ""]
    for chunk in ask(client, model, n=3, temperature=1.0, seed=9, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [c.message.content for c in a.choices]


def test_stop(client, model):
    whole = ask(client, model, max_tokens=40).choices[0].message.content
    word = re.findall(r"\w{3,}", whole)[2]
    a = ask(client, model, max_tokens=40, stop=[word])
    assert a.choices[0].message.content == whole[:whole.index(word)]
    assert a.choices[0].finish_reason == "stop"
    assert text_of(ask(client, model, max_tokens=40, stop=word, stream=True))[0] == a.choices[0].message.content


def test_logprobs(client, model):
    a = ask(client, model, logprobs=True, top_logprobs=3, max_tokens=10)
    content = a.choices[0].logprobs.content
    assert len(content) in (a.usage.completion_tokens, a.usage.completion_tokens - 1)
    spelled = b"".join(bytes(t.bytes) for t in content).decode(errors="replace")
    assert spelled == a.choices[0].message.content
    for t in content:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3
        values = [top.logprob for top in t.top_logprobs]
        assert values == sorted(values, reverse=True)
        assert abs(t.logprob - values[0]) < 1e-6  # greedy draws the most likely
    streamed = []
    for chunk in ask(client, model, logprobs=True, top_logprobs=3, max_tokens=10, stream=True):
        for choice in chunk.choices:
            if choice.logprobs:
                streamed += choice.logprobs.content
    assert [t.token for t in streamed] == [t.token for t in content]
    assert [t.logprob for t in streamed] == [t.logprob for t in content]


def test_penalties_and_bias_change_the_text(client, model):
    plain = ask(client, model)
    first = ask(client, model, logprobs=True, max_tokens=1).choices[0].logprobs.content[0].token
    token = openai_tokens(client, first)
    banned = ask(client, model, logit_bias={str(token[0]): -100}).choices[0].message.content
    assert not banned.startswith(first) and banned != plain.choices[0].message.content


def openai_tokens(client, text):
    import httpx
    return httpx.post(str(client.base_url) + "tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]


def test_completions(client, model):
    a = client.completions.create(model=model, prompt="The capital of France is", max_tokens=8, temperature=0)
    assert a.object == "text_completion" and a.choices[0].text
    streamed = "".join(c.choices[0].text for c in client.completions.create(
        model=model, prompt="The capital of France is", max_tokens=8, temperature=0, stream=True) if c.choices)
    assert streamed == a.choices[0].text
    several = client.completions.create(model=model, prompt=["The capital of France is", "One, two, three,"],
                                        max_tokens=8, temperature=0, logprobs=2)
    assert several.choices[0].text == a.choices[0].text and len(several.choices) == 2
    assert "".join(several.choices[1].logprobs.tokens) == several.choices[1].text


def test_raw_response_headers(client, model):
    raw = client.chat.completions.with_raw_response.create(model=model, messages=QUESTION, max_tokens=2,
                                                           extra_headers={"X-Request-Id": "from-the-client"})
    assert raw.headers["x-request-id"] == "from-the-client"
    assert raw.parse().choices


@pytest.mark.parametrize("more, kind, code", [
    ({"temperature": 9}, openai.BadRequestError, None),
    ({"logit_bias": {"99999999": 1}}, openai.BadRequestError, None),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, openai.BadRequestError, "unsupported_parameter"),
    ({"max_tokens": 1 << 23}, openai.BadRequestError, "context_length_exceeded"),
    ({"messages": []}, openai.BadRequestError, None),
    ({"model": "no-such-model"}, openai.NotFoundError, "model_not_found"),
])
def test_errors(client, model, more, kind, code):
    options = {"model": model, "messages": QUESTION, **more}
    with pytest.raises(kind) as caught:
        client.chat.completions.create(**options)
    assert caught.value.code == code and caught.value.body["message"]
    with pytest.raises(kind):
        client.chat.completions.create(**options, stream=True)


def test_keys_and_limits(request):
    """401 and 429 as the client's own classes, on the stub."""
    stub_binary = request.getfixturevalue("stub_binary")
    with Server(stub_binary, "--api-key=right", "--max-streams=1", "--stub-step-us=5000") as s:
        with pytest.raises(openai.AuthenticationError):
            OpenAI(base_url=s.base_url, api_key="wrong", max_retries=0).models.list()
        c = OpenAI(base_url=s.base_url, api_key="right", max_retries=0)
        assert c.models.list().data[0].id == "stub"
        busy = c.chat.completions.create(model="stub", messages=[{"role": "user", "content": "x" * 900}], stream=True)
        next(iter(busy))
        with pytest.raises(openai.RateLimitError) as caught:
            c.chat.completions.create(model="stub", messages=QUESTION)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        busy.close()
        s.wait_idle()
        with pytest.raises(openai.NotFoundError):
            c.embeddings.create(model="stub", input="x")


def test_engine_error_inside_a_stream(request):
    stub_binary = request.getfixturevalue("stub_binary")
    with Server(stub_binary, "--stub-nan-row=4") as s:
        c = OpenAI(base_url=s.base_url, api_key="x", max_retries=0)
        with pytest.raises(openai.APIError):
            for _ in c.chat.completions.create(model="stub", messages=QUESTION, stream=True):
                pass
        with pytest.raises(openai.APIStatusError):
            c.chat.completions.create(model="nothing", messages=QUESTION)


def test_async(base_url, model):
    async def run():
        async with AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=120) as c:
            whole = await c.chat.completions.create(model=model, messages=QUESTION, max_tokens=12, temperature=0)
            text = ""
            async for chunk in await c.chat.completions.create(model=model, messages=QUESTION, max_tokens=12,
                                                               temperature=0, stream=True):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
            with pytest.raises(openai.BadRequestError):
                await c.chat.completions.create(model=model, messages=QUESTION, n=1000)
            return whole.choices[0].message.content, text
    whole, text = asyncio.run(run())
    assert whole == text


def test_32_concurrent_streams(base_url, model):
    """Each stream's text is what the same request gives alone."""
    prompts = [[{"role": "user", "content": f"Count from {i} to {i + 3}."}] for i in range(32)]

    async def run():
        async with AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=300) as c:
            async def one(messages):
                text, finishes = "", 0
                async for chunk in await c.chat.completions.create(model=model, messages=messages, max_tokens=16,
                                                                   temperature=0, stream=True):
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
                        finishes += choice.finish_reason is not None
                assert finishes == 1
                return text
            together = await asyncio.gather(*(one(p) for p in prompts))
            alone = [await one(p) for p in prompts[:3]]
            return together, alone
    together, alone = asyncio.run(run())
    assert together[:3] == alone
    assert all(together)


def test_disconnects(client, model, server):
    for _ in range(5):
        stream = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=500, stream=True)
        next(iter(stream))
        stream.close()
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).chat.completions.create(model=model, messages=QUESTION, max_tokens=2000,
                                                                 extra_body={"ignore_eos": True})
    start = time.monotonic()
    assert ask(client, model, max_tokens=2).choices
    if server:
        server.wait_idle(3)
        assert time.monotonic() - start < 10
