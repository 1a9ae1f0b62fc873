"""Every flag that is served has its documented effect, on the real default model. What needs more than a few requests is
named in checks.ELSEWHERE."""
import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

import random_drafter
from checks import shows
from served import clean_environment

QUESTION = [{"role": "user", "content": "Name three colours."}]


def complete(http, prompt="The capital of France is", **more):
    return http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 8, "temperature": 0, **more})


def text(http, *words, **more):
    answer = complete(http, *words, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["text"]


def info(made):
    return made.http.get("/v1/info").json()


def long_prompt(tokens):
    return " dog" * tokens


def ends_with(binary, *words, status=2):
    result = subprocess.run([binary, "serve", *words, "--port", "0", "--ops-port", "0"], capture_output=True, text=True,
                            timeout=60, env=clean_environment())
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout + result.stderr


# ---- the model ----

@shows("--model", "--config", "--served-model-name", "--any-model-name")
def test_config_file(launch, smollm2, tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text(f"model: {smollm2}\nserved-model-name: [first, second]\nany-model-name: false\n")
    with launch(str(file), model="--config") as made:
        assert [m["id"] for m in made.http.get("/v1/models").json()["data"]] == ["first", "second"]
        assert complete(made.http, model="second").json()["model"] == "second"
        assert complete(made.http, model="third").status_code == 404
    with launch(str(smollm2), "--any-model-name", model="--model") as made:
        assert complete(made.http, model="third").json()["model"] == "third"


@shows("--load-format", "--seed")
def test_dummy_weights_and_their_seed(launch, server):
    def made_up(seed):
        with launch("--load-format", "dummy", "--seed", str(seed)) as made:
            assert info(made)["model"]["format"] == "dummy"
            return text(made.http, ignore_eos=True)
    first = made_up(1)
    assert first != text(server, ignore_eos=True)
    assert made_up(2) != first


@shows("--dummy-format")
def test_format_of_dummy_weights(launch, binary):
    def stored(name):
        with launch("--load-format", "dummy", "--dummy-format", name) as made:
            return info(made)["model"]["load"]["file_bytes"]
    # 34 bytes for 32 values against 64; norms keep the config's dtype
    assert stored("q8_0") / stored("bf16") == pytest.approx(34 / 64, rel=0.01)
    assert "dummy-format q8_0 needs --load-format dummy" in ends_with(binary, "m", "--dummy-format", "q8_0", status=2)


@shows("--seed")
def test_seed_of_requests_that_give_none(launch):
    with launch("--seed", "7") as made:
        drawn = text(made.http, temperature=1)
        assert drawn == text(made.http, temperature=1) == text(made.http, temperature=1, seed=7)
        assert drawn != text(made.http, temperature=1, seed=8)


@shows("--generation-config")
def test_generation_config(launch, tmp_path):
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.25, "top_k": 1, "do_sample": true}')
    with launch("--generation-config", str(tmp_path)) as made:
        defaults = info(made)["sampling_defaults"]
        assert (defaults["temperature"], defaults["top_k"]) == (0.25, 1)
        greedy = text(made.http)
        assert text(made.http, temperature=None, seed=1) == text(made.http, temperature=2, seed=2) == greedy
    with launch("--generation-config", "vllm") as made:
        assert info(made)["sampling_defaults"] == {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0,
                                                   "repetition_penalty": 1, "source": "built in"}


@shows("--web-page")
def test_web_page(launch, server):
    assert server.get("/").headers["content-type"].startswith("text/html")
    with launch("--no-webui") as made:
        assert made.http.get("/").status_code == 404


# ---- bounds of the engine ----

@shows("--max-model-len", "--max-num-batched-tokens", "--block-size", "--threads", "--cpu-isa", "--enforce-eager",
       "--deterministic", "--kv-cache-memory-bytes", "--enable-prefix-caching", "--kv-cache-dtype")
def test_engine_settings(launch, server):
    defaults = server.get("/v1/info").json()["engine"]
    on_gpu = os.environ.get("SLIPSTREAM_TEST_BACKEND") == "cuda"
    assert (defaults["max_num_seqs"], defaults["max_num_batched_tokens"]) == ((256, 8192) if on_gpu else (16, 512))
    def bounds(*flags):
        with launch("--backend", "cpu", "--kv-cache-memory-bytes", "64MiB", *flags) as made:
            return info(made)
    with launch("--backend", "cpu", "--max-model-len", "400", "--max-num-batched-tokens", "64", "--block-size", "64", "--threads", "1",
                "--enforce-eager", "--deterministic", "--no-enable-prefix-caching") as made:
        facts = info(made)
        assert facts["model"]["context_length"] == 400 == made.http.get("/v1/models").json()["data"][0]["max_model_len"]
        assert complete(made.http, long_prompt(500)).json()["error"]["code"] == "context_length_exceeded"
        assert facts["engine"]["block_tokens"] == 64
        assert "enforce-eager (--enforce-eager) has no effect without a GPU: the CPU backends always launch ops one by one" in made.log()
        assert "deterministic (--deterministic) changes nothing without a GPU: the CPU backends always are" in made.log()
        for _ in range(2):
            usage = complete(made.http, long_prompt(200), max_tokens=1).json()["usage"]
            assert usage["prompt_tokens"] >= 200 and usage["prompt_tokens_details"]["cached_tokens"] == 0
        def rows_of_steps():
            page = made.http.get("/metrics").text
            return {line.split('le="')[1].split('"')[0]: float(line.split()[-1]) for line in page.splitlines()
                    if line.startswith("slipstream:iteration_tokens_total_bucket")}
        deadline = time.monotonic() + 10
        while (rows := rows_of_steps())["+Inf"] < 8 and time.monotonic() < deadline:
            time.sleep(0.01)  # a step is counted behind its answer
        assert rows["64"] == rows["+Inf"] >= 8  # 400 tokens in steps of at most 64
        few_threads = threads_of(made)
        assert " machine backend=cpu processor=" in made.log() and " kernel op=attention kernel=" in made.log()
    with launch("--backend", "cpu", "--threads", "3") as made:
        assert threads_of(made) == few_threads + 2
        complete(made.http, long_prompt(200), max_tokens=1)
        assert complete(made.http, long_prompt(200), max_tokens=1).json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 100
    halves = bounds("--kv-cache-dtype", "bf16", "--cpu-isa", "scalar")
    fulls = bounds("--kv-cache-dtype", "f32")
    assert halves["engine"]["blocks"] in (2 * fulls["engine"]["blocks"], 2 * fulls["engine"]["blocks"] + 1)
    quarters = bounds("--kv-cache-dtype", "fp8_e4m3")
    assert quarters["engine"]["blocks"] in range(4 * fulls["engine"]["blocks"], 4 * fulls["engine"]["blocks"] + 4)
    assert [facts["model"]["load"]["cache_dtype"] for facts in (fulls, halves, quarters)] == ["F32", "BF16", "F8_E4M3"]
    scalar, chosen = (json.dumps(facts["kernels"]) for facts in (halves, fulls))
    assert "scalar" in scalar and "avx" not in scalar
    assert halves["machine"]["backend"] == "cpu" and halves["machine"]["instructions"] == "scalar" and halves["machine"]["processor"]
    assert {"op", "kernel", "built_for", "why"} == set(fulls["kernels"][0])
    with open("/proc/cpuinfo") as cpu:
        assert ("avx" in chosen) == (" avx2" in cpu.read())
    for facts in (halves, fulls, quarters):
        assert 0.9 * (64 << 20) < facts["model"]["load"]["cache_bytes"] <= 64 << 20


def threads_of(made):
    with open(f"/proc/{made.process.pid}/status") as file:
        return int(next(line for line in file if line.startswith("Threads:")).split()[1])


@shows("--gpu-memory-utilization")
def test_gpu_memory_utilization(launch):
    def cache_bytes(share):
        with launch("--backend", "cpu", "--gpu-memory-utilization", str(share), "--max-num-seqs", "256", "--max-num-batched-tokens", "512") as made:
            return info(made)["model"]["load"]["cache_bytes"]
    assert 1.5 < cache_bytes(0.02) / cache_bytes(0.01) < 2.7  # other programs take memory meanwhile


@shows("--max-num-queued-tokens", "--step-budget-ms")
def test_queue_and_step_budget(launch):
    def steps_of_a_prompt(budget_ms):
        """Steps that a prompt takes while another request decodes."""
        with launch("--backend", "cpu", "--step-budget-ms", str(budget_ms), "--max-num-seqs", "2", "--max-num-queued-tokens", "1000") as made:
            with httpx.Client(base_url=made.http.base_url, timeout=60) as other:
                body = {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True, "stream": True}
                with other.stream("POST", "/v1/completions", json=body) as stream:
                    lines = stream.iter_lines()
                    next(lines)
                    before = info(made)["engine"]["steps"]
                    complete(made.http, long_prompt(600), max_tokens=1)
                    steps = info(made)["engine"]["steps"] - before
                    if budget_ms > 1:
                        refused = []
                        waiting = [threading.Thread(target=lambda: refused.append(
                            complete(made.http, long_prompt(700), max_tokens=20, ignore_eos=True).status_code)) for _ in range(3)]
                        for thread in waiting:
                            thread.start()
                        for thread in waiting:
                            thread.join()
                        # two waiting prompts are above the 1000 tokens; one may run already when the next arrives
                        assert sorted(refused) in ([200, 200, 429], [200, 429, 429])
            return steps
    assert steps_of_a_prompt(1) > 2 * steps_of_a_prompt(60000)


@shows("--backend", "--watchdog-timeout")
def test_reference_backend_and_watchdog(launch):
    """The reference is slow: a long prompt is a step that the watchdog ends."""
    with launch("--backend", "reference", "--watchdog-timeout", "1", "--max-model-len", "600") as made:
        assert info(made)["model"]["load"]["backend"] == "reference"
        made.exit_code = 71
        with pytest.raises((httpx.TransportError, AssertionError)):
            text(made.http, long_prompt(400))
        assert made.process.wait(30) == 71
        assert "watchdog" in made.log()


@shows("--cuda-feature-level")
def test_cuda_feature_level(binary, smollm2):
    """It is for the CUDA backend alone; what it does on a GPU is shown by scripts/gpu_check."""
    for backend in ("auto", "cpu", "reference"):
        said = ends_with(binary, smollm2, "--backend", backend, "--cuda-feature-level", "sm80")
        assert f"cuda-feature-level (--cuda-feature-level): sm80 needs --backend cuda, not {backend}" in said
    assert "sm80, sm86, sm89, sm120" in ends_with(binary, smollm2, "--cuda-feature-level", "sm75")


@shows("--tensor-parallel-size")
def test_tensor_parallel_size(binary, smollm2):
    assert "tensor-parallel-size 2 is not served yet" in ends_with(binary, smollm2, "--tensor-parallel-size", "2")


# ---- speculation ----

@shows("--speculative-config", "--speculative-config.method", "--speculative-config.num-speculative-tokens",
       "--speculative-config.policy", "--speculative-config.prompt-lookup-min", "--speculative-config.prompt-lookup-max")
def test_speculation(launch, server):
    prompt = "one two three four five six seven one two three four five six seven one two three"
    plain = text(server, prompt, max_tokens=20)

    def drafted(*flags):
        """Most drafts at once, and drafts of one answer."""
        with launch(*flags) as made:
            answer = complete(made.http, prompt, max_tokens=20).json()
            assert answer["choices"][0]["text"] == plain
            details = answer["usage"]["completion_tokens_details"]
            return (info(made)["engine"]["max_draft_tokens"],
                    details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"])
    assert drafted() == (0, 0)
    most, count = drafted("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2, "policy": "fixed"}')
    assert most == 2 and count > 0
    assert drafted("--speculative-config.method=ngram", "--speculative-config.policy=off") == (0, 0)
    # adaptive: the text is the same; how many drafts are worth it follows from measured times
    assert drafted("--speculative-config.method=ngram", "--speculative-config.policy=adaptive")[0] == 4
    # no run of forty tokens comes twice
    most, count = drafted("--speculative-config.method=ngram", "--speculative-config.prompt-lookup-min=40",
                          "--speculative-config.prompt-lookup-max=60")
    assert most > 0 and count == 0


@shows("--speculative-config.model")
def test_drafter_model(launch, binary, smollm2, tmp_path):
    """A drafter that is hardly ever right changes no text, greedy or drawn, alone or beside others; what does not fit is refused."""
    folder = random_drafter.write(tmp_path / "drafter")
    prompts = ["The capital of France is", "one two three four five six", "def fibonacci(n):"]
    with launch("--backend", "cpu") as made:
        plain = [text(made.http, p, max_tokens=30) for p in prompts]
        drawn = text(made.http, prompts[0], max_tokens=30, temperature=0.9, seed=5)
    spec = json.dumps({"method": "dflash", "model": str(folder), "policy": "fixed"})
    with launch("--backend", "cpu", "--speculative-config", spec) as made:
        facts = info(made)
        assert facts["engine"]["max_draft_tokens"] == 5
        assert (facts["drafter"]["method"], facts["drafter"]["block_rows"], facts["drafter"]["taps"]) == ("dflash", 6, [1, 14])
        assert [text(made.http, p, max_tokens=30) for p in prompts] == plain
        assert text(made.http, prompts[0], max_tokens=30, temperature=0.9, seed=5) == drawn
        together = [None] * 6

        def ask(i):
            together[i] = text(made.http, prompts[i % 3], max_tokens=30)
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(together))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert together == plain * 2
        details = complete(made.http, prompts[0], max_tokens=30).json()["usage"]["completion_tokens_details"]
        assert details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"] > 30
    with launch("--backend", "cpu", "--speculative-config", spec.replace("fixed", "off")) as made:
        assert (info(made)["engine"]["max_draft_tokens"], info(made)["drafter"]) == (0, None)

    def refused(path, *words):
        return ends_with(binary, smollm2, "--backend", "cpu", "--speculative-config.method=dflash", f"--speculative-config.model={path}", *words)
    assert "does not exist" in refused(tmp_path / "nothing")
    assert "more than the 5 drafts" in refused(folder, "--speculative-config.num-speculative-tokens=6")
    assert "hidden_size" in refused(random_drafter.write(tmp_path / "narrow", hidden_size=512))
    assert "tapped layer 30 is outside" in refused(random_drafter.write(tmp_path / "deep", taps=(1, 30)))
    assert "needs a drafter" in ends_with(binary, smollm2, "--speculative-config.method=dflash")


PAIR = Path(__file__).resolve().parents[1] / "fixtures/pair"  # a tiny target and its trained drafter


@shows("--speculative-config.profile")
def test_drafter_profile(launch, binary, tmp_path):
    """Weights without a config serve by the profile that calibration wrote."""
    bare, profile = tmp_path / "bare", tmp_path / "profile.json"
    bare.mkdir()
    shutil.copy(PAIR / "drafter/model.safetensors", bare)
    subprocess.run([binary, "calibrate-drafter", str(PAIR / "target"), str(bare), "--prompts", str(PAIR / "prompts.txt"), "--texts", "8",
                    "--tokens", "72", "--out", str(profile)], check=True, capture_output=True)
    flags = ("--backend", "cpu", "--speculative-config.method=dflash", f"--speculative-config.model={bare}")
    with launch(*flags, f"--speculative-config.profile={profile}", model=str(PAIR / "target")) as made:
        assert (info(made)["drafter"]["config"], info(made)["drafter"]["taps"]) == ("profile", [1, 2, 4])
    assert "calibrate-drafter" in ends_with(binary, PAIR / "target", *flags)
    assert "belongs to a drafter of method dflash" in ends_with(binary, PAIR / "target", f"--speculative-config.profile={profile}")


@shows("--speculative-config.synthetic-acceptance", "--speculative-config.allow-synthetic")
def test_synthetic_acceptance(launch, binary):
    """Chance decides how many drafts stand, and every report of it says so; refused with weights that could answer unless asked for."""
    flags = ("--backend", "cpu", "--speculative-config.method=dflash", f"--speculative-config.model={PAIR / 'drafter'}",
             "--speculative-config.policy=fixed")
    for rates, share in (("1,1", 1), ("0,0", 0)):
        with launch(*flags, f"--speculative-config.synthetic-acceptance={rates}", "--speculative-config.allow-synthetic",
                    model=str(PAIR / "target")) as made:
            complete(made.http, "abc", max_tokens=60, ignore_eos=True, model="target")
            facts = info(made)["speculation"]
            assert facts["synthetic_acceptance"]["length"] == (6 if share else 1)
            assert facts["measured"]["draft_tokens"] > 20
            assert facts["measured"]["accepted_tokens"] == share * facts["measured"]["draft_tokens"]
            assert "synthetic_acceptance" in made.log()
            bench = [binary, "bench", f"http://127.0.0.1:{made.port}", "--api", "completions", "--requests", "1", "--max-tokens", "8"]
            result = subprocess.run(bench, capture_output=True, text=True, check=True)
            assert f"synthetic acceptance length {6 if share else 1}.00" in result.stdout
            result = subprocess.run([*bench, "--json"], capture_output=True, text=True, check=True)
            assert json.loads(result.stdout)["runs"][0]["synthetic_acceptance_length"] == (6 if share else 1)
    said = ends_with(binary, PAIR / "target", *flags, "--speculative-config.synthetic-acceptance=3")
    assert "makes answers meaningless" in said and "--speculative-config.allow-synthetic" in said
    assert "outside of 1 to 6" in ends_with(binary, PAIR / "target", *flags, "--speculative-config.synthetic-acceptance=7",
                                            "--speculative-config.allow-synthetic")
    assert "needs drafts to accept" in ends_with(binary, PAIR / "target", "--speculative-config.synthetic-acceptance=3")


# ---- HTTP ----

@shows("--host", "--port", "--ops-host", "--ops-port")
def test_listeners(launch):
    with launch("--host", "127.0.0.3", "--ops-host", "127.0.0.4", host="127.0.0.3") as made:
        ops = f"http://127.0.0.4:{made.ops_port}"
        assert httpx.get(ops + "/health/ready").status_code == httpx.get(ops + "/metrics").status_code == 200
        assert httpx.get(ops + "/v1/models").status_code == 404
        assert made.http.get("/v1/models").status_code == 200
        for closed in (f"http://127.0.0.1:{made.port}", f"http://127.0.0.1:{made.ops_port}"):
            with pytest.raises(httpx.ConnectError):
                httpx.get(closed)
    with launch("--ops-port", "0") as made, pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{made.ops_port}/health")


@shows("--request-timeout")
def test_request_timeout(launch):
    with launch("--request-timeout", "1") as made:
        begin = time.monotonic()
        answer = complete(made.http, max_tokens=4000, ignore_eos=True)
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "deadline_exceeded"
        assert "--request-timeout" in answer.json()["error"]["message"]
        assert 0.9 < time.monotonic() - begin < 10
        assert text(made.http)


# ---- logs and metrics ----

@shows("--log-format", "--log-requests", "--log-level", "--metrics-prefix")
def test_logs_and_metrics(launch):
    with launch("--log-format", "json", "--log-requests", "--metrics-prefix", "vllm") as made:
        secret = "Zanzibar"
        text(made.http, secret, max_tokens=3)
        deadline = time.monotonic() + 5
        while "/v1/completions" not in made.log() and time.monotonic() < deadline:
            time.sleep(0.02)
        lines = [json.loads(line) for line in made.log().splitlines()]
        (access,) = [line for line in lines if line.get("path") == "/v1/completions"]
        assert access["max_tokens"] == 3 and access["n"] == 1 and secret not in made.log()
        page = made.http.get("/metrics").text
        assert "\nvllm:generation_tokens_total{" in page and "slipstream:" not in page
    with launch("--log-level", "error") as made:
        text(made.http)
        assert made.log() == ""
    with launch() as made:
        assert text(made.http)
        assert "slipstream:generation_tokens_total{" in made.http.get("/metrics").text
        assert " ready " in made.log().replace("\t", " ") and not made.log().startswith("{")


# ---- the program ----

@shows("--print-config", "--json", "--help")
def test_words_of_the_program(binary):
    shown = ends_with(binary, "m", "--max-num-seqs", "3", "--print-config", status=0)
    assert [line.split() for line in shown.splitlines() if line.startswith("max-num-seqs ")] == [["max-num-seqs", "3", "--max-num-seqs"]]
    made = json.loads(ends_with(binary, "m", "--max-num-seqs", "3", "--print-config", "--json", status=0))
    assert made["settings"]["max-num-seqs"] == {"value": 3, "source": "--max-num-seqs"}
    assert "--max-num-seqs N" in ends_with(binary, "--help", status=0)
