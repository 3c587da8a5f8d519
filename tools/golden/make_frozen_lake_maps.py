#!/usr/bin/env python3
"""Writes tests/golden/data/frozen_lake_maps.txt: what numpy draws, for runtime/tasks to reproduce
bit for bit.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy
    /tmp/venv/bin/python tools/golden/make_frozen_lake_maps.py

The maps are drawn the way gymnasium-style FrozenLake environments draw them (see random_map).
Lines:
    state    SEED  WORD32...              SeedSequence(SEED).generate_state(8)
    raw      SEED  WORD64...              PCG64(SeedSequence(SEED)).random_raw(8)
    random   SEED  HEX...                 Generator.random(), eight times, as float.hex()
    integers SEED  BOUND VALUE...         Generator.integers(0, BOUND), twelve times
    mixed    SEED  VALUE...               integers(0, 5), random() >= .5, in turns: the 32-bit
    buffer survives
    choice   SEED  INDEX...               Generator.choice(4, p=[.1, .2, .3, .4]), twenty times
    slip     SEED  TURN...                thirds of Generator.random() after one draw: 0, 1 or
    2, twenty times
    map      SEED SIZE P ROW/ROW/...      the map
"""

import pathlib

import numpy

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data/frozen_lake_maps.txt"
SEEDS = [0, 1, 2, 42, 2**31 - 1, 2**32 - 1, 2**32, 2**40 + 7, 2**64 - 1]
BOUNDS = [
    1,
    2,
    3,
    4,
    8,
    10,
    1000,
    2**31 + 11,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**40 + 3,
    2**62 + 2**61 + 5,
]


def generator(seed):
    return numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(seed)))


def has_path(board):
    size = len(board)
    stack = [tuple(int(x) for x in numpy.argwhere(board == "S")[0])]
    seen = set(stack)
    while stack:
        row, column = stack.pop()
        if board[row][column] == "G":
            return True
        for r, c in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if 0 <= r < size and 0 <= c < size and (r, c) not in seen and board[r][c] != "H":
                seen.add((r, c))
                stack.append((r, c))
    return False


def random_map(seed, size, p):
    rng = generator(seed)
    while True:
        board = rng.choice(["F", "H"], (size, size), p=[p, 1 - p])
        while True:
            start = int(rng.integers(0, size)), int(rng.integers(0, size))
            goal = int(rng.integers(0, size)), int(rng.integers(0, size))
            if start != goal:
                break
        board[start] = "S"
        board[goal] = "G"
        if has_path(board):
            return ["".join(row) for row in board]


def mixed(seed):
    rng = generator(seed)
    return [int(rng.integers(0, 5)) if i % 2 == 0 else int(rng.random() >= 0.5) for i in range(20)]


def slips(seed):
    rng = generator(seed)
    rng.random()
    thirds = numpy.cumsum([1 / 3, 1 / 3, 1 / 3])
    return [int(numpy.argmax(thirds > rng.random())) for _ in range(20)]


def lines():
    yield f"# numpy {numpy.__version__}; written by tools/golden/make_frozen_lake_maps.py"
    for seed in SEEDS:
        sequence = numpy.random.SeedSequence(seed)
        yield " ".join(map(str, ["state", seed, *sequence.generate_state(8)]))
        yield " ".join(map(str, ["raw", seed, *numpy.random.PCG64(sequence).random_raw(8)]))
        rng = generator(seed)
        yield " ".join(map(str, ["random", seed, *(float(rng.random()).hex() for _ in range(8))]))
        for bound in BOUNDS:
            rng = generator(seed)
            yield " ".join(
                map(
                    str,
                    ["integers", seed, bound, *(int(rng.integers(0, bound)) for _ in range(12))],
                )
            )
        yield " ".join(map(str, ["mixed", seed, *mixed(seed)]))
        rng = generator(seed)
        yield " ".join(
            map(
                str,
                ["choice", seed, *(int(rng.choice(4, p=[0.1, 0.2, 0.3, 0.4])) for _ in range(20))],
            )
        )
        yield " ".join(map(str, ["slip", seed, *slips(seed)]))
    cases = [
        (seed, size, 0.8) for size in (4, 8) for seed in (*range(160), *range(1_000_000, 1_000_160))
    ]
    cases += [
        (seed, size, p)
        for seed in range(20)
        for size, p in ((2, 0.3), (3, 0.5), (5, 0.6), (6, 0.95), (4, 1.0))
    ]
    cases += [(seed, 4, 0.8) for seed in SEEDS]
    for seed, size, p in cases:
        yield f"map {seed} {size} {p} {'/'.join(random_map(seed, size, p))}"


if __name__ == "__main__":
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join(lines()) + "\n")
    print(f"{OUT}: {len(OUT.read_text().splitlines())} lines")
