"""verl's signature: 1 when the last number of the answer is the ground truth."""

import re

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    numbers = NUMBER.findall(solution_str)
    found = numbers[-1].replace(",", "") if numbers else ""
    is_right = found == ground_truth.strip()
    return {"score": float(is_right), "found": found, "numbers": len(numbers)}
