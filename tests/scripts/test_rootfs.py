"""The image's file system: made by scripts/make_rootfs, run with chroot as the image would be: unprivileged, read-only,
with the environment and the entry point of the Dockerfile."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from processes import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
SIZE_LIMIT_BYTES = 100_000_000
USER = 10001

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")


def dockerfile_environment():
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text().split("FROM scratch", 1)[1])
    line = next(l for l in text.splitlines() if l.startswith("ENV "))
    return dict(pair.split("=", 1) for pair in line[4:].split())


def dockerfile_words(instruction):
    text = (ROOT / "Dockerfile").read_text().split("FROM scratch", 1)[1].replace("\\\n", " ")
    return json.loads(re.search(rf"{instruction}\s+(\[.*\])", text).group(1))


@pytest.fixture(scope="module")
def rootfs(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rootfs") / "root"
    result = subprocess.run([ROOT / "scripts/make_rootfs", folder, binary], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    yield folder
    shutil.rmtree(folder.parent)


def listing(folder):
    """Every path with its size and time."""
    return {str(p.relative_to(folder)): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


def enter(folder):
    """In the child: root becomes `folder`, the user becomes one that owns nothing in it."""
    os.chroot(folder)
    os.chdir("/models")
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)


def run_inside(folder, words, **options):
    return subprocess.Popen([f"/usr/bin/{words[0]}", *words[1:]], preexec_fn=lambda: enter(folder), cwd="/",
                            env=options.pop("env", dockerfile_environment()), **options)


def test_size_and_owner(rootfs):
    files = [p for p in rootfs.rglob("*") if p.is_file() and not p.is_symlink()]
    assert sum(p.stat().st_size for p in files) < SIZE_LIMIT_BYTES
    assert all(p.stat().st_uid == 0 and not p.stat().st_mode & 0o022 for p in rootfs.rglob("*"))
    assert not any(p.stat().st_mode & 0o6000 for p in files)
    licences = {p.parent.name for p in rootfs.glob("usr/share/doc/*/copyright")}
    assert any(name.startswith("libc6") for name in licences)


def test_on_top_of_a_cuda_base(binary, tmp_path):
    """--cuda leaves the C library to the base image and puts all else, cuBLASLt too, where LD_LIBRARY_PATH points."""
    cublas = tmp_path / "libcublasLt.so.13"
    cublas.write_bytes(b"stands in")
    root = tmp_path / "root"
    result = subprocess.run([ROOT / "scripts/make_rootfs", "--cuda", cublas, root, binary], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (root / "usr/lib/slipstream/libcublasLt.so.13").read_bytes() == b"stands in"
    names = {p.name for p in root.rglob("*.so*")}
    assert "libstdc++.so.6" in names and "libc.so.6" not in names
    assert {p.name for p in root.iterdir()} == {"usr"}
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"(/\S+)", listed):  # the base
        if Path(library).name not in names:
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
    (root / "models").mkdir()
    process = run_inside(root, ["slipstream", "--version"], stdout=subprocess.PIPE, text=True,
                         env={"LD_LIBRARY_PATH": "/usr/lib/slipstream"})
    assert "0." in process.communicate(timeout=30)[0]
    assert process.returncode == 0


def test_a_root_over_the_bound_is_refused(binary, tmp_path):
    cublas = tmp_path / "libcublasLt.so.13"
    with open(cublas, "wb") as file:
        file.truncate(760_000_000)
    result = subprocess.run([ROOT / "scripts/make_rootfs", "--cuda", cublas, tmp_path / "root", binary], capture_output=True, text=True)
    shutil.rmtree(tmp_path / "root")
    assert result.returncode == 1 and "the bound is 740" in result.stderr


def test_refuses_a_folder_that_is_in_use(rootfs, binary):
    result = subprocess.run([ROOT / "scripts/make_rootfs", rootfs, binary], capture_output=True, text=True)
    assert result.returncode == 1 and "not empty" in result.stderr


def test_version(rootfs):
    process = run_inside(rootfs, ["slipstream", "--version"], stdout=subprocess.PIPE, text=True)
    assert "0." in process.communicate(timeout=30)[0]
    assert process.returncode == 0


def test_one_chat_answer(rootfs, smollm2, tmp_path):
    model = rootfs / "models/model.gguf"
    try:
        os.link(smollm2, model)
    except OSError:
        shutil.copyfile(smollm2, model)
    before = listing(rootfs)
    port, ops_port = free_port(), free_port()
    log = open(tmp_path / "server.log", "w+")
    server = run_inside(rootfs, dockerfile_words("ENTRYPOINT") + ["/models/model.gguf", "--port", str(port)],
                        env={**dockerfile_environment(), "SLIPSTREAM_OPS_PORT": str(ops_port)}, stdout=log, stderr=log)
    health = [w.replace(":8001/", f":{ops_port}/") for w in dockerfile_words("HEALTHCHECK.*\n?.*CMD")]
    try:
        deadline = time.monotonic() + 60
        while run_inside(rootfs, health, stderr=subprocess.DEVNULL).wait(30) != 0:
            assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "server.log").read_text()
            time.sleep(0.1)
        body = json.dumps({"model": "model", "max_tokens": 8, "temperature": 0,
                           "messages": [{"role": "user", "content": "Say hello."}]}).encode()
        name = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=30))["data"][0]["id"]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions",
                                         body.replace(b'"model": "model"', f'"model": "{name}"'.encode()),
                                         {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request, timeout=60))
        assert answer["choices"][0]["message"]["content"].strip()
        assert answer["usage"]["completion_tokens"] > 0
        assert Path(f"/proc/{server.pid}/root").resolve() == rootfs.resolve()
        assert os.stat(f"/proc/{server.pid}").st_uid == USER
    finally:
        server.send_signal(signal.SIGTERM)
        status = server.wait(40)
        log.close()
    assert status == 0, (tmp_path / "server.log").read_text()
    assert listing(rootfs) == before, "the server wrote into its root"
