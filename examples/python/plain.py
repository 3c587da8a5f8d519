"""Without a framework's signature: one row as a dict, all rows, or the fields one asks for."""


def by_row(row):
    return row["response"].strip() == row["ground_truth"]


def by_rows(rows):
    """All answers of a call together: the longest gets 1."""
    longest = max(len(row["response"]) for row in rows)
    return [len(row["response"]) / max(longest, 1) for row in rows]


def by_fields(response, ground_truth, weight=1.0):
    return {"score": weight * (ground_truth in response), "detail": "looked for " + ground_truth}
