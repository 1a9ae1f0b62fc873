"""Every numeric parameter at and around its bounds, made from the server's own table (config/limits.h)."""

import json

import pytest
from server_process import build, chat, run_to_end


@pytest.fixture(scope="session")
def table(stub_binary):
    return json.loads(run_to_end(stub_binary, "--stub-parameters").stdout)


# what else a field needs to be legal, and values that are in range but refused by another rule
COMPANIONS = {"top_logprobs": {"logprobs": True}, "min_tokens": {}, "max_tokens": {}}
CONTEXT = 2048


def targets(table):
    for row in table:
        if row["treatment"] != "used" or "min" not in row:
            continue
        for endpoint in ("chat", "completions"):
            if row[endpoint]:
                yield row, endpoint


def send(stub, endpoint, name, literal):
    """The value as JSON text, so that 1e999 and NaN can be sent."""
    base = chat("ab") if endpoint == "chat" else {"model": "stub", "prompt": "ab", "max_tokens": 4}
    base |= COMPANIONS.get(name, {}) if endpoint == "chat" else {}
    if "max" not in name and "min_tokens" not in name and "min_new" not in name:
        base["max_tokens"] = 4
    base.pop(name, None)
    text = json.dumps(base)[:-1] + f', "{name}": {literal}}}'
    path = "/v1/chat/completions" if endpoint == "chat" else "/v1/completions"
    return stub.post(path, text.encode())


def legal(row, value):
    if row["name"] in ("max_tokens", "max_completion_tokens", "min_tokens", "min_new_tokens"):
        return row["min"] <= value <= CONTEXT - 10
    return (row["min"] < value if row["min_excluded"] else row["min"] <= value) and value <= row["max"]


def test_the_table_has_the_fields(table):
    names = {row["name"] for row, _ in targets(table)}
    assert {"temperature", "top_p", "top_k", "min_p", "n", "max_tokens", "max_completion_tokens", "min_tokens", "seed",
            "top_logprobs", "logprobs", "presence_penalty", "frequency_penalty", "repetition_penalty",
            "priority"} <= names


def test_numbers(stub, table):
    checked = refused = 0
    for row, endpoint in targets(table):
        is_int = row["type"] == "int"
        low, high = row["min"], row["max"]
        step = 1 if is_int else 0.001
        values = [low - step, low, high, high + step, 0, -1, 2**31, 2**63]
        for value in values:
            literal = str(value) if is_int or value in (2**31, 2**63) else repr(float(value))
            a = send(stub, endpoint, row["name"], literal)
            good = legal(row, value)
            if good:
                assert a.status == 200, (row["name"], literal, a.text)
            else:
                assert a.status == 400, (row["name"], literal, a.status, a.text)
                assert a.error["param"] == row["name"], (row["name"], literal, a.text)
                refused += 1
            checked += 1
    assert checked > 200 and refused > 80


def test_wrong_types(stub, table):
    for row, endpoint in targets(table):
        for literal in ["1e999", "-1e999", "NaN", "Infinity", '"NaN"', '"1"', '"text"', "[]", "[1]", "{}", "true"]:
            a = send(stub, endpoint, row["name"], literal)
            assert a.status == 400, (row["name"], literal, a.text)
            assert a.error["param"] == row["name"], (row["name"], literal, a.text)
        assert send(stub, endpoint, row["name"], "null").status == 200
        if row["type"] == "int":
            assert send(stub, endpoint, row["name"], "1.5").status == 400


def test_other_types(stub, table):
    """Bools, strings, lists and objects of the wrong type name themselves."""
    wrong = {"bool": ['"true"', "1", "[]"], "string": ["1", "[]", "true"], "list": ["1", '"x"', "{}"],
             "object": ["1", '"x"', "[]"], "string or list": ["1", "true", "{}"]}
    seen = 0
    for row in table:
        if row["treatment"] == "refused" or row["type"] not in wrong:
            continue
        for endpoint in ("chat", "completions"):
            if not row[endpoint]:
                continue
            for literal in wrong[row["type"]]:
                a = send(stub, endpoint, row["name"], literal)
                assert a.status == 400 and a.error["param"] == row["name"], (row["name"], literal, a.text)
                seen += 1
    assert seen > 60


def test_refused_parameters(stub, table):
    seen = 0
    for row in table:
        if row["treatment"] != "refused":
            continue
        for endpoint in ("chat", "completions"):
            if not row[endpoint]:
                continue
            a = send(stub, endpoint, row["name"], '"some value"')
            assert a.status == 400 and a.error["code"] == "unsupported_parameter", (row["name"], a.text)
            assert a.error["param"] == row["name"]
            assert send(stub, endpoint, row["name"], "null").status == 200
            for neutral in row.get("neutral", "").split("|"):
                if neutral:
                    assert send(stub, endpoint, row["name"], neutral).status == 200, (row["name"], neutral)
            seen += 1
    assert seen > 40


@pytest.mark.parametrize("field, value, param", [
    ("stop", ["a"] * 5, "stop"), ("stop", ["x" * 257], "stop.0"), ("stop", "", "stop"), ("stop", [1], "stop.0"),
    ("stop_token_ids", [260], "stop_token_ids.0"), ("stop_token_ids", [-1], "stop_token_ids.0"),
    ("stop_token_ids", [2**31], "stop_token_ids.0"), ("stop_token_ids", ["1"], "stop_token_ids.0"),
    ("stop_token_ids", [1] * 65, "stop_token_ids"), ("logit_bias", {"260": 1}, "logit_bias"),
    ("logit_bias", {"-1": 1}, "logit_bias"), ("logit_bias", {"x": 1}, "logit_bias"), ("logit_bias", {"1": 101}, "logit_bias.1"),
    ("logit_bias", {"1": "1"}, "logit_bias.1"), ("logit_bias", {"99999999999999999999": 1}, "logit_bias"),
    ("logit_bias", {str(i): 0 for i in range(1025)}, "logit_bias"), ("cache_salt", "", "cache_salt"),
    ("cache_salt", "x" * 1025, "cache_salt"), ("request_id", "x" * 129, "request_id"),
    ("reasoning_effort", "enormous", "reasoning_effort"), ("chat_template_kwargs", {"messages": []}, "chat_template_kwargs.messages"),
    ("stream_options", {"include_usage": 1}, "stream_options.include_usage"),
])
def test_lists_and_maps(stub, field, value, param):
    body = chat(**{field: value})
    if field == "stream_options":
        body["stream"] = True
    a = stub.post("/v1/chat/completions", body)
    assert a.status == 400 and a.error["param"] == param, a.text


def test_min_above_max(stub):
    a = stub.post("/v1/chat/completions", chat(min_tokens=5, max_tokens=4))
    assert a.status == 400 and a.error["param"] == "min_tokens"


def nested(depth, opening, closing):
    return opening * depth + closing * depth


@pytest.mark.parametrize("depth, good", [(63, True), (64, False), (100_000, False), (1_000_000, False)])
@pytest.mark.parametrize("form", ["array", "object", "tools"])
def test_depth(stub, depth, good, form):
    """The outer object is one level: 63 more are 64."""
    if form == "array":
        value = "[" * depth + "]" * depth
    else:
        depth = min(depth, 500_000)
        value = '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)
    field = "tools" if form == "tools" else "ignored"
    body = json.dumps(chat("ab"))[:-1] + f', "{field}": {value}}}'
    before = stub.rss_bytes()
    a = stub.post("/v1/chat/completions", body.encode())
    if good and form != "tools":
        assert a.status == 200, a.text
    else:
        assert a.status == 400
        assert "64" in a.error["message"] or form == "tools"
    assert stub.rss_bytes() - before < 8 << 20


@pytest.mark.parametrize("body", [
    b"", b" ", b"{", b"[]", b"7", b"null", b'"x"', b"{}x", b'{"a":1,}', b"{'a':1}", b"\xff\xfe", b'{"a":"\xc3\x28"}', b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\\ud800"}', b'{"a":"\\udc00\\ud800"}', b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}', b'{"a":1e}',
    b'{"a":tru}', b'{"a":"\x01"}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"a":' + b"9" * 600 + b"}", b"\xef\xbb\xbf{}",
    b'{"a":"\\x"}', b'{"a" 1}', b'{a:1}',
])
def test_bad_json(stub, body):
    a = stub.post("/v1/chat/completions", body)
    assert a.status == 400, a.text
    assert set(a.error) >= {"message", "type", "param", "code"} and a.error["type"] == "invalid_request_error"


def test_duplicate_key_names_itself(stub):
    a = stub.post("/v1/chat/completions", b'{"messages":[],"temperature":1,"temperature":1}')
    assert a.status == 400 and a.error["param"] == "temperature" and "duplicate" in a.error["message"]


def test_errors_do_not_echo(stub):
    secret = "sEcReT-81723"
    for body in ({**chat(secret), "temperature": 3}, {**chat(secret), "model": secret}, {"messages": [{"role": secret}]},
                 {**chat(), "reasoning_effort": secret}, {**chat(), "stop": [secret, 7]}):
        a = stub.post("/v1/chat/completions", body)
        assert a.status in (400, 404) and secret not in a.text
    assert secret not in stub.log()


def test_wrong_content_type(stub):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        a = stub.post("/v1/chat/completions", json.dumps(chat()).encode(), {"Content-Type": kind})
        assert a.status == 415 and a.error["code"] == "unsupported_media_type"
    ok = build("POST", "/v1/chat/completions", json.dumps(chat()).encode()).replace(b"Content-Type: application/json\r\n", b"")
    assert stub.raw(ok).status == 200
    assert stub.post("/v1/chat/completions", json.dumps(chat()).encode(), {"Content-Type": "application/json; charset=utf-8"}).status == 200
