"""GRPO steps of `actor-node run` and of TRL's GRPOTrainer, in turns (for language_peers.py)."""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Random text has nothing to learn; the reward only has to differ between answers.
LANGUAGE_CONFIG = """
pipeline: rlvr
exp_name: peers
seed: 42
max_steps: {steps}
eval_steps: -1
save_steps: 100000
rollout_batch_size: {prompts_of_a_step}
num_return_sequences_in_group: {group}
prompt_length: {prompt}
response_length: {completion}
adv_estimator: grpo
ppo_epochs: 1
pg_clip: 0.2
loss_agg_mode: token-mean
entropy_loss_coef: 0.0
max_grad_norm: 1.0
init_kl_coef: 0.0
pretrain: {folder}
actor_train:
  model_args: {{dtype: {dtype}}}
  training_args:
    learning_rate: {learning_rate}
    lr_scheduler_type: constant
    weight_decay: 0.0
    per_device_train_batch_size: {micro_batch}
    gradient_accumulation_steps: {accumulate}
  data_args:
    template: empty
    file_name: [{rows}]
  strategy_args: {{strategy_name: deepspeed_train}}
  device_mapping: list(range(0,1))
actor_infer:
  generating_args: {{temperature: 1.0, top_p: 1.0, top_k: 0}}
  strategy_args: {{strategy_name: vllm}}
  device_mapping: list(range(1,2))
rewards:
  variety: {{type: repetition, tag_included: [peers], args: {{unit: character}}}}
platform: cpu
num_gpus_per_node: 2
cards:
  memory_bytes: 32GiB
  reserve_bytes: 64MiB
  threads_per_card: {threads}
placement: {{mode: separate, offload: never}}
determinism: strict
micro_batch_tokens: 1024
"""


def variables(threads):
    """The environment of every program: so many threads, and no CPU type forced on OpenBLAS."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    mine["OMP_NUM_THREADS"] = str(threads)
    mine["TOKENIZERS_PARALLELISM"] = "false"
    return mine


def language_job(a, shape, dtype, folder):
    """A batch of answers to random text, one optimizer step on it."""
    is_large = shape == "0.5b"
    samples, completion = (8, 16) if is_large else (32, 32)
    rng = random.Random(7)
    texts = ["".join(rng.choices("abcdefgh", k=a.prompt)) for _ in range(256)]
    return {
        "shape": shape,
        "dtype": dtype,
        "folder": folder,
        "threads": a.threads,
        "prompts": texts,
        "prompt": a.prompt,
        "completion": completion,
        "group": 4,
        "micro_batch": 8,
        "optimizer_batch": samples,
        "samples": samples,
        "steps": 4 if is_large else 6,
        "learning_rate": 1e-5,
        "bar": 2.0 if is_large else 5.0,
        "config": None,
    }


def addition_job(a, folder):
    """configs/arithmetic_rlvr.yaml: 256 answers of 22 tokens, two optimizer steps."""
    rng = random.Random(7)
    texts = [f"{rng.randint(10, 99)}+{rng.randint(10, 99)}=" for _ in range(1024)]
    return {
        "shape": "addition",
        "dtype": "f32",
        "folder": folder,
        "threads": a.threads,
        "prompts": texts,
        "completion": 22,
        "group": 8,
        "micro_batch": 128,  # faster than 32 for TRL
        "optimizer_batch": 128,
        "samples": 256,
        "steps": 20,
        "learning_rate": 5e-4,
        "bar": 15.0,
        "config": [
            ROOT / "configs/arithmetic_rlvr.yaml",
            "max_steps=60",
            "eval_steps=-1",
            "save_steps=100000",
            f"cards.threads_per_card={a.threads}",
        ],
    }


def write_config(job, work):
    rows = work / "rows.jsonl"
    with open(rows, "w", encoding="utf-8") as file:
        for text in job["prompts"]:
            row = {"prompt": text, "ground_truth": "1", "tag": "peers"}
            file.write(json.dumps(row) + "\n")
    numbers = {
        **job,
        "dtype": {"f32": "fp32", "bf16": "bf16"}[job["dtype"]],
        "prompts_of_a_step": job["samples"] // job["group"],
        "accumulate": job["optimizer_batch"] // job["micro_batch"],
        "rows": rows,
    }
    config = work / "grpo.yaml"
    config.write_text(LANGUAGE_CONFIG.format(**numbers), encoding="utf-8")
    return [config]


def cpu_of_group(group):
    """Returns the CPU seconds of a process group's members so far."""
    ticks = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = pathlib.Path("/proc", entry, "stat").read_text(encoding="utf-8")
        except OSError:
            continue
        fields = fields.rpartition(")")[2].split()
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def watch(run, work):
    """Returns (rows seen, CPU seconds) at the first new row and at the last."""
    path, first, last = None, None, None
    while run.poll() is None:
        time.sleep(0.05)
        path = path or next(pathlib.Path(work).glob("*/*/metrics.jsonl"), None)
        count = path.read_text(encoding="utf-8").count("\n") if path else 0
        if count < 3 or (last and count == last[0]):  # the row of the start, and warm-up
            continue
        last = (count, cpu_of_group(run.pid))
        first = first or last
    return first, last


def our_steps(a, job):
    with tempfile.TemporaryDirectory(prefix="cohort-peers-") as folder:
        work = pathlib.Path(folder)
        config = job["config"] or write_config(job, work)
        command = [a.bin / "actor-node", "run", "--quiet", *config, f"output_dir={work}"]
        run = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=variables(job["threads"]),
            start_new_session=True,
        )
        first, last = watch(run, work)
        if run.returncode != 0:
            sys.exit(f"actor-node: exit {run.returncode}: {run.stderr.read()}")
        path = next(work.glob("*/*/metrics.jsonl"))
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["step"] > 0]
    report = {
        "seconds": [row["time/step_s"] for row in rows],
        "generate_s": [row["time/generate_s"] for row in rows],
        "update_s": [row["time/update_s"] for row in rows],
        "response_tokens": statistics.mean(row["rollout/response_length/mean"] for row in rows),
        "cpu": [],
    }
    if first and last[0] > first[0]:
        report["cpu"] = [(last[1] - first[1]) / (last[0] - first[0])] * 2
    return report


def trl_steps(a, job):
    keys = (
        "dtype threads prompts completion group micro_batch optimizer_batch samples steps"
        " learning_rate"
    )
    work = tempfile.mkdtemp(prefix="cohort-trl-")
    text = json.dumps({**{key: job[key] for key in keys.split()}, "work": work})
    command = [a.python, HERE / "peer_workers.py", "trl", job["folder"], text]
    done = subprocess.run(
        command, env=variables(job["threads"]), capture_output=True, text=True, check=False
    )
    shutil.rmtree(work, ignore_errors=True)
    if done.returncode != 0:
        sys.exit(f"TRL: exit {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def grpo(a, job):
    """Returns the row of one job: samples per second of both, medians over all rounds' steps."""
    found = {"ours": [], "trl": []}
    for turn in range(a.rounds):
        for name in ("ours", "trl") if turn % 2 == 0 else ("trl", "ours"):
            found[name].append(our_steps(a, job) if name == "ours" else trl_steps(a, job))
    row = {key: job[key] for key in ("shape", "dtype", "samples", "completion", "bar")}
    row.update(part="grpo", rounds=a.rounds)
    for name, reports in found.items():
        for clock, unit in (("seconds", "s"), ("cpu", "cpu_s")):
            steps = [step for report in reports for step in report[clock][1:]]  # without warm-up
            row[f"{name}_steps_by_{unit}"] = len(steps)
            middle = statistics.median(steps) if steps else float("nan")
            row[f"{name}_samples_per_{unit}"] = round(job["samples"] / middle, 3)
        row[f"{name}_response_tokens"] = statistics.mean(r["response_tokens"] for r in reports)
    for part in ("generate_s", "update_s"):
        values = [value for report in found["ours"] for value in report[part][1:]]
        row[f"ours_{part}"] = round(statistics.median(values), 4)
    print(json.dumps(row), flush=True)
    return row
