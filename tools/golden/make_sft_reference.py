#!/usr/bin/env python3
"""Makes tests/golden/data/sft_reference.json: 50 supervised steps of transformers on a tiny model.

Needs torch 2.8 and transformers 4.57 (pip install); neither the build nor a test needs them. The
model is tests/data/language_models/qwen2, in f32. Step k trains on rows 8k … 8k + 7 modulo their
number. The loss is the sum of -log p over the counted tokens divided by how many the 8 rows have
(docs/sft.md), whatever the split into micro-batches; each split is run, and they must agree.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM

STEPS, BATCH, VOCAB = 50, 8, 48
OPTIMIZER = dict(learning_rate=1e-3, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
                 adam_epsilon=1e-8, max_grad_norm=1.0)


def make_rows():
    """Rows of 5 to 26 tokens with one to three counted runs; one row counts nothing."""
    generator = torch.Generator().manual_seed(11)
    draw = lambda low, high: int(torch.randint(low, high, (1,), generator=generator))
    rows = []
    for number in range(20):
        ids = torch.randint(3, VOCAB, (draw(5, 27),), generator=generator).tolist()
        mask = [0] * len(ids)
        for _ in range(draw(1, 4)):
            begin = draw(1, len(ids))
            for at in range(begin, min(len(ids), begin + draw(1, 9))):
                mask[at] = 1
        rows.append({"ids": ids, "mask": mask if number != 13 else [0] * len(ids)})
    return rows


def learning_rate(step):
    return OPTIMIZER["learning_rate"] * (STEPS - step) / STEPS


def run(folder, rows, micro):
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32,
                                                 attn_implementation="eager").train()
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "norm" in n]
    decayed = [p for n, p in model.named_parameters() if not (n.endswith("bias") or "norm" in n)]
    adam = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": OPTIMIZER["weight_decay"]},
         {"params": plain, "weight_decay": 0.0}],
        betas=(OPTIMIZER["adam_beta1"], OPTIMIZER["adam_beta2"]), eps=OPTIMIZER["adam_epsilon"])
    losses, norms = [], []
    for step in range(STEPS):
        batch = [rows[(BATCH * step + i) % len(rows)] for i in range(BATCH)]
        counted = sum(sum(row["mask"]) for row in batch)
        adam.zero_grad()
        total = 0.0
        for first in range(0, BATCH, micro):
            loss = 0
            for row in batch[first:first + micro]:
                ids = torch.tensor([row["ids"]])
                logp = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
                chosen = logp[:-1].gather(1, ids[0, 1:, None])[:, 0]
                loss = loss - (chosen * torch.tensor(row["mask"][1:])).sum() / counted
            loss.backward()
            total += float(loss.detach())
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER["max_grad_norm"])
        for group in adam.param_groups:
            group["lr"] = learning_rate(step)
        adam.step()
        losses.append(total)
        norms.append(float(norm))
    return losses, norms


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder = root / "tests/data/language_models/qwen2"
    rows = make_rows()
    losses, norms = run(folder, rows, BATCH)
    for micro in (4, 2, 1):
        other = run(folder, rows, micro)
        for mine, theirs in zip(losses + norms, other[0] + other[1]):
            assert abs(mine - theirs) < 1e-3 * abs(mine), (micro, mine, theirs)
    value = {"batch": BATCH, "optimizer": OPTIMIZER, "rows": rows,
             "loss": [round(x, 6) for x in losses], "grad_norm": [round(x, 6) for x in norms]}
    (root / "tests/golden/data/sft_reference.json").write_text(json.dumps(value) + "\n")
    print(losses[0], losses[-1], norms[0], norms[-1])


main()
