"""What a family's own chat template makes of an assistant's turn, the parser must read back as the same turn: the template files
of the llama.cpp source package, rendered by jinja2."""

import json
import os
import subprocess

import pytest
from template_oracle import ROOT, reference

pytestmark = pytest.mark.full

TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Which."}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
            "places": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "write", "description": "A file.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}}},
]
CALLS = {
    "plain": [("weather", {"city": "Paris", "days": 2})],
    "types": [("weather", {"city": "null", "exact": True, "places": ["a", "b\n"], "more": {"k": [1, None]}})],
    "code": [("write", {"path": "a.py", "text": "if a < b and c > d:\n    print(\"</div> {x}\")\n\n"})],
    "two": [("weather", {"city": "Paris"}), ("write", {"path": "ü", "text": "x"})],
}
# File -> the form that it must be found to have, whether it takes thoughts and several calls in a turn, its special tokens.
MISTRAL = ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]
HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"]
FILES = {
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", False, True, []),
    "Qwen-Qwen3-0.6B": ("hermes", True, True, []),
    "Qwen-QwQ-32B": ("hermes", False, True, []),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", False, True, []),
    "Qwen3.5-4B": ("qwen3_xml", True, True, []),
    "Qwen3-Coder": ("qwen3_xml", False, True, []),
    "GLM-4.6": ("glm45", True, True, []),
    "GLM-4.7-Flash": ("glm45", True, True, []),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama3_json", False, False, ["<|python_tag|>"]),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama3_json", False, False, []),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama3_json", False, False, ["<|python_tag|>"]),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral", False, True, MISTRAL[:1]),
    "Mistral-Small-3.2-24B-Instruct-2506": ("mistral", False, True, MISTRAL[:3]),
    "unsloth-mistral-Devstral-Small-2507": ("mistral", False, True, MISTRAL[:2]),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", False, True, MISTRAL),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek_v3", False, True, []),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek_v3", False, True, []),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek_v32", True, True, []),
    "deepseek-ai-DeepSeek-V4": ("deepseek_v32", True, True, []),
    "openai-gpt-oss-120b": ("openai", False, False, HARMONY),
}
# These print calls, but show no tools: the server asks for a form of its own instead.
WITHOUT_TOOLS = ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1"]
ENDS = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "</s>", "<｜end▁of▁sentence｜>", "<|call|>", "<|end|>", "<|return|>"]


@pytest.fixture(scope="module")
def parse():
    program = os.environ.get("SLIPSTREAM_PARSE_OUTPUT") or ROOT / "build/release/tests/tools/parse_output/slip_parse_output"
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(**case):
        process.stdin.write(json.dumps(case).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    assert process.wait() == 0


def rendered(source, messages, generate):
    text, error = reference(source, {"messages": messages, "tools": TOOLS, "documents": None, "bos_token": "<s>", "eos_token": "</s>",
                                     "add_generation_prompt": generate, "enable_thinking": True, "thinking": True})
    assert error is None, f"{type(error).__name__}: {error}"
    return text


def turn(calls, content, thoughts):
    message = {"role": "assistant", "content": content}
    if thoughts:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = [{"id": f"call0000{i}", "type": "function", "function": {"name": n, "arguments": a}}
                                 for i, (n, a) in enumerate(calls)]
    return message


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("name", FILES)
def test_round_trip(parse, templates, name, calls):
    form, thinks, several, specials = FILES[name]
    if len(CALLS[calls]) > 1 and not several:
        pytest.skip("one call in a turn")
    (path,) = [p for p in templates if p.stem == name]
    source = path.read_text()
    question = [{"role": "user", "content": "Do it."}]
    # R1's template prints a second turn for a content that is not null
    message = turn(CALLS[calls], None if "R1-Distill" in name else "", "I look it up." if thinks else "")
    prompt = rendered(source, question, True)
    whole = rendered(source, question + [message], False)
    said = whole[common(prompt, whole):]
    for _ in range(2):
        said = said.rstrip("\n")
        for end in ENDS:
            said = said.removesuffix(end)
    got = parse(template=source, specials=specials, tools=TOOLS, prompt=prompt[:common(prompt, whole)], text=said,
                call_form=form if name in WITHOUT_TOOLS else "auto")
    assert got["call_form"] == form and got["shows_tools"] == (name not in WITHOUT_TOOLS)
    assert [(c["name"], json.loads(c["arguments"])) for c in got["calls"]] == CALLS[calls], said
    assert got["content"] == ""
    assert got["reasoning"] == message.get("reasoning_content", "")


def common(a, b):
    """How far a prompt that asks for an answer and the conversation with the answer agree: templates may open what they then leave
    out."""
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    while at < len(a) and a[at - 1] not in ">]\n":  # not in the middle of a tag
        at -= 1
    return at
