#!/usr/bin/env python3
"""Does the memory model say what a run takes? Compares `actor-node plan --json` with a run of the
same configuration on the cpu platform.

    bench/e2e/memory_bench.py [--bin build/release/bin] [--work DIR] CONFIG [key=value ...]
    bench/e2e/memory_bench.py --qwen    # a random policy of Qwen2.5-0.5B's shape, 20 GB

Two comparisons, one JSON line:
  objects   each residency object on each card: the bytes planned for it against the bytes that its
            engine acknowledged to placement (the stream's phase records)
  process   the peak of the process's anonymous memory inside each phase, less what it had before
            the first object came, against the plan: objects on all cards and work space
Needs Python's standard library only.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

QWEN = (
    "model.vocab_size=151936 model.hidden_size=896 model.num_hidden_layers=24 "
    "model.num_attention_heads=14 model.num_key_value_heads=2 model.head_dim=64 "
    "model.intermediate_size=4864 model.initializer_range=0.02 model.rope_theta=1000000 "
    "cards.memory_bytes=12GiB max_steps=2 eval_steps=-1 save_steps=100 "
    "rollout_batch_size=16 train_env_manager.num_env_groups=4 train_env_manager.group_size=4 "
    "train_env_manager.num_groups_partition=[4] val_batch_size=4 val_env_manager.num_env_groups=4 "
    "val_env_manager.num_groups_partition=[4] warm_start.steps=0 "
    "actor_train.training_args.per_device_train_batch_size=4 "
    "actor_train.training_args.gradient_accumulation_steps=4 "
    "actor_train.training_args.warmup_steps=0 max_running_requests=16 keep_checkpoints=1"
).split()


def anonymous_bytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def run(command):
    """Runs it and samples its anonymous memory; returns (stdout, [(seconds since 1970, bytes)])."""
    # Freed pages go back at once: what is resident is then what is in use.
    environment = {**os.environ, "MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True, env=environment
    )
    samples = []
    while process.poll() is None:
        samples.append((time.time(), anonymous_bytes(process.pid)))
        time.sleep(0.002)
    out = process.stdout.read()
    if process.returncode != 0:
        sys.exit(f"{command}: exit {process.returncode}\n{out}")
    return out, samples


def windows(run_folder):
    """{phase: [(begin, end)]} in seconds since 1970, from the run's trace, after the first update:
    before it nobody has touched the pages of gradients and moments."""
    events = json.loads((pathlib.Path(run_folder) / "trace.json").read_text())
    spans = {}
    first_update = min(
        (
            e["ts"] + e["dur"]
            for e in events
            if (e.get("name"), e.get("cat")) == ("update", "compute")
        ),
        default=0,
    )
    for e in events:
        if e.get("ph") != "X":
            continue
        name = e["name"] if e["cat"] == "compute" else e["cat"]
        if e["cat"] != "compute" and not e["name"].startswith("reshard"):
            continue
        if e["ts"] < first_update:
            continue
        spans.setdefault(name, []).append((e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6))
    return spans


def planned(bin_folder, arguments):
    plan = json.loads(
        subprocess.run(
            [bin_folder / "actor-node", "plan", "--json", *arguments],
            stdout=subprocess.PIPE,
            check=False,
        ).stdout
    )
    objects = {}
    for role in plan["roles"]:
        for name, size in role["bytes_per_card"].items():
            objects[role["role"], name] = size
    phases = {}
    for phase in plan["phases"]:
        resident = sum(c["object_bytes"] * len(c["cards"]) for c in phase["cards"])
        work = sum(c["transient_bytes"] * len(c["cards"]) for c in phase["cards"])
        phases[phase["phase"]] = {"objects": resident, "work_space": work}
    return plan, objects, phases


def measured(bin_folder, run_folder):
    lines = subprocess.run(
        [bin_folder / "traj", "records", run_folder, "--type", "phase"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout.splitlines()
    objects = {}
    for line in lines:
        record = json.loads(line)
        for move in record["data"]["cards"]:
            if move["to"] == "card" and move["verb"] in ("onload", "init_cache"):
                key = move["role"], move["object"]
                objects[key] = max(objects.get(key, 0), move["bytes"])
    return objects


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--qwen", action="store_true")
    parser.add_argument("arguments", nargs="*")
    a = parser.parse_args()
    arguments = a.arguments or ["configs/frozen_lake.yaml"]
    if a.qwen:
        arguments = [*arguments, *QWEN]
    work = a.work or pathlib.Path(tempfile.mkdtemp(prefix="cohort-memory-"))
    arguments = [*arguments, f"output_dir={work}"]
    plan, objects, phases = planned(a.bin, arguments)
    out, samples = run([a.bin / "actor-node", "run", "--plain", *arguments])
    run_folder = out.rsplit("run: ", 1)[1].strip()
    seen = measured(a.bin, run_folder)
    rows = {}
    for key in sorted(set(objects) | set(seen)):
        want, got = objects.get(key, 0), seen.get(key, 0)
        rows["{}.{}".format(*key)] = {
            "planned": want,
            "measured": got,
            "ratio": round(want / got, 4) if got else None,
        }
    idle = max((x for _, x in samples[:20]), default=0)
    process = {}
    for phase, spans in windows(run_folder).items():
        inside = [x for t, x in samples if any(begin <= t <= end for begin, end in spans)]
        if phase not in phases or not inside:
            continue
        want = sum(phases[phase].values())
        got = max(inside) - idle
        process[phase] = {
            "planned_objects": phases[phase]["objects"],
            "planned_work_space": phases[phase]["work_space"],
            "planned": want,
            "measured_peak": got,
            "ratio": round(want / got, 4),
        }
    print(
        json.dumps(
            {
                "bench": "e2e/memory",
                "arguments": arguments[:1] + (["--qwen"] if a.qwen else []),
                "parameters": plan["model"]["parameters"],
                "objects": rows,
                "process": process,
                "idle_bytes": idle,
                "run": run_folder,
            }
        )
    )


if __name__ == "__main__":
    main()
