"""A Hugging Face tokenizer.json from the vocabulary of a GGUF file, for byte-level families whose published form is
known."""
from gguf import GGUFReader


def metadata(path):
    reader = GGUFReader(path)
    return {name: field.contents() for name, field in reader.fields.items() if name.startswith("tokenizer.")}


def tokenizer_json(path, pre_tokenizer, normalizer=None, merges_as_pairs=False):
    values = metadata(path)
    tokens, types = values["tokenizer.ggml.tokens"], values["tokenizer.ggml.token_type"]
    merges = values["tokenizer.ggml.merges"]
    added = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 3]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": [m.split(" ") for m in merges] if merges_as_pairs else merges},
    }


SMOLLM2 = {"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
