#!/usr/bin/env python3
"""Makes tests/data/lora: LoRA adapters as peft trains them, over tests/data/language_models.

    tools/golden/make_lora.py [FOLDER [CASE...]]      # all cases without a name

Needs torch 2.8, transformers 4.57, whose routed experts are linear layers, and peft (pip install);
neither the build nor a test needs them. A folder holds adapter_config.json,
adapter_model.safetensors (B not zero) and golden.json: the mean loss over two sequences, the norm
of each gradient and of all, and the loss after one AdamW step.
"""
import json
import pathlib
import shutil
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

CASES = {
    "qwen2_all": ("qwen2", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "qwen3_some": ("qwen3", dict(r=3, lora_alpha=6, use_rslora=True,
                                 target_modules=["q_proj", "v_proj", "up_proj"])),
    "qwen3_moe_attention": ("qwen3_moe", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])),
    # What Cohort's all-linear takes; peft's takes the router too, a linear layer in transformers 4.
    "qwen3_moe_experts": ("qwen3_moe", dict(
        r=4, lora_alpha=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj",
                                           "gate_proj", "up_proj", "down_proj"])),
    "qwen2_moe_experts": ("qwen2_moe", dict(  # and a shared one
        r=2, lora_alpha=6, use_rslora=True, target_modules=["gate_proj", "up_proj", "down_proj"])),
}
STEP = dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)


def loss_of(model, rows):
    total, count = 0, 0
    for ids in rows:
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
        log_p = torch.log_softmax(logits, -1)
        total = total - log_p[:-1].gather(1, torch.tensor(ids[1:]).unsqueeze(1)).sum()
        count += len(ids) - 1
    return total / count


def file_name(name):
    return name.replace(".default", "")


def norm_of(parameter):
    """Of the gradient; an expert that no token chose has none."""
    return 0.0 if parameter.grad is None else float(parameter.grad.norm())


def make(root, name, base, options):
    models = root.parent / "language_models"
    model = AutoModelForCausalLM.from_pretrained(models / base, torch_dtype=torch.float32,
                                                 attn_implementation="eager")
    tuned = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for n, p in tuned.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.1)
    folder = root / name
    tuned.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["target_modules"].sort()  # peft writes a set
    config["base_model_name_or_path"] = f"tests/data/language_models/{base}"
    path.write_text(json.dumps(config, indent=2) + "\n")
    rows = [torch.randint(3, 48, (n,), generator=generator).tolist() for n in (29, 17)]
    trained = {n: p for n, p in tuned.named_parameters() if p.requires_grad}
    loss = loss_of(tuned, rows)
    loss.backward()
    value = {"base": base, "ids": rows, "loss": float(loss.detach()),
             "gradient_norms": {file_name(n): norm_of(p) for n, p in trained.items()},
             "grad_norm": float(torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)),
             "learning_rate": STEP["lr"]}
    torch.optim.AdamW(trained.values(), **STEP).step()
    value["loss_after_step"] = float(loss_of(tuned, rows).detach())
    (folder / "golden.json").write_text(json.dumps(value) + "\n")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/lora")
    for name in sys.argv[2:] or CASES:
        shutil.rmtree(root / name, ignore_errors=True)
        make(root, name, *CASES[name])


if __name__ == "__main__":
    main()
