"""Outputs of random walks through the masks, judged by others: jsonschema for schemas, Python's re for regular expressions.
Nothing of the engine is asked whether an output is right."""
import ast
import copy
import datetime
import json
import re

import jsonschema
import pytest

from agent_schemas import AGENT_SCHEMAS
from random_schemas import Schemas

CHECKER = copy.deepcopy(jsonschema.Draft202012Validator.FORMAT_CHECKER)
CHECKER.checks("date-time", raises=ValueError)(lambda v: not isinstance(v, str) or bool(datetime.datetime.fromisoformat(v).tzinfo))
CHECKER.checks("time", raises=ValueError)(lambda v: not isinstance(v, str) or bool(datetime.time.fromisoformat(v).tzinfo))
WALKS = 4


def validator(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=CHECKER)


def judged(answers, schemas):
    """Ended walks, all valid; how many there were."""
    ended = 0
    for answer, schema in zip(answers, schemas):
        judge = validator(schema)
        for walk in answer["walks"]:
            assert not walk["stuck"], (schema, walk)
            if walk["ended"]:
                value = json.loads(walk["text"])
                error = jsonschema.exceptions.best_match(judge.iter_errors(value))
                assert error is None, (json.dumps(schema), walk["text"], error.message)
                ended += 1
    return ended


def test_random_schemas(grammar):
    """2,000 walks and more that end, each a valid instance."""
    schemas = [Schemas(seed).schema() for seed in range(640)]
    spaces = ["", "fixed", "[ \\t]?"]
    answers = grammar.ask([{"kind": "json_schema", "text": json.dumps(schema), "walks": WALKS, "seed": i, "tokens": 24,
                            "whitespace": spaces[i % 3]} for i, schema in enumerate(schemas)])
    refused = [(json.dumps(s), a["error"]) for s, a in zip(schemas, answers) if "error" in a]
    # Some have no instance (enum and allOf that contradict each other), or branches that may both match.
    for schema, error in refused:
        assert "matches no text" in error or "of oneOf may both match" in error, (schema, error)
    assert len(refused) < len(schemas) * 0.06, refused[:5]
    ended = judged([a for a in answers if "walks" in a], [s for s, a in zip(schemas, answers) if "walks" in a])
    assert ended >= 2000, ended


@pytest.mark.parametrize("name", sorted(AGENT_SCHEMAS))
def test_schemas_of_agents(grammar, name):
    schema = AGENT_SCHEMAS[name]
    answer, = grammar.ask([{"kind": "json_schema", "text": json.dumps(schema), "walks": 6, "seed": 5, "tokens": 200}])
    assert "error" not in answer, answer
    assert judged([answer], [schema]) >= 5


def test_any_json_object(grammar):
    answer, = grammar.ask([{"kind": "json_object", "walks": 30, "seed": 3, "tokens": 30}])
    values = [json.loads(walk["text"]) for walk in answer["walks"] if walk["ended"]]
    assert len(values) == 30 and all(isinstance(v, dict) for v in values) and any(values)


REGEXES = [r"[a-z]{3,8}@[a-z]{2,6}\.(com|org)", r"(\d{3})-(\d{2,4})", r"(yes|no|maybe)( please)?", r"[^\x00-\x1f]{1,12}",
           r"#[0-9a-fA-F]{6}", r"a*b{2,3}(c|de){1,2}", r"v(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})(-rc[0-9])?", r"(?:ab|[c-e]f?){2,5}",
           r"[äöü€🙂]{1,4}", r"\w{2,5}\s\S{1,6}", r".{0,10}", r"(GET|POST) /[a-z/]{0,12}", r"x(y(z|w)?){0,3}"]


def test_regular_expressions(grammar):
    answers = grammar.ask([{"kind": "regex", "text": pattern, "walks": 12, "seed": 11, "tokens": 40} for pattern in REGEXES])
    for pattern, answer in zip(REGEXES, answers):
        walks = [walk for walk in answer["walks"] if walk["ended"]]
        assert len(walks) >= 6, pattern
        for walk in walks:
            assert re.fullmatch(pattern, walk["text"]), (pattern, walk["text"])


ARITHMETIC = """
root ::= sum
sum ::= product (" "? [+-] " "? product)*
product ::= atom ("*" atom){0,2}
atom ::= [1-9] [0-9]{0,3} | "(" sum ")"   # numbers and brackets
"""
PALINDROME = 'root ::= "a" root "a" | "b" root "b" | "c"'
CSV = 'root ::= row{1,3}\nrow ::= cell ("," cell){0,2} "\\n"\ncell ::= [a-z]{1,6} | "\\"" [^"\\n]{0,9} "\\""'


def calculates(text):
    """Python's own parser says that it is arithmetic."""
    return all(isinstance(node, (ast.Expression, ast.BinOp, ast.Constant, ast.operator)) for node in ast.walk(ast.parse(text, mode="eval")))


def test_grammars(grammar):
    judges = [(ARITHMETIC, calculates), (PALINDROME, lambda t: t == t[::-1] and re.fullmatch("[ab]*c[ab]*", t)),
              (CSV, lambda t: re.fullmatch(r'(?:(?:[a-z]+|"[^"\n]*")(?:,(?:[a-z]+|"[^"\n]*"))*\n){1,3}', t))]
    answers = grammar.ask([{"kind": "ebnf", "text": text, "walks": 60, "seed": 8, "tokens": 30} for text, _ in judges])
    for (text, judge), answer in zip(judges, answers):
        ended = [walk["text"] for walk in answer["walks"] if walk["ended"]]
        assert len(set(ended)) >= 8, text
        for output in ended:
            assert judge(output), (text, output)


def test_patterns_of_schemas_search(grammar):
    patterns = ["^[a-c]", "[0-9]$", "x|y", "^(id|no)-\\d+$", "\\.(py|cpp)$", "^$|^a", "a.b", "\"quoted\"", "back\\\\slash"]
    answers = grammar.ask([{"kind": "json_schema", "text": json.dumps({"type": "string", "pattern": p, "maxLength": 30}),
                            "walks": 12, "seed": 2, "tokens": 12} for p in patterns])
    for pattern, answer in zip(patterns, answers):
        assert not any(walk["stuck"] for walk in answer["walks"])
        texts = [json.loads(walk["text"]) for walk in answer["walks"] if walk["ended"]]
        assert texts, pattern
        for text in texts:
            assert re.search(pattern, text) and len(text) <= 30, (pattern, text)


def test_choices(grammar):
    choices = ["yes", "yes please", "no", "ümlaut", "yes\n"]
    answer, = grammar.ask([{"kind": "choice", "text": json.dumps(choices), "walks": 40, "seed": 1}])
    assert {walk["text"] for walk in answer["walks"]} <= set(choices)
    assert len({walk["text"] for walk in answer["walks"]}) >= 4


def test_structural_tags(grammar):
    """Each trigger in the output starts a tag of its schema."""
    schema = {"type": "object", "properties": {"q": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}}, "required": ["q"]}
    tag = {"structures": [{"begin": "<call=a>", "schema": schema, "end": "</call>"},
                          {"begin": "<call=b>", "schema": {"type": "boolean"}, "end": "</call>"}], "triggers": ["<call="]}
    form = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<call="], "at_least_one": True,
            "stop_after_first": True, "tags": [{"begin": f"<call={k}>", "content": {"type": "json_schema", "json_schema": s}, "end": "</call>"}
                                               for k, s in [("a", schema), ("b", {"type": "boolean"})]]}}
    answers = grammar.ask([{"kind": "structural_tag", "text": json.dumps(t), "walks": 10, "seed": 4, "tokens": 60} for t in [tag, form]])
    calls = 0
    for answer in answers:
        for walk in answer["walks"]:
            for name, content in re.findall(r"<call=(.)>(.*?)</call>", walk["text"], re.S):
                calls += 1
                jsonschema.validate(json.loads(content), schema if name == "a" else {"type": "boolean"})
            if walk["ended"]:
                assert len(re.findall("<call=", walk["text"])) == len(re.findall("</call>", walk["text"]))
    # Nothing pushes a random walk into a tag, so accept lists say that tags are possible.
    accepted, = grammar.ask([{"kind": "structural_tag", "text": json.dumps(form),
                              "accept": ['hm <call=a>{"q":"x","n":1}</call>', "<call=b>true</call>", "no call", "<call=b>1</call>"]}])
    assert accepted["accept"] == [True, True, False, False]


def test_valid_instances_are_accepted_in_other_spellings(grammar):
    """What one walk wrote is accepted byte by byte when json.dumps writes it, in two layouts."""
    schemas = [Schemas(seed).schema() for seed in range(900, 1000)]
    first = grammar.ask([{"kind": "json_schema", "text": json.dumps(s), "walks": 3, "seed": i, "tokens": 16} for i, s in enumerate(schemas)])
    requests, kept = [], []
    for schema, answer in zip(schemas, first):
        values = [json.loads(w["text"]) for w in answer.get("walks", []) if w["ended"]]
        values = [v for v in values if "e" not in json.dumps(v).replace("true", "").replace("false", "") or not has_float(v)]
        if values:
            texts = [json.dumps(v, ensure_ascii=False) for v in values] + [json.dumps(v, ensure_ascii=False, indent=2) for v in values]
            requests.append({"kind": "json_schema", "text": json.dumps(schema), "accept": texts})
            kept.append(texts)
    assert len(requests) > 60
    for request, answer, texts in zip(requests, grammar.ask(requests), kept):
        for text, accepted in zip(texts, answer["accept"]):
            assert accepted, (request["text"], text)


def has_float(value):
    if isinstance(value, float):
        return True
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    return isinstance(value, list) and any(map(has_float, value))


def test_invalid_instances_are_refused(grammar):
    """Values of other schemas: what jsonschema calls invalid is not accepted."""
    schemas = [Schemas(seed).schema() for seed in range(2000, 2060)]
    walks = grammar.ask([{"kind": "json_schema", "text": json.dumps(s), "walks": 2, "seed": i, "tokens": 16} for i, s in enumerate(schemas)])
    texts = [w["text"] for a in walks for w in a.get("walks", []) if w["ended"]][:60]
    usable = [s for s, a in zip(schemas, walks) if "walks" in a]
    answers = grammar.ask([{"kind": "json_schema", "text": json.dumps(s), "accept": texts} for s in usable])
    wrong = 0
    for schema, answer in zip(usable, answers):
        judge = validator(schema)
        for text, accepted in zip(texts, answer["accept"]):
            if not judge.is_valid(json.loads(text)):
                wrong += 1
                assert not accepted, (json.dumps(schema), text)
    assert wrong > 1000
