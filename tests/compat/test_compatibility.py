"""Walks docs/compatibility.md: every endpoint, parameter and flag does what its row says."""
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOC = ROOT / "docs/compatibility.md"


def rows_of(heading):
    """Cells of the table under a heading, without its first two lines."""
    section = DOC.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[c.strip().strip("`") for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 10, heading
    return rows[2:]


ENDPOINTS, PARAMETERS, FLAGS = (rows_of(h) for h in ("Endpoints", "Request parameters", "Flags"))


@pytest.fixture(scope="module")
def server(binary, smollm2):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([binary, "serve", smollm2, "--port", str(port), "--ops-port", "0",
                                "--served-model-name", "m", "--log-level", "warn"])
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for _ in range(1200):
            assert process.poll() is None, f"the server ended with status {process.returncode}"
            try:
                if client.get("/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        else:
            pytest.fail("the server was not ready in 60 s")
        yield client
    process.terminate()
    assert process.wait(30) == 0


CHAT = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION = {"model": "m", "max_tokens": 2, "prompt": "Hi"}
BODIES = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETION, "/tokenize": {"prompt": "Hi"},
          "/detokenize": {"tokens": [1, 2]}, "/apply-template": {"messages": CHAT["messages"]}}


@pytest.mark.parametrize("endpoint,treatment", [(r[0], r[1]) for r in ENDPOINTS])
def test_endpoint(server, endpoint, treatment):
    method, path = endpoint.split()
    body = BODIES.get(path, {}) if method == "POST" else None
    answer = server.request(method, path.replace("{id}", "m"), json=body)
    if treatment == "served":
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["code"] == {"refused": "unsupported_endpoint", "absent": "not_found"}[treatment]
    assert set(error) >= {"message", "type", "param", "code"}


# Values that are legal beside the bodies above, for parameters whose type alone does not give one.
SAMPLES = {
    "messages": CHAT["messages"], "prompt": "Hi", "model": "m", "max_tokens": 2, "max_completion_tokens": 2,
    "min_tokens": 1, "min_new_tokens": 1, "stop": ["zq"], "stop_token_ids": [5], "logit_bias": {"5": -1},
    "reasoning_effort": "low", "top_logprobs": 2, "stream_options": {"include_usage": True}, "n": 2, "seed": 7,
    "service_tier": "auto", "cache_salt": "s", "temperature": 0.5, "top_p": 0.5, "min_p": 0.1, "top_k": 5,
    "repetition_penalty": 1.1, "repeat_penalty": 1.1, "logprobs": None,
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


@pytest.fixture(scope="module")
def tables(binary):
    """What the program's own tables say."""
    def table(*words):
        return json.loads(subprocess.run([binary, *words], capture_output=True, check=True, text=True).stdout)
    return {"flags": table("check-config", "--flags"), "parameters": table("parameters")}


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


def test_unknown_parameter_is_accepted(server):
    assert server.post("/v1/chat/completions", json={**CHAT, "no_such_parameter": {"a": 1}}).status_code == 200


FLAG_SAMPLES = {"api-key": "k", "served-model-name": "m", "metrics-api-key": "k", "allowed-origins": "https://example.org", "api-key-file": "keys",
                "default-chat-template-kwargs": "{}", "speculative-config": "{}", "speculative-config.method": "ngram",
                "cpu-isa": "scalar", "quantization": "gguf", "chat-template": "template.jinja", "model": "m"}
SPECIAL = {"config", "help", "json", "print-config"}


def check_config(binary, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLIPSTREAM_")}
    return subprocess.run([binary, "check-config", *arguments], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("row", FLAGS, ids=lambda r: r[0])
def test_flag(binary, tables, row):
    name, treatment, default = row[0].removeprefix("--"), row[1], row[2]
    flag = next(f for f in tables["flags"] if f["name"] == name)
    if name in SPECIAL:
        return
    words = [f"--{name}"] if flag["switch"] else [f"--{name}={FLAG_SAMPLES.get(name) or default or 'x'}"]
    if name == "speculative-config.num-speculative-tokens":
        words.append("--speculative-config.method=ngram")
    result = check_config(binary, *words)
    lines = result.stderr.splitlines()
    if treatment == "served":
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
