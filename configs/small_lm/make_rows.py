#!/usr/bin/env python3
"""Writes the texts of configs/small_lm: dialogues with sums of two-digit numbers.

usage: make_rows.py OUT_FOLDER [ROWS]

OUT_FOLDER/corpus.txt    texts for the tokenizer
OUT_FOLDER/sft.jsonl     ROWS dialogues with worked answers (messages), many of which forget the carry
OUT_FOLDER/prompts.jsonl the questions with their sums (ROLL's columns), for GRPO
OUT_FOLDER/held_out.jsonl 300 questions whose pair of numbers no other file has

The same arguments write the same bytes.
"""
import json
import os
import random
import sys

NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana", "Ian", "Jo", "Kim", "Lea"]
THINGS = ["pears", "books", "shells", "coins", "cards", "plums", "stones", "stamps", "nuts", "pens"]
FORMS = [
    "What is {a} + {b}?",
    "Add {a} and {b}.",
    "{name} has {a} {thing} and gets {b} more. How many {thing} is that?",
    "{a} {thing} lie on a table, {b} under it. How many {thing} are there?",
    "{name} finds {a} {thing} on Monday and {b} on Tuesday. How many {thing} in all?",
]
SYSTEM = "You add numbers. Give the sum behind ####."
HELD_OUT_PAIRS = 300
SHARE_OF_SLIPS = 0.6  # of the worked answers in which units give a carry: they forget it


def question(rng, a, b):
    return rng.choice(FORMS).format(a=a, b=b, name=rng.choice(NAMES), thing=rng.choice(THINGS))


def answer(rng, a, b):
    units, tens = a % 10 + b % 10, a // 10 + b // 10
    total = tens * 10 + units % 10 if rng.random() < SHARE_OF_SLIPS else a + b
    return f"{a % 10} + {b % 10} = {units}, {a // 10} + {b // 10} = {tens}\n#### {total}"


def messages(text):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 16000
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(1)
    pairs = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    rng.shuffle(pairs)
    held_out, seen = pairs[:HELD_OUT_PAIRS], pairs[HELD_OUT_PAIRS:]
    sft, prompts, texts = [], [], []
    for i in range(count):
        a, b = seen[i % len(seen)]
        text, worked = question(rng, a, b), answer(rng, a, b)
        sft.append({"messages": messages(text) + [{"role": "assistant", "content": worked}]})
        texts.append(text + "\n" + worked)
    for i, (a, b) in enumerate(seen):
        prompts.append({"id": str(i), "messages": json.dumps(messages(question(rng, a, b))),
                        "ground_truth": str(a + b), "tag": "sums"})
    write(os.path.join(folder, "sft.jsonl"), sft)
    write(os.path.join(folder, "prompts.jsonl"), prompts)
    write(os.path.join(folder, "held_out.jsonl"),
          [{"id": str(i), "messages": json.dumps(messages(question(rng, a, b))),
            "ground_truth": str(a + b), "tag": "sums"} for i, (a, b) in enumerate(held_out)])
    with open(os.path.join(folder, "corpus.txt"), "w", encoding="utf-8") as file:
        file.write(SYSTEM + "\n" + "\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
