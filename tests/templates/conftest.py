"""The renderer that all template tests talk to."""

import pytest
from template_oracle import Renderer


@pytest.fixture(scope="session")
def render():
    renderer = Renderer()
    yield renderer
    renderer.close()
