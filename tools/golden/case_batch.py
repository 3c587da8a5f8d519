"""A batch of cases (make_algorithm_cases.py), and what their formulas share.

The batch has what breaks a formula: holes, an empty response, a group of one, and NaN and
infinities behind the mask.
"""

import math

import numpy as np

RNG = np.random.default_rng(20261123)
CASES = []
BEHIND = [float("nan"), float("inf"), float("-inf"), 1e30]


def add(kind, name, params, inputs, outputs):
    CASES.append(
        {
            "id": f"{kind}/{name}",
            "kind": kind,
            "params": params,
            "inputs": inputs,
            "outputs": outputs,
        }
    )


# ---- a batch ------------------------------------------------------------------
ROWS, COLUMNS = 7, 6
GROUPS = [4, 9, 4, 2, 9, 4, 9]  # sizes 3, 3 and, at row 3, 1
MASK = [
    [1, 1, 1, 0, 0, 0],
    [1, 0, 1, 1, 0, 0],
    [0, 1, 1, 0, 1, 1],
    [1, 1, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0],
    [1, 1, 1, 1, 1, 1],
    [0, 1, 0, 1, 0, 1],
]
LIVE = [(i, t) for i in range(ROWS) for t in range(COLUMNS) if MASK[i][t]]


def hidden(table):
    """The table with rubbish behind the mask."""
    return [
        [table[i][t] if MASK[i][t] else BEHIND[(i + t) % len(BEHIND)] for t in range(COLUMNS)]
        for i in range(ROWS)
    ]


def drawn(scale=1.0, shift=0.0):
    return [[round(float(x), 6) for x in row] for row in RNG.normal(shift, scale, (ROWS, COLUMNS))]


def zeros():
    return [[0.0] * COLUMNS for _ in range(ROWS)]


def spread(numbers):
    return [[numbers[i] if MASK[i][t] else 0.0 for t in range(COLUMNS)] for i in range(ROWS)]


def on_last(scores):
    table = zeros()
    for i in range(ROWS):
        places = [t for t in range(COLUMNS) if MASK[i][t]]
        if places:
            table[i][places[-1]] = scores[i]
    return table


def whitened(table, clip=None):
    values = [table[i][t] for i, t in LIVE]
    n = len(values)
    mean = sum(values) / (n + 1e-8)
    variance = sum((x - mean) ** 2 for x in values) / (n + 1e-8) * n / (n - 1)
    out = zeros()
    for i, t in LIVE:
        x = (table[i][t] - mean) / math.sqrt(variance + 1e-8)
        out[i][t] = x if clip is None else min(max(x, -clip), clip)
    return out


# ---- scores in groups ---------------------------------------------------------
def by_group(scores, groups, formula):
    out = [0.0] * len(scores)
    for group in set(groups):
        members = [i for i in range(len(scores)) if groups[i] == group]
        for i, x in zip(members, formula([scores[i] for i in members], members)):
            out[i] = x
    return out


def deviation(xs):
    mean = sum(xs) / len(xs)
    return math.sqrt(sum((x - mean) ** 2 for x in xs) / (len(xs) - 1))
