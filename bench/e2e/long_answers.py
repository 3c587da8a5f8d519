"""Rows and reward of bench/e2e/async_bench.py: numbers to count, log-normally many (99th percentile
ten times the median). The score is the share of right numbers."""

import json
import math
import random
import re

MEDIAN = 16  # numbers, of five tokens each
SHARE_OF_SLIPS = 0.6  # of every fourth number: the supervised rows say another one


def draw(rng):
    """Returns the numbers of one row."""
    sigma = math.log(10) / 2.326  # the 99th percentile of a normal variable is 2.326 deviations up
    count = max(1, min(10 * MEDIAN, round(rng.lognormvariate(math.log(MEDIAN), sigma))))
    first = rng.randrange(100, 1000 - count)
    return range(first, first + count)


def messages(numbers):
    return [{"role": "user", "content": f"Write the numbers from {numbers[0]} to {numbers[-1]}."}]


def slipped(rng, number):
    return number + 10 if number % 4 == 3 and rng.random() < SHARE_OF_SLIPS else number


def write_rows(folder, supervised, prompts, held_out):
    """Writes sft.jsonl, prompts.jsonl and held_out.jsonl, the same bytes each time."""
    rng = random.Random(1)
    with open(folder / "sft.jsonl", "w", encoding="utf-8") as file:
        for _ in range(supervised):
            numbers = draw(rng)
            said = ", ".join(str(slipped(rng, number)) for number in numbers)
            row = messages(numbers) + [{"role": "assistant", "content": said}]
            file.write(json.dumps({"messages": row}) + "\n")
    for name, count in [("prompts", prompts), ("held_out", held_out)]:
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for i in range(count):
                numbers = draw(rng)
                row = {"id": f"{name}_{i}", "messages": json.dumps(messages(numbers)),
                       "ground_truth": " ".join(map(str, numbers)), "tag": "counting"}
                file.write(json.dumps(row) + "\n")


def score(response, ground_truth):
    said, asked = re.findall(r"\d+", response), ground_truth.split()
    right = sum(a == b for a, b in zip(said, asked))
    return right / max(len(said), len(asked))
