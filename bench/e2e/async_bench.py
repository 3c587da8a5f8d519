#!/usr/bin/env python3
"""Is generation beside training worth it on the real engine? A model counts (long_answers.py: the
length of the answers is log-normal, its 99th percentile ten times the median). It is trained on
--cards train cards and as many infer cards of one thread each, from one supervised policy:
synchronous and asynchronous runs in turn, seed by seed. Prints one JSON line per run, then medians
over the seeds: tokens/s over the synchronous run of the same seed, and the greedy score of held-out
prompts after the last step. MODEL is a folder, e.g. of examples/smollm2/make_folder.py.
Needs Python's standard library.

    bench/e2e/async_bench.py MODEL [--bin build/release/bin] [--seeds 1,2,3] [--steps 40]

A card of a cluster computes for its own role alone, while the threads of virtual cards go to
whichever core is free: a synchronous run then generates on the train cards' cores, too, and leaves
none idle. --own-cores gives the train cards a process on one half of the machine's cores, and the
infer cards one on the other half.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import long_answers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SFT = """\
pipeline: sft
exp_name: start
seed: 1
eval_steps: -1
save_steps: 100000
save_hf: true
sequence_length: 960
max_grad_norm: 1.0
sft_train:
  model_args: {dtype: bf16}
  training_args:
    learning_rate: 1.0e-4
    lr_scheduler_type: cosine
    warmup_ratio: 0.05
    weight_decay: 0.0
    num_train_epochs: 1
    per_device_train_batch_size: 16
    gradient_accumulation_steps: 2
  data_args: {template: native, file_name: [WORK/sft.jsonl]}
  strategy_args: {strategy_name: deepspeed_train}
  device_mapping: list(range(0,1))
platform: cpu
num_gpus_per_node: 1
cards: {memory_bytes: 8GiB, reserve_bytes: 64MiB, threads_per_card: 2}
placement: {mode: separate, offload: never}
micro_batch_tokens: 2048
"""
RL = """\
pipeline: rlvr
exp_name: long_answers
eval_steps: -1
save_steps: 100000
save_hf: true
rollout_batch_size: PROMPTS
num_return_sequences_in_group: 2
prompt_length: 64
response_length: 896
val_batch_size: 24
val_n_sample: 1
adv_estimator: grpo
ppo_epochs: 1
pg_clip: 0.2
loss_agg_mode: token-mean
entropy_loss_coef: 0.0
max_grad_norm: 1.0
init_kl_coef: 0.0
max_running_requests: 128
actor_train:
  model_args: {dtype: bf16}
  training_args:
    learning_rate: 2.0e-5
    lr_scheduler_type: constant
    warmup_steps: 5
    weight_decay: 0.0
    adam_beta1: 0.9
    adam_beta2: 0.95
    per_device_train_batch_size: 4
    gradient_accumulation_steps: MICRO_BATCHES
  data_args: {template: native, file_name: [WORK/prompts.jsonl]}
  strategy_args: {strategy_name: deepspeed_train}
  device_mapping: list(range(0,CARDS))
actor_infer:
  model_args: {dtype: bf16}
  generating_args: {temperature: 1.0, top_p: 1.0, top_k: 0}
  strategy_args: {strategy_name: vllm}
  device_mapping: list(range(CARDS,ALL))
validation:
  data_args: {file_name: [WORK/held_out.jsonl]}
rewards:
  counting:
    {type: plugin, plugin: HERE/long_answers.py:score, tag_included: [counting], workers: 1,
     sandbox: {mode: rlimits}}
platform: cpu
num_gpus_per_node: ALL
cards: {memory_bytes: 6GiB, reserve_bytes: 64MiB, threads_per_card: 1}
placement: {mode: separate, offload: never}
determinism: relaxed
micro_batch_tokens: 2048
"""
MODES = {
    "sync": [],
    "one_step_off": ["async.mode=one_step_off", "async.depth=1"],
    "fully_async": ["async.mode=fully_async", "async.depth=2"],
}
SKIPPED = 3  # steps before the pipeline is full


def cards_of(pid):
    """Returns (process, slot) of each process of cards below this one."""
    found = []
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return found
    for child in children:
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
        except FileNotFoundError:
            continue
        if "card" in words and "--slot" in words:
            found.append((child, int(words[words.index("--slot") + 1])))
        found += cards_of(child)
    return found


class Bench:
    def __init__(self, options):
        self.bin = options.bin.resolve()
        self.work = options.work.resolve()
        self.model, self.cards, self.steps = options.model.resolve(), options.cards, options.steps
        self.has_own_cores = options.own_cores
        self.work.mkdir(parents=True, exist_ok=True)
        long_answers.write_rows(self.work, supervised=1200, prompts=4000, held_out=24)
        values = {"WORK": self.work, "HERE": HERE, "PROMPTS": 8, "MICRO_BATCHES": 4 // self.cards,
                  "CARDS": self.cards, "ALL": 2 * self.cards}
        for name, text in [("sft", SFT), ("rl", RL)]:
            for word, value in values.items():
                text = text.replace(word, str(value))
            (self.work / f"{name}.yaml").write_text(text, encoding="utf-8")

    def run(self, config, threads, overrides):
        words = [str(self.bin / "actor-node"), "run", "--quiet", str(self.work / f"{config}.yaml"),
                 f"output_dir={self.work / 'runs'}", *overrides]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        has_own_cores = self.has_own_cores and config == "rl"
        if has_own_cores:
            words[2:2] = ["--processes", "2"]
        with subprocess.Popen(words, env=env, cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as run:
            if has_own_cores:
                threading.Thread(target=self.give_cores, args=[run], daemon=True).start()
            out, err = run.communicate(timeout=3600)
        if run.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit {run.returncode}\n{err[-2000:]}")
        at = pathlib.Path(out.strip().splitlines()[-1].removeprefix("run: "))
        with open(at / "metrics.jsonl", encoding="utf-8") as file:
            return at, [json.loads(line) for line in file]

    def give_cores(self, run):
        """Binds the process of each role to its cores, with every thread it has."""
        cores = sorted(os.sched_getaffinity(0))
        own = [cores[:len(cores) // 2], cores[len(cores) // 2:]]
        while run.poll() is None:
            for pid, slot in cards_of(run.pid):
                for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                    try:
                        os.sched_setaffinity(int(task.name), own[slot])
                    except ProcessLookupError:
                        pass  # the thread, or its process, has ended
            time.sleep(0.2)

    def start(self):
        """Returns the supervised policy that all runs start from, made at the first call."""
        folder = self.work / "start"
        if not folder.exists():
            at, _ = self.run("sft", 2, [f"pretrain={self.model}"])
            next((at / "hf").iterdir()).rename(folder)
        return folder

    def score(self, folder):
        """Returns the greedy score of a model folder on the held-out prompts."""
        _, rows = self.run("rl", 1, [f"pretrain={folder}", "max_steps=1", "eval_steps=1",
                                     "save_hf=false", "recording.enabled=false"])
        return rows[0]["val/success_greedy"]

    def measure(self, seed, overrides):
        at, rows = self.run("rl", 1, [f"seed={seed}", f"max_steps={self.steps}",
                                      f"pretrain={self.start()}", *overrides])
        rows = [row for row in rows if row["step"] >= SKIPPED and "time/step_s" in row]
        seconds = [row["time/step_s"] for row in rows]
        tokens = sum(row["tokens"] for row in rows)
        last = max((at / "hf").iterdir(), key=lambda path: int(path.name.removeprefix("step_")))
        return {"tokens_per_s": round(tokens / sum(seconds), 1),
                "tokens": round(tokens / len(rows)),
                "step_s": round(statistics.mean(seconds), 3),
                "update_s": round(statistics.mean(row["time/update_s"] for row in rows), 3),
                "score": round(self.score(last), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--modes", default=",".join(MODES), help="the first is the yardstick")
    parser.add_argument("--cards", type=int, default=2, help="train cards; as many infer")
    parser.add_argument("--own-cores", action="store_true",
                        help="half of the cores for each role")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/async_bench")
    options = parser.parse_args()
    bench = Bench(options)
    found = {name: [] for name in options.modes.split(",")}
    print(json.dumps({"mode": "start", "score": round(bench.score(bench.start()), 4)}), flush=True)
    for seed in [int(each) for each in options.seeds.split(",")]:
        for name, rows in found.items():
            row = bench.measure(seed, MODES[name])
            rows.append(row)
            print(json.dumps({"mode": name, "seed": seed, **row}), flush=True)
    for name, rows in found.items():
        ratios = [row["tokens_per_s"] / base["tokens_per_s"]
                  for row, base in zip(rows, next(iter(found.values())))]
        print(json.dumps({"mode": name, "tokens/s over the first mode, median": round(
            statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios],
            "score": [row["score"] for row in rows]}), flush=True)


if __name__ == "__main__":
    main()
