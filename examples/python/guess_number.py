"""An environment: find a number between 1 and 20 by "higher" and "lower"."""

import random
import re


class GuessNumber:
    instructions = "I think of a number from 1 to 20. Answer with <answer>NUMBER</answer>."

    def __init__(self, limit=20, max_guesses=6):
        self.limit, self.max_guesses = limit, max_guesses

    def reset(self, seed):
        self.number = random.Random(seed).randint(1, self.limit)
        self.guesses = 0
        return "Your first guess?"

    def actions_left(self):
        return self.max_guesses - self.guesses

    def metrics(self):
        return {"guesses": self.guesses}

    def step(self, answer):
        self.guesses += 1
        found = re.search(r"<answer>\s*(\d+)\s*</answer>", answer)
        is_last = self.guesses >= self.max_guesses
        if not found:
            return "I saw no number.", -0.1, is_last, {"valid": False}
        guess = int(found.group(1))
        if guess == self.number:
            return "Right!", 1.0, True, {"success": True, "stop_reason": "goal"}
        hint = "Higher." if guess < self.number else "Lower."
        return hint, 0.0, is_last, {"event": hint.lower().rstrip(".")}
