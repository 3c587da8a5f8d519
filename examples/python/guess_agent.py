"""An agent: a program that asks a server which speaks OpenAI's protocol, as it would in production.
In a run the policy in training answers. It finds a number between 1 and 20; any client will do
(openai.OpenAI(base_url=base_url, api_key="none")), this one needs Python's standard library alone.
"""

import json
import random
import re
import urllib.request


def chat(base_url, messages, **more):
    """Returns the assistant's message."""
    body = json.dumps({"model": "policy", "messages": messages, **more}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(base_url + "/chat/completions", body, head)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


class GuessAgent:
    def __init__(self, limit=20, max_guesses=6):
        self.limit, self.max_guesses = limit, max_guesses

    def run(self, seed, base_url):
        """Plays one episode. Returns its reward, or a dict with reward, success and metrics."""
        number = random.Random(seed).randint(1, self.limit)
        messages = [{"role": "user", "content": "Guess a number from 1 to %d." % self.limit}]
        for guesses in range(1, self.max_guesses + 1):
            message = chat(base_url, messages)
            found = re.search(r"\d+", message["content"])
            guess = int(found.group()) if found else 0
            if guess == number:
                return {"reward": 1.0, "success": True, "metrics": {"guesses": guesses}}
            hint = "Higher." if guess < number else "Lower."
            messages += [message, {"role": "user", "content": hint}]
        return {"reward": 0.0, "metrics": {"guesses": self.max_guesses}}
