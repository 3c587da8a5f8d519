#!/usr/bin/env python3
"""Writes sums of two-digit numbers as prompts: OUT_FOLDER/prompts.jsonl, and 100 others in OUT_FOLDER/held_out.jsonl.

usage: make_rows.py OUT_FOLDER
"""
import json
import pathlib
import random
import sys


def row(number, a, b):
    text = f"Calculate {a} + {b}. Reply with the number only."
    return json.dumps({"id": str(number), "messages": json.dumps([{"role": "user", "content": text}]),
                       "ground_truth": str(a + b), "tag": "sums"})


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    random.Random(1).shuffle(pairs)
    for name, part in (("held_out", pairs[:100]), ("prompts", pairs[100:])):
        lines = [row(i, a, b) for i, (a, b) in enumerate(part)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
