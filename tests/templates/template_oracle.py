"""Our renderer as a process, and jinja2 set up as transformers sets it up."""

import datetime
import functools
import json
import os
import subprocess
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1_785_542_400  # 2026-08-01 00:00:00 UTC; both sides format it in the zone below
os.environ["TZ"] = "UTC"
ROOT = Path(__file__).resolve().parents[2]


def find_renderer():
    """SLIPSTREAM_RENDER, or the first build folder that has the program."""
    named = os.environ.get("SLIPSTREAM_RENDER")
    if named:
        return Path(named)
    for folder in ("release", "debug", "asan"):
        program = ROOT / "build" / folder / "tests" / "tools" / "render" / "slip_render"
        if program.exists():
            return program
    raise FileNotFoundError("slip_render is not built: ninja -C build/release slip_render, or set SLIPSTREAM_RENDER")


class Renderer:
    """One process of ours; a case in, a result out."""

    def __init__(self):
        self.process = subprocess.Popen([find_renderer()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, **case):
        case.setdefault("now", NOW)
        self.process.stdin.write(json.dumps(case).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the renderer died (exit code {self.process.wait()}) on {json.dumps(case)[:2000]}"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


class GenerationTag(jinja2.ext.Extension):
    """{% generation %}: prints its body, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print_body"), [], [], body).set_lineno(line)

    def _print_body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW).strftime(form)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


ENVIRONMENT = make_environment()


@functools.lru_cache
def compiled(template):
    return ENVIRONMENT.from_string(template)


def reference(template, variables):
    """(text, None) or (None, exception) of jinja2."""
    try:
        text = compiled(template).render(**variables)
        text.encode()
        return text, None
    except Exception as error:  # every kind of failure counts as a refusal
        return None, error
