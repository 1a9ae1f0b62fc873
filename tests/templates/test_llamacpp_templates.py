"""The template files of the llama.cpp source package, each with twelve conversations: the bytes of jinja2, or refused
by name, and refused wherever jinja2 refuses."""

import pytest
from template_conversations import CONVERSATIONS
from template_oracle import reference

pytestmark = pytest.mark.full

# Every file of the families that we promise must render wherever jinja2 does.
FAMILIES = ["llama-3", "Llama-3", "Qwen", "QwQ", "GLM-4", "deepseek", "mistral", "Mistral", "Ministral", "gemma",
            "SmolLM", "gpt-oss"]


def test_every_file_and_conversation(render, templates):
    counts = {"equal": 0, "both refuse": 0, "refused by name": 0}
    wrong = []
    for path in templates:
        source = path.read_text()
        for name, conversation in CONVERSATIONS.items():
            variables = {"add_generation_prompt": True, "tools": None, "documents": None, "bos_token": "<s>",
                         "eos_token": "</s>", **conversation}
            expected, error = reference(source, variables)
            extra = {k: v for k, v in conversation.items() if k not in ("messages", "tools", "add_generation_prompt")}
            got = render(template=source, messages=variables["messages"], tools=variables["tools"], extra=extra,
                         add_generation_prompt=variables["add_generation_prompt"], bos_token="<s>", eos_token="</s>")
            where = f"{path.name} / {name}"
            if error is not None:
                counts["both refuse"] += "error" in got
                if "error" not in got:
                    wrong.append(f"{where}: jinja2 refuses with {error!r}, we print")
            elif got.get("text") == expected:
                counts["equal"] += 1
            elif got.get("code") == "unsupported" and not any(family in path.name for family in FAMILIES):
                counts["refused by name"] += 1
            else:
                wrong.append(f"{where}: {got.get('error') or first_difference(expected, got['text'])}")
    print(counts, "of", len(templates), "templates")
    assert not wrong, "\n".join(wrong)
    assert counts["equal"] >= 600


def first_difference(expected, got):
    at = next((i for i, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
    return f"at character {at}: expected {expected[max(0, at - 40):at + 40]!r}, got {got[max(0, at - 40):at + 40]!r}"
