#!/usr/bin/env python3
"""Writes greedy.json into each model of tests/data/language_models: 64 greedy tokens of prompts.

Needs torch 2.8 and transformers 4.57 (pip install); neither the build nor a test needs them. Tokens
come from whole sequences without a cache, in f32 on the weights of the folder. Of each model the
first two random prompts whose choices are no near ties (gap of the two best logits above 1e-3) are
kept. deepseek_v2, qwen2_moe and qwen3_moe_mixed, which make_language_models.py has not, are drawn
here. Run it after that script.
"""
import json
import pathlib
import sys

import torch
from transformers import (AutoModelForCausalLM, DeepseekV2Config, Qwen2MoeConfig, Qwen3MoeConfig)

COUNT, PROMPTS, GAP = 64, 2, 1e-3
SMALL = dict(vocab_size=48, hidden_size=32, num_attention_heads=4, intermediate_size=40,
             max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)


def more_configs():
    """Every kind of routed experts: a shared expert with a gate, layers that have none, groups."""
    return {
        "qwen2_moe": Qwen2MoeConfig(**SMALL, num_hidden_layers=2, num_key_value_heads=2,
                                    moe_intermediate_size=16, shared_expert_intermediate_size=24,
                                    num_experts=4, num_experts_per_tok=2, rope_theta=1e4),
        "qwen3_moe_mixed": Qwen3MoeConfig(**SMALL, num_hidden_layers=3, num_key_value_heads=4,
                                          head_dim=8, rope_theta=1e4, moe_intermediate_size=16,
                                          num_experts=6, num_experts_per_tok=3,
                                          norm_topk_prob=False, mlp_only_layers=[1],
                                          tie_word_embeddings=True),
        "deepseek_v2": DeepseekV2Config(**SMALL, num_hidden_layers=2, num_key_value_heads=4,
                                        moe_intermediate_size=16, n_shared_experts=2,
                                        n_routed_experts=6, num_experts_per_tok=2, n_group=3,
                                        topk_group=2, topk_method="group_limited_greedy",
                                        first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=8,
                                        qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6,
                                        routed_scaling_factor=1.5, norm_topk_prob=False,
                                        rope_theta=1e4),
    }


def draw(config, seed):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(1 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.3 * noise)
            else:
                is_end = "embed" in name or "lm_head" in name
                p.copy_(noise * (0.3 if is_end else 1.3 / p.shape[-1] ** 0.5))
    model.tie_weights()
    return model.to(torch.bfloat16)


def greedy(model, ids):
    ids, gap = list(ids), float("inf")
    for _ in range(COUNT):
        with torch.no_grad():
            last = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        best = torch.topk(last, 2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        ids.append(int(best.indices[0]))
    return ids[-COUNT:], gap


def write(folder, rows):
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    kept = []
    for row in rows:
        for length in (37, 21, 17, 13, 9, 7, 5, 3):
            if len(kept) == PROMPTS or length > len(row):
                continue
            tokens, gap = greedy(model, row[:length])
            if gap > GAP:
                kept.append({"prompt": row[:length], "greedy": tokens, "smallest_gap": gap})
    assert len(kept) == PROMPTS, (folder, len(kept))
    (folder / "greedy.json").write_text(json.dumps(kept) + "\n")
    print(folder.name, [round(x["smallest_gap"], 4) for x in kept])


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/language_models")
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(3, 48, (37,), generator=generator).tolist() for _ in range(8)]
    for seed, (name, config) in enumerate(more_configs().items()):
        if (root / name).exists():
            continue
        draw(config, seed).save_pretrained(root / name)
        (root / name / "generation_config.json").unlink(missing_ok=True)
    for folder in sorted(root.iterdir()):
        config = folder / "config.json"
        if config.exists() and "CausalLM" in config.read_text():
            write(folder, rows)


main()
