"""The grammar tool: requests in, answers out, one process per batch."""
import json
import os
import subprocess
from pathlib import Path

import pytest


class Grammar:
    def __init__(self, program, model):
        self.command = [str(program), str(model)]

    def ask(self, requests):
        lines = "".join(json.dumps(r) + "\n" for r in requests)
        done = subprocess.run(self.command, input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(requests)
        return answers


@pytest.fixture(scope="session")
def grammar(root, smollm2):
    """The tool over the default model's vocabulary: SLIPSTREAM_GRAMMAR, or the build's."""
    build = Path(os.environ.get("SLIPSTREAM_BUILD", root / "build/release"))
    path = Path(os.environ.get("SLIPSTREAM_GRAMMAR", build / "tests/tools/grammar/grammar"))
    assert path.is_file(), f"{path} is missing: build the target grammar"
    return Grammar(path, smollm2)
