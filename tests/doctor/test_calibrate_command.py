"""`slipstream calibrate-drafter` as a program, and serving from what it writes, on the trained pair of tests/fixtures. What it
finds in other configs is shown by tests/model/test_calibration.cpp."""
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat"))
from served import running  # noqa: E402

PAIR = Path(__file__).resolve().parents[1] / "fixtures/pair"
TRUE = {"target_layer_ids": [1, 2, 4], "mask_token_id": 293, "block_size": 6, "sample_from_anchor": False, "rope_theta": 1000000.0,
        "layers": [{"window": 24, "causal": True}, {"window": 0, "causal": False}]}


def calibrate(binary, *words):
    return subprocess.run([binary, "calibrate-drafter", *words, "--threads", "1"], capture_output=True, text=True, timeout=240)


def quick(*words):
    """Fewer texts than the default."""
    return [*words, "--prompts", str(PAIR / "prompts.txt"), "--texts", "8", "--tokens", "72", "--anchors", "10"]


@pytest.fixture
def bare(tmp_path):
    """The drafter's weights alone."""
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(PAIR / "drafter/model.safetensors", folder)
    return folder


def serve(binary, *flags):
    return running(binary, str(PAIR / "target"), "--backend", "cpu", "--threads", "1", "--speculative-config.method=dflash", *flags)


def refused(binary, *flags):
    result = subprocess.run([binary, "serve", str(PAIR / "target"), "--backend", "cpu", "--port", "0", "--ops-port", "0",
                             "--speculative-config.method=dflash", *flags], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    return result.stdout + result.stderr


def test_weights_alone_are_calibrated_and_served(binary, bare, tmp_path):
    profile = tmp_path / "profile.json"
    result = calibrate(binary, *quick(str(PAIR / "target"), str(bare), "--out", str(profile)))
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert result.stdout.splitlines()[-1].startswith("fits: acceptance length ")
    assert re.search(r"^  \* 1,2,4 ", result.stdout, re.M) and re.search(r"^  \* 293 ", result.stdout, re.M)
    written = json.loads(profile.read_text())
    assert written["settings"] == TRUE and written["fits"] is True
    assert written["target"] == {"layers": 6, "hidden_size": 64, "vocab_size": 304}

    prompts = PAIR.joinpath("prompts.txt").read_text().split("\n")[:3]

    def texts(made):
        return [made.http.post("/v1/completions", json={"model": "target", "prompt": p, "max_tokens": 60, "temperature": 0, "ignore_eos": True})
                .json()["choices"][0]["text"] for p in prompts]
    with running(binary, str(PAIR / "target"), "--backend", "cpu", "--threads", "1") as made:
        plain = texts(made)
        info = made.http.get("/v1/info").json()
        assert info["drafter"] is None and info["speculation"]["why_off"] == "no speculative-config was given"
    with serve(binary, f"--speculative-config.model={bare}", f"--speculative-config.profile={profile}",
               "--speculative-config.policy=fixed") as made:
        assert texts(made) == plain
        info = made.http.get("/v1/info").json()
        drafter = info["drafter"]
        assert (drafter["config"], drafter["taps"], drafter["mask_token"]) == ("profile", [1, 2, 4], 293)
        check = drafter["self_check"]
        assert len(check["slots"]) == 5 and check["tokens"] > 0 and check["anchors"] > 0
        measured = info["speculation"]["measured"]
        assert measured["acceptance_length"] > 2 and measured["acceptance_by_position"][0] > 0.7
        assert sum(measured["widths"][1:]) == measured["rounds"]
        page = made.http.get("/metrics").text

        def value(name, label=""):
            return float(re.search(rf"^slipstream:{name}\{{[^}}]*{label}[^}}]*\}} (\S+)$", page, re.M).group(1))
        assert value("spec_decode_acceptance_length") == pytest.approx(measured["acceptance_length"])
        assert value("spec_decode_num_draft_tokens_per_pos_total", 'position="0"') == measured["rounds"]
        assert value("spec_decode_width_total", 'width="5"') == measured["widths"][5]
        for part in ("draft", "verify", "commit"):
            assert value("spec_decode_seconds_total", f'part="{part}"') > 0
        assert "drafter_self_check" in made.log()


def test_an_incomplete_config_is_refused_with_the_way_out(binary, bare):
    said = refused(binary, f"--speculative-config.model={bare}")
    assert "config.json" in said and "slipstream calibrate-drafter TARGET DRAFTER --out FILE" in said
    config = json.loads((PAIR / "drafter/config.json").read_text())
    del config["dflash_config"]["mask_token_id"]
    (bare / "config.json").write_text(json.dumps(config))
    said = refused(binary, f"--speculative-config.model={bare}")
    assert "'mask_token_id' is missing" in said and "calibrate-drafter" in said


def test_a_wrong_config_is_named(binary, bare):
    config = json.loads((PAIR / "drafter/config.json").read_text())
    config["dflash_config"]["target_layer_ids"] = [1, 3, 4]
    (bare / "config.json").write_text(json.dumps(config))
    result = calibrate(binary, *quick(str(PAIR / "target"), str(bare), "--json"))
    assert (result.returncode, result.stderr) == (0, "")
    report = json.loads(result.stdout)["report"]
    assert report["faults"] == [{"key": "target_layer_ids", "stated": "1,3,4", "measured": "1,2,4"}]
    assert report["stated_acceptance_length"] < report["acceptance_length"]
    keys = [s["key"] for s in report["settings"]]
    assert keys == ["target_layer_ids", "mask_token_id", "sample_from_anchor", "rope_theta", "sliding_window", "layer_types", "is_causal",
                    "input_embedding_scale", "block_size"]
    assert all(sum(v["chosen"] for v in s["values"]) == 1 for s in report["settings"])
    # served all the same, by its config: the log says what to do
    with serve(binary, f"--speculative-config.model={bare}") as made:
        check = made.http.get("/v1/info").json()["drafter"]["self_check"]
        assert ("calibrate-drafter TARGET DRAFTER says whether a setting is wrong" in made.log()) == check["low"]


def test_what_fits_nothing_is_refused_with_its_table(binary, bare, tmp_path):
    data = bytearray((bare / "model.safetensors").read_bytes())
    header = struct.unpack("<Q", data[:8])[0]
    tensors = {k: v for k, v in json.loads(data[8:8 + header]).items() if k != "__metadata__"}
    for entry in tensors.values():
        if len(entry["shape"]) == 2:  # the rows of every matrix in reverse
            begin, end = (8 + header + o for o in entry["data_offsets"])
            row = 2 * entry["shape"][1]
            data[begin:end] = b"".join(bytes(data[i:i + row]) for i in range(end - row, begin - 1, -row))
    (bare / "model.safetensors").write_bytes(data)
    profile = tmp_path / "profile.json"
    result = calibrate(binary, *quick(str(PAIR / "target"), str(bare), "--out", str(profile)))
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[-1].startswith("nothing fits")
    said = refused(binary, f"--speculative-config.model={bare}", f"--speculative-config.profile={profile}")
    assert "speculative-config.profile: nothing fits" in said
    assert said.count("drafter_profile") >= 9 and "mask_token_id" in said


def test_refusals(binary, bare, tmp_path):
    def error(*words):
        result = calibrate(binary, *words)
        assert result.returncode == 2 and result.stdout == "" and result.stderr.count("\n") == 1
        return result.stderr
    target = str(PAIR / "target")
    assert "does not exist" in error(target, str(tmp_path / "nothing"))
    assert "is not a drafter" in error(target, target)
    assert "prompts" in error(target, str(bare), "--prompts", str(tmp_path / "nothing"))
    assert "over the context" in error(target, str(bare), "--prompts", str(PAIR / "prompts.txt"), "--tokens", "2000")
    assert "cannot write" in error(*quick(target, str(bare), "--out", str(tmp_path / "no/such/folder")))
    empty = tmp_path / "empty"
    empty.write_text("\n\n")
    assert "no prompt of" in error(target, str(bare), "--prompts", str(empty))
    (tmp_path / "bad.json").write_text('{"format": 1}')
    assert "'format'" in refused(binary, f"--speculative-config.model={bare}", f"--speculative-config.profile={tmp_path / 'bad.json'}")
