#!/usr/bin/env python3
"""Makes tests/data/language_models: tiny random models of each family, and what they compute.

Needs torch 2.8, transformers 4.57 and peft (pip install); neither the build nor a test needs them.
A folder holds config.json, model.safetensors (bf16) and golden.json: for two sequences the
log-probability of each next token and the entropy (f32 arithmetic on the rounded weights), 12
greedy tokens after the first five, the mean loss over both, and the norm of each gradient. Of
the classification head: scores, and loss and gradient norms of the mean square of its value at
every token but the last. What make_greedy_tokens.py draws gets its golden.json here too, if it is
there: run this script, that one, and this one again.
"""
import json
import math
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification,
                          DeepseekV3Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config,
                          Qwen3MoeConfig)

VOCAB = 48
SMALL = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=40, max_position_embeddings=128,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)


def configs():
    yarn = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=16)
    moe = {**SMALL, "num_hidden_layers": 3}
    latent = {**SMALL, "num_key_value_heads": 4}
    return {
        "qwen2": Qwen2Config(**SMALL, rope_theta=1e6, tie_word_embeddings=True, rope_scaling=yarn),
        "qwen3": Qwen3Config(**SMALL, head_dim=16, rope_theta=1e4, tie_word_embeddings=False),
        "llama": LlamaConfig(**SMALL, rope_theta=1e4, attention_bias=True, mlp_bias=True,
                             rope_scaling=llama3),
        "mistral": MistralConfig(**SMALL, head_dim=16, rope_theta=1e4, sliding_window=7),
        "qwen3_moe": Qwen3MoeConfig(**moe, head_dim=8, rope_theta=1e4, moe_intermediate_size=16,
                                    num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                    decoder_sparse_step=2),
        "deepseek_v3": DeepseekV3Config(**latent, moe_intermediate_size=16, n_shared_experts=1,
                                        n_routed_experts=4, num_experts_per_tok=2, n_group=2,
                                        topk_group=1, first_k_dense_replace=1, q_lora_rank=12,
                                        kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8,
                                        v_head_dim=6, rope_theta=1e4,
                                        rope_scaling=dict(yarn, mscale=1.0, mscale_all_dim=1.0)),
        "qwen2_plain": Qwen2Config(**SMALL, rope_theta=1e4, tie_word_embeddings=False),
        "llama2": LlamaConfig(**{**SMALL, "num_key_value_heads": 4}, rope_theta=1e4),
        "llama_linear": LlamaConfig(**SMALL, rope_theta=1e4, tie_word_embeddings=True,
                                    rope_scaling=dict(rope_type="linear", factor=2.0)),
    }


def randomize(model, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda p, scale: torch.randn(p.shape, generator=generator) * scale
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.copy_(1 + draw(p, 0.2))
            elif p.dim() == 1:
                p.copy_(draw(p, 0.3))
            else:
                is_end = "embed" in name or "lm_head" in name
                p.copy_(draw(p, 0.3 if is_end else 1.3 / math.sqrt(p.shape[-1])))
        for name, b in model.named_buffers():
            if name.endswith("correction_bias"):
                b.copy_(draw(b, 0.1))
        # As it is saved; the tables of positions stay.
        saved = [b for n, b in model.named_buffers() if n.endswith("bias")]
        for values in list(model.parameters()) + saved:
            values.copy_(values.to(torch.bfloat16).to(torch.float32))
    model.tie_weights()


def sequences(seed):
    generator = torch.Generator().manual_seed(seed + 100)
    return [torch.randint(3, VOCAB, (n,), generator=generator).tolist() for n in (29, 17)]


def golden(model, rows):
    out = {"ids": rows, "log_probs": [], "entropy": []}
    model.zero_grad()
    total, count = 0, 0
    for ids in rows:
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
        log_p = torch.log_softmax(logits, -1)
        chosen = log_p[:-1].gather(1, torch.tensor(ids[1:]).unsqueeze(1)).squeeze(1)
        out["log_probs"].append([round(x, 7) for x in chosen.tolist()])
        entropy = -(log_p.exp() * log_p).sum(-1)
        out["entropy"].append([round(x, 7) for x in entropy[:-1].tolist()])
        total, count = total - chosen.sum(), count + len(ids) - 1
    (total / count).backward()
    out["loss"] = float(total.detach() / count)
    norms = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    out["gradient_norms"] = {name: float(gradient.norm()) for name, gradient in norms.items()}
    ids, gap = list(rows[0][:5]), math.inf
    for _ in range(12):
        with torch.no_grad():
            last = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        best = torch.topk(last, 2).values
        gap = min(gap, float(best[0] - best[1]))
        ids.append(int(last.argmax()))
    assert gap > 1e-3, gap
    out["greedy"] = ids[5:]
    return out


def add_numbers(folder):
    """The same for a model that is there."""
    model = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    for seed in range(100, 120):  # until no greedy choice is a near tie
        try:
            value = golden(model, sequences(seed))
            break
        except AssertionError:
            continue
    (folder / "golden.json").write_text(json.dumps(value) + "\n")


def save(model, folder, value):
    model.to(torch.bfloat16).save_pretrained(folder)
    for extra in ("generation_config.json",):
        (folder / extra).unlink(missing_ok=True)
    (folder / "golden.json").write_text(json.dumps(value) + "\n")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/language_models")
    for number, (name, config) in enumerate(configs().items()):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        for seed in range(number * 10, number * 10 + 10):  # until no greedy choice is a near tie
            randomize(model, seed)
            try:
                value = golden(model, sequences(seed))
                break
            except AssertionError:
                continue
        save(model, root / name, value)
    for name in ("qwen2_moe", "qwen3_moe_mixed", "deepseek_v2"):
        if (root / name).exists():
            add_numbers(root / name)
    # A LoRA adapter on qwen3, and a classification head on qwen2's shape.
    base = AutoModelForCausalLM.from_pretrained(root / "qwen3", torch_dtype=torch.float32,
                                                attn_implementation="eager").eval()
    lora = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", use_rslora=True,
                      task_type="CAUSAL_LM")
    tuned = get_peft_model(base, lora).eval()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(7)
        for n, p in tuned.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    value = golden(tuned, sequences(7))
    value["gradient_norms"] = {}
    tuned.save_pretrained(root / "qwen3_lora")
    (root / "qwen3_lora" / "README.md").unlink(missing_ok=True)
    path = root / "qwen3_lora" / "adapter_config.json"
    adapter = json.loads(path.read_text())
    adapter["target_modules"].sort()  # peft writes a set
    path.write_text(json.dumps(adapter, indent=2) + "\n")
    (root / "qwen3_lora" / "golden.json").write_text(json.dumps(value) + "\n")
    config = Qwen2Config(**SMALL, rope_theta=1e6, num_labels=1)
    head = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    head.eval()
    randomize(head, 5)
    rows = sequences(5)
    rows[1] += [0, 0]  # padding
    with torch.no_grad():
        scores = [float(head(input_ids=torch.tensor([ids])).logits[0, 0]) for ids in rows]
    value = {"ids": rows, "scores": scores}
    # Without the padding, whose row of the embedding transformers gives no gradient.
    value["masks"] = [[int(t > 0 and ids[t] > 0) for t in range(len(ids))] for ids in rows]
    whole = [[t for t in ids if t > 0] for ids in rows]
    hidden = [head.model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in whole]
    values = torch.cat([head.score(x)[:-1, 0] for x in hidden])
    loss = values.square().mean()
    loss.backward()
    value["loss"] = float(loss.detach())
    value["gradient_norms"] = {n: float(p.grad.norm()) for n, p in head.named_parameters()}
    save(head, root / "qwen2_score", value)


main()
