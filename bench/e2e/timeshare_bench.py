#!/usr/bin/env python3
"""Does memory stay flat while roles take turns on their cards? Runs a configuration in timeshare
for some hundred steps and compares, phase by phase, what each process held (the stream's phase
records: placement's readings) in the first and in the last quarter of --steps cycles; before them,
--warm steps fill pools and heaps. One JSON line. Needs Python's standard library only.

    bench/e2e/timeshare_bench.py [--bin build/release/bin] [--steps 300] CONFIG [key=value ...]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def phase_records(bin_folder, run_folder):
    out = subprocess.run(
        [bin_folder / "traj", "records", run_folder, "--type", "phase"],
        stdout=subprocess.PIPE, check=True, text=True,
    ).stdout
    return [json.loads(line)["data"] for line in out.splitlines()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warm", type=int, default=300)
    parser.add_argument("--cards", type=int, default=1)
    parser.add_argument("arguments", nargs="*")
    a = parser.parse_args()
    config = a.arguments or ["configs/frozen_lake.yaml"]
    cards = f"list(range(0,{a.cards}))"
    with tempfile.TemporaryDirectory(prefix="cohort-timeshare-") as work:
        command = [
            a.bin / "actor-node", "run", "--quiet", *config, f"output_dir={work}",
            "placement.mode=timeshare", "placement.offload=step", f"num_gpus_per_node={a.cards}",
            f"actor_train.device_mapping={cards}", f"actor_infer.device_mapping={cards}",
            f"max_steps={a.warm + a.steps}", "eval_steps=-1", "save_steps=100000",
        ]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"exit {run.returncode}: {run.stdout}")
        records = phase_records(a.bin, run.stdout.rsplit("run: ", 1)[1].strip())
    rows, alarms = {}, 0
    for record in records:
        alarms += len(record["alarms"])
        if record["step"] <= a.warm:
            continue
        for size in record["process_bytes"].values():
            rows.setdefault(record["phase"], []).append((record["step"], size))
    phases = {}
    quarter = a.steps // 4
    for phase, readings in rows.items():
        first = [x for step, x in readings if step <= a.warm + quarter]
        last = [x for step, x in readings if step > a.warm + a.steps - quarter]
        if first and last:
            before, after = statistics.median(first), statistics.median(last)
            phases[phase] = {
                "first_bytes": before, "last_bytes": after, "ratio": round(after / before, 4),
                "readings": len(readings),
            }
    print(json.dumps({
        "bench": "e2e/timeshare", "arguments": config, "steps": a.steps, "cards": a.cards,
        "phases": phases, "alarms": alarms,
    }))


if __name__ == "__main__":
    main()
