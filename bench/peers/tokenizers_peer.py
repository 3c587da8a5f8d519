#!/usr/bin/env python3
"""Compares bench/micro/tokenizer_bench with Hugging Face's tokenizers package, on the same files.

usage: tokenizers_peer.py BENCH TOKENIZER.json TEXT [REPEATS]
The script makes a virtual environment beside BENCH and installs tokenizers there. Both programs run
in turns on one core; a line of JSON tells the rates of both and their ratio.
"""

import json
import os
import subprocess
import sys
import time


def environment(folder):
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "tokenizers==0.22.2"], check=True)
    return python


def measure(tokenizer_path, text_path):
    """Runs inside the virtual environment."""
    from tokenizers import Tokenizer

    begin = time.perf_counter()
    tokenizer = Tokenizer.from_file(tokenizer_path)
    load = time.perf_counter() - begin
    with open(text_path, encoding="utf-8", newline="") as file:
        text = file.read()
    size = len(text.encode()) / 1e6
    begin = time.perf_counter()
    ids = tokenizer.encode(text, add_special_tokens=True).ids
    encode = time.perf_counter() - begin
    begin = time.perf_counter()
    tokenizer.decode(ids)
    decode = time.perf_counter() - begin
    begin = time.perf_counter()
    for line in text.splitlines(keepends=True):
        tokenizer.encode(line)
    lines = time.perf_counter() - begin
    print(
        json.dumps(
            {
                "ids": len(ids),
                "load_seconds": load,
                "encode_mb_s": size / encode,
                "by_line_mb_s": size / lines,
                "decode_mb_s": size / decode,
            }
        )
    )


def median(rows, key):
    return sorted(row[key] for row in rows)[len(rows) // 2]


def main():
    if sys.argv[1] == "--inside":
        return measure(sys.argv[2], sys.argv[3])
    bench, tokenizer, text = sys.argv[1:4]
    repeats = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    folder = os.path.join(os.path.dirname(os.path.abspath(bench)), "tokenizers_venv")
    python = environment(folder)
    one_core = ["taskset", "-c", "0"]
    variables = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    ours, theirs = [], []
    for _ in range(repeats):
        for rows, command in (
            (ours, [bench, tokenizer, text, "3"]),
            (theirs, [python, os.path.abspath(__file__), "--inside", tokenizer, text]),
        ):
            done = subprocess.run(
                one_core + command, env=variables, check=True, capture_output=True
            )
            rows.append(json.loads(done.stdout))
    assert ours[0]["ids"] == theirs[0]["ids"], "the two do not agree"
    out = {"bench": "tokenizer_peer", "repeats": repeats, "ids": ours[0]["ids"]}
    for key in ("load_seconds", "encode_mb_s", "by_line_mb_s", "decode_mb_s"):
        a, b = median(ours, key), median(theirs, key)
        ratio = b / a if key == "load_seconds" else a / b
        out[key] = {"ours": round(a, 3), "tokenizers": round(b, 3), "times_faster": round(ratio, 1)}
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
