"""Training sequences in shards: token ids of prompt and answer, where the answer begins, and the domain. A shard is one .npz
file, so that generation can stop and go on. Knows no model."""
from pathlib import Path

import numpy as np

MIN_ANSWER = 12       # tokens
MAX_REPEATED = 0.2    # share of 4-grams that occurred before in the answer


def repeated_share(answer):
    grams = [tuple(answer[i:i + 4]) for i in range(len(answer) - 3)]
    return 0.0 if not grams else 1 - len(set(grams)) / len(grams)


def verdict(answer):
    """Why an answer is dropped: "short", "loop"; or "kept"."""
    if len(answer) < MIN_ANSWER:
        return "short"
    return "loop" if repeated_share(answer) > MAX_REPEATED else "kept"


def write_shard(path, sequences):
    """sequences: (domain, prompt ids, answer ids)."""
    tokens = np.concatenate([np.asarray(p + a, np.int32) for _, p, a in sequences])
    np.savez_compressed(path, tokens=tokens,
                        prompt=np.array([len(p) for _, p, _ in sequences], np.int32),
                        answer=np.array([len(a) for _, _, a in sequences], np.int32),
                        domain=np.array([d for d, _, _ in sequences]))


def read_shards(folder):
    """(domain, ids, where the answer begins) of every sequence, shards in the order of their names."""
    out = []
    for path in sorted(Path(folder).glob("shard-*.npz")):
        with np.load(path) as shard:
            tokens, at = shard["tokens"], 0
            for prompt, answer, domain in zip(shard["prompt"], shard["answer"], shard["domain"]):
                out.append((str(domain), tokens[at:at + prompt + answer], int(prompt)))
                at += prompt + answer
    return out
