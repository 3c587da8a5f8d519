"""Rewards and a world that never answer, each in its own way."""
import threading
import time


def sleeps(solution_str, **_):
    time.sleep(3600)


def locks_itself(solution_str, **_):
    lock = threading.Lock()
    with lock:
        with lock:
            return 0


def searches(solution_str, **_):
    while True:
        pass


class World:
    def reset(self, seed):
        return "go"

    def step(self, answer):
        time.sleep(3600)
