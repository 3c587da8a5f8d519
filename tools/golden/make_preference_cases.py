#!/usr/bin/env python3
"""Makes tests/golden/data/preference_cases.json: losses on pairs, and distillation, in float64.

Needs numpy; neither the build nor a test needs it. Each case is one of `actor-node evaluate`. The
formulas stand here as in the papers that algorithms/preference.hpp and algorithms/distillation.hpp
name; gradients are central differences of them. What stands behind a mask is NaN.
"""
import json
import pathlib

import numpy as np

RNG = np.random.default_rng(20261123)
STEP = 1e-5


def numbers(*shape, mean=0.0, width=1.0):
    return np.round(RNG.normal(mean, width, shape), 4)


def log_sigmoid(x):
    return -np.logaddexp(0.0, -x)


def with_gradients(function, inputs, names, live):
    """Returns function(inputs) and d loss / d name by central differences where live[name]."""
    outputs = dict(function(inputs))
    for name in names:
        gradient = np.zeros(inputs[name].shape)
        for place in np.argwhere(live[name]):
            ends = []
            for step in (STEP, -STEP):
                moved = inputs[name].copy()
                moved[tuple(place)] += step
                ends.append(function({**inputs, name: moved})["loss"])
            gradient[tuple(place)] = (ends[0] - ends[1]) / (2 * STEP)
        outputs["grad_" + name] = gradient
    return outputs


def preference(x, params):
    """Per pair from [P] sums and lengths, or from [P][T] and masks."""
    def side(name):
        policy, ref = x["policy_" + name], x.get("ref_" + name, np.zeros(()))
        if "mask_" + name not in x:
            return policy - ref, x["length_" + name]
        counted = x["mask_" + name] == 1
        return np.where(counted, policy - ref, 0).sum(-1), counted.sum(-1)

    kind, beta, smoothing = params["loss"], params["beta"], params.get("label_smoothing", 0.0)
    (chosen, chosen_length), (rejected, rejected_length) = side("chosen"), side("rejected")
    if kind == "simpo" or params.get("length") == "mean":
        chosen, rejected = chosen / chosen_length, rejected / rejected_length
    pairs = x.get("mask", np.ones(len(chosen))) == 1
    chosen, rejected = chosen[pairs], rejected[pairs]
    h = chosen - rejected
    if kind == "ipo":
        losses = (h - 0.5 / beta) ** 2
    elif kind == "hinge":
        losses = np.maximum(0.0, 1.0 - beta * h)
    else:
        h = h - params.get("gamma_beta_ratio", 0.0)
        right, wrong = -log_sigmoid(beta * h), -log_sigmoid(-beta * h)
        if kind == "robust":
            losses = ((1 - smoothing) * right - smoothing * wrong) / (1 - 2 * smoothing)
        else:
            losses = (1 - smoothing) * right + smoothing * wrong
    return {"loss": losses.mean(), "accuracy": (chosen > rejected).mean(),
            "reward_chosen": beta * chosen.mean(), "reward_rejected": beta * rejected.mean()}


def preference_case(name, params, has_tokens=False, has_pair_mask=False, pairs=5, columns=7):
    x = {}
    for side in ("chosen", "rejected"):
        length = RNG.integers(2, columns + 1, pairs)
        shape = (pairs, columns) if has_tokens else (pairs,)
        width = 1.0 if has_tokens else 4.0
        x["policy_" + side] = -np.abs(numbers(*shape, mean=-width, width=width))
        if params["loss"] != "simpo":
            drift = numbers(*shape, width=0.8)
            x["ref_" + side] = np.round(np.minimum(x["policy_" + side] + drift, -0.001), 4)
        if has_tokens:
            mask = (np.arange(columns) < length[:, None]).astype(int)
            mask[1, 0] = 0  # a hole before counted tokens
            for key in ("policy_" + side, "ref_" + side):
                if key in x:
                    x[key] = np.where(mask == 1, x[key], np.nan)
            x["mask_" + side] = mask
        else:
            x["length_" + side] = length
    if has_pair_mask:
        x["mask"] = np.arange(pairs) % 3 != 1
        for key in x:
            if key.startswith(("policy_", "ref_")):
                x[key][x["mask"] == 0] = np.nan
        x["mask"] = x["mask"].astype(int)
    names = ["policy_chosen", "policy_rejected"]
    live = {key: ~np.isnan(x[key]) for key in names}
    outputs = with_gradients(lambda at: preference(at, params), x, names, live)
    return {"id": name, "kind": "preference", "params": params, "inputs": x, "outputs": outputs}


def reward_model_case(name, center, has_margin=False, has_pair_mask=False, pairs=6):
    x = {"chosen": numbers(pairs, mean=0.4), "rejected": numbers(pairs)}
    if has_margin:
        x["margin"] = np.abs(numbers(pairs))
    mask = np.ones(pairs) == 1
    if has_pair_mask:
        mask[[0, 4]] = False
        for key in x:
            x[key][~mask] = np.nan
        x["mask"] = mask.astype(int)

    def function(at):
        lead = (at["chosen"] - at["rejected"] - at.get("margin", 0.0))[mask]
        centre = ((at["chosen"] + at["rejected"])[mask] ** 2).mean()
        return {"loss": -log_sigmoid(lead).mean() + center * centre,
                "accuracy": (at["chosen"] > at["rejected"])[mask].mean()}

    names = ["chosen", "rejected"]
    outputs = with_gradients(function, x, names, dict.fromkeys(names, mask))
    return {"id": name, "kind": "reward_model", "params": {"center_rewards_coefficient": center},
            "inputs": x, "outputs": outputs}


def distillation_case(name, beta, temperature, shape=(3, 4, 5)):
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]])
    x = {"student_logits": numbers(*shape, width=2.0), "teacher_logits": numbers(*shape, width=2.0)}
    for logits in x.values():
        logits[mask == 0] = np.nan
    x["mask"] = mask

    def log_softmax(logits):
        scaled = logits[mask == 1] / temperature
        return scaled - np.log(np.exp(scaled).sum(-1, keepdims=True))

    def divergence(p, q):
        return (np.exp(p) * (p - q)).sum(-1)

    def function(at):
        student, teacher = log_softmax(at["student_logits"]), log_softmax(at["teacher_logits"])
        if beta == 0:
            losses = divergence(teacher, student)
        elif beta == 1:
            losses = divergence(student, teacher)
        else:
            mix = np.log(beta * np.exp(teacher) + (1 - beta) * np.exp(student))
            losses = beta * divergence(teacher, mix) + (1 - beta) * divergence(student, mix)
        return {"loss": losses.mean()}

    live = {"student_logits": np.repeat((mask == 1)[..., None], shape[-1], -1)}
    outputs = with_gradients(function, x, ["student_logits"], live)
    return {"id": name, "kind": "distillation",
            "params": {"beta": beta, "temperature": temperature}, "inputs": x, "outputs": outputs}


def objective_case(name, objective, params, shape=(3, 4, 6)):
    """The objectives of docs/distillation.md by ROLL's keys."""
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]])
    x = {"student_logits": numbers(*shape, width=2.0), "teacher_logits": numbers(*shape, width=2.0)}
    for logits in x.values():
        logits[mask == 0] = np.nan
    x["mask"] = mask
    temperature, of_teacher = params.get("kd_temperature", 1), params.get("teacher_temperature", 1)
    alpha, skew = params.get("adaptive_kl_alpha", 0.5), params.get("skew_lambda", 0.1)
    count = params.get("logits_topk", 0) or shape[-1]
    best = np.argsort(-x["teacher_logits"][mask == 1], -1)[:, :count]

    def softmax(logits):
        kept = np.take_along_axis(logits[mask == 1], best, -1)
        return np.exp(kept) / np.exp(kept).sum(-1, keepdims=True)

    def kl(p, q):
        return (p * np.log(p / q)).sum(-1)

    def weight(s, q):
        order = np.argsort(q, -1)
        gap = np.take_along_axis(np.abs(q - s), order, -1)
        tail = np.cumsum(np.take_along_axis(q, order, -1), -1) <= alpha
        return (gap * ~tail).sum(-1) / gap.sum(-1)

    q = softmax(x["teacher_logits"] / temperature / of_teacher)
    held = weight(softmax(x["student_logits"] / temperature), q)  # no gradient goes through it

    def function(at):
        s = softmax(at["student_logits"] / temperature)
        if objective == "forward_kl":
            losses = kl(q, s)
        elif objective == "reverse_kl":
            losses = kl(s, q)
        elif objective == "adaptive_kl":
            losses = held * kl(q, s) + (1 - held) * kl(s, q)
        elif objective == "skewed_forward_kl":
            losses = kl(q, skew * q + (1 - skew) * s)
        elif objective == "skewed_reverse_kl":
            losses = kl(s, (1 - skew) * q + skew * s)
        else:
            m = np.log((s + q) / 2 + 1e-9)
            of_q, of_s = q * (np.log(q + 1e-9) - m), s * (np.log(s + 1e-9) - m)
            losses = (of_q.sum(-1) + of_s.sum(-1)) / 2
        return {"loss": losses.mean()}

    live = {"student_logits": np.repeat((mask == 1)[..., None], shape[-1], -1)}
    outputs = with_gradients(function, x, ["student_logits"], live)
    return {"id": name, "kind": "distillation", "params": {"kd_objective": objective, **params},
            "inputs": x, "outputs": outputs}


def opd_case(name, coef, rows=3, columns=5):
    mask = (np.arange(columns) < np.array([[5], [0], [3]])).astype(int)
    draw = lambda mean: np.where(mask == 1, numbers(rows, columns, mean=mean), np.nan)
    x = {"sampled_log_probs": draw(-2.0), "teacher_log_probs": draw(-2.0),
         "task_advantages": draw(0.0), "mask": mask}
    lead = x["teacher_log_probs"] - x["sampled_log_probs"]
    outputs = {"pure": np.where(mask == 1, lead, 0.0),
               "mixed": np.where(mask == 1, x["task_advantages"] + coef * lead, 0.0)}
    return {"id": name, "kind": "opd", "params": {"coef": coef}, "inputs": x, "outputs": outputs}


def cases():
    losses = {"dpo": {"loss": "sigmoid", "beta": 0.1},
              "cdpo": {"loss": "sigmoid", "beta": 0.3, "label_smoothing": 0.2},
              "dpo-means": {"loss": "sigmoid", "beta": 1.5, "length": "mean"},
              "robust": {"loss": "robust", "beta": 0.2, "label_smoothing": 0.15},
              "hinge": {"loss": "hinge", "beta": 1.2},
              "ipo-sums": {"loss": "ipo", "beta": 0.2},
              "ipo-means": {"loss": "ipo", "beta": 0.2, "length": "mean"},
              "simpo": {"loss": "simpo", "beta": 2.0, "gamma_beta_ratio": 0.5}}
    for name, params in losses.items():
        yield preference_case(name, params)
        yield preference_case(name + "-tokens", params, has_tokens=True)
    yield preference_case("dpo-masked-pairs", losses["dpo"], has_pair_mask=True)
    yield preference_case("simpo-masked-pairs", losses["simpo"], True, True)
    yield preference_case("ipo-means-masked-pairs", losses["ipo-means"], True, True)
    yield reward_model_case("bradley-terry", 0.0)
    yield reward_model_case("margin", 0.0, has_margin=True)
    yield reward_model_case("margin-centre-masked-pairs", 0.01, True, True)
    for beta, temperature in ((0, 1), (1, 1), (0, 2), (1, 0.7), (0.5, 1), (0.1, 1), (0.7, 0.8)):
        yield distillation_case(f"gkd-{beta}-{temperature}", beta, temperature)
    yield opd_case("on-policy", 0.5)
    yield opd_case("on-policy-strong", 2.0)
    for objective in ("forward_kl", "reverse_kl", "adaptive_kl", "skewed_forward_kl",
                      "skewed_reverse_kl", "js_divergence"):
        yield objective_case(f"kd-{objective}", objective, {})
        yield objective_case(f"kd-{objective}-top", objective,
                             {"logits_topk": 3, "kd_temperature": 2.0, "teacher_temperature": 0.7,
                              "adaptive_kl_alpha": 0.3, "skew_lambda": 0.4})


def plain(value):
    """Returns what JSON can hold; NaN in quotes, as `actor-node evaluate` takes it."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, (float, np.floating)):
        return "NaN" if np.isnan(value) else float(f"{value:.12g}")
    return value


def main():
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data"
    lines = ",\n".join(json.dumps(plain(case)) for case in cases())
    (folder / "preference_cases.json").write_text('{"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
