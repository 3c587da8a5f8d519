"""OpenRLHF's signature: queries are prompt + answer."""


def reward_func(queries, prompts, labels):
    answers = [query[len(prompt) :] for query, prompt in zip(queries, prompts)]
    rewards = [float(label in answer) for answer, label in zip(answers, labels)]
    return {"rewards": rewards, "extra_logs": {"chars": [len(answer) for answer in answers]}}
