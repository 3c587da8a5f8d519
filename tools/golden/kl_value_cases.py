"""Cases of KL forms, value loss, entropy and integer rules (make_algorithm_cases.py).

Gradients are central differences.
"""

import math

from case_batch import (
    BEHIND,
    COLUMNS,
    LIVE,
    MASK,
    RNG,
    ROWS,
    add,
    deviation,
    drawn,
    hidden,
    on_last,
    spread,
    whitened,
    zeros,
)


# ---- losses -------------------------------------------------------------------
def aggregated(table, mode):
    rows = [i for i in range(ROWS) if any(MASK[i])]
    sums = {i: sum(table[i][t] for t in range(COLUMNS) if MASK[i][t]) for i in rows}
    if mode == "token-mean":
        return sum(sums.values()) / len(LIVE)
    if mode == "seq-mean-token-sum":
        return sum(sums.values()) / len(rows)
    return sum(sums[i] / sum(MASK[i]) for i in rows) / len(rows)


def differences(loss_of, table, step=1e-5):
    out = zeros()
    for i, t in LIVE:
        ends = []
        for sign in (1, -1):
            moved = [list(row) for row in table]
            moved[i][t] += sign * step
            ends.append(loss_of(moved))
        out[i][t] = (ends[0] - ends[1]) / (2 * step)
    return out


def each(formula, *tables):
    out = zeros()
    for i, t in LIVE:
        out[i][t] = formula(*(table[i][t] for table in tables))
    return out


FORMS = {
    "k1": lambda lp, rf: lp - rf,
    "abs": lambda lp, rf: abs(lp - rf),
    "k2": lambda lp, rf: (lp - rf) ** 2 / 2,
    "k3": lambda lp, rf: min(math.exp(rf - lp) - (rf - lp) - 1, 10.0),
}


def kl_forms():
    logp = [[-abs(x) - 0.05 for x in row] for row in drawn()]
    ref = [[x + y for x, y in zip(a, b)] for a, b in zip(logp, drawn(0.5))]
    old = [[x + y for x, y in zip(a, b)] for a, b in zip(logp, drawn(0.2))]
    ref[5][0] = logp[5][0] + 4.0  # e^4 - 5 is above the clamp of 10
    for mode in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum"):
        for name, form in FORMS.items():

            def loss(table, form=form):
                return aggregated(each(form, table, ref), mode)

            def square(table):
                return aggregated(each(FORMS["k2"], table, ref), mode)

            for suffix, slope in (("", loss), ("+", square)):
                add(
                    "kl",
                    f"{name}{suffix}-{mode}",
                    {"kl_penalty": name + suffix, "loss_agg_mode": mode},
                    {"log_probs": hidden(logp), "ref_log_probs": hidden(ref), "mask": MASK},
                    {
                        "kl": each(form, logp, ref),
                        "loss": loss(logp),
                        "grad_log_probs": differences(slope, logp),
                    },
                )

    near = [[min(x, lp + 1) for x, lp in zip(a, b)] for a, b in zip(ref, logp)]

    def corrected(table):
        return aggregated(
            each(lambda lp, rf, o: FORMS["k3"](lp, rf) * math.exp(lp - o), table, near, old),
            "token-mean",
        )

    add(
        "kl",
        "bias-corrected",
        {
            "kl_penalty": "k3",
            "dialect": "trl",
            "use_bias_correction_kl": True,
            "loss_agg_mode": "token-mean",
        },
        {
            "log_probs": hidden(logp),
            "old_log_probs": hidden(old),
            "ref_log_probs": hidden(near),
            "mask": MASK,
        },
        {"loss": corrected(logp), "grad_log_probs": differences(corrected, logp)},
    )
    kl_rewards(logp, ref)


def kl_rewards(logp, ref):
    scores = [round(float(x), 6) for x in RNG.normal(0, 1, ROWS)]
    for name in ("kl", "low_var_kl"):
        form = FORMS["k1" if name == "kl" else "k3"]
        table = each(form, logp, ref)
        means = [sum(table[i]) / sum(MASK[i]) for i in range(ROWS) if any(MASK[i])]
        add(
            "kl_reward",
            name,
            {"kl_penalty": name, "kl_coef": 0.05},
            {
                "scores": scores,
                "old_log_probs": hidden(logp),
                "ref_log_probs": hidden(ref),
                "mask": MASK,
            },
            {
                "token_rewards": each(lambda r, k: r - 0.05 * k, on_last(scores), table),
                "current_kl": sum(means) / ROWS,
            },
        )
    beta, steps = 0.01, []
    for kl in (0.5, 0.01, 0.095, 0.12):
        beta *= 1 + max(-0.2, min(0.2, kl / 0.1 - 1)) * 64 / 1000
        steps.append(beta)
    given = {"kl_coef": 0.01, "horizon": 1000, "batch_size": 64, "target_kl": 0.1}
    add(
        "kl_controller",
        "adaptive",
        {"type": "adaptive", **given},
        {"current_kl": [0.5, 0.01, 0.095, 0.12]},
        {"kl_coef": steps},
    )
    add(
        "kl_controller",
        "fixed",
        {"type": "fixed", **given},
        {"current_kl": [0.5, 0.01]},
        {"kl_coef": [0.01, 0.01]},
    )


def value_forms():
    old, returns = drawn(), drawn()
    values = [[x + y for x, y in zip(a, b)] for a, b in zip(old, drawn(0.6))]
    for clip in (None, 0.3):
        for mode in ("token-mean", "seq-mean-token-mean"):

            def clipped(v, o):
                return v if clip is None else min(max(v, o - clip), o + clip)

            def loss(table):
                return aggregated(
                    each(
                        lambda v, o, r: max((v - r) ** 2, (clipped(v, o) - r) ** 2) / 2,
                        table,
                        old,
                        returns,
                    ),
                    mode,
                )

            outputs = {"loss": loss(values), "grad_values": differences(loss, values)}
            if clip is not None:
                worse = each(
                    lambda v, o, r: float((clipped(v, o) - r) ** 2 > (v - r) ** 2),
                    values,
                    old,
                    returns,
                )
                outputs["clipfrac"] = sum(map(sum, worse)) / len(LIVE)
            add(
                "value_loss",
                f"{clip}-{mode}",
                {"cliprange_value": clip, "loss_agg_mode": mode},
                {
                    "values": hidden(values),
                    "old_values": hidden(old),
                    "returns": hidden(returns),
                    "mask": MASK,
                },
                outputs,
            )
    value_measures(values, returns)


def value_measures(values, returns):
    errors = [returns[i][t] - values[i][t] for i, t in LIVE]
    add(
        "explained_variance",
        "batch",
        {},
        {"values": hidden(values), "returns": hidden(returns), "mask": MASK},
        {
            "explained_variance": 1
            - deviation(errors) ** 2 / deviation([returns[i][t] for i, t in LIVE]) ** 2
        },
    )
    add(
        "explained_variance",
        "constant-returns",
        {},
        {"values": hidden(values), "returns": hidden(spread([2.0] * ROWS)), "mask": MASK},
        {"explained_variance": 0.0},
    )
    mean = sum(values[i][t] for i, t in LIVE) / len(LIVE)
    add(
        "whiten",
        "keeps-mean",
        {"shift_mean": False},
        {"values": hidden(values), "mask": MASK},
        {"values": each(lambda x: x + mean, whitened(values))},
    )
    add(
        "whiten",
        "plain",
        {},
        {"values": hidden(values), "mask": MASK},
        {"values": whitened(values)},
    )


def entropies():
    words = 5
    logits = [
        [[round(float(x), 6) for x in RNG.normal(0, 2, words)] for _ in range(COLUMNS)]
        for _ in range(ROWS)
    ]
    given = [
        [
            logits[i][t] if MASK[i][t] else [BEHIND[(i + t + k) % 4] for k in range(words)]
            for t in range(COLUMNS)
        ]
        for i in range(ROWS)
    ]
    for temperature in (1.0, 0.6):

        def entropy(z):
            top = max(z)
            e = [math.exp((x - top) / temperature) for x in z]
            return -sum(x / sum(e) * math.log(x / sum(e)) for x in e)

        def slope(z, k):
            up, down = list(z), list(z)
            up[k] += 1e-5
            down[k] -= 1e-5
            return (entropy(up) - entropy(down)) / 2e-5 / len(LIVE)

        table = each(entropy, logits)
        add(
            "entropy",
            str(temperature),
            {"temperature": temperature, "loss_agg_mode": "token-mean"},
            {"logits": given, "mask": MASK},
            {
                "entropy": table,
                "loss": aggregated(table, "token-mean"),
                "grad_logits": [
                    [
                        [slope(logits[i][t], k) if MASK[i][t] else 0.0 for k in range(words)]
                        for t in range(COLUMNS)
                    ]
                    for i in range(ROWS)
                ],
            },
        )


def filters():
    scores = [1.0, 0.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.25]
    groups = [3, 5, 3, 3, 8, 8, 5, 2]
    for singletons in ("keep", "drop"):
        kept = {2} if singletons == "keep" else set()
        add(
            "group_filter",
            singletons,
            {"metric": "score", "singletons": singletons},
            {"scores": [*scores[:6], 0.75, 0.25], "group": groups},
            {"keep_rows": [int(group == 5 or group in kept) for group in groups]},
        )


def integers():
    add(
        "overlong",
        "buffer",
        {"max_response_length": 100, "overlong_buffer_len": 20, "penalty_factor": 0.5},
        {"lengths": [0, 79, 80, 81, 90, 100]},
        {"penalty": [0.0, 0.0, 0.0, -0.025, -0.25, -0.5]},
    )
    add(
        "areal",
        "ahead",
        {"max_head_offpolicyness": 2, "consumer_batch_size": 8, "max_concurrent_rollouts": 20},
        {"version": 3, "running": 5, "accepted": 41},
        {"capacity": 2},
    )
    add(
        "areal",
        "too-many",
        {"max_head_offpolicyness": 0, "consumer_batch_size": 4, "max_concurrent_rollouts": 0},
        {"version": 0, "running": 3, "accepted": 4},
        {"capacity": -3},
    )
    add(
        "verl_fully_async",
        "window",
        {
            "staleness_threshold": 0.3,
            "ppo_mini_batch_size": 10,
            "require_batches": 2,
            "trigger_parameter_sync_step": 3,
            "concurrent_samples_per_replica": 16,
        },
        {"active": 4, "queued": 7, "replicas": 3},
        {
            "required_samples": 20,
            "max_required_samples": 78,
            "max_concurrent_samples": 48,
            "counter_after_sync": 11,
        },
    )
    for begun, is_evicted in ((8, 0), (7, 1)):
        add(
            "verl_v1",
            f"from-{begun}",
            {"max_off_policy_threshold": 3},
            {"global_step": 10, "prompt_step": begun},
            {"span": 11 - begun, "is_evicted": is_evicted},
        )
    for version, is_dropped in ((5, 0), (4, 1)):
        add(
            "prime_rl",
            f"version-{version}",
            {"max_off_policy_steps": 4},
            {"step": 10, "dispatch_version": version},
            {"staleness": 9 - version, "oldest_fresh_version": 5, "is_dropped": is_dropped},
        )
    add(
        "roll_rlvr",
        "fraction",
        {"rollout_batch_size": 10, "async_generation_ratio": 1.25},
        {},
        {"extra_at_first_step": 13, "oldest_start_step_lag": 2},
    )
