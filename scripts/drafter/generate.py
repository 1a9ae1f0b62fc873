"""Answers of the target itself, through a running server (any OpenAI-compatible one that returns token ids): prompts from
templates and from the model (its own user turns, as Magpie does), greedy and sampled answers, into shards. Goes on where it
stopped."""
import asyncio
import random
import sys
import time
from collections import Counter
from pathlib import Path

import httpx

from drafter.data import verdict, write_shard
from drafter.prompts import prompts

SHARD = 2048
USER_TOKENS = 64       # of a prompt that the model writes
MODEL_PROMPTS = 0.5    # share of prompts that the model writes


class Server:
    """What of the API generation uses. Prompts are text: the template is applied by the server's tokenizer."""

    def __init__(self, url, streams):
        limits = httpx.Limits(max_connections=streams, max_keepalive_connections=streams)
        self.client = httpx.AsyncClient(base_url=url, limits=limits, timeout=300)
        self.gate = asyncio.Semaphore(streams)

    async def complete(self, **fields):
        async with self.gate:
            answer = await self.client.post("/v1/completions", json={"return_token_ids": True, **fields})
        answer.raise_for_status()
        return answer.json()["choices"][0]


async def attempt(server, job, template, tokens):
    """(domain, prompt ids, answer ids) or why there is none."""
    domain, text, seed, temperature = job
    head, foot = template
    if text is None:
        written = await server.complete(prompt=head, max_tokens=USER_TOKENS, temperature=1.0, top_p=0.95, seed=seed)
        text = written["text"].strip()
        if written["finish_reason"] != "stop" or len(written["token_ids"]) < 5:
            return "unfinished prompt"
    answer = await server.complete(prompt=head + text + foot, max_tokens=tokens, temperature=temperature, seed=seed)
    reason = verdict(answer["token_ids"])
    return (domain, answer["prompt_token_ids"], answer["token_ids"]) if reason == "kept" else reason


def jobs(count, held_out, seed):
    rng = random.Random(seed)
    pairs = prompts(count, held_out, seed)
    out = []
    for domain, text in pairs:
        own = not held_out and rng.random() < MODEL_PROMPTS
        out.append(("model", None) if own else (domain, text))
    return [(domain, text, rng.getrandbits(32), 0.0 if held_out or rng.random() < 0.7 else 0.8) for domain, text in out]


async def run(args):
    folder = Path(args.data)
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(args.url, args.streams)
    template = (Path(args.head).read_text(), Path(args.foot).read_text()) if args.head else (CHATML_HEAD, CHATML_FOOT)
    start, counts, kept = time.monotonic(), Counter(), 0
    for shard in range(-(-args.attempts // SHARD)):
        path = folder / f"shard-{'held-' if args.held_out else ''}{args.seed}-{shard:04}.npz"
        if path.exists():
            continue
        work = jobs(SHARD, args.held_out, args.seed * 1_000_003 + shard)
        results = await asyncio.gather(*(attempt(server, job, template, args.max_tokens) for job in work))
        good = [r for r in results if not isinstance(r, str)]
        counts.update(r if isinstance(r, str) else "kept" for r in results)
        kept += len(good)
        write_shard(path, good)
        spent = time.monotonic() - start
        print(f"shard {shard}: kept {len(good)} of {SHARD}; {kept} in all, {kept / spent:.0f} a second; "
              + ", ".join(f"{k} {v}" for k, v in sorted(counts.items())), file=sys.stderr, flush=True)
        if args.seconds and spent > args.seconds:
            break


CHATML_HEAD = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
               "<|im_start|>user\n")
CHATML_FOOT = "<|im_end|>\n<|im_start|>assistant\n"
