"""An async reward: all rows of a call wait at the same time, each with its own deadline.

A judge behind HTTP looks like this, with the request in the place of the sleep; it needs
`sandbox: {network: true}`.
"""

import asyncio


async def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0.01)
    return float(ground_truth in solution_str)
