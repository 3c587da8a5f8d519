#!/usr/bin/env python3
"""Writes tests/data/bpe/corpus.txt and merges.json: what the reference learns from the corpus.

usage: make_bpe_merges.py     (from anywhere)
needs: the package tokenizers 0.22

The corpus is made of words by a generator of fixed numbers: prose, sums, code, accents, scripts
without blanks, runs of blanks. merges.json holds the tokenizer.json parts that the trainer decides:
the ids of all tokens and the merges in order, for one size and min_frequency.
"""

import json
import os

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tests", "data", "bpe")
SIZE, MIN_FREQUENCY = 700, 2
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
STEMS = (
    "play learn walk count answer question teach reach paint carry number letter water garden "
    "winter summer river mountain bright gentle careful wonder other thought through though "
    "café naïve über Straße élève señor 北京 東京都 数学 русский язык мир שלום العربية"
).split()
ENDINGS = ["", "", "s", "ed", "ing", "er", "ly", "ness", "'s", "'ll", "n't"]


def numbers(count, seed=12345):
    """A linear congruential generator: the same on every machine and version."""
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 33


def corpus():
    draw = numbers(10**6)
    lines = []
    for line in range(400):
        words = []
        for _ in range(4 + next(draw) % 9):
            stem = STEMS[min(next(draw), next(draw)) % len(STEMS)]
            words.append(stem + ENDINGS[next(draw) % len(ENDINGS)])
        text = " ".join(words).capitalize() + ".?!"[next(draw) % 3]
        if line % 5 == 1:
            a, b = next(draw) % 100, next(draw) % 100
            text = f"{a} + {b} = {a + b}; {a}-{b}={a - b}"
        if line % 7 == 2:
            text = "    " * (next(draw) % 4)
            text += f"for (int {words[0]} = 0; i < n; ++i) {{ x[i] += 2; }}"
        if line % 11 == 3:
            text = "\t" + "".join(words) + "\n\n" + "-" * (next(draw) % 20) + "   "
        lines.append(text)
    return "\n".join(lines) + "\n"


def main():
    os.makedirs(FOLDER, exist_ok=True)
    text = corpus()
    with open(os.path.join(FOLDER, "corpus.txt"), "w", encoding="utf-8", newline="") as file:
        file.write(text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        min_frequency=MIN_FREQUENCY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    probe = "The café's 12 + 34 = 46?\n\n    for (int x = 0; ++x) 東京都 naïvely"
    golden = {
        "size": SIZE,
        "min_frequency": MIN_FREQUENCY,
        "tokens": sorted(model["vocab"], key=model["vocab"].get),
        "merges": merges,
        "probe": probe,
        "probe_ids": tokenizer.encode(probe).ids,
    }
    with open(os.path.join(FOLDER, "merges.json"), "w", encoding="utf-8") as file:
        json.dump(golden, file, ensure_ascii=True, indent=0)
        file.write("\n")
    print(f"{len(text.encode())} bytes, {len(golden['tokens'])} tokens, {len(merges)} merges")


if __name__ == "__main__":
    main()
