#!/usr/bin/env python3
"""Writes tests/golden/data/loss_cases.json: policy losses and corrections, case by case, in
Python's f64 from the formulas of docs/algorithms.md, token by token. Gradients are central
differences; what a formula takes as constant (sg) comes from a frozen copy. A case whose difference
crosses a kink is drawn again.

  python3 tools/golden/make_loss_cases.py > tests/golden/data/loss_cases.json
"""

import json
import math
import random

DRAW = random.Random(20261123)
STEP = 1e-5
NAN = None  # null: evaluate reads it as NaN


def clip(x, low, high):
    return min(max(x, low), high)


def sign(x):
    return (x > 0) - (x < 0)


class Batch:
    """Rows of tokens; `mask` tells the sampled ones, the others hold NaN."""

    def __init__(self, drift, per_row, with_empty):
        self.mask = []
        for _ in range(5):
            width, row = 8, []
            first = DRAW.randrange(1, 4)
            hole = DRAW.randrange(0, 3)
            second = DRAW.randrange(0, width - first - hole + 1)
            row = [1] * first + [0] * hole + [1] * second
            self.mask.append(row + [0] * (width - len(row)))
        if with_empty:
            self.mask[DRAW.randrange(5)] = [0] * 8
        self.old = self.draw(lambda i, t: -DRAW.uniform(0.02, 3))
        self.new = self.draw(lambda i, t: min(self.old[i][t] + DRAW.gauss(0, drift), -0.005))
        rows = [DRAW.gauss(0, 1) for _ in range(5)]
        self.adv = self.draw(lambda i, t: rows[i] if per_row else DRAW.gauss(0, 1))
        self.beh = self.draw(lambda i, t: min(self.old[i][t] + DRAW.gauss(0, 0.4), -0.005))
        self.weights = self.draw(lambda i, t: DRAW.uniform(0.2, 2))
        self.scores = [DRAW.choice([0.0, 1.0, -0.5]) for _ in range(5)]
        self.demos = [1, 0, 0, 1, 0]

    def draw(self, value):
        return [
            [round(value(i, t), 6) if live else NAN for t, live in enumerate(row)]
            for i, row in enumerate(self.mask)
        ]

    def tokens(self, i):
        return [t for t, live in enumerate(self.mask[i]) if live]

    def live(self):
        return [(i, t) for i in range(len(self.mask)) for t in self.tokens(i)]

    def row_mean(self, i, value):
        tokens = self.tokens(i)
        return sum(value(t) for t in tokens) / max(1, len(tokens))

    def runs(self, i):
        found = []
        for t in self.tokens(i):
            if not found or found[-1][-1] + 1 != t:
                found.append([])
            found[-1].append(t)
        return found


def ratio_of(b, lp, i, t, level="token"):
    if level == "token":
        d = lp[i][t] - b.old[i][t]
    elif level == "sequence":
        d = b.row_mean(i, lambda u: lp[i][u] - b.old[i][u])
    else:
        run = next(r for r in b.runs(i) if t in r)
        d = sum(lp[i][u] - b.old[i][u] for u in run) / len(run)
    return math.exp(clip(d, -20, 20))


def ppo(b, lp, i, t, low, high, c=None, level="token", cap=None):
    rho, a = ratio_of(b, lp, i, t, level), b.adv[i][t]
    first = rho if cap is None else min(rho, cap)
    loss = max(-first * a, -clip(rho, 1 - low, 1 + high) * a)
    return min(loss, -c * a) if c is not None and a < 0 else loss


def covariance_order(b, frozen):
    live = b.live()
    mean_a = sum(b.adv[i][t] for i, t in live) / len(live)
    mean_l = sum(frozen[i][t] for i, t in live) / len(live)
    return {(i, t): (b.adv[i][t] - mean_a) * (frozen[i][t] - mean_l) for i, t in live}


# Formulas: name, params, extra inputs, loss of a token (b, lp, frozen, i, t), drift, whether a row
# has one advantage.
lo, hi = 0.2, 0.28
pair = {"clip_ratio_low": lo, "clip_ratio_high": hi}


def clipped_formulas():
    yield "ppo", dict(pair, loss="vanilla", clip_ratio_c=3.0), (), lambda b, lp, f, i, t: ppo(
        b, lp, i, t, lo, hi, 3.0
    ), 0.7, False
    yield "ppo-weighted", dict(pair, loss="vanilla", clip_ratio_c=1.5), (
        "rollout_is_weights",
    ), lambda b, lp, f, i, t: ppo(b, lp, i, t, lo, hi, 1.5) * b.weights[i][t], 0.7, False
    yield "roll", {
        "loss": "ppo",
        "dialect": "roll",
        "pg_clip": 0.3,
        "dual_clip": True,
    }, (), lambda b, lp, f, i, t: ppo(b, lp, i, t, 0.3, 0.3, 1.6), 0.7, False
    yield "roll-seq", {
        "loss": "ppo",
        "dialect": "roll",
        "pg_clip": 0.1,
        "importance_sampling": "seq",
    }, (), lambda b, lp, f, i, t: ppo(b, lp, i, t, 0.1, 0.1, None, "sequence"), 0.3, True
    yield "roll-segment", {
        "loss": "ppo",
        "dialect": "roll",
        "pg_clip": 0.1,
        "importance_sampling": "segment",
    }, (), lambda b, lp, f, i, t: ppo(b, lp, i, t, 0.1, 0.1, None, "segment"), 0.3, True
    yield "delta", {
        "loss": "bnpo",
        "dialect": "trl",
        "epsilon": 0.2,
        "epsilon_high": 0.3,
        "delta": 1.6,
    }, (), lambda b, lp, f, i, t: ppo(b, lp, i, t, 0.2, 0.3, None, "token", 1.6), 0.9, False

    def opsm(b, lp, f, i, t):
        behind = b.row_mean(i, lambda u: b.old[i][u] - f[i][u])
        return 0.0 if b.adv[i][t] < 0 and behind > 0.02 else ppo(b, lp, i, t, 0.2, 0.2)

    yield "opsm", {
        "loss": "grpo",
        "dialect": "trl",
        "epsilon": 0.2,
        "off_policy_mask_threshold": 0.02,
    }, (), opsm, 0.4, True


def weighted_formulas():
    yield "vanilla", {"loss": "gpg"}, (), lambda b, lp, f, i, t: -b.adv[i][t] * lp[i][t], 0.3, False
    yield "tis", {"loss": "tis", "dialect": "roll"}, (), lambda b, lp, f, i, t: -clip(
        ratio_of(b, f, i, t), 0, 1
    ) * b.adv[i][t] * lp[i][t], 0.5, False

    def topr(b, lp, f, i, t):
        weight = 0.5 if b.scores[i] > 0 else 2.0 * clip(ratio_of(b, f, i, t), 0, 1)
        return -weight * b.adv[i][t] * lp[i][t]

    yield "topr", {
        "loss": "topr",
        "dialect": "roll",
        "positive_weight": 0.5,
        "negative_weight": 2.0,
    }, ("scores",), topr, 0.5, False
    yield "cispo", dict(pair, loss="cispo"), (), lambda b, lp, f, i, t: -clip(
        ratio_of(b, f, i, t), 1 - lo, 1 + hi
    ) * b.adv[i][t] * lp[i][t], 0.5, False
    yield "cispo-roll", {"loss": "cispo", "dialect": "roll"}, (), lambda b, lp, f, i, t: -clip(
        ratio_of(b, f, i, t), 0.9, 1.1
    ) * b.adv[i][t] * lp[i][t], 0.5, False
    yield "cispo-cap", {
        "loss": "cispo",
        "dialect": "trl",
        "epsilon_high": 1.4,
    }, (), lambda b, lp, f, i, t: -min(ratio_of(b, f, i, t), 1.4) * b.adv[i][t] * lp[i][
        t
    ], 0.5, False
    yield "kimi15", {
        "loss": "kimi15",
        "dialect": "roll",
        "tau": 0.3,
    }, (), lambda b, lp, f, i, t: -b.adv[i][t] * lp[i][t] + 0.15 * (
        lp[i][t] - b.old[i][t]
    ) ** 2, 0.5, False
    yield "dro", {"loss": "dro", "dro_beta": 0.7}, (), lambda b, lp, f, i, t: -b.adv[i][t] * lp[i][
        t
    ] + 0.35 * (lp[i][t] - b.old[i][t]) ** 2, 0.5, False


def sequence_formulas():
    def gspo(b, lp, f, i, t):
        rho = math.exp(lp[i][t] - f[i][t] + b.row_mean(i, lambda u: f[i][u] - b.old[i][u]))
        return max(-rho * b.adv[i][t], -clip(rho, 0.97, 1.04) * b.adv[i][t])

    yield "gspo", {
        "loss": "gspo",
        "clip_ratio_low": 0.03,
        "clip_ratio_high": 0.04,
    }, (), gspo, 0.1, True
    yield "luspo", {
        "loss": "luspo",
        "dialect": "trl",
        "epsilon": 0.03,
        "epsilon_high": 0.04,
    }, (), lambda b, lp, f, i, t: ppo(b, lp, i, t, 0.03, 0.04, None, "sequence"), 0.1, True

    def sapo(b, lp, f, i, t):
        tau = 1.2 if b.adv[i][t] > 0 else 1.4
        return -b.adv[i][t] * 4 / tau / (1 + math.exp(-tau * (ratio_of(b, lp, i, t) - 1)))

    yield "sapo", {"loss": "sapo", "tau_pos": 1.2, "tau_neg": 1.4}, (), sapo, 0.5, False


def covariance_formulas():
    def clip_cov(b, lp, f, i, t):
        rho, a = ratio_of(b, f, i, t), b.adv[i][t]
        is_held = -clip(rho, 0.8, 1.2) * a > -rho * a
        return (
            0.0
            if 0.05 < covariance_order(b, f)[i, t] < 4 and not is_held
            else ppo(b, lp, i, t, 0.2, 0.2)
        )

    yield "clip_cov", {
        "loss": "clip_cov",
        "clip_ratio_low": 0.2,
        "clip_ratio_high": 0.2,
        "clip_cov_ratio": 1.0,
        "clip_cov_lb": 0.05,
        "clip_cov_ub": 4.0,
    }, (), clip_cov, 0.4, False

    def kl_cov(b, lp, f, i, t):
        cov = covariance_order(b, f)
        top = sorted(cov, key=cov.get, reverse=True)[: max(1, int(0.3 * len(cov)))]
        return -ratio_of(b, lp, i, t) * b.adv[i][t] + (
            0.6 * abs(lp[i][t] - b.old[i][t]) if (i, t) in top else 0.0
        )

    yield "kl_cov", {
        "loss": "kl_cov",
        "kl_cov_ratio": 0.3,
        "ppo_kl_coef": 0.6,
    }, (), kl_cov, 0.4, False


def probability_formulas():
    def dppo(b, lp, f, i, t, is_moved):
        return (
            0.0
            if is_moved(b, f, i, t)
            else -min(ratio_of(b, f, i, t), 1.3) * b.adv[i][t] * lp[i][t]
        )

    def by_tv(b, f, i, t):
        moved = math.exp(f[i][t]) - math.exp(b.old[i][t])
        return moved > 0.06 if b.adv[i][t] > 0 else moved < -0.04

    def by_kl(b, f, i, t):
        p, q = math.exp(f[i][t]), math.exp(b.old[i][t])
        kl = q * math.log(q / p) + (1 - q) * math.log((1 - q + 1e-8) / (1 - p + 1e-8))
        return kl > 0.06 and p > q if b.adv[i][t] > 0 else kl > 0.04 and p < q

    bounds = {"clip_ratio_low": 0.04, "clip_ratio_high": 0.06, "clip_ratio_c": 1.3}
    yield "dppo_tv", dict(bounds, loss="dppo_tv"), (), lambda b, lp, f, i, t: dppo(
        b, lp, f, i, t, by_tv
    ), 0.5, False
    yield "dppo_kl", dict(bounds, loss="dppo_kl"), (), lambda b, lp, f, i, t: dppo(
        b, lp, f, i, t, by_kl
    ), 0.5, False

    def prime(b, lp, f, i, t):
        d = lp[i][t] - b.old[i][t]
        return (0.0 if by_tv(b, f, i, t) else -b.adv[i][t] * math.exp(d)) + 2e-3 * d * d

    yield "prime_rl", {
        "loss": "dppo_kl_prime",
        "dialect": "prime-rl",
        "dppo_mask_low": 0.04,
        "dppo_mask_high": 0.06,
        "kl_tau": 2e-3,
    }, (), prime, 0.5, False


def off_policy_formulas():
    def vespo(b, lp, f, i, t):
        total = clip(sum(f[i][u] - b.old[i][u] for u in b.tokens(i)), math.log(1e-8), 20)
        k, lam = (2.0, 3.0) if b.adv[i][t] >= 0 else (3.0, 2.0)
        return -math.exp(lam + k * total - lam * math.exp(total)) * b.adv[i][t] * lp[i][t]

    yield "vespo", {"loss": "vespo", "dialect": "trl"}, (), vespo, 0.15, True

    def bypass(b, lp, f, i, t, whole):
        d = sum(f[i][u] - b.old[i][u] for u in b.tokens(i)) if whole else f[i][t] - b.old[i][t]
        return -min(math.exp(d), 1.2) * b.adv[i][t] * lp[i][t]

    for whole in (False, True):
        level = "sequence" if whole else "token"
        yield "bypass-" + level, {
            "loss": "bypass_mode",
            "loss_type": "reinforce",
            "rollout_is": level,
            "rollout_is_threshold": 1.2,
        }, (), lambda b, lp, f, i, t, whole=whole: bypass(b, lp, f, i, t, whole), 0.3, True

    def luffy(b, lp, f, i, t):
        p = math.exp(lp[i][t])
        return -b.adv[i][t] * p / (p + 0.2) if b.demos[i] else ppo(b, lp, i, t, 0.2, 0.2)

    yield "luffy", {"loss": "luffy", "gamma": 0.2, "clip": 0.2}, (
        "is_off_policy",
    ), luffy, 0.4, False
    for name, weight in (
        ("tis", lambda w, g: clip(w, 0.8, 1.3)),
        ("icepop", lambda w, g: w if 0.8 <= w <= 1.3 else 0.0),
        ("seq-mask-tis", lambda w, g: w if 0.8 <= g <= 1.3 else 0.0),
    ):

        def corrected(b, lp, f, i, t, weight=weight):
            mean = math.exp(b.row_mean(i, lambda u: b.old[i][u] - b.beh[i][u]))
            return ppo(b, lp, i, t, 0.2, 0.2) * weight(math.exp(b.old[i][t] - b.beh[i][t]), mean)

        yield "corrected-" + name, {
            "loss": "ppo",
            "dialect": "openrlhf",
            "clip": 0.2,
            "correction": name,
            "low": 0.8,
            "high": 1.3,
        }, ("rollout_log_probs",), corrected, 0.4, False


def formulas():
    for part in (
        clipped_formulas,
        weighted_formulas,
        sequence_formulas,
        covariance_formulas,
        probability_formulas,
        off_policy_formulas,
    ):
        yield from part()


def aggregated(b, loss, mode):
    rows = [[loss(i, t) for t in b.tokens(i)] for i in range(len(b.mask))]
    tokens, full = sum(map(len, rows)), [r for r in rows if r]
    if mode == "token-mean":
        return sum(map(sum, rows)) / tokens
    if mode == "token-sum":
        return sum(map(sum, rows))
    if mode == "seq-mean-token-sum":
        return sum(map(sum, full)) / len(full)
    if mode == "seq-mean-token-mean":
        return sum(sum(r) / len(r) for r in full) / len(full)
    return sum(map(sum, full)) / len(full) / len(b.mask[0])  # verl's seq-mean-token-sum-norm


def geo_mean(b, lp, low, high):
    total = 0.0
    for i in range(len(b.mask)):
        if not b.tokens(i):
            continue

        def bounded(t):
            d, s = lp[i][t] - b.old[i][t], sign(b.adv[i][t])
            return s * min(s * d, s * clip(d, -low, high))

        total -= b.row_mean(i, lambda t: b.adv[i][t]) * math.exp(b.row_mean(i, bounded))
    return total / len(b.mask)


def differences(b, value):
    """d value / d lp per live token and the largest change between two step sizes."""
    grad, worst = [[0.0] * 8 for _ in b.mask], 0.0
    for i, t in b.live():
        found = []
        for h in (STEP, 3 * STEP):
            ends = []
            for s in (h, -h):
                lp = [list(row) for row in b.new]
                lp[i][t] += s
                ends.append(value(lp))
            found.append((ends[0] - ends[1]) / (2 * h))
        grad[i][t] = found[0]
        worst = max(worst, abs(found[0] - found[1]))
    return grad, worst


def inputs(b, extra):
    known = {
        "rollout_is_weights": b.weights,
        "rollout_log_probs": b.beh,
        "scores": b.scores,
        "is_off_policy": b.demos,
    }
    base = {"log_probs": b.new, "old_log_probs": b.old, "advantages": b.adv, "mask": b.mask}
    return dict(base, **{name: known[name] for name in extra})


def loss_case(name, params, extra, drift, per_row, with_empty, value, token=None):
    while True:
        b = Batch(drift, per_row, with_empty)
        grad, worst = differences(b, lambda lp: value(b, lp))
        if worst < 1e-7:
            break
    out = {"loss": value(b, b.new), "grad_log_probs": grad}
    if token is not None:
        out["token_loss"] = [
            [token(b, i, t) if live else 0.0 for t, live in enumerate(row)]
            for i, row in enumerate(b.mask)
        ]
    return {
        "id": "loss/" + name,
        "kind": "policy_loss",
        "params": params,
        "inputs": inputs(b, extra),
        "outputs": out,
    }


def losses():
    modes = [
        "token-mean",
        "token-sum",
        "seq-mean-token-sum",
        "seq-mean-token-mean",
        "seq-mean-token-sum-norm",
    ]
    for number, (name, params, extra, token, drift, per_row) in enumerate(formulas()):
        own = name == "luspo"
        for mode in modes if name in ("ppo", "gspo") else [modes[number % 4]]:

            def value(b, lp, token=token, mode=mode, own=own):
                return aggregated(
                    b, lambda i, t: token(b, lp, b.new, i, t), "seq-mean-token-sum" if own else mode
                )

            yield loss_case(
                f"{name}-{mode}",
                dict(params, loss_agg_mode=mode),
                extra,
                drift,
                per_row,
                number % 2 == 0,
                value,
                lambda b, i, t, token=token: token(b, b.new, b.new, i, t),
            )
    params = {
        "loss": "geo_mean",
        "clip_ratio_low": 0.2,
        "clip_ratio_high": 0.25,
        "loss_agg_mode": "token-mean",
    }
    yield loss_case(
        "geo_mean", params, (), 0.4, True, True, lambda b, lp: geo_mean(b, lp, 0.2, 0.25)
    )


# ---- corrections: x = old - behaviour
def divergence(k, x):
    return {"1": -x, "2": x * x / 2, "3": math.exp(x) - 1 - x}[k]


def level_of(b, level, i, t):
    def x(u):
        return b.old[i][u] - b.beh[i][u]

    if level == "token":
        return math.exp(x(t))
    if level == "sequence":
        return math.exp(sum(x(u) for u in b.tokens(i)))
    if level == "geometric":
        return math.exp(b.row_mean(i, x))
    run = next(r for r in b.runs(i) if t in r)
    return math.exp(sum(x(u) for u in run) / len(run))


def spread(b, value):
    return [
        [value(i, t) if live else 0 for t, live in enumerate(row)] for i, row in enumerate(b.mask)
    ]


def correction_case(kind, name, params, outputs, b):
    return {
        "id": f"{kind}/{name}",
        "kind": kind,
        "params": params,
        "outputs": outputs,
        "inputs": {"old_log_probs": b.old, "rollout_log_probs": b.beh, "mask": b.mask},
    }


def weights():
    for level in ("token", "segment", "geometric", "sequence"):
        for threshold, normal in (("1.3", False), ("0.7_1.6", False), ("1.2", True)):
            b = Batch(0.3, False, True)
            low, _, high = threshold.rpartition("_")

            def weight(i, t):
                w = level_of(b, level, i, t)
                return (
                    min(w, float(high)) if not low else w if float(low) <= w <= float(high) else 0.0
                )

            mean = 1.0
            if normal:
                rows = [[weight(i, t) for t in b.tokens(i)] for i in range(5)]
                flat = [w for row in rows for w in row]
                by_row = [sum(row) / len(row) for row in rows if row]
                mean = (
                    sum(flat) / len(flat)
                    if level in ("token", "segment")
                    else sum(by_row) / len(by_row)
                )
            yield correction_case(
                "is_weights",
                f"{level}-{threshold}{'-normal' if normal else ''}",
                {
                    "rollout_is": level,
                    "rollout_is_threshold": threshold,
                    "rollout_is_batch_normalize": normal,
                },
                {"weights": spread(b, lambda i, t: weight(i, t) / mean)},
                b,
            )


def rejections():
    options = [
        over + "_k" + k
        for over in ("token", "seq_sum", "seq_mean", "seq_max")
        for k in "123"
        if over + k != "seq_max1"
    ]
    for names in [[o] for o in options] + [
        ["token_k1", "seq_mean_k3"],
        ["seq_max_k2", "token_k3", "seq_sum_k1"],
    ]:
        b = Batch(0.3, False, True)
        limits = ["0.6_1.7" if o.endswith("1") else "0.15" for o in names]

        def keeps(i, t, option, limit):
            over, k = option[:-3], option[-1]
            values = {u: divergence(k, b.old[i][u] - b.beh[i][u]) for u in b.tokens(i)}
            x = {
                "token": lambda: values[t],
                "seq_sum": lambda: sum(values.values()),
                "seq_max": lambda: max(values.values()),
                "seq_mean": lambda: sum(values.values()) / len(values),
            }[over]()
            return math.log(0.6) <= x <= math.log(1.7) if k == "1" else x <= float(limit)

        yield correction_case(
            "rejection",
            "+".join(names),
            {"rollout_rs": ",".join(names), "rollout_rs_threshold": ",".join(limits)},
            {
                "mask": spread(
                    b, lambda i, t: int(all(keeps(i, t, o, x) for o, x in zip(names, limits)))
                )
            },
            b,
        )


def gaps():
    b = Batch(0.3, False, True)
    x = {(i, t): b.old[i][t] - b.beh[i][t] for i, t in b.live()}
    n = len(x)
    log_old = [b.row_mean(i, lambda t, i=i: b.old[i][t]) for i in range(5)]
    log_beh = [b.row_mean(i, lambda t, i=i: b.beh[i][t]) for i in range(5)]
    yield correction_case(
        "offpolicy_metrics",
        "gap",
        {},
        {
            "kl": -sum(x.values()) / n,
            "k3_kl": sum(math.exp(d) - d - 1 for d in x.values()) / n,
            "training_ppl": sum(math.exp(-v) for v in log_old) / 5,
            "rollout_ppl": sum(math.exp(-v) for v in log_beh) / 5,
            "log_ppl_diff": sum(q - p for p, q in zip(log_old, log_beh)) / 5,
            "ppl_ratio": sum(math.exp(q - p) for p, q in zip(log_old, log_beh)) / 5,
            "chi2_token": sum(math.exp(2 * d) for d in x.values()) / n - 1,
            "chi2_seq": sum(math.exp(2 * sum(x[i, t] for t in b.tokens(i))) for i in range(5)) / 5
            - 1,
        },
        b,
    )


if __name__ == "__main__":
    cases = list(losses()) + list(weights()) + list(rejections()) + list(gaps())
    print("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]")
