"""The DFlash drafter (v1) in PyTorch, for training: a non-causal Qwen3-style stack over a block of B rows that reads K and V
of a projection of the target's hidden states. Tensor names and shapes are those of a published checkpoint. What a layer
sees is the caller's mask. Formulas: arXiv 2602.06036."""
import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


def rope_tables(positions, head_dim, theta):
    """cos and sin [..., head_dim / 2] of absolute positions; split-half pairs."""
    inverse = theta ** (-torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32) / head_dim)
    angle = positions[..., None].float() * inverse
    return angle.cos(), angle.sin()


def rotate(x, tables):
    """x [batch, heads, rows, head_dim]; tables [batch, rows, head_dim / 2]."""
    cos, sin = (t[:, None] for t in tables)
    first, second = x.float().chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)  # noqa: E731
        self.q_proj = linear(c["hidden_size"], self.heads * self.head_dim)
        self.k_proj = linear(c["hidden_size"], self.kv_heads * self.head_dim)
        self.v_proj = linear(c["hidden_size"], self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, c["hidden_size"])
        self.q_norm = RMSNorm(self.head_dim, c["rms_norm_eps"])
        self.k_norm = RMSNorm(self.head_dim, c["rms_norm_eps"])

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def forward(self, x, context, rows_rope, context_rope, mask):
        q = rotate(self.q_norm(self.split(self.q_proj(x), self.heads)), rows_rope)
        k = torch.cat([rotate(self.k_norm(self.split(self.k_proj(context), self.kv_heads)), context_rope),
                       rotate(self.k_norm(self.split(self.k_proj(x), self.kv_heads)), rows_rope)], 2)
        v = torch.cat([self.split(self.v_proj(context), self.kv_heads), self.split(self.v_proj(x), self.kv_heads)], 2)
        group = self.heads // self.kv_heads
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = Mlp(c)

    def forward(self, h, context, rows_rope, context_rope, mask):
        h = h + self.self_attn(self.input_layernorm(h), context, rows_rope, context_rope, mask)
        return h + self.mlp(self.post_attention_layernorm(h))


class Drafter(nn.Module):
    """config: the keys of a published config.json."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        taps = len(config["dflash_config"]["target_layer_ids"])
        self.fc = nn.Linear(taps * config["hidden_size"], config["hidden_size"], bias=False)
        self.hidden_norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, features, context_positions, rows, row_positions, mask):
        """Final hidden states of block rows.

        features [b, T, taps * H]: residual streams of the tapped layers, in list order; rows [b, R, H]: embeddings of anchors
        and masks; mask [b, 1, R, T + R]: what each row sees of context and rows, or a list of one for each layer."""
        head_dim, theta = self.config["head_dim"], self.config["rope_theta"]
        context = self.hidden_norm(self.fc(features))
        rows_rope, context_rope = rope_tables(row_positions, head_dim, theta), rope_tables(context_positions, head_dim, theta)
        h = rows
        masks = mask if isinstance(mask, list) else [mask] * len(self.layers)
        for layer, seen in zip(self.layers, masks):
            h = layer(h, context, rows_rope, context_rope, seen)
        return self.norm(h)


def block_rows(ids, anchors, block, mask_id):
    """Rows of the blocks that start at `anchors` [b, A] of `ids` [b, T]: (token ids [b, A * B], positions [b, A * B], mask
    [b, 1, A * B, T + A * B]). A row sees the context before its anchor and the rows of its own block."""
    b, count = anchors.shape
    device = ids.device
    tokens = torch.full((b, count, block), mask_id, device=device)
    tokens[:, :, 0] = torch.gather(ids, 1, anchors)
    positions = (anchors[..., None] + torch.arange(block, device=device)).view(b, -1)
    context = torch.arange(ids.shape[1], device=device)[None, None] < anchors.repeat_interleave(block, 1)[:, :, None]
    owner = torch.arange(count * block, device=device) // block
    own = (owner[:, None] == owner[None])[None].expand(b, -1, -1)
    return tokens.view(b, -1), positions, torch.cat([context, own], -1)[:, None]


def default_taps(layers, count):
    """The published rule: round(1 + i (N - 4) / (k - 1)), halves to even; the middle layer for one tap."""
    if count == 1:
        return [layers // 2]
    return [round(1 + i * (layers - 4) / (count - 1)) for i in range(count)]
