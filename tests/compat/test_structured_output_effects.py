"""Structured output on the real default model: whatever it is asked, what comes back has the form. jsonschema and re judge."""
import json
import re

import jsonschema
import pytest

from checks import shows

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
ASK = {"chat": {"messages": [{"role": "user", "content": "Describe a person."}]}, "completions": {"prompt": "A person:"}}
both = pytest.mark.parametrize("route", ["chat", "completions"])

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}
SCHEMAS = [
    PERSON,
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"type": "integer", "minimum": 10, "maximum": 99}, {"const": "none"}]},
    {"type": "object", "properties": {"kind": {"const": "point"}, "x": {"type": "number"}, "y": {"type": ["number", "null"]}}, "required": ["kind", "x", "y"],
     "additionalProperties": False},
    {"type": "object", "properties": {"day": {"type": "string", "format": "date"}, "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}},
     "required": ["day", "id"], "additionalProperties": False},
    {"$defs": {"tree": {"type": "object", "properties": {"value": {"type": "integer", "minimum": 0, "maximum": 9},
                                                         "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
                        "required": ["value", "next"], "additionalProperties": False}}, "$ref": "#/$defs/tree"},
    {"enum": ["red", "green", {"rgb": [1, 2, 3]}]},
]


def post(http, route, **more):
    return http.post(PATHS[route], json={"temperature": 0, "max_tokens": 400, **ASK[route], **more})


def text_of(answer):
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"]


def streamed(http, route, **more):
    answer = post(http, route, stream=True, **more)
    assert answer.status_code == 200, answer.text
    chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    return "".join((c["delta"].get("content") or "") if "delta" in c else c["text"] for chunk in chunks for c in chunk["choices"])


def response_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_schemas_bind_any_sampling(server, schema):
    finished = 0
    for sampling in [{"temperature": 0}] + [{"temperature": 1.5, "seed": seed} for seed in range(8)]:
        answer = post(server, "chat", response_format=response_format(schema), max_tokens=200, **sampling)
        text = text_of(answer)
        if answer.json()["choices"][0]["finish_reason"] == "length":  # a small model may nest for ever
            assert len(text) > 100
            continue
        jsonschema.validate(json.loads(text), schema)
        finished += 1
    assert finished >= (2 if "$ref" in schema else 6)


@shows("response_format")
@both
def test_response_format(server, route):
    assert text_of(post(server, route, response_format={"type": "text"}, max_tokens=8)) == text_of(post(server, route, max_tokens=8))
    assert isinstance(json.loads(text_of(post(server, route, response_format={"type": "json_object"}))), dict)
    whole = text_of(post(server, route, response_format=response_format(PERSON)))
    jsonschema.validate(json.loads(whole), PERSON)
    assert streamed(server, route, response_format=response_format(PERSON)) == whole
    assert text_of(post(server, route, response_format={"type": "json_object", "schema": PERSON})) == whole
    tag = {"type": "structural_tag", "format": {"type": "const_string", "value": "exactly this"}}
    assert text_of(post(server, route, response_format=tag)) == "exactly this"


@pytest.mark.parametrize("value,param", [
    ("json", "response_format"), ({}, "response_format.type"), ({"type": "sql"}, "response_format.type"), ({"type": 7}, "response_format.type"),
    ({"type": "json_schema"}, "response_format.json_schema"), ({"type": "json_schema", "json_schema": []}, "response_format.json_schema"),
    ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
    ({"type": "json_schema", "json_schema": {"name": 3, "schema": {}}}, "response_format.json_schema.name"),
    ({"type": "json_schema", "json_schema": {"name": "x", "schema": 3}}, "response_format.json_schema.schema"),
    ({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"a": {"not": {}}}}}},
     "response_format.json_schema.schema.properties.a.not"),
])
def test_refused_response_formats(server, value, param):
    answer = post(server, "chat", response_format=value)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@shows("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern", "json_schema", "regex",
       "ebnf", "grammar", "structural_tag")
@both
def test_names_of_other_engines(server, route):
    person = text_of(post(server, route, structured_outputs={"json": PERSON}))
    jsonschema.validate(json.loads(person), PERSON)
    for more in ({"guided_json": PERSON}, {"json_schema": json.dumps(PERSON)}, {"json_schema": PERSON}, {"guided_json": json.dumps(PERSON)}):
        assert text_of(post(server, route, **more)) == person
    tight = text_of(post(server, route, structured_outputs={"json": PERSON, "disable_any_whitespace": True}))
    assert json.dumps(json.loads(tight), ensure_ascii=False) == tight
    dense = text_of(post(server, route, guided_json=PERSON, guided_whitespace_pattern=""))
    assert json.dumps(json.loads(dense), separators=(",", ":"), ensure_ascii=False) == dense
    pattern = r"[A-Z][a-z]{2,5} is (tall|small)\."
    for more in ({"structured_outputs": {"regex": pattern}}, {"guided_regex": pattern}, {"regex": pattern}):
        assert re.fullmatch(pattern, text_of(post(server, route, **more)))
    for more in ({"structured_outputs": {"choice": ["yes", "no", "yes, but"]}}, {"guided_choice": ["yes", "no", "yes, but"]}):
        assert text_of(post(server, route, **more)) in ("yes", "no", "yes, but")
    grammar = 'root ::= "<" item ("," item)* ">"\nitem ::= [0-9] [0-9]'
    for more in ({"structured_outputs": {"grammar": grammar}}, {"guided_grammar": grammar}, {"ebnf": grammar}, {"grammar": grammar}):
        assert re.fullmatch(r"<\d\d(,\d\d)*>", text_of(post(server, route, max_tokens=60, **more))) or route
    tag = {"structures": [{"begin": "<n>", "schema": {"type": "integer"}, "end": "</n>"}], "triggers": ["<n>"]}
    assert "<n>" not in (text := text_of(post(server, route, structural_tag=tag, max_tokens=24))) or re.search(r"<n>-?\d+", text)


def test_two_formats_are_refused(server):
    answer = post(server, "chat", response_format={"type": "json_object"}, regex="a")
    assert answer.status_code == 400 and "response_format" in answer.json()["error"]["message"]
    answer = post(server, "chat", structured_outputs={"regex": "a", "choice": ["a"]})
    assert answer.status_code == 400
    answer = post(server, "chat", structured_outputs={"jsn": {}})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "structured_outputs.jsn"


def test_with_n_and_with_logprobs(server):
    answer = post(server, "chat", response_format=response_format(PERSON), n=3, temperature=1.2, seed=4, logprobs=True, top_logprobs=2)
    choices = answer.json()["choices"]
    texts = [c["message"]["content"] for c in choices]
    for choice, text in zip(choices, texts):
        jsonschema.validate(json.loads(text), PERSON)
        assert "".join(t["token"] for t in choice["logprobs"]["content"]) == text
    assert len(set(texts)) > 1
    assert post(server, "chat", response_format=response_format(PERSON), temperature=1.2, seed=4).json()["choices"][0]["message"]["content"] == texts[0]


def test_a_limit_cuts_and_says_so(server):
    answer = post(server, "chat", response_format=response_format(PERSON), max_tokens=4).json()["choices"][0]
    assert answer["finish_reason"] == "length" and answer["message"]["content"].startswith("{")


@shows("allowed_token_ids")
@both
def test_allowed_token_ids(server, route):
    ids = server.post("/tokenize", json={"prompt": "yes no"}).json()["tokens"]
    answer = post(server, route, allowed_token_ids=ids, max_tokens=12, return_token_ids=True).json()["choices"][0]
    assert len(answer["token_ids"]) == 12 and set(answer["token_ids"]) <= set(ids)
    answer = post(server, route, allowed_token_ids=[2], max_tokens=12).json()["choices"][0]
    assert answer["finish_reason"] == "stop"
    for bad in ([], [-1], [10 ** 9], ["a"], "x"):
        assert post(server, route, allowed_token_ids=bad).status_code == 400


@shows("bad_words")
@both
def test_bad_words(server, route):
    plain = text_of(post(server, route, max_tokens=40))
    words = sorted({w for w in re.findall(r"[A-Za-z]{3,}", plain)}, key=plain.find)[:3]
    assert words
    without = text_of(post(server, route, max_tokens=40, bad_words=words))
    assert without != plain
    for word in words:
        assert not re.search(rf"(^| ){word}( |$)", without), (word, without)
    for bad in ("x", [""], [3], ["y" * 300], ["w"] * 300):
        assert post(server, route, bad_words=bad).status_code == 400


def test_contradictions_end_with_a_message(server):
    answer = post(server, "chat", allowed_token_ids=[2], structured_outputs={"choice": ["yes"]})
    assert answer.status_code == 400 and "contradict" in answer.json()["error"]["message"], answer.text


@pytest.mark.parametrize("more", [
    {"regex": "(a*)*" * 50}, {"regex": "(" * 2000}, {"regex": "a{9999}{9999}"}, {"regex": "(x+x+)+y" * 200},
    {"grammar": "root ::= root \"a\""}, {"grammar": "root ::= \"a\" {99999999}"}, {"grammar": "root ::= " + "(" * 3000},
    {"grammar": "root ::= x\n" + "".join(f"x{i} ::= x{i + 1} x{i + 1}\n" for i in range(200))},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#"}}}},
    {"guided_json": json.dumps({"type": "string", "minLength": 10 ** 9})}, {"guided_json": "[" * 100000},
    {"guided_json": {"enum": [f"{i:06d}" for i in range(60000)]}}, {"guided_json": {"type": "object", "patternProperties": {"(a*)*b": {}}, "minProperties": 10 ** 9}},
])
def test_bombs_are_refused_in_time(server, more):
    answer = server.post(PATHS["chat"], json={**ASK["chat"], "max_tokens": 2, **more}, timeout=30)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.elapsed.total_seconds() < 20


@pytest.mark.parametrize("more", [{"echo": True, "logprobs": 1}, {"echo": True, "logprobs": 1, "max_tokens": 0}, {"prompt_logprobs": 0, "max_tokens": 0}])
@pytest.mark.parametrize("prompt", ["", ["hi", ""]])
def test_an_empty_prompt_is_not_scored(server, prompt, more):
    answer = server.post("/v1/completions", json={"prompt": prompt, "max_tokens": 2, **more})
    assert answer.status_code == 400 and "no token" in answer.json()["error"]["message"]
    long = server.post("/v1/completions", json={"prompt": [5] * 9000, "max_tokens": 1, **more})
    assert long.status_code == 400 and long.json()["error"]["code"] == "context_length_exceeded" and "9000" in long.json()["error"]["message"]
