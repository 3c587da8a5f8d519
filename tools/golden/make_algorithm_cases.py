#!/usr/bin/env python3
"""Writes tests/golden/data/algorithm_cases.json: cases of `actor-node evaluate` with their outputs.

Every formula is written a second time, in advantage_cases.py and kl_value_cases.py, from the
equations of docs/algorithms.md. Needs numpy: python3 tools/golden/make_algorithm_cases.py
"""

import json
import os

from advantage_cases import as_trl, compared, recursions, turns
from case_batch import CASES
from kl_value_cases import entropies, filters, integers, kl_forms, value_forms


def main():
    for family in (
        compared,
        recursions,
        turns,
        as_trl,
        kl_forms,
        value_forms,
        entropies,
        filters,
        integers,
    ):
        family()
    path = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/data/algorithm_cases.json"
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in CASES) + "\n]\n")
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
