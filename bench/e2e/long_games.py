"""An environment of bench/e2e/async_bench.py: games whose number of turns is log-normal. A turn
shows one of four symbols and asks for its direction; the return is the share of right answers."""

import math
import random
import re

DIRECTIONS = {"P": "Left", "O": "Down", "G": "Right", "X": "Up"}


class LongGames:
    def __init__(self, median=6, p99=60):
        self.mu, self.p99 = math.log(median), p99
        self.sigma = (math.log(p99) - self.mu) / 2.326  # the 99th percentile of a normal variable

    def reset(self, seed):
        self.random = random.Random(seed)
        turns = round(self.random.lognormvariate(self.mu, self.sigma))
        self.turns = max(1, min(self.p99, turns))
        self.played = self.right = 0
        return self.show()

    def show(self):
        self.symbol = self.random.choice(sorted(DIRECTIONS))
        return self.symbol

    def actions_left(self):
        return self.turns - self.played

    def metrics(self):
        return {"right": self.right / max(1, self.played)}

    def step(self, answer):
        self.played += 1
        found = re.search(r"<answer>(.*?)</answer>", answer)
        is_right = found is not None and found.group(1) == DIRECTIONS[self.symbol]
        self.right += is_right
        is_done = self.played >= self.turns
        more = {"valid": found is not None, "effective": is_right}
        if is_done:
            more |= {"success": self.right == self.turns, "stop_reason": "played"}
        return self.show(), is_right / self.turns, is_done, more
