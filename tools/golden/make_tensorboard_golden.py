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
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c

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
    texts = {}
    for tag in sorted(tags["tensors"]):
        texts[tag] = reader.Tensors(tag)[0].tensor_proto.string_val[0].decode()
    return {"file_version": reader.file_version, "scalars": scalars, "texts": texts}


def main():
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, event_name in FILES.items():
            shutil.copy(DATA / name, pathlib.Path(folder) / event_name)
            content = (DATA / name).read_bytes()
            files[name] = {"bytes": len(content), "crc32c": crc32c(content)}
        seen = {"reader": "tensorboard " + tensorboard.__version__, "files": files}
        seen.update(read(folder))
    text = json.dumps(seen, indent=1) + "\n"
    (DATA / "tensorboard_read.json").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
