"""Rewards with a fault that the first step's checks are to name."""


def no_number(data_source, solution_str, ground_truth, extra_info=None):
    return float("nan")


def of_the_prompt(data_source, solution_str, ground_truth, extra_info=None):
    return float(ground_truth)
