"""Cases of the advantage estimators, token by token in float64 (make_algorithm_cases.py)."""

import math

from case_batch import (
    COLUMNS,
    GROUPS,
    MASK,
    RNG,
    ROWS,
    add,
    by_group,
    deviation,
    drawn,
    hidden,
    on_last,
    spread,
    whitened,
    zeros,
)


# ---- scores in groups ---------------------------------------------------------
def centred(xs, _):
    return [x - sum(xs) / len(xs) for x in xs] if len(xs) > 1 else list(xs)


def normal(xs, _):
    if len(xs) == 1:
        return [xs[0] / (1 + 1e-6)]
    return [(x - sum(xs) / len(xs)) / (deviation(xs) + 1e-6) for x in xs]


def leave_one_out(xs, _):
    return [x - (sum(xs) - x) / (len(xs) - 1) for x in xs] if len(xs) > 1 else list(xs)


def pass_at_k(xs, _):
    if len(xs) == 1:
        return [0.0]
    best = max(range(len(xs)), key=lambda k: (xs[k], -k))
    second = max(x for k, x in enumerate(xs) if k != best)
    return [(xs[k] - second) / (deviation(xs) + 1e-6) if k == best else 0.0 for k in range(len(xs))]


def by_length(xs, members):
    if len(xs) == 1:
        return list(xs)
    lengths = [sum(MASK[i]) for i in members]
    base = sum(n * x for n, x in zip(lengths, xs)) / sum(lengths)
    return [x - base for x in xs]


def compared():
    scores = [round(float(x), 6) for x in RNG.normal(0.3, 1.0, ROWS)]
    scores[4] = 0.0  # an empty response has no token to carry a score
    inputs = {"token_rewards": hidden(on_last(scores)), "mask": MASK, "group": GROUPS}
    for name, formula, params in (
        ("grpo", normal, {}),
        ("grpo", centred, {"norm_by_std": False}),
        ("grpo_vectorized", normal, {}),
        ("rloo", leave_one_out, {}),
        ("dr_grpo", centred, {}),
        ("grpo_passk", pass_at_k, {}),
        ("opo", by_length, {}),
    ):
        rewards = by_group(scores, GROUPS, formula)
        add(
            "advantage",
            name + "".join("-" + k for k in params),
            {"estimator": name, **params},
            inputs,
            {"advantages": spread(rewards)},
        )
    add(
        "advantage",
        "rloo_vectorized",
        {"estimator": "rloo_vectorized"},
        inputs,
        {
            "advantages": spread(
                [
                    0.0 if i == 3 else x
                    for i, x in enumerate(by_group(scores, GROUPS, leave_one_out))
                ]
            )
        },
    )
    add(
        "advantage",
        "grpo-roll",
        {"estimator": "grpo", "dialect": "roll"},
        inputs,
        {
            "advantages": spread(
                [0.0 if i == 3 else x for i, x in enumerate(by_group(scores, GROUPS, normal))]
            )
        },
    )
    add(
        "advantage",
        "reinforce_plus_plus_baseline",
        {"estimator": "reinforce_plus_plus_baseline"},
        inputs,
        {"advantages": whitened(spread(by_group(scores, GROUPS, centred)))},
    )
    compared_by_outcome(scores, inputs)


def compared_by_outcome(scores, inputs):
    binary = [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    equal = [1.0, 0.5, 1.0, 0.25, 0.0, 1.0, 0.0]  # group 4: nothing to learn
    add(
        "advantage",
        "gpg",
        {"estimator": "gpg"},
        {**inputs, "token_rewards": hidden(on_last(binary))},
        {"advantages": spread([ROWS / 4 * x for x in by_group(binary, GROUPS, centred)])},
    )
    for dialect in ("verl", "roll"):
        wanted = by_group(equal, GROUPS, normal)
        wanted[3] = wanted[3] if dialect == "verl" else 0.0
        add(
            "advantage",
            f"grpo-equal-{dialect}",
            {"estimator": "grpo", "dialect": dialect},
            {**inputs, "token_rewards": hidden(on_last(equal))},
            {"advantages": spread(wanted)},
        )
    parts = by_group(scores, GROUPS, normal), by_group(binary, GROUPS, normal)
    add(
        "advantage",
        "gdpo",
        {"estimator": "gdpo", "weights": [0.4, 1.5]},
        {
            "token_rewards_1": hidden(on_last(scores)),
            "token_rewards_2": hidden(on_last(binary)),
            "mask": MASK,
            "group": GROUPS,
        },
        {"advantages": whitened(spread([0.4 * a + 1.5 * b for a, b in zip(*parts)]))},
    )


# ---- recursions over tokens ---------------------------------------------------
def returns_of(rewards, gamma, holes):
    out = zeros()
    for i in range(ROWS):
        behind = 0.0
        for t in reversed(range(COLUMNS)):
            if MASK[i][t] or holes == "through":
                behind = (rewards[i][t] if MASK[i][t] else 0.0) + gamma * behind
                out[i][t] = behind if MASK[i][t] else 0.0
            elif holes == "reset":
                behind = 0.0
    return out


def gae_of(rewards, values, gamma, lam, is_carried):
    """Carried: over the live tokens of a row alone. Else over all; what is not finite is 0."""
    out = zeros()
    for i in range(ROWS):
        walk = [t for t in range(COLUMNS) if MASK[i][t] or not is_carried]
        seen = {t: values[i][t] if math.isfinite(values[i][t]) else 0.0 for t in walk}
        for place, t in enumerate(walk):
            total, factor = 0.0, 1.0
            for k in range(place, len(walk)):
                u = walk[k]
                behind = seen[walk[k + 1]] if k + 1 < len(walk) else 0.0
                total += factor * (
                    (rewards[i][u] if MASK[i][u] else 0.0) + gamma * behind - seen[u]
                )
                factor *= gamma * lam
            if MASK[i][t]:
                out[i][t] = total
    return out


def plus(a, b):
    return [[a[i][t] + b[i][t] if MASK[i][t] else 0.0 for t in range(COLUMNS)] for i in range(ROWS)]


def recursions():
    rewards, values = drawn(0.5), drawn()
    # ROLL reads what the critic has in a hole, where it is finite.
    given = [[0.75 if x == 1e30 else x for x in row] for row in hidden(values)]
    for gamma, lam in ((1.0, 1.0), (0.97, 0.9)):
        for dialect in ("verl", "roll"):
            raw = gae_of(rewards, given, gamma, lam, dialect == "verl")
            outputs = {
                "raw_advantages": raw,
                "returns": plus(raw, given),
                "advantages": whitened(raw) if dialect == "verl" else raw,
            }
            add(
                "advantage",
                f"gae-{dialect}-{gamma}-{lam}",
                {"estimator": "gae", "dialect": dialect, "gamma": gamma, "lam": lam},
                {"token_rewards": hidden(rewards), "values": given, "mask": MASK},
                outputs,
            )
    for holes in ("carry", "reset", "through"):
        raw = returns_of(rewards, 0.9, holes)
        add(
            "advantage",
            "reinforce_plus_plus-" + holes,
            {"estimator": "reinforce_plus_plus", "gamma": 0.9, "holes": holes},
            {"token_rewards": hidden(rewards), "mask": MASK},
            {"advantages": whitened(raw), "returns": raw},
        )
    raw = returns_of(rewards, 0.8, "through")
    add(
        "advantage",
        "reinforce-roll",
        {
            "estimator": "reinforce",
            "dialect": "roll",
            "gamma": 0.8,
            "whiten_advantages": True,
            "advantage_clip": 0.5,
        },
        {"token_rewards": hidden(rewards), "mask": MASK},
        {"raw_returns": raw, "advantages": whitened(raw, 0.5)},
    )
    bases = [round(float(x), 6) for x in RNG.normal(0, 1, ROWS)]
    raw = returns_of(rewards, 1.0, "carry")
    add(
        "advantage",
        "remax",
        {"estimator": "remax"},
        {"token_rewards": hidden(rewards), "mask": MASK, "baseline": bases},
        {"returns": raw, "advantages": plus(raw, spread([-b for b in bases]))},
    )
    wanted = zeros()
    for i in range(ROWS):
        runs = runs_of(MASK[i])
        for k, (first, end) in enumerate(runs):
            credit = sum(0.7 ** (j - k) * rewards[i][runs[j][1] - 1] for j in range(k, len(runs)))
            for t in range(first, end):
                wanted[i][t] = credit
    add(
        "advantage",
        "agentic_reinforce",
        {"estimator": "agentic_reinforce", "gamma": 0.7},
        {"token_rewards": hidden(rewards), "mask": MASK},
        {"advantages": wanted},
    )


def runs_of(row):
    runs, t = [], 0
    while t < len(row):
        if row[t]:
            end = t
            while end < len(row) and row[end]:
                end += 1
            runs.append((t, end))
            t = end
        t += 1
    return runs


def turns():
    scores = [round(float(x), 6) for x in RNG.normal(0, 1, ROWS)]
    places = [(i, first, end) for i in range(ROWS) for first, end in runs_of(MASK[i])]
    paid = [round(float(x), 6) for x in RNG.normal(0, 1, len(places))]
    states = [k % 3 for k in range(len(places))]
    returns = [
        sum(0.9 ** (j - k) * paid[j] for j in range(k, len(places)) if places[j][0] == i)
        for k, (i, _, _) in enumerate(places)
    ]

    def zero_if_flat(xs, _):
        return [0.0] * len(xs) if len(xs) == 1 or deviation(xs) <= 1e-6 else normal(xs, None)

    episodes = by_group(scores, GROUPS, zero_if_flat)
    steps = by_group(
        returns, [(GROUPS[i], states[k]) for k, (i, _, _) in enumerate(places)], zero_if_flat
    )
    plain = by_group(
        returns,
        [GROUPS[i] for i, _, _ in places],
        lambda xs, _: [x - sum(xs) / len(xs) for x in xs],
    )
    for name, params, rewards in (
        (
            "gigpo",
            {"step_reward_gamma": 0.9, "episode_reward_weight": 0.6, "step_reward_weight": 1.5},
            [0.6 * episodes[i] + 1.5 * steps[k] for k, (i, _, _) in enumerate(places)],
        ),
        ("step_reinforce", {"step_reward_gamma": 0.9, "norm_mean_type": "group"}, plain),
    ):
        table = zeros()
        for (i, first, end), x in zip(places, rewards):
            for t in range(first, end):
                table[i][t] = x
        add(
            "advantage",
            name,
            {"estimator": name, "dialect": "roll", **params},
            {
                "scores": scores,
                "group": GROUPS,
                "mask": MASK,
                "turn_rewards": paid,
                "turn_state": states,
            },
            {"turn_rewards": rewards, "advantages": table},
        )


def as_trl():
    rewards = [[round(float(x), 6) for x in row] for row in RNG.normal(0, 1, (6, 2))]
    rewards[4] = [float("nan"), float("nan")]  # no reward could judge it
    rewards[1][0] = float("nan")
    scored = [i for i in range(6) if i != 4]
    known = [[0.0 if math.isnan(x) else x for x in row] for row in rewards]
    weights = [0.7, 1.3]
    totals = [weights[0] * known[i][0] + weights[1] * known[i][1] for i in scored]
    of = [i // 3 for i in scored]

    def trl(xs, std):
        return [
            (x - sum(xs) / len(xs)) / (std + 1e-4) if std is not None else x - sum(xs) / len(xs)
            for x in xs
        ]

    def padded(xs):
        return [xs[scored.index(i)] if i in scored else 0.0 for i in range(6)]

    for scale in ("group", "batch", "none"):
        std = {"batch": lambda xs: deviation(totals), "none": lambda xs: None, "group": deviation}[
            scale
        ]
        add(
            "advantage",
            "trl-" + scale,
            {
                "estimator": "grpo",
                "dialect": "trl",
                "num_generations": 3,
                "reward_weights": weights,
                "scale_rewards": scale,
            },
            {"rewards": rewards},
            {"advantages": padded(by_group(totals, of, lambda xs, _: trl(xs, std(xs))))},
        )
    both = [0.0] * len(scored)
    for k in range(2):
        there = [i for i in scored if not math.isnan(rewards[i][k])]
        column = by_group(
            [rewards[i][k] for i in there],
            [i // 3 for i in there],
            lambda xs, _: trl(xs, deviation(xs)),
        )
        for i, x in zip(there, column):
            both[scored.index(i)] += weights[k] * x
    add(
        "advantage",
        "trl-normalize-then-sum",
        {
            "estimator": "grpo",
            "dialect": "trl",
            "num_generations": 3,
            "reward_weights": weights,
            "multi_objective_aggregation": "normalize_then_sum",
        },
        {"rewards": rewards},
        {"advantages": padded(trl(both, deviation(both)))},
    )
