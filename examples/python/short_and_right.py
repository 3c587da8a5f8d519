"""TRL's signature: 1 for a right answer, less for each word beyond `words`.

Completions are strings, or lists of messages where the prompt is a list of messages.
"""


def short_and_right(prompts, completions, ground_truth, words=20, **columns):
    scores = []
    for completion, truth in zip(completions, ground_truth):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        if not text.strip():
            scores.append(0.0)  # None would leave the trajectory without a score
            continue
        is_right = text.strip().endswith(truth)
        surplus = max(0, len(text.split()) - words)
        scores.append(is_right - 0.01 * surplus)
    return scores
