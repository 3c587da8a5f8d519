"""One function that fails in the way its row asks for."""

import os
import signal
import sys
import time


def fail(row):
    what = row["response"]
    if what == "hang":
        time.sleep(3600)
    if what == "spin":
        while True:
            pass
    if what == "exit":
        os._exit(3)
    if what == "sys_exit":
        sys.exit(4)
    if what == "raise":
        raise ValueError("not this one")
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(3600)
    if what == "memory":
        return len(bytearray(64 << 30))
    if what == "fork":
        os.fork()  # both go on, and both answer
    if what == "fork_and_exit":
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(5)
    if what == "children":
        for _ in range(8):
            if os.fork() == 0:
                time.sleep(3600)
        time.sleep(3600)
    if what == "print":
        print("x" * 300_000)
        sys.stdout.flush()
        os.write(1, b"\0" * 200_000)
    if what == "garbage":
        for fd in range(100, 110):
            try:
                os.write(fd, b"no frame of anybody, " * 10)
            except OSError:
                pass
    if what == "close":
        os.closerange(3, 200)
    if what == "none":
        return None
    if what == "nan":
        return float("nan")
    if what == "text":
        return "1.0"
    if what == "no_score":
        return {"accuracy": 1}
    return len(what)


def fail_together(rows):
    """The same for all rows of a call; "short" leaves one result out."""
    scores = [fail(row) for row in rows]
    return scores[:-1] if any(row["response"] == "short" for row in rows) else scores


def once(row):
    """Fails the first time that a row is seen by anybody: /tmp is the child's own."""
    if row["response"] == "twice" and not os.path.exists("/tmp/seen"):
        open("/tmp/seen", "w").close()
        raise RuntimeError("first time")
    return 1.0
