"""Tools that a test calls: those that answer, and every way to fail."""

import asyncio
import os
import signal
import sys
import time


def echo(text: str, times: int = 1, mode: str = "plain"):
    """Says a text.

    Args:
        text: what is said,
            on two lines
        times (int): how often
    """
    return text * times


def number(value: float):
    return {"value": value, "twice": 2 * value}


async def waits(seconds: float):
    await asyncio.sleep(seconds)
    return "waited"


def raises():
    raise ValueError("not this one")


def hangs():
    while True:
        time.sleep(1)


def stuck(code: str):
    while True:
        pass


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def huge(size: int):
    return "x" * size


def floods():
    """Writes into the pipe of the answers, past the child's own bound."""
    head = (1 << 20).to_bytes(4, "little") + (2).to_bytes(4, "little") + b"\x05"
    for fd in range(100, 110):
        try:
            os.write(fd, head + b"x" * 65536)
        except OSError:
            pass
    time.sleep(60)


def binary():
    sys.stdout.write("a print goes nowhere")
    return "a\udcffb\0c"


class Squares:
    """verl's form of a tool."""

    def __init__(self, config, tool_schema):
        self.offset = config.get("offset", 0)
        self.open = 0
        self.tool_schema = tool_schema or {
            "type": "function",
            "function": {"name": "square", "description": "", "parameters": {}},
        }

    async def create(self, instance_id=None, **kwargs):
        self.open += 1
        return "instance", None

    async def execute(self, instance_id, parameters, **kwargs):
        return "%d of %s, %d open" % (
            parameters["x"] ** 2 + self.offset, instance_id, self.open), 0.5, {}

    async def release(self, instance_id, **kwargs):
        self.open -= 1
