#!/usr/bin/env python3
"""How much lower is the peak of a card in timeshare when its KV cache comes late? Runs a
configuration with placement.init_cache=late and early, --repeats times each in turns, and compares
the planned peak, the most the card's allocator gave out at once (the stream's phase records), and
the most memory the process ever held (its ru_maxrss). One JSON line. Needs Python's standard
library only.

    bench/e2e/init_cache_bench.py [--bin build/release/bin] [--steps 3] CONFIG [key=value ...]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile


def run_once(a, config, init_cache):
    with tempfile.TemporaryDirectory(prefix="cohort-init-cache-") as work:
        command = [
            a.bin / "actor-node", "run", "--quiet", *config, f"output_dir={work}",
            "placement.mode=timeshare", "placement.offload=step", "num_gpus_per_node=1",
            f"placement.init_cache={init_cache}", "actor_train.device_mapping=list(range(0,1))",
            "actor_infer.device_mapping=list(range(0,1))", f"max_steps={a.steps}",
            "eval_steps=-1", "save_steps=100000",
        ]
        out = pathlib.Path(work) / "out"
        with out.open("w") as file:
            child = subprocess.Popen(command, stdout=file)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"exit {child.returncode}: {out.read_text()}")
        run_folder = pathlib.Path(out.read_text().rsplit("run: ", 1)[1].strip())
        plan = json.loads((run_folder / "plan.json").read_text())
        records = subprocess.run(
            [a.bin / "traj", "records", run_folder, "--type", "phase"],
            stdout=subprocess.PIPE, check=True, text=True,
        ).stdout.splitlines()
        phases = [json.loads(line)["data"] for line in records]
    return {
        "planned_bytes": plan["peak"]["bytes"], "phase": plan["peak"]["phase"],
        "card_bytes": max(max(x["card_peak_bytes"].values()) for x in phases),
        "process_bytes": usage.ru_maxrss * 1024,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("arguments", nargs="*")
    a = parser.parse_args()
    config = a.arguments or ["configs/frozen_lake.yaml"]
    runs = {"late": [], "early": []}
    for _ in range(a.repeats):
        for init_cache, found in runs.items():
            found.append(run_once(a, config, init_cache))
    result = {"bench": "e2e/init_cache", "arguments": config, "steps": a.steps, "n": a.repeats}
    for init_cache, found in runs.items():
        result[init_cache] = {
            key: statistics.median_low([x[key] for x in found]) for key in found[0]
        }
    result["drop"] = {
        key: result["early"][key] - result["late"][key]
        for key in ("planned_bytes", "card_bytes", "process_bytes")
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
