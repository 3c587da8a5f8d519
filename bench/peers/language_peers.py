#!/usr/bin/env python3
"""Cohort beside transformers, llama.cpp and TRL: the same shapes, dtypes, prompts, lengths and
threads on one machine in the same minutes. docs/peers.md tells what is measured and how it is fair.

    bench/peers/language_peers.py --bin build/release/bin            # everything
    bench/peers/language_peers.py --parts addition --threads 1 --clock cpu
    bench/peers/language_peers.py --parts rates --shapes 25m --batches 1,8

Needs Python's standard library, a C++ compiler and cmake; the script makes a virtual environment
with the peers in WORK/venv (6 GB), or takes the one that --venv names. Results: a table, and
WORK/peers.json.
"""

import argparse
import fcntl
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import peer_runs

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = (
    "torch==2.8.0",
    "transformers==4.57.6",
    "trl==1.16.0",
    "gguf==0.19.0",
    "llama-cpp-python==0.3.36",  # from source: its wheels are not on PyPI
)


def environment(folder, jobs):
    """Makes the virtual environment once; a second script waits for the first."""
    python = folder / "bin" / "python"
    done = folder / "peers.txt"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "venv.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text(encoding="utf-8").split() == list(PACKAGES):
            return python
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        variables = {
            **os.environ,
            "CMAKE_ARGS": "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF",
            "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        }
        command = [python, "-m", "pip", "install", "-q", *PACKAGES]
        subprocess.run(command, check=True, env=variables)
        done.write_text("\n".join(PACKAGES), encoding="utf-8")
    return python


def model_folder(a, shape, dtype):
    folder = a.work / "models" / f"{shape}_{dtype}"
    if not (folder / "made").exists():
        command = [a.python, HERE / "peer_models.py", folder, shape, dtype]
        subprocess.run(command, check=True, env=peer_runs.variables(a.threads))
    return folder


class Worker:
    """A process that answers "BATCH PROMPT NEW" with the seconds that it took."""

    def __init__(self, command, threads, log):
        self.log = log
        with open(log, "w", encoding="utf-8") as errors:  # llama.cpp says much there
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=peer_runs.variables(threads),
            )
        self.load_s = self.read()["load_s"]

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        sys.exit(f"{self.process.args[:3]}: exit {self.process.wait()}; see {self.log}")

    def ask(self, batch, prompt, fresh):
        self.process.stdin.write(f"{batch} {prompt} {fresh}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(worker, batch, prompt, fresh):
    """Seconds of a prefill with one token, and of each further token, by both clocks."""
    short, long = worker.ask(batch, prompt, 1), worker.ask(batch, prompt, fresh + 1)
    row = {"tokens": long["tokens"]}
    for clock in ("seconds", "cpu"):
        row["prefill", clock] = batch * prompt / short[clock]
        row["decode", clock] = batch * fresh / max(long[clock] - short[clock], 1e-9)
    return row


def same_until(a, b):
    """Returns how many greedy tokens two engines agree on before the first other one."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))


def rates_of(a, shape, dtype):
    """Prefill and decode of every peer, in turns; one row for each batch size."""
    folder = model_folder(a, shape, dtype)
    sizes = [str(a.threads), str(max(a.batches)), str(a.prompt + a.new + 1)]
    inside = [a.python, HERE / "peer_workers.py"]
    commands = {"ours": [a.bin / "folder_rate", folder, dtype, *sizes]}
    for peer in a.peers:
        commands[peer] = [*inside, peer, folder, dtype, *sizes]
    workers = {
        name: Worker(command, a.threads, a.work / f"{name}.log")
        for name, command in commands.items()
    }
    repeats = a.slow_repeats if shape == "0.5b" else a.repeats
    rows = []
    for batch in a.batches:
        seen = {name: [] for name in workers}
        for turn in range(repeats + 1):
            for name in list(workers)[:: 1 if turn % 2 == 0 else -1]:
                found = measure(workers[name], batch, a.prompt, a.new)
                if turn > 0:  # the first is warm-up
                    seen[name].append(found)
        row = {"part": "rates", "shape": shape, "dtype": dtype, "batch": batch, "repeats": repeats}
        for name, found in seen.items():
            for what in ("prefill", "decode"):
                for clock, unit in (("seconds", "s"), ("cpu", "cpu_s")):
                    middle = statistics.median(one[what, clock] for one in found)
                    row[f"{name}_{what}_tokens_per_{unit}"] = round(middle, 1)
            row[f"{name}_load_s"] = round(workers[name].load_s, 2)
            row[f"{name}_same_tokens"] = same_until(seen["ours"][0]["tokens"], found[0]["tokens"])
        rows.append(row)
        print(json.dumps(row), flush=True)
    for worker in workers.values():
        worker.close()
    return rows


def verdict(value, bar):
    return f"{value:8.2f}  bar {bar:4.1f}  {'reached' if value >= bar else 'MISSED'}"


def print_table(a, rows):
    """One line for each figure that has a bar, by the clock that --clock names."""
    unit = {"wall": "s", "cpu": "cpu_s"}[a.clock]
    print(f"\nratios by {a.clock} seconds, {a.threads} thread(s), {platform.node()}")
    for row in rows:
        if row["part"] == "rates":
            name = f"{row['shape']} {row['dtype']} batch {row['batch']}"
            for peer, bar in (("transformers", 3.0), ("llama", 1.0)):
                if peer not in a.peers:
                    continue
                for what in ("decode", "prefill"):
                    key = f"{what}_tokens_per_{unit}"
                    ours, theirs = row[f"ours_{key}"], row[f"{peer}_{key}"]
                    has_bar = what == "decode" and (peer != "llama" or row["batch"] == 1)
                    ratio = ours / theirs
                    said = verdict(ratio, bar) if has_bar else f"{ratio:8.2f}"
                    print(f"{name:24} {what:8} {ours:10.1f} / {peer:13} {theirs:10.1f} {said}")
        else:
            key = f"samples_per_{unit}"
            ours, theirs = row[f"ours_{key}"], row[f"trl_{key}"]
            name = f"{row['shape']} {row['dtype']}"
            said = verdict(ours / theirs, row["bar"])
            print(f"{name:24} {'GRPO':8} {ours:10.2f} / {'TRL':13} {theirs:10.2f} {said}")


def words(text):
    return [word for word in text.split(",") if word]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/peers"))
    parser.add_argument("--venv", type=pathlib.Path, help="an environment that has the peers")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at once for llama.cpp")
    parser.add_argument("--parts", type=words, default=["rates", "grpo", "addition"])
    parser.add_argument("--shapes", type=words, default=["25m", "0.5b"])
    parser.add_argument("--dtypes", type=words, default=["f32", "bf16"])
    parser.add_argument("--peers", type=words, default=["transformers", "llama"])
    parser.add_argument("--batches", type=lambda x: [int(b) for b in words(x)], default=[1, 8, 64])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=32, help="[tokens]")
    parser.add_argument("--new", type=int, default=24, help="[tokens]")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--slow-repeats", type=int, default=3, help="at 0.5b")
    parser.add_argument("--rounds", type=int, default=3, help="runs of ours and of TRL, in turns")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="of the table")
    a = parser.parse_args()
    a.bin, a.work = a.bin.resolve(), a.work.resolve()
    return a


def main():
    a = arguments()
    a.python = a.venv.absolute() / "bin/python" if a.venv else environment(a.work / "venv", a.jobs)
    rows = []
    for shape in a.shapes:
        for dtype in a.dtypes:
            if "rates" in a.parts:
                rows += rates_of(a, shape, dtype)
            if "grpo" in a.parts:
                folder = model_folder(a, shape, dtype)
                rows.append(peer_runs.grpo(a, peer_runs.language_job(a, shape, dtype, folder)))
    if "addition" in a.parts:
        folder = model_folder(a, "addition", "f32")
        rows.append(peer_runs.grpo(a, peer_runs.addition_job(a, folder)))
    print_table(a, rows)
    result = {
        "bench": "language_peers",
        "host": platform.node(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "threads": a.threads,
        "prompt": a.prompt,
        "new": a.new,
        "packages": PACKAGES,
        "rows": rows,
    }
    (a.work / "peers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
