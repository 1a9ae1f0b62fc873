"""The frozen target in transformers, from a GGUF file or a folder, and what training reads of it: hidden states of the tapped
layers and logits. Knows no drafter."""
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM


def load_target(path, device):
    path = Path(path)
    options = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = path.parent if options else path
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    model = model.to(device=device, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32).eval()
    return model.requires_grad_(False)


@torch.no_grad()
def tapped(target, ids, taps):
    """(features [b, T, taps * H], final hidden states after the last norm [b, T, H]). Entry 0 of hidden_states is the embedding,
    so layer t's output is entry t + 1; the last entry is normed already, so the last layer cannot be tapped."""
    states = target.model(ids, output_hidden_states=True).hidden_states
    if max(taps) >= len(states) - 2:
        raise ValueError(f"tap {max(taps)} is not below the last of {len(states) - 1} layers")
    return torch.cat([states[t + 1] for t in taps], -1), states[-1]
