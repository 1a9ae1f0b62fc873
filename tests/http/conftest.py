"""Fixtures of the black-box tests. SLIPSTREAM_STUB names the stub server's binary."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from server_process import Server  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_binary(variable, *names):
    if path := os.environ.get(variable):
        return path
    builds = [pathlib.Path(os.environ["SLIPSTREAM_BUILD"])] if "SLIPSTREAM_BUILD" in os.environ else \
        sorted((ROOT / "build").glob("*"), key=lambda p: p.name != "release")
    for build in builds:
        for name in names:
            if (build / name).is_file():
                return str(build / name)
    return None


def server_under_test(variable, target):
    path = find_binary(variable, f"tests/http/{target}")
    if not path:
        pytest.fail(f"{target} is not built: ninja -C build/release {target}")
    return path


@pytest.fixture(scope="session")
def stub_binary():
    return server_under_test("SLIPSTREAM_STUB", "stub_server")


@pytest.fixture(scope="session")
def fault_binary():
    return server_under_test("SLIPSTREAM_FAULT_SERVER", "fault_server")


@pytest.fixture(scope="session")
def stub(stub_binary):
    """One shared server with quick steps; tests leave it idle."""
    with Server(stub_binary, "--stub-step-us=200") as server:
        yield server


@pytest.fixture
def start_stub(stub_binary):
    """Starts servers with chosen flags; all are gone after the test."""
    servers = []

    def start(*args, **kwargs):
        servers.append(Server(stub_binary, *args, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


class Scripted:
    """scripted(family, *flags): a server whose model answers what the prompt tells it to, in that family's form; each is started
    once. of_template: the same with any chat template."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.servers = binary, folder, {}

    def __call__(self, name, *flags):
        from scripted import FAMILIES

        family = FAMILIES[name]
        return self.of_template(family.template, *[f"--stub-special={s}" for s in family.specials], *flags)

    def of_template(self, source, *flags):
        if (source, flags) not in self.servers:
            file = self.folder / f"{len(self.servers)}.jinja"
            file.write_text(source)
            self.servers[source, flags] = Server(self.binary, "--stub-script", f"--chat-template={file}", "--stub-context=16384", *flags)
        return self.servers[source, flags]


@pytest.fixture(scope="session")
def scripted(stub_binary, tmp_path_factory):
    made = Scripted(stub_binary, tmp_path_factory.mktemp("templates"))
    yield made
    for server in made.servers.values():
        server.kill()
