"""What a tiny test model looks like: its config.json, tokenizer, chat template and tensors (Hugging Face names).

Used by make_tiny_model, which writes it in either container. Knows no file format.
"""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# A few merges, so that text is not one token per byte. Left and right in the byte-level alphabet.
MERGES = [
    ("h", "e"), ("Ġ", "t"), ("Ġt", "he"), ("i", "n"), ("e", "r"), ("a", "n"), ("o", "n"), ("r", "e"), ("Ġ", "a"),
    ("e", "n"), ("in", "g"), ("o", "u"), ("an", "d"), ("Ġ", "w"), ("i", "s"), ("l", "l"), ("Ġ", "o"), ("a", "t"),
    ("Ġ", "s"), ("o", "r"), ("Ġ", "c"), ("i", "t"), ("e", "s"), ("Ġ", "f"), ("Ġ", "b"), ("l", "e"), ("Ġ", "Ġ"),
    ("ĠĠ", "ĠĠ"),
]
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PATTERN = QWEN_PATTERN.replace(r"\p{N}|", r"\p{N}{1,3}|")
ARCHES = ("llama", "mistral", "qwen2", "qwen3")
LLAMA3_SCALING = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

# quantization_config of FP8 models, in the two spellings that are served.
FP8_CONFIGS = {
    "fp8-block": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
                  "modules_to_not_convert": ["lm_head"]},
    "fp8-channel": {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "quantization_status": "compressed", "kv_cache_scheme": None,
        "config_groups": {"group_0": {
            "targets": ["Linear"], "output_activations": None,
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True},
        }},
    },
}


def is_fp8(name):
    """Whether a tensor is FP8 in a model with such a config: the matrices of the layers."""
    return name.endswith("_proj.weight")


def fp8_scales(name, shape, quantization):
    """Name and shape of the scales of an FP8 matrix, and the rows and columns that share one."""
    block = quantization.get("weight_block_size")
    if block is None:
        return name + "_scale", (shape[0], 1), (1, shape[1])
    return name + "_scale_inv", (-(-shape[0] // block[0]), -(-shape[1] // block[1])), tuple(block)


def byte_alphabet():
    """The 256 printable stand-ins of GPT-2's byte-level BPE, by byte."""
    kept = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet, extra = {}, 0
    for byte in range(256):
        if byte in kept:
            alphabet[byte] = chr(byte)
        else:
            alphabet[byte] = chr(256 + extra)
            extra += 1
    return [alphabet[byte] for byte in range(256)]


def vocabulary():
    """Tokens by id: 256 bytes, merges, specials. The model's vocab_size may be larger, as real ones are."""
    return byte_alphabet() + [left + right for left, right in MERGES] + SPECIALS


def tokenizer_json(arch):
    tokens = vocabulary()
    first_special = len(tokens) - len(SPECIALS)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": first_special + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i, text in enumerate(SPECIALS)
        ],
        "normalizer": {"type": "NFC"} if arch.startswith("qwen") else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN_PATTERN if arch.startswith("qwen") else LLAMA3_PATTERN},
                 "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens[:first_special])},
            "merges": [f"{left} {right}" for left, right in MERGES],
        },
    }


def config(arch, wide, rope_scaling, layers=None, vocab=None):
    """config.json. `wide`: rows that hold whole blocks of 256, for the K formats."""
    hidden, heads, kv_heads, head_dim, ffn = (96, 6, 2, 32, 160) if arch == "qwen3" else (64, 4, 2, 16, 128)
    if wide:
        hidden, heads, kv_heads, head_dim, ffn = 256, 4, 2, 64, 512
    specials = len(vocabulary()) - len(SPECIALS)
    names = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
             "qwen3": "Qwen3ForCausalLM"}
    out = {
        "architectures": [names[arch]], "model_type": arch, "hidden_size": hidden, "intermediate_size": ffn,
        "num_hidden_layers": layers or (3 if arch == "qwen3" else 2), "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocab or 320, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6 if arch.startswith("qwen") else 1e-5, "rope_theta": 10000.0, "rope_scaling": None,
        "hidden_act": "silu", "initializer_range": 0.02, "tie_word_embeddings": arch == "qwen2",
        "bos_token_id": specials, "eos_token_id": specials + 2, "torch_dtype": "float32", "use_cache": True,
    }
    if arch in ("llama", "mistral", "qwen3"):
        out["head_dim"] = head_dim
    if arch in ("llama", "qwen3"):
        out["attention_bias"] = False
    if arch == "llama":
        out["mlp_bias"] = False
        if rope_scaling == "llama3":
            out["rope_scaling"] = dict(LLAMA3_SCALING)
    if arch == "mistral":
        out["sliding_window"] = None
    if arch.startswith("qwen"):
        out["use_sliding_window"] = False
    return out


def tensor_shapes(cfg):
    """Hugging Face name -> shape, in the order in which they are written."""
    hidden, ffn, vocab = cfg["hidden_size"], cfg["intermediate_size"], cfg["vocab_size"]
    head_dim = cfg.get("head_dim", hidden // cfg["num_attention_heads"])
    q, kv = cfg["num_attention_heads"] * head_dim, cfg["num_key_value_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(cfg["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes[prefix + "input_layernorm.weight"] = (hidden,)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            shapes[f"{prefix}self_attn.{name}_proj.weight"] = (rows, hidden)
            if cfg["model_type"] == "qwen2":
                shapes[f"{prefix}self_attn.{name}_proj.bias"] = (rows,)
        if cfg["model_type"] == "qwen3":
            shapes[prefix + "self_attn.q_norm.weight"] = (head_dim,)
            shapes[prefix + "self_attn.k_norm.weight"] = (head_dim,)
        shapes[prefix + "self_attn.o_proj.weight"] = (hidden, q)
        shapes[prefix + "post_attention_layernorm.weight"] = (hidden,)
        shapes[prefix + "mlp.gate_proj.weight"] = (ffn, hidden)
        shapes[prefix + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[prefix + "mlp.down_proj.weight"] = (hidden, ffn)
    shapes["model.norm.weight"] = (hidden,)
    if not cfg["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocab, hidden)
    return shapes
