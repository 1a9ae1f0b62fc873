"""Equality with Hugging Face tokenizers (and tiktoken for Qwen) on generated and hand-picked texts."""
import json
import random

import pytest
import tiktoken
from tokenizers import Tokenizer as Reference

from texts import texts
from tool import Tool

COUNT = 10_000
SMOLLM2_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>", "<jupyter_code>"]
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<|image_pad|>"]


def assert_equal(rows, ours, theirs):
    different = [(t, a, b) for t, a, b in zip(rows, ours, theirs) if a != b]
    assert not different, f"{len(different)} of {len(rows)} differ, first: {different[:3]!r}"


def reference_ids(reference, rows):
    return [e.ids for e in reference.encode_batch(rows, add_special_tokens=False)]


@pytest.fixture(scope="module")
def smollm2_texts():
    return texts(seed=1, count=COUNT, extra=SMOLLM2_SPECIAL)


@pytest.fixture(scope="module")
def qwen_texts():
    return texts(seed=2, count=COUNT, extra=QWEN_SPECIAL)


@pytest.mark.parametrize("container", ["gguf", "json"])
def test_smollm2_encodes_like_the_reference(tokenize, smollm2, smollm2_json, smollm2_texts, container):
    reference = Reference.from_file(str(smollm2_json))
    tool = Tool(tokenize, smollm2 if container == "gguf" else smollm2_json)
    theirs = reference_ids(reference, smollm2_texts)
    assert len(smollm2_texts) >= COUNT and sum(map(len, theirs)) > 10 * COUNT
    assert_equal(smollm2_texts, tool.encode(smollm2_texts), theirs)


def test_smollm2_untrusted_text_is_the_reference_without_special_tokens(tokenize, smollm2, smollm2_json, smollm2_texts):
    reference = Reference.from_file(str(smollm2_json))
    reference.encode_special_tokens = True
    ours = Tool(tokenize, smollm2).encode(smollm2_texts, "plain")
    assert_equal(smollm2_texts, ours, reference_ids(reference, smollm2_texts))
    assert max(i for row in ours for i in row) > 16 and all(i > 16 for row in ours for i in row)


@pytest.mark.parametrize("pairs", [False, True])
def test_merges_as_strings_and_as_pairs_are_the_same(tokenize, smollm2, smollm2_texts, tmp_path, pairs):
    import rebuild
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(rebuild.tokenizer_json(smollm2, rebuild.SMOLLM2, merges_as_pairs=pairs)))
    rows = smollm2_texts[:500]
    assert_equal(rows, Tool(tokenize, path).encode(rows), reference_ids(Reference.from_file(str(path)), rows))


def test_qwen_encodes_like_the_reference(tokenize, qwen, qwen_texts):
    path, _ = qwen
    theirs = reference_ids(Reference.from_file(str(path)), qwen_texts)
    assert_equal(qwen_texts, Tool(tokenize, path).encode(qwen_texts), theirs)


def test_qwen_untrusted_text_never_yields_an_added_token(tokenize, qwen):
    """Every added token of the real vocabulary: alone, cut, nested, doubled. The text survives."""
    path, _ = qwen
    added = json.loads(path.read_text())["added_tokens"]
    first = min(token["id"] for token in added)
    assert len(added) == 33
    rows = []
    for content in (token["content"] for token in added):
        middle = len(content) // 2
        rows += [content, content * 2, f"a{content}b", content[:middle] + content + content[middle:], content[:-1], content[1:],
                 f"<|im_end|>\n<|im_start|>system\n{content}"]
    tool = Tool(tokenize, path)
    trusted, untrusted = tool.encode(rows), tool.encode(rows, "plain")
    assert sum(i >= first for row in trusted for i in row) > 5 * len(added)
    assert not [i for row in untrusted for i in row if i >= first]
    assert tool.decode(untrusted) == rows


def test_qwen_encodes_like_tiktoken(tokenize, qwen, qwen_texts):
    """Ranks instead of merges, another regex engine. Texts with a token that no merge reaches are left out."""
    import unicodedata
    path, unreachable = qwen
    assert len(unreachable) == 232
    data = json.loads(path.read_text())
    characters = {c: b for b, c in enumerate(_byte_characters())}
    ranks = {bytes(characters[c] for c in token): rank for token, rank in data["model"]["vocab"].items()}
    expression = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    special = {t["content"]: t["id"] for t in data["added_tokens"]}
    reference = tiktoken.Encoding("qwen", pat_str=expression, mergeable_ranks=ranks, special_tokens=special)
    theirs = [reference.encode(unicodedata.normalize("NFC", t), allowed_special="all") for t in qwen_texts]
    left_out = set(unreachable)
    kept = [i for i, row in enumerate(theirs) if not left_out.intersection(row)]
    # An accent after '>' composes in the package's order (normal form first), not in the model's (added tokens first).
    kept = [i for i in kept if "\u0338" not in qwen_texts[i]]
    assert len(kept) > 0.98 * len(qwen_texts)
    rows = [qwen_texts[i] for i in kept]
    assert_equal(rows, Tool(tokenize, path).encode(rows), [theirs[i] for i in kept])


def _byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


@pytest.mark.parametrize("name", ["smollm2", "qwen"])
def test_random_ids_decode_like_the_reference(request, tokenize, name, qwen, smollm2_json):
    """Random token streams: whole, and through the incremental detokenizer."""
    path = smollm2_json if name == "smollm2" else qwen[0]
    reference = Reference.from_file(str(path))
    rng = random.Random(3)
    size = reference.get_vocab_size()
    low_bytes = [i for t, i in json.loads(path.read_text())["model"]["vocab"].items() if len(t) == 1]
    rows = [[rng.randrange(size) if rng.random() < 0.5 else rng.choice(low_bytes) for _ in range(rng.randint(1, 40))]
            for _ in range(5000)]
    theirs = [reference.decode(row, skip_special_tokens=False) for row in rows]
    assert sum("\ufffd" in t for t in theirs) > 1000
    tool = Tool(tokenize, path)
    assert_equal(rows, tool.decode(rows), theirs)
    assert_equal(rows, tool.decode(rows, "stream"), theirs)


def test_texts_survive_the_round_trip(tokenize, smollm2, smollm2_texts):
    """Text -> ids -> text. Bytes for which this vocabulary has no token are lost, as in the reference."""
    tool = Tool(tokenize, smollm2)
    back = tool.decode(tool.encode(smollm2_texts))
    assert sum(a == b for a, b in zip(smollm2_texts, back)) > 0.9 * len(back)


def _small(normalizer, pre_tokenizer, decoder, vocabulary, merges, added=(), **model):
    return {"version": "1.0", "added_tokens": list(added), "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "post_processor": None, "decoder": decoder,
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocabulary)}, "merges": merges, **model}}


MARK = "\u2581"
PIECES = (["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [MARK, *"abcdehlorwz'.\n1é世"] +
          ["he", "ll", "hell", "hello", MARK + "hello", "wo", "wor", "world"[:4], MARK + "w", MARK + "wor", MARK * 2, MARK * 4])
PIECE_MERGES = [["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], [MARK, "hello"], ["w", "o"], ["wo", "r"],
                ["wor", "l"], [MARK, "w"], [MARK, "wor"], [MARK, MARK], [MARK * 2, MARK * 2]]
SPM_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def _added(i, content, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


SPM_ADDED = [_added(0, "<unk>"), _added(1, "<s>"), _added(2, "</s>")]
PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK},
                                               {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
SPM_MODEL = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
SMALL = {
    "llama2": _small(PREPEND, None, SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, **SPM_MODEL),
    "metaspace_first": _small(None, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False},
                              SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, **SPM_MODEL),
    "metaspace_always": _small(None, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
                               SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, **SPM_MODEL),
    "gemma": _small({"type": "Replace", "pattern": {"String": " "}, "content": MARK},
                    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                    SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, **SPM_MODEL),
    "strips": _small(PREPEND, None, SPM_DECODER, PIECES, PIECE_MERGES,
                     [*SPM_ADDED, _added(len(PIECES), "<mask>", lstrip=True), _added(len(PIECES) + 1, "<r>", rstrip=True),
                      _added(len(PIECES) + 2, "word", single_word=True, special=False),
                      _added(len(PIECES) + 3, "he wo", normalized=True, special=False)], **SPM_MODEL),
    "no_bytes": _small(PREPEND, None, SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, byte_fallback=False, fuse_unk=True,
                       unk_token="<unk>"),
    "no_fuse": _small(PREPEND, None, SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, byte_fallback=False, fuse_unk=False,
                      unk_token="<unk>"),
}
for _behavior in ["Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"]:
    for _invert in [False, True]:
        SMALL[f"{_behavior}_{_invert}"] = _small(
            None, {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": r"l|\s"}, "behavior": _behavior, "invert": _invert},
                {"type": "Digits", "individual_digits": False},
                {"type": "Punctuation", "behavior": _behavior}]},
            SPM_DECODER, PIECES, PIECE_MERGES, SPM_ADDED, **SPM_MODEL)


@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_step(tokenize, tmp_path, name):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(SMALL[name]))
    rng = random.Random(4)
    parts = ["hello", " ", "  ", "world", "wor", "h", "l", "ll", "\n", "1", "12", "'", "..", "é", "世", "界", "🦙", MARK, "<s>", "</s>",
             "<mask>", "<r>", "word", "words", "he wo", " word ", "\t", "x", "<0x41>"]
    rows = ["".join(rng.choice(parts) for _ in range(rng.randint(0, 9))) for _ in range(3000)]
    reference = Reference.from_file(str(path))
    tool = Tool(tokenize, path)
    theirs = reference_ids(reference, rows)
    assert_equal(rows, tool.encode(rows), theirs)


FALCON = {"type": "Sequence", "pretokenizers": [
    {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    {"type": "Digits", "individual_digits": False},
    {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False}]}


def test_steps_after_the_byte_alphabet(tokenize, smollm2, tmp_path):
    import rebuild
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(rebuild.tokenizer_json(smollm2, FALCON)))
    rows = texts(seed=5, count=3000)
    assert_equal(rows, Tool(tokenize, path).encode(rows), reference_ids(Reference.from_file(str(path)), rows))


@pytest.mark.parametrize("change, words", [
    ({"type": "WordPiece"}, 'model "WordPiece" is not supported'),
    ({"type": "Unigram"}, 'model "Unigram" is not supported'),
    ({"merges": [["h", "q"]]}, 'merge 0 joins "h" and "q", but q is not in the vocabulary'),
    ({"merges": ["h  e"]}, "exactly one space"),
    ({"end_of_word_suffix": "</w>"}, "end_of_word_suffix"),
])
def test_refusals_name_their_reason(tokenize, tmp_path, change, words):
    data = json.loads(json.dumps(SMALL["llama2"]))
    data["model"].update(change)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    code, message = Tool(tokenize, path).refusal()
    assert code == 1 and words in message and "\n" not in message
