#!/usr/bin/env python3
"""Reads our TensorBoard golden files with the tensorboard package, notes what it saw.

  1. COHORT_UPDATE_GOLDEN=1 ctest -R golden.observe_golden_test      (writes the .bin files)
  2. python3 -m venv /tmp/tb && /tmp/tb/bin/pip install tensorboard
  3. /tmp/tb/bin/python tools/golden/make_tensorboard_golden.py      (writes tensorboard_read.json)

The golden test compares our bytes with the .bin files, and the .json with what must have been read.
"""

import json
import pathlib
import shutil
import tempfile

import tensorboard
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c
from tensorboard.context import RequestContext
from tensorboard.util import tensor_util

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data"
FILES = {
    "tensorboard_first.bin": "events.out.tfevents.1700000000.golden.cohort",
    "tensorboard_resumed.bin": "events.out.tfevents.1700000100.golden.cohort",
}


def read(folder):
    sizes = {"scalars": 0, "tensors": 0}  # 0 = keep all
    reader = event_accumulator.EventAccumulator(folder, size_guidance=sizes)
    reader.Reload()
    tags = reader.Tags()
    scalars = {}
    for tag in sorted(tags["scalars"]):
        scalars[tag] = [[event.step, event.value] for event in reader.Scalars(tag)]
    texts, histograms = {}, {}
    for tag in sorted(tags["tensors"]):
        plugin = reader.SummaryMetadata(tag).plugin_data.plugin_name
        of = texts if plugin == "text" else histograms
        of[tag] = []
        for event in reader.Tensors(tag):
            array = tensor_util.make_ndarray(event.tensor_proto)
            value = array.item().decode() if plugin == "text" else array.tolist()
            of[tag].append([event.step, value])
    seen = {"file_version": reader.file_version, "scalars": scalars}
    return seen | {"texts": texts, "histograms": histograms}


def listed(folder):
    """The tags that TensorBoard's pages list, by the kind of data."""
    sizes = {"tensors": 0, "scalars": 0}
    multiplexer = plugin_event_multiplexer.EventMultiplexer(size_guidance=sizes)
    multiplexer.AddRunsFromDirectory(folder)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, folder)
    found = {"scalars": [], "tensors": []}
    for plugin in ("scalars", "histograms", "text"):
        of = {"experiment_id": "", "plugin_name": plugin}
        for run in provider.list_tensors(RequestContext(), **of).values():
            found["tensors"] += [f"{plugin}: {tag}" for tag in sorted(run)]
        for run in provider.list_scalars(RequestContext(), **of).values():
            found["scalars"] += [f"{plugin}: {tag}" for tag in sorted(run)]
    return found


def main():
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, event_name in FILES.items():
            shutil.copy(DATA / name, pathlib.Path(folder) / event_name)
            content = (DATA / name).read_bytes()
            files[name] = {"bytes": len(content), "crc32c": crc32c(content)}
        seen = {"reader": "tensorboard " + tensorboard.__version__, "files": files}
        seen.update(read(folder))
        seen["listed"] = listed(folder)
    text = json.dumps(seen, indent=1) + "\n"
    (DATA / "tensorboard_read.json").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
