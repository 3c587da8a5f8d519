"""1 if the answer ended and what stands behind its last `marker` is the ground truth, else 0.

The built-in reward `exact` in Python: the same scores, so a run gives the same hashes with either.
"""

SPACE = " \t\n\v\f\r"  # strip() alone takes all of Unicode's


def score(response, ground_truth, is_finished, marker="####", requires_finish=True):
    _, found, answer = response.rpartition(marker)
    if not found:
        return {"score": 0.0, "detail": "no '%s'" % marker}
    answer = answer.strip(SPACE)
    is_right = answer == ground_truth.strip(SPACE)
    counts = is_finished or not requires_finish
    return {
        "score": float(is_right and counts),
        "acc": is_right,
        "finished": is_finished,
        "detail": "pred " + answer,
    }
