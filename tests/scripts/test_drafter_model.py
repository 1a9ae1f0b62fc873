"""What scripts/train_drafter trains is the drafter that serves: its PyTorch model against the independent one of
scripts/make_drafter_golden, whose results the engine is tested with. Needs torch and transformers."""
import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def golden():
    sys.path.insert(0, str(SCRIPTS))
    loader = importlib.machinery.SourceFileLoader("make_drafter_golden", str(SCRIPTS / "make_drafter_golden"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_drafter_golden", loader))
    loader.exec_module(module)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield module
    torch.set_default_dtype(before)


def test_blocks_equal_the_independent_drafter(golden):
    from drafter.model import Drafter, block_rows
    target_config, config = golden.cases()["full"]
    target, oracle, trained = golden.Target(target_config), golden.Drafter(config), Drafter(config).double()
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            parameter.copy_(golden.tensor(name, tuple(parameter.shape)))
    ids = [(7 * i * i + 3) % 125 for i in range(golden.LENGTH)]
    taps = target.taps(ids, config["dflash_config"]["target_layer_ids"])
    anchors, block = [20, 33, 64], config["block_size"]
    rows, positions, mask = block_rows(torch.tensor([ids]), torch.tensor([anchors]), block, config["dflash_config"]["mask_token_id"])
    with torch.no_grad():
        got = trained(taps.reshape(1, len(ids), -1), torch.arange(len(ids))[None], target.embed(rows[0].tolist())[None], positions, mask)
    keys, values = oracle.context(taps)
    for i, anchor in enumerate(anchors):
        want = oracle.rms(oracle.block(target, keys, values, ids[anchor], anchor, block), "norm.weight")
        assert want.abs().max() > 1
        assert (got.view(len(anchors), block, -1)[i] - want).abs().max() < 1e-5  # its norms are float32


def test_taps_follow_the_published_rule():
    sys.path.insert(0, str(SCRIPTS))
    from drafter.model import default_taps
    assert default_taps(36, 5) == [1, 9, 17, 25, 33]   # Qwen3-8B's published drafter
    assert default_taps(64, 5) == [1, 16, 31, 46, 61]  # Qwen3.5-27B's
    assert default_taps(30, 1) == [15]
