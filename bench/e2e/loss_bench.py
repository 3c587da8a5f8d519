#!/usr/bin/env python3
"""What does a rollout that dies cost? Two rollouts in processes of their own play --steps steps;
in the other run of each pair one of them is killed (SIGKILL) in every tenth step: at first a fifth
into it, then a half, then in the update. A process may be lost three times: at most 60 steps.
The ceiling is the undisturbed run beside it; interleaved, --repeats pairs, medians. Both must end
with the same parameters. One JSON line. Needs Python's standard library only.

    bench/e2e/loss_bench.py [--bin build/release/bin] [--repeats 7] CONFIG [key=value ...]
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time


def metrics_of(work):
    return next(pathlib.Path(work).glob("*/*/metrics.jsonl"), None)


def rows_of(work):
    lines = metrics_of(work).read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["step"] > 0]


class Steps:
    """Watches a run's rows at next to no cost: it computes on the same cores."""

    def __init__(self, work):
        self.work, self.file, self.rows, self.part = work, None, [], ""

    def look(self):
        """Returns how many rows there are."""
        if self.file is None:
            path = metrics_of(self.work)
            if path is None:
                return 0
            self.file = path.open(encoding="utf-8")
        *lines, self.part = (self.part + self.file.read()).split("\n")
        self.rows += lines
        return len(self.rows)

    def seconds(self):
        return json.loads(self.rows[-1])["time/step_s"]


def child_of(run, slot):
    """Returns the process that holds a slot: a child of what the run forks its processes from."""
    parents, holders = {}, []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text(encoding="utf-8")
            words = pathlib.Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
        if b"--slot" in words and words[words.index(b"--slot") + 1] == str(slot).encode():
            holders.append(int(entry))
    return next((pid for pid in holders if parents.get(parents[pid]) == run), None)


def play(a, config, is_disturbed):
    """Returns the seconds of the steps, the last parameters, and the kills."""
    with tempfile.TemporaryDirectory(prefix="cohort-loss-") as work:
        command = [
            a.bin / "actor-node", "run", "--quiet", "--processes", "3", *config,
            f"output_dir={work}", f"max_steps={a.steps}", "eval_steps=-1", "save_steps=100000",
            "num_gpus_per_node=3", "actor_infer.device_mapping=list(range(1,3))",
        ]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        steps, kills = Steps(work), 0
        while run.poll() is None:
            time.sleep(0.02)
            is_due = steps.look() > a.every * kills + a.every // 2
            if not is_due or not is_disturbed or kills == a.steps // a.every:
                continue
            time.sleep(steps.seconds() * (0.2 + 0.3 * (kills % 3)))
            child = child_of(run.pid, 1 + kills % 2)
            if child is not None:
                os.kill(child, signal.SIGKILL)
                kills += 1
        _, error = run.communicate()
        if run.returncode != 0:
            sys.exit(f"exit {run.returncode}: {error}")
        rows = rows_of(work)
        return sum(row["time/step_s"] for row in rows), rows[-1]["param_hash"], kills


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("arguments", nargs="*")
    a = parser.parse_args()
    config = a.arguments or ["configs/frozen_lake.yaml"]
    calm, disturbed, ratios, kills = [], [], [], 0
    for pair in range(a.repeats):
        results = {}
        for is_disturbed in (False, True) if pair % 2 == 0 else (True, False):
            results[is_disturbed] = play(a, config, is_disturbed)
        if results[False][1] != results[True][1]:
            sys.exit(f"other parameters: {results}")
        calm.append(results[False][0])
        disturbed.append(results[True][0])
        ratios.append(results[False][0] / results[True][0])
        kills += results[True][2]
    print(json.dumps({
        "bench": "e2e/loss", "arguments": config, "steps": a.steps, "kills": kills,
        "repeats": a.repeats, "calm_s": round(statistics.median(calm), 3),
        "disturbed_s": round(statistics.median(disturbed), 3),
        "throughput_ratio": round(statistics.median(ratios), 4),
        "ratios": [round(x, 4) for x in ratios],
    }))


if __name__ == "__main__":
    main()
