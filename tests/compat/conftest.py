"""Servers on the default model: one that most tests share, and more with chosen flags."""
import json
import subprocess

import pytest

from processes import clean_environment
from served import running


@pytest.fixture(scope="session")
def server(binary, smollm2):
    with running(binary, smollm2, "--served-model-name", "m", "--log-level", "warn") as made:
        yield made.http


@pytest.fixture
def launch(binary, smollm2):
    """launch(flags...) as a context manager."""
    return lambda *flags, model=smollm2, **more: running(binary, model, *flags, **more)


TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "[{{ colour }}|{{ enable_thinking }}|{{ reasoning_effort }}]"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@pytest.fixture(scope="session")
def second(binary, smollm2, tmp_path_factory):
    """One sequence at a time, drafts from the text, and a template that shows its variables."""
    file = tmp_path_factory.mktemp("template") / "template.jinja"
    file.write_text(TEMPLATE)
    with running(binary, smollm2, "--max-num-seqs", "1", "--chat-template", str(file), "--default-chat-template-kwargs",
                 '{"colour": "red"}', "--speculative-config.method", "ngram", "--speculative-config.policy", "fixed", "--any-model-name") as made:
        yield made


@pytest.fixture(scope="session")
def tables(binary):
    """What the program's own tables say."""
    def table(*words):
        return json.loads(subprocess.run([binary, *words], capture_output=True, check=True, text=True,
                                         env=clean_environment()).stdout)
    rows = table("parameters")
    return {"flags": table("check-config", "--flags"), "parameters": [r for r in rows if r["chat"] or r["completions"]],
            "responses": [r for r in rows if r["responses"]], "messages": [r for r in rows if r["messages"]]}
