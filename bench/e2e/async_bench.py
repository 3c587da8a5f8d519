#!/usr/bin/env python3
"""Is generation beside training worth it on the real engine? Plays games whose number of turns is
log-normal (long_games.py: 99th percentile ten times the median) on --cards train cards and as many
infer cards of one thread each, from one supervised policy per seed: synchronous and asynchronous
runs in turn, seed by seed. A card needs a core of its own: where two cards share one, a synchronous
run leaves none idle, and there is nothing to win. Prints one JSON line per run, then medians over
the seeds: tokens/s over the synchronous run of the same seed, and the score of the last steps.
Needs Python's standard library.

    bench/e2e/async_bench.py [--bin build/release/bin] [--seeds 1,2,3] [--steps 60] [--cards 2]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIG = """\
defaults:
  - frozen_lake@_here_

exp_name: long_games
rollout_batch_size: 128
sequence_length: 1024
train_env_manager:
  {num_env_groups: 16, group_size: 8, tags: [LongGames], num_groups_partition: [16]}
val_env_manager:
  {num_env_groups: 16, group_size: 1, tags: [LongGames], num_groups_partition: [16]}
custom_envs:
  LongGames:
    env_type: plugin
    env_config: {plugin: PLUGIN}
    max_steps: 60
    max_tokens_per_step: ${max_tokens_per_step}
    agent_system_template: ~
    agent_template: "{observation}"
max_running_requests: 128
num_gpus_per_node: CARDS_ALL
actor_train:
  device_mapping: "list(range(0,CARDS))"
  training_args:
    learning_rate: 1.0e-3
    per_device_train_batch_size: 8
    gradient_accumulation_steps: MICRO_BATCHES
actor_infer: {device_mapping: "list(range(CARDS,CARDS_ALL))"}
cards: {threads_per_card: 1}
determinism: relaxed
"""
WORDS = "model.vocab_size=128"  # rows for the words of any environment
MODES = [
    ("sync", []),
    ("one_step_off", ["async.mode=one_step_off", "async.depth=1"]),
    ("fully_async, depth 2", ["async.mode=fully_async", "async.depth=2"]),
]


def run(options, folder, config, overrides):
    words = [str(options.bin / "actor-node"), "run", "--quiet", str(config),
             f"output_dir={folder}", "eval_steps=-1", *overrides]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, cwd=ROOT, capture_output=True, text=True, timeout=900,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return pathlib.Path(done.stdout.strip().splitlines()[-1].removeprefix("run: "))


def measure(options, at, skipped):
    """Returns tokens/s over the steps after the first ones, and the score of the last ten."""
    with open(at / "metrics.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row["step"] > skipped]
    return {"tokens_per_s": round(sum(row["tokens"] for row in rows)
                                  / sum(row["time/step_s"] for row in rows), 1),
            "score": round(statistics.mean(row["rollout/score/mean"] for row in rows[-10:]), 4),
            "rollout/idle_ratio": round(statistics.mean(
                row.get("rollout/idle_ratio", 0) for row in rows), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--cards", type=int, default=2, help="train cards; as many infer")
    parser.add_argument("--out", type=pathlib.Path, default=None)
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    with tempfile.TemporaryDirectory(prefix="cohort-async-", dir=options.out) as work:
        work = pathlib.Path(work)
        config = work / "long_games.yaml"
        text = CONFIG
        for word, value in [("PLUGIN", f"{ROOT}/bench/e2e/long_games.py:LongGames"),
                            ("CARDS_ALL", 2 * options.cards), ("CARDS", options.cards),
                            ("MICRO_BATCHES", 8 // options.cards)]:
            text = text.replace(word, str(value))
        config.write_text(text, encoding="utf-8")
        (work / "frozen_lake.yaml").write_bytes((ROOT / "configs/frozen_lake.yaml").read_bytes())
        found = {name: [] for name, _ in MODES}
        for seed in [int(each) for each in options.seeds.split(",")]:
            start = run(options, work / "start", ROOT / "configs/frozen_lake.yaml",
                        [f"seed={seed}", "max_steps=1", "save_hf=true", WORDS,
                         "warm_start.steps=300", "warm_start.rounds=6"])
            for name, overrides in MODES:
                at = run(options, work / "runs", config,
                         [f"seed={seed}", f"max_steps={options.steps}", "save_steps=100000",
                          f"pretrain={start / 'hf' / 'step_0'}", WORDS, "warm_start.steps=0",
                          *overrides])
                row = measure(options, at, skipped=5)
                found[name].append(row)
                print(json.dumps({"mode": name, "seed": seed, **row}), flush=True)
    for name, rows in found.items():
        ratios = [row["tokens_per_s"] / base["tokens_per_s"]
                  for row, base in zip(rows, found["sync"])]
        print(json.dumps({"mode": name, "tokens/s over sync, median": round(
            statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios],
            "score": [row["score"] for row in rows]}), flush=True)


if __name__ == "__main__":
    main()
