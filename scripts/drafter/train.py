"""The training loop: the frozen target's hidden states in, the drafter's blocks out; hard labels and the target's own
distribution. Stops after a given time and goes on from its state file. Acceptance is simulated exactly on held-out answers."""
import json
import math
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from drafter.data import read_shards
from drafter.model import Drafter, block_rows
from drafter.target import load_target, tapped


RECIPE = ("anchors", "batch", "epochs", "rate", "gamma", "soft", "max_length", "seed")


class Batches:
    """Sequences in batches of about equal length, in an order that depends only on (seed, epoch)."""

    def __init__(self, sequences, size, device):
        self.sequences, self.size, self.device = sequences, size, device

    def __len__(self):
        return len(self.sequences) // self.size

    def epoch(self, number):
        generator = torch.Generator().manual_seed(1000 + number)
        order = torch.randperm(len(self.sequences), generator=generator).tolist()
        pool = 32 * self.size
        batches = []
        for first in range(0, len(order), pool):
            near = sorted(order[first:first + pool], key=lambda i: len(self.sequences[i][1]))
            batches += [near[i:i + self.size] for i in range(0, len(near) - self.size + 1, self.size)]
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield self.tensors(batches[i])

    def tensors(self, indices):
        rows = [self.sequences[i] for i in indices]
        ids = torch.zeros(len(rows), max(len(r[1]) for r in rows), dtype=torch.long)
        for i, (_, tokens, _) in enumerate(rows):
            ids[i, :len(tokens)] = torch.from_numpy(tokens).long()
        bounds = [torch.tensor(v, device=self.device) for v in ([r[2] for r in rows], [len(r[1]) for r in rows])]
        return ids.to(self.device), *bounds


def block_loss(drafter, target, batch, args, generator):
    """Mean over slots of exp(-(k - 1) / gamma) times the cross-entropy with the token and with the target's distribution."""
    ids, begin, end = batch
    block, mask_id = drafter.config["block_size"], drafter.config["dflash_config"]["mask_token_id"]
    features, final = tapped(target, ids, drafter.config["dflash_config"]["target_layer_ids"])
    # an anchor is a token of the answer with at least one token of it after it
    draw = torch.rand(ids.shape[0], args.anchors, device=ids.device, generator=generator)
    anchors = begin[:, None] + (draw * (end - begin - 1)[:, None]).long()
    tokens, positions, mask = block_rows(ids, anchors, block, mask_id)
    context_positions = torch.arange(ids.shape[1], device=ids.device)[None].expand(ids.shape[0], -1)
    embedding = target.get_input_embeddings().weight
    head = target.get_output_embeddings().weight
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
        z = drafter(features, context_positions, F.embedding(tokens, embedding), positions, mask)
        z = z.view(ids.shape[0], args.anchors, block, -1)[:, :, 1:]
        slots = torch.arange(1, block, device=ids.device)
        where = anchors[..., None] + slots
        valid = where < end[:, None, None]
        where = where.clamp(max=ids.shape[1] - 1)
        label = torch.gather(ids, 1, where.flatten(1)).view(where.shape)[valid]
        logits = F.linear(z[valid], head.to(z.dtype)).float()
        before = (where - 1).flatten(1)
        state = torch.gather(final, 1, before[..., None].expand(-1, -1, final.shape[-1])).view(*where.shape, -1)[valid]
        with torch.no_grad():
            soft = F.linear(state.to(z.dtype), head.to(z.dtype)).float().softmax(-1)
    log_p = logits.log_softmax(-1)
    hard = -log_p.gather(1, label[:, None])[:, 0]
    cross = -(soft * log_p).sum(-1)
    weight = torch.exp(-(slots - 1).float() / args.gamma).expand(valid.shape)[valid]
    return ((args.soft * cross + (1 - args.soft) * hard) * weight).sum() / weight.sum()


@torch.no_grad()
def acceptance(drafter, target, sequences, device):
    """Per domain: emitted tokens a round if drafting along these answers, and how often each slot is right, counted from every
    anchor: {domain: (mean acceptance length, [share per slot])}. The answers must be greedy ones."""
    drafter.eval()
    block, mask_id = drafter.config["block_size"], drafter.config["dflash_config"]["mask_token_id"]
    embedding, head = target.get_input_embeddings().weight, target.get_output_embeddings().weight
    sums = {}
    for domain, tokens, begin in sequences:
        ids = torch.from_numpy(tokens).long()[None].to(device)
        features, _ = tapped(target, ids, drafter.config["dflash_config"]["target_layer_ids"])
        anchors = torch.arange(begin, ids.shape[1] - 1, device=device)[None]
        rows, positions, mask = block_rows(ids, anchors, block, mask_id)
        context = torch.arange(ids.shape[1], device=device)[None]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            z = drafter(features, context, F.embedding(rows, embedding), positions, mask)
            drafts = F.linear(z.view(-1, block, z.shape[-1])[:, 1:], head.to(z.dtype)).argmax(-1)
        where = anchors[0][:, None] + torch.arange(1, block, device=device)
        valid = where < ids.shape[1]
        hit = (drafts == ids[0][where.clamp(max=ids.shape[1] - 1)]) & valid
        accepted = hit.long().cumprod(1).sum(1).tolist()
        # rounds as they would happen; the first anchor comes from the prompt's own pass
        at, emitted, rounds = 0, 0, 0
        while at < len(accepted):
            step = min(accepted[at] + 1, len(accepted) - at)
            emitted, rounds, at = emitted + step, rounds + 1, at + step
        for name in (domain, "all"):
            s = sums.setdefault(name, [0, 0, torch.zeros(block - 1), torch.zeros(block - 1)])
            s[0] += emitted
            s[1] += rounds
            s[2] += hit.sum(0).cpu()
            s[3] += valid.sum(0).cpu()
    drafter.train()
    return {name: (s[0] / max(s[1], 1), (s[2] / s[3].clamp(min=1)).tolist()) for name, s in sums.items()}


def table(figures):
    lines = [f"{'domain':10} {'length':>6}  share of drafts right, slot 1 to {len(figures['all'][1])}"]
    lines += [f"{name:10} {length:6.2f}  " + " ".join(f"{share:.2f}" for share in slots)
              for name, (length, slots) in sorted(figures.items())]
    return "\n".join(lines)


def run(args, config):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    started = time.monotonic()
    target = load_target(args.target, device)
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    everything = read_shards(args.data)
    held = read_shards(args.held_out)[:args.evaluate]
    train = [s for s in everything if len(s[1]) <= args.max_length]
    if not train or not held:
        raise SystemExit(f"no sequences in {args.data if not train else args.held_out}")
    batches = Batches(train, args.batch, device)
    if len(batches) == 0:
        raise SystemExit(f"{len(train)} sequences are fewer than one batch of {args.batch}")
    drafter = Drafter(config).to(device)
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=args.rate, weight_decay=0.0, betas=(0.9, 0.95))
    total = args.epochs * len(batches)
    generator = torch.Generator(device=device).manual_seed(args.seed)
    step, state_file = 0, folder / "state.pt"
    recipe = {name: getattr(args, name) for name in RECIPE} | {"sequences": len(train)}
    if state_file.exists():
        state = torch.load(state_file, map_location=device)
        if state["config"] != config:
            raise SystemExit(f"{state_file} is of another drafter; give another --out")
        for name, value in recipe.items():  # the order of batches, the rate and the loss follow from these
            if state["recipe"].get(name) != value:
                raise SystemExit(f"{state_file} was trained with {name} {state['recipe'].get(name)}, now it is {value}; give another --out")
        drafter.load_state_dict(state["drafter"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"].cpu())
        step = state["step"]
    print(f"{sum(p.numel() for p in drafter.parameters()) / 1e6:.1f} M parameters, {len(train)} sequences, step {step} of {total}", flush=True)
    begun, first = time.monotonic(), step
    while step < total and time.monotonic() - started < args.seconds:
        epoch = step // len(batches)
        for i, batch in enumerate(batches.epoch(epoch)):
            if i < step % len(batches):
                continue  # done before the stop
            rise, fall = min(1.0, (step + 1) / max(1, 0.04 * total)), 0.5 * (1 + math.cos(math.pi * step / total))
            for group in optimizer.param_groups:
                group["lr"] = args.rate * rise * fall
            loss = block_loss(drafter, target, batch, args, generator)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 100 == 0:
                left = (total - step) * (time.monotonic() - begun) / (step - first)
                print(f"step {step} of {total}  epoch {step / len(batches):.2f}  loss {loss.item():.3f}  {left / 60:.1f} min to go", flush=True)
            if step % args.every == 0:
                print(table(acceptance(drafter, target, held[:128], device)), flush=True)
            if time.monotonic() - started > args.seconds or step >= total:
                break
            if step % len(batches) == 0:
                break
    torch.save({"config": config, "recipe": recipe, "step": step, "drafter": drafter.state_dict(), "optimizer": optimizer.state_dict(),
                "generator": generator.get_state()}, state_file)
    figures = acceptance(drafter, target, held, device)
    print(table(figures))
    (folder / "acceptance.json").write_text(json.dumps({"step": step, "of": total, "sequences": len(train), "domains": figures}, indent=1))
    return step >= total
