"""Every construct, rendered by us and by jinja2: the same bytes, or both refuse."""

import pytest
from template_constructs import cases
from template_oracle import reference

CASES = cases()


def test_the_table_is_not_empty():
    texts = [text for text, variables in CASES if reference(text, variables)[1] is None]
    assert len(CASES) >= 300 and len(texts) >= 180


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{i}-{CASES[i][0][:40]!r}")
def test_construct(render, case):
    template, variables = CASES[case]
    expected, error = reference(template, dict(variables, add_generation_prompt=True, documents=None))
    messages = variables.get("messages", [])
    got = render(template=template, extra=variables, messages=messages, tools=variables.get("tools"))
    if error is not None:
        assert "error" in got, f"jinja2 refuses with {error!r}, we print {got['text']!r}"
    else:
        assert got.get("text") == expected, got.get("error")
