"""The reward of configs/arithmetic_rlvr.yaml and word_problems_rlvr.yaml, as a plugin: 1 if the
answer was ended and what follows its last marker is the ground truth. Built in it is `type: exact`."""


def score(response, ground_truth, is_finished, marker=";"):
    head, found, answer = response.rpartition(marker)
    return float(bool(found) and is_finished and answer.strip() == ground_truth.strip())
