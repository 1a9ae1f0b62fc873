"""A DFlash drafter of the default model's shape with random weights: it drafts in earnest and is hardly ever right."""
import json
import struct

import numpy as np


def write(folder, block=6, taps=(1, 14), layers=1, **changes):
    """Writes config.json and model.safetensors into a new folder; `changes` replace or, when None, remove keys of the config."""
    hidden, ffn, heads, kv_heads, dim = 576, 1536, 9, 3, 64
    config = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "block_size": block,
              "dflash_config": {"target_layer_ids": list(taps), "mask_token_id": 16}, "num_target_layers": 30, "hidden_size": hidden,
              "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "head_dim": dim, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "vocab_size": 49152, "max_position_embeddings": 2048,
              "layer_types": ["full_attention"] * layers, "use_sliding_window": False, "hidden_act": "silu", "attention_bias": False,
              "tie_word_embeddings": True, "torch_dtype": "float32"}
    config = {k: v for k, v in {**config, **changes}.items() if v is not None}
    shapes = {"fc.weight": (hidden, len(taps) * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,)}
    for layer in range(layers):
        for name, shape in {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,), "self_attn.q_proj": (heads * dim, hidden),
                            "self_attn.k_proj": (kv_heads * dim, hidden), "self_attn.v_proj": (kv_heads * dim, hidden),
                            "self_attn.o_proj": (hidden, heads * dim), "self_attn.q_norm": (dim,), "self_attn.k_norm": (dim,),
                            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden), "mlp.down_proj": (hidden, ffn)}.items():
            shapes[f"layers.{layer}.{name}.weight"] = shape
    rng, header, blobs, at = np.random.default_rng(3), {}, [], 0
    for name, shape in shapes.items():
        values = np.ones(shape, np.float32) if len(shape) == 1 else rng.normal(0, 0.05, shape).astype(np.float32)
        blobs.append(values.tobytes())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    return folder
