"""Walks docs/compatibility.md: every endpoint, parameter and flag is taken, or refused by name, as its row says, and every
row names a test that shows more than that."""
import ast
import re
import subprocess
from pathlib import Path

import pytest

from processes import clean_environment

ROOT = Path(__file__).resolve().parent.parent.parent
DOC = ROOT / "docs/compatibility.md"


def rows_of(heading):
    """Cells of the table under a heading, without its first two lines."""
    section = DOC.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    section = section.rpartition("made by scripts/make_compat -->")[2]  # other tables may stand before a generated one
    rows = [[c.strip().strip("`") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 10, heading
    return rows[2:]


ENDPOINTS, PARAMETERS, RESPONSES, MESSAGES, FLAGS = (rows_of(h) for h in (
    "Endpoints", "Request parameters", "Parameters of /v1/responses", "Parameters of /v1/messages", "Flags"))


CHAT = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "m", "max_tokens": 2, "prompt": "Hi"}
BODIES = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETION, "/tokenize": {"prompt": "Hi"},
          "/detokenize": {"tokens": [1, 2]}, "/apply-template": {"messages": CHAT["messages"]},
          "/v1/responses": {"input": "Hi", "max_output_tokens": 2}, "/v1/responses/input_tokens": {"input": "Hi"},
          "/v1/messages": CHAT, "/v1/messages/count_tokens": {"messages": CHAT["messages"]}}


@pytest.mark.parametrize("endpoint,treatment", [(r[0], r[1]) for r in ENDPOINTS])
def test_endpoint(server, endpoint, treatment):
    method, path = endpoint.split()
    body = BODIES.get(path, {}) if method == "POST" else None
    name = "m"
    if "/responses/{id}" in path:
        name = server.post("/v1/responses", json={**BODIES["/v1/responses"], "store": True}).json()["id"]
    answer = server.request(method, path.replace("{id}", name), json=body)
    if treatment == "served":
        # nothing that runs here can be cancelled by its id, and the answer says so
        assert answer.status_code == (400 if path.endswith("/cancel") else 200), answer.text
        return
    assert answer.status_code == 404
    error = answer.json()["error"]
    if path.startswith("/v1/messages/"):  # this API's errors have a type alone
        assert error["type"] == "not_found_error" and "is not served" in error["message"]
        return
    assert error["code"] == {"refused": "unsupported_endpoint", "absent": "not_found"}[treatment]
    assert set(error) >= {"message", "type", "param", "code"}


# Values that are legal beside the bodies above, for parameters whose type alone does not give one.
SAMPLES = {
    "messages": CHAT["messages"], "prompt": "Hi", "model": "m", "max_tokens": 2, "max_completion_tokens": 2,
    "min_tokens": 1, "min_new_tokens": 1, "stop": ["zq"], "stop_token_ids": [5], "logit_bias": {"5": -1},
    "reasoning_effort": "low", "top_logprobs": 2, "stream_options": {"include_usage": True}, "n": 2, "seed": 7,
    "service_tier": "auto", "cache_salt": "s", "temperature": 0.5, "top_p": 0.5, "min_p": 0.1, "top_k": 5,
    "repetition_penalty": 1.1, "repeat_penalty": 1.1, "logprobs": None, "tool_choice": "auto", "reasoning_format": "auto",
    "response_format": {"type": "text"}, "structured_outputs": {"regex": "a+"}, "guided_json": {"type": "integer"}, "guided_choice": ["a"],
    "guided_grammar": 'root ::= "a"', "json_schema": {"type": "integer"}, "ebnf": 'root ::= "a"', "grammar": 'root ::= "a"',
    "structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}, "allowed_token_ids": [5], "bad_words": ["x"],
}
TOGETHER = {"top_logprobs": {"logprobs": True}, "stream_options": {"stream": True},
            "continue_final_message": {"add_generation_prompt": False,
                                       "messages": CHAT["messages"] + [{"role": "assistant", "content": "Hello"}]}}


def sample_of(row, types):
    name = row[0]
    if name in SAMPLES:
        return SAMPLES[name]
    return {"bool": True, "int": 1, "float": 0.5, "string": "x", "list": [], "object": {}, "string or list": "x",
            "any": "x"}[types[name]]


@pytest.mark.parametrize("row", PARAMETERS, ids=lambda r: f"{r[0]}-{r[2]}")
def test_parameter(server, tables, row):
    name, treatment, where = row[:3]
    types = {p["name"]: p["type"] for p in tables["parameters"]}
    routes = {"both": ["chat", "completions"], "chat": ["chat"], "completions": ["completions"]}[where]
    for route in routes:
        path, body = ("/v1/chat/completions", CHAT) if route == "chat" else ("/v1/completions", COMPLETION)
        value = sample_of(row, types)
        if name == "logprobs":
            value = True if route == "chat" else 1
        if treatment == "refused" and value in ([], {}, True):
            value = "x"
        answer = server.post(path, json={**body, **TOGETHER.get(name, {}), name: value})
        if treatment == "refused":
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            assert (error["code"], error["param"]) == ("unsupported_parameter", name)
        else:
            assert answer.status_code == 200, answer.text


SHAPES = {"tools": [], "tool_choice": "auto", "stream": False, "include": ["message.output_text.logprobs"], "metadata": {"a": "b"},
          "stop_sequences": ["zq"], "input": "Hi", "system": "Be kind.", "thinking": {"type": "adaptive"},
          "previous_response_id": None, "request_id": "mine", "rid": "mine"}


@pytest.mark.parametrize("api,row", [("responses", r) for r in RESPONSES] + [("messages", r) for r in MESSAGES],
                         ids=lambda v: v if isinstance(v, str) else v[0])
def test_parameter_of(server, tables, api, row):
    name, treatment = row[:2]
    types = {p["name"]: p["type"] for p in tables[api]}
    value = SHAPES[name] if name in SHAPES else sample_of(row, types)
    if (api, name) == ("messages", "tool_choice"):
        value = {"type": "auto"}
    if treatment == "refused":
        value = "x"
    path = f"/v1/{api}"
    answer = server.post(path, json={**BODIES[path], name: value})
    if treatment != "refused":
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    if api == "responses":
        assert (error["code"], error["param"]) == ("unsupported_parameter", name)
    else:
        assert error["type"] == "invalid_request_error" and error["message"].startswith(f"{name}: {name} is not supported")


def functions_in(file):
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", PARAMETERS + RESPONSES + MESSAGES + FLAGS, ids=lambda r: f"{r[0]}-{r[2]}")
def test_every_row_has_a_check(row):
    """The row's last cell is a test that exists; one that stands elsewhere speaks of the flag."""
    here = {name for file in Path(__file__).parent.glob("test_*.py") for name in functions_in(file)}
    path, _, test = row[-1].rpartition("::")
    if not path:
        assert test.startswith("test_") and test in here
        return
    source = (ROOT / path).read_text()
    assert test in functions_in(ROOT / path) and row[0] in source, row[-1]


def test_unknown_parameter_is_accepted(server):
    assert server.post("/v1/chat/completions", json={**CHAT, "no_such_parameter": {"a": 1}}).status_code == 200


FLAG_SAMPLES = {"api-key": "k", "served-model-name": "m", "metrics-api-key": "k", "allowed-origins": "https://example.org", "api-key-file": "keys",
                "default-chat-template-kwargs": "{}", "speculative-config": "{}", "speculative-config.method": "ngram",
                "speculative-config.synthetic-acceptance": "2.5",
                "cpu-isa": "scalar", "cuda-feature-level": "sm80", "quantization": "gguf", "chat-template": "template.jinja", "model": "m"}
SPECIAL = {"config", "help", "json", "print-config"}


def check_config(binary, *arguments):
    return subprocess.run([binary, "check-config", *arguments], capture_output=True, text=True, env=clean_environment())


@pytest.mark.parametrize("row", FLAGS, ids=lambda r: r[0])
def test_flag(binary, tables, row):
    name, treatment, default = row[0].removeprefix("--"), row[1], row[2]
    flag = next(f for f in tables["flags"] if f["name"] == name)
    if name in SPECIAL:
        return
    words = [f"--{name}"] if flag["switch"] else [f"--{name}={FLAG_SAMPLES.get(name) or default or 'x'}"]
    method = {"speculative-config.num-speculative-tokens": "ngram", "speculative-config.model": "dflash"}.get(name)
    if method:
        words.append(f"--speculative-config.method={method}")
    words += {"speculative-config.profile": ["--speculative-config.method=dflash", "--speculative-config.model=m"],
              "speculative-config.synthetic-acceptance": ["--speculative-config.method=ngram", "--load-format=dummy"],
              "speculative-config.allow-synthetic": ["--speculative-config.method=ngram", "--speculative-config.synthetic-acceptance=2"]}.get(name, [])
    if name == "cuda-feature-level":
        words.append("--backend=cuda")
    result = check_config(binary, *words)
    lines = result.stderr.splitlines()
    if name in ("enforce-eager", "deterministic"):  # served, and without a GPU they have nothing to do
        assert result.returncode == 0 and len(lines) == 1 and ("has no effect" in lines[0] or "changes nothing" in lines[0])
    elif treatment == "served":
        assert (result.returncode, result.stderr) == (0, "")
    elif treatment == "no effect":
        assert result.returncode == 0 and len(lines) == 1 and f"--{name} has no effect: {flag['help']}" in lines[0]
    else:
        assert result.returncode == 2 and len(lines) == 1 and f"--{name}: {flag['help']}" in lines[0]
    for value in flag.get("refused_values", []):
        refused = check_config(binary, f"--{name}={value}")
        assert refused.returncode == 2 and value in refused.stderr, value


def test_aliases_reach_the_same_flag(binary, tables):
    """Each other name of a flag is taken as that flag: it answers as the flag does, apart from the name."""
    for flag in tables["flags"]:
        if flag["name"] in SPECIAL:
            continue
        for alias in flag["aliases"]:
            result = check_config(binary, f"--{alias}" if flag["switch"] else f"--{alias}=0")
            assert "unknown setting" not in result.stderr, alias


def test_flag_and_parameter_tables_are_the_programs(binary):
    result = subprocess.run([ROOT / "scripts/make_compat", binary, "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_unknown_flag_names_the_nearest(binary):
    result = check_config(binary, "--max-modle-len", "1")
    assert result.returncode == 2 and "did you mean --max-model-len?" in result.stderr


def test_dashboard_uses_series_that_exist(server):
    """Every series that the Grafana dashboard draws is on the metrics page, after some requests."""
    server.post("/v1/chat/completions", json=CHAT)
    page = server.get("/metrics").text
    dashboard = (ROOT / "docs/grafana/slipstream.json").read_text()
    names = set(re.findall(r"\$prefix:([a-z_]+)", dashboard))
    assert len(names) > 15
    # A counter by position or status has no sample before its first event; its HELP line is there.
    assert not {n for n in names if f"slipstream:{n.removesuffix('_bucket')}" not in page}


def code_of(*files):
    """Their text without comments."""
    return re.sub(r"//.*", "", "\n".join(f.read_text() for f in files))


def sources(folder):
    return code_of(*sorted((ROOT / folder).rglob("*.cpp")))


def test_every_setting_has_a_reader():
    """No flag sets a field of Config that nobody looks at: all fields are read in server/ or engine/, or by a check that says
    why they do nothing."""
    table = sources("config")
    fields = re.findall(r'\.name = "([a-z.-]+)",\s*\.field = SLIP_FIELD\(((?:server|engine)\.[a-z_.]+)\)', table)
    assert len(fields) > 40 and len(fields) == len(re.findall(r"SLIP_FIELD\([a-z]", table))
    readers = sources("server") + sources("engine") + code_of(ROOT / "config/checks.cpp")
    unread = [name for name, path in fields
              if not re.search(rf"\b(?:server|engine|config_?|wanted|spec|speculative)\.{path.rpartition('.')[2]}\b(?!\s*=[^=])", readers)]
    assert not unread


def test_every_used_parameter_has_a_reader(tables):
    """Each name that has an effect is looked up in a body somewhere, alone or in a loop over a few."""
    code = sources("server/api")
    readers = set(re.findall(r'\b(?:find|get|contains|member)\((?:\w+, )?"([a-z_]+)"', code))
    readers.update(re.findall(r'std::pair\{"([a-z_]+)", "', code))  # names that mean the same, read in one loop
    for names in re.findall(r"for \(const char\* \w+ : \{([^}]*)\}\)", code):
        readers.update(re.findall(r'"([a-z_]+)"', names))
    names = [p["name"] for rows in ("parameters", "responses", "messages") for p in tables[rows] if p["treatment"] == "used"]
    assert len(names) > 80
    assert not [n for n in names if n not in readers]
