"""Keys, CORS, the second listener, metrics, the other endpoints, logs."""

import json
import pathlib
import re

import pytest
from server_process import Connection, build, chat

CHAT = "/v1/chat/completions"
KEY = "sk-correct-horse"
PROTECTED = ["/v1/models", "/models", "/v1/models/stub", "/v1/info", "/version", "/nothing", "/tokenize", "/v1/embeddings"]


@pytest.fixture(scope="module")
def locked(stub_binary, tmp_path_factory):
    from server_process import Server
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# a comment\n\nsk-from-file\r\n")
    with Server(stub_binary, f"--api-key={KEY}", f"--api-key-file={keys}", "--metrics-api-key=mk", "--allowed-origins=https://a.example") as s:
        yield s


def test_auth_matrix(locked):
    near = [KEY[:-1], KEY + "x", KEY.upper(), "", " ", "sk-", "Bearer", KEY[1:]]
    for path in PROTECTED:
        assert locked.get(path).status == 401
        for key in near:
            assert locked.get(path, {"Authorization": f"Bearer {key}"}).status == 401
            if key.strip():
                assert locked.get(path, {"X-Api-Key": key}).status == 401
        for good in (KEY, "sk-from-file"):
            assert locked.get(path, {"Authorization": f"Bearer {good}"}).status in (200, 404, 405)
            assert locked.get(path, {"X-Api-Key": good}).status in (200, 404, 405)
    a = locked.post(CHAT, chat())
    assert a.status == 401 and a.headers["www-authenticate"] == "Bearer"
    assert a.error["type"] == "authentication_error" and a.error["code"] == "invalid_api_key"
    assert locked.post(CHAT, chat(), {"authorization": f"bearer {KEY}"}).status == 200
    for path in ("/health", "/health/live", "/health/ready", "/health/progress"):
        assert locked.get(path).status == 200
        assert locked.get(path, port=locked.ops_port).status == 200
    assert locked.get("/metrics").status == 401
    assert locked.get("/metrics", {"Authorization": "Bearer mk"}).status == 200
    assert locked.get("/metrics", {"Authorization": f"Bearer {KEY}"}).status == 200
    assert locked.get("/v1/models", {"Authorization": "Bearer mk"}).status == 401
    log = locked.log()
    assert KEY not in log and "sk-from-file" not in log


def documented_routes():
    """Every (method, path) of the table in docs/compatibility.md, the other spellings in its notes included."""
    text = (pathlib.Path(__file__).parents[2] / "docs/compatibility.md").read_text()
    table = text.split("## Endpoints", 1)[1].split("\n## ", 1)[0]
    routes = []
    for method, path, note in re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| \w+ \|(.*)\|$", table, re.M):
        routes += [(method, p.replace("{id}", "stub")) for p in [path, *re.findall(r"`(/[^`]+)`", note)]]
    return routes


def test_every_route_without_and_with_wrong_keys(locked):
    """C26 of the reliability goals: only health and the page's document are open; a near key opens nothing."""
    routes = documented_routes()
    assert len(routes) > 45 and ("POST", CHAT) in routes and ("POST", "/v1/tokenize") in routes and ("GET", "/v1/models/stub") in routes
    near = [KEY[:-1], KEY + "0", KEY[:-1] + "F", "S" + KEY[1:], KEY.upper(), KEY[::-1], "mk-", "sk-from-filE", KEY + "\t" + KEY, "*"]
    tried = 0
    for method, path in routes:
        body = {} if method == "POST" else None
        wrong = [{}] + [{name: value} for key in near for name, value in (("Authorization", f"Bearer {key}"), ("X-Api-Key", key))]
        wrong += [{"Authorization": KEY}, {"Authorization": f"Basic {KEY}"}, {"Cookie": f"api_key={KEY}"}, {"Api-Key": KEY}]
        if path != "/metrics":
            wrong.append({"X-Api-Key": "mk"})
        if path in ("/", "/health") or path.startswith("/health/"):
            assert locked.request(method, path).status == 200
            continue
        for headers in wrong:
            a = locked.request(method, path, body, headers)
            said = a.error["type"] == "authentication_error" if "/messages" in path else a.error["code"] == "invalid_api_key"
            assert a.status == 401 and said, (method, path, headers)
            tried += 1
        # a query, another spelling or another method is no way around
        for other in ((method, path + "?key=" + KEY), (method, path + "/"), (method, "/" + path), ("PUT", path)):
            assert locked.request(*other).status == 401, other
        assert head_status(locked, path) == 401
        assert locked.get("/health/.." + path).status == 404
    assert tried > 1000


def head_status(server, path):
    with server.connect() as s:
        s.sendall(build("HEAD", path))
        return Connection(s).answer(is_head=True).status


def test_refusal_before_the_body(locked):
    """A wrong key costs a header: the body is not waited for."""
    a = locked.raw(build("POST", CHAT, b"", {"Content-Length": "4000000"}))
    assert a.status == 401 and a.headers["connection"] == "close"


def test_keys_do_not_share_the_prefix_cache(locked):
    text = "shared prefix " * 20
    def cached(key):
        return locked.post(CHAT, chat(text), {"X-Api-Key": key}).json["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached(KEY) == 0
    assert cached(KEY) > 0
    assert cached("sk-from-file") == 0


def test_cors(locked):
    ok = {"Origin": "https://a.example"}
    a = locked.request("OPTIONS", CHAT, None, {**ok, "Access-Control-Request-Method": "POST",
                                               "Access-Control-Request-Headers": "authorization, x-stainless-os"})
    assert a.status == 204 and a.headers["access-control-allow-origin"] == "https://a.example"
    assert "x-stainless-os" in a.headers["access-control-allow-headers"]
    assert "POST" in a.headers["access-control-allow-methods"]
    assert locked.get("/v1/models", {**ok, "X-Api-Key": KEY}).headers["access-control-allow-origin"] == "https://a.example"
    assert locked.get("/v1/models", ok).headers["access-control-allow-origin"] == "https://a.example"  # 401 is readable too
    other = locked.request("OPTIONS", CHAT, None, {"Origin": "https://b.example"})
    assert "access-control-allow-origin" not in other.headers


def test_cors_off_and_any(stub, start_stub):
    assert "access-control-allow-origin" not in stub.get("/v1/models", {"Origin": "https://a.example"}).headers
    server = start_stub("--allowed-origins=*")
    assert server.get("/v1/models", {"Origin": "https://x.example"}).headers["access-control-allow-origin"] == "*"


def test_ops_listener(stub):
    for path in ("/health", "/health/live", "/health/ready", "/health/progress", "/metrics"):
        assert stub.get(path, port=stub.ops_port).status == 200
    assert stub.get("/v1/models", port=stub.ops_port).status == 404
    assert stub.request("POST", CHAT, chat(), port=stub.ops_port).status == 404


def test_models(stub):
    listed = stub.get("/v1/models").json
    assert listed["object"] == "list"
    (m,) = listed["data"]
    assert m["id"] == "stub" and m["object"] == "model" and m["max_model_len"] == 2048 and m["owned_by"] and m["created"] > 0
    assert stub.get("/v1/models/stub").json == m
    a = stub.get("/v1/models/other")
    assert a.status == 404 and a.error["code"] == "model_not_found"


def test_served_names(start_stub):
    server = start_stub("--served-model-name=org/one", "--served-model-name=two")
    assert [m["id"] for m in server.get("/v1/models").json["data"]] == ["org/one", "two"]
    assert server.get("/v1/models/org%2Fone").json["id"] == "org/one"
    assert server.post(CHAT, {**chat(), "model": "two"}).json["model"] == "two"
    assert server.post(CHAT, {**chat(), "model": "stub"}).status == 404


def test_tokenize(stub):
    for path in ("/tokenize", "/v1/tokenize"):
        a = stub.post(path, {"prompt": "hé<|end|>"}).json
        assert a["tokens"] == list("hé<|end|>".encode()) and a["count"] == len(a["tokens"]) and a["max_model_len"] == 2048
    a = stub.post("/tokenize", {"messages": [{"role": "user", "content": "a"}], "return_token_strs": True}).json
    assert a["tokens"] == [257, 97, 256, 258] and a["token_strs"][0] == "<|user|>"
    for path in ("/detokenize", "/v1/detokenize"):
        assert stub.post(path, {"tokens": [104, 105]}).json["prompt"] == "hi"
    assert stub.post("/detokenize", {"tokens": [260]}).error["param"] == "tokens.0"
    assert stub.post("/detokenize", {"tokens": "x"}).error["param"] == "tokens"
    assert stub.post("/tokenize", {}).error["param"] == "prompt"
    assert stub.post("/detokenize", {"tokens": [255]}).json["prompt"] is not None  # not valid UTF-8 by itself


def test_apply_template(stub):
    for path in ("/apply-template", "/v1/chat/completions/render"):
        a = stub.post(path, {"messages": [{"role": "user", "content": "<|end|>"}]}).json
        assert a["prompt"] == "<|user|><|end|><|end|><|assistant|>"
        assert a["segments"][1] == {"text": "<|end|>", "source": "message"}


def test_completions(stub):
    a = stub.post("/v1/completions", {"prompt": "ab", "max_tokens": 4, "seed": 1}).json
    assert a["object"] == "text_completion" and a["id"].startswith("cmpl-")
    (c,) = a["choices"]
    assert len(c["text"]) == 4 and c["finish_reason"] == "length" and c["logprobs"] is None
    assert stub.post("/v1/completions", {"prompt": [97, 98], "max_tokens": 4, "seed": 1}).json["choices"][0]["text"] == c["text"]
    assert stub.post("/v1/completions", {"prompt": "ab", "max_tokens": 4, "seed": 2}).json["choices"][0]["text"] != c["text"]
    e = stub.post("/v1/completions", {"prompt": "ab", "max_tokens": 4, "seed": 1, "echo": True}).json["choices"][0]["text"]
    assert e == "ab" + c["text"]


def test_completions_batch(stub):
    body = {"prompt": ["ab", "abc", [97, 98]], "max_tokens": 3, "n": 2, "seed": 5}
    a = stub.post("/v1/completions", body).json
    assert [c["index"] for c in a["choices"]] == [0, 1, 2, 3, 4, 5]
    assert a["choices"][0]["text"] == a["choices"][4]["text"] != a["choices"][1]["text"]
    assert a["usage"]["prompt_tokens"] == 7 and a["usage"]["completion_tokens"] == 18
    events = stub.post("/v1/completions", {**body, "stream": True}).events()
    texts = [""] * 6
    finishes = [0] * 6
    for e in events[:-1]:
        (c,) = e["choices"]
        texts[c["index"]] += c["text"]
        finishes[c["index"]] += c["finish_reason"] is not None
    assert texts == [c["text"] for c in a["choices"]] and finishes == [1] * 6


def test_completions_logprobs(stub):
    c = stub.post("/v1/completions", {"prompt": "ab", "max_tokens": 3, "logprobs": 1}).json["choices"][0]
    lp = c["logprobs"]
    assert "".join(lp["tokens"]) == c["text"] and lp["token_logprobs"] == [-0.5] * 3 and lp["text_offset"] == [0, 1, 2]
    assert all(list(t.values()) == [-0.5] for t in lp["top_logprobs"])


@pytest.mark.parametrize("body, param", [
    ({}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt.0"), ({"prompt": [260]}, "prompt.0"),
    ({"prompt": [[1], "x", {}]}, "prompt.2"), ({"prompt": ""}, "prompt"), ({"prompt": ["x"] * 65}, "prompt"),
    ({"prompt": "x", "suffix": "y"}, "suffix"), ({"prompt": [1, "x"]}, "prompt.1"),
])
def test_bad_prompts(stub, body, param):
    a = stub.post("/v1/completions", body)
    assert a.status == 400 and a.error["param"] == param, a.text


def test_no_template(start_stub):
    server = start_stub("--stub-no-template")
    a = server.post(CHAT, chat())
    assert a.status == 400 and "chat template" in a.error["message"]
    assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200


VLLM_SERIES = """num_requests_running num_requests_waiting num_requests_waiting_by_reason kv_cache_usage_perc prefix_cache_queries
prefix_cache_hits num_preemptions_total prompt_tokens_total generation_tokens_total iteration_tokens_total cache_config_info
request_success_total request_prompt_tokens request_generation_tokens request_params_n request_params_max_tokens
time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds request_queue_time_seconds
request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds request_num_preemptions
request_time_per_output_token_seconds spec_decode_num_drafts spec_decode_num_draft_tokens spec_decode_num_accepted_tokens
spec_decode_num_accepted_tokens_per_pos http_requests_client_disconnected_total""".split()


def test_metrics_of_speculation(start_stub):
    """What vLLM's names leave open about drafts, and that the figures add up."""
    server = start_stub("--stub-drafts=4", "--metrics-prefix=vllm")
    for _ in range(5):
        assert server.post(CHAT, chat("ab" * 20, max_tokens=60)).status == 200
    assert server.post(CHAT, chat("ab" * 20, max_tokens=20, speculate=False)).status == 200
    server.wait_idle()
    page = server.get("/metrics").text

    def values(name):
        return {label: float(value) for label, value in re.findall(rf'^vllm:{name}\{{[^}}]*?(?:,(?:position|width|reason|part)="([a-z_0-9]+)")?\}} (\S+)$',
                                                                   page, re.M)}
    rounds, drafted, accepted = (values(f"spec_decode_num_{what}_total")[""] for what in ("drafts", "draft_tokens", "accepted_tokens"))
    assert rounds > 0 and drafted >= rounds
    assert values("spec_decode_acceptance_length")[""] == pytest.approx(1 + accepted / rounds)
    at, right = values("spec_decode_num_draft_tokens_per_pos_total"), values("spec_decode_num_accepted_tokens_per_pos_total")
    assert len(at) == 4 and at["0"] == rounds and sum(at.values()) == drafted and sum(right.values()) == accepted
    assert all(right[i] <= at[i] for i in at)
    widths = values("spec_decode_width_total")
    assert len(widths) == 5 and sum(widths[i] for i in "1234") == rounds and sum(int(i) * n for i, n in widths.items()) == drafted
    reasons = values("spec_decode_undrafted_total")
    assert set(reasons) == {"request", "forced", "ending", "rows", "policy", "no_proposal"} and reasons["request"] > 0
    assert set(values("spec_decode_seconds_total")) == {"draft", "verify", "commit"}


@pytest.mark.parametrize("prefix", ["slipstream", "vllm"])
def test_metrics(start_stub, prefix):
    server = start_stub(f"--metrics-prefix={prefix}")
    for _ in range(10):
        assert server.post(CHAT, chat("hello", max_tokens=3)).status == 200
    server.wait_idle()
    page = server.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    for name in VLLM_SERIES:
        assert re.search(rf'^# TYPE {prefix}:{name}(_total)? ', page.text, re.M), name
    series = {}
    for line in page.text.splitlines():
        if line.startswith("#"):
            continue
        m = re.fullmatch(r'([a-z_]+:[a-z0-9_]+)\{(.*)\} (\S+)', line)
        assert m, line
        float(m.group(3))
        assert 'model_name="stub"' in m.group(2) and 'engine="0"' in m.group(2)
        series.setdefault(m.group(1), {})[m.group(2)] = float(m.group(3))
    def one(name, part=""):
        return next(v for k, v in series[f"{prefix}:{name}"].items() if part in k)
    assert one("request_success_total", 'finished_reason="length"') == 10
    assert one("request_prompt_tokens_sum") == 80 and one("request_generation_tokens_sum") == 30
    assert one("generation_tokens_total") == 30
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                 "request_prefill_time_seconds", "request_decode_time_seconds", "request_params_n"):
        assert one(f"{name}_count") == 10 and one(f"{name}_bucket", 'le="+Inf"') == 10, name
    assert one("num_requests_running") == 0 and one("num_requests_waiting") == 0


def test_unknown_fields_are_counted_and_logged_once(start_stub):
    server = start_stub()
    for _ in range(3):
        assert server.post(CHAT, {**chat(), "zzz_unknown": 1}).status == 200
    assert server.metric("request_unknown_fields_total") == 3
    assert server.log().count("zzz_unknown") == 1


def test_info_and_version(stub):
    info = stub.get("/v1/info").json
    assert info["model"]["names"] == ["stub"] and info["model"]["vocab"] == 260 and info["limits"]["json_depth"] == 64
    assert stub.get("/version").json["version"] == info["version"]


def test_progress_probe(stub):
    assert stub.get("/health/progress").json["progress"] in ("idle", "ok")


def test_access_log(start_stub):
    server = start_stub("--log-format=json")
    secret = "tOpSeCrEt"
    server.post(CHAT, chat(secret, stream=True), {"X-Request-Id": "rid-1"})
    server.get("/nothing/" + "x" * 500 + "%0aforged")
    lines = [json.loads(line) for line in server.log().splitlines()]
    (line,) = [r for r in lines if r.get("request_id") == "rid-1"]
    assert line["status"] == 200 and line["prompt_tokens"] == 3 + len(secret) and line["completion_tokens"] == len(secret) + 1
    assert line["finish"] == "stop" and int(line["seed"]) >= 0
    assert secret not in server.log()
