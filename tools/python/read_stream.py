#!/usr/bin/env python3
"""Reads the trajectories of a run into Python: from its stream, or from `traj export --jsonl`.

usage: read_stream.py RUN|FILE.jsonl [--step N] [--kind K] [--jsonl]
       without --jsonl: a line per trajectory; with it: the objects of `traj export --jsonl -`

As a module:
    from read_stream import trajectories
    for t in trajectories("output/frozen_lake/RUN"):
        print(t["step"], t["group"], t["index"], t["score"], sum(t["behavior_logp"]))
    for t in trajectories("RUN", as_numpy=True):    # columns are numpy arrays, not lists
        print(t["behavior_logp"][t["response_mask"] == 1].mean())

Needs nothing but Python 3.8; numpy only for as_numpy, libzstd only for a packed stream. The bytes
are those of docs/stream.md. Python has no xxh3 of its own, so checksums are not looked at: `traj
verify RUN` does that.
"""

import argparse
import array
import ctypes
import ctypes.util
import json
import os
import struct
import sys

KINDS = ("train", "val", "val_greedy", "warm_start")
TYPES = ("", "run_config", "plan", "trajectory", "phase", "weight_version", "advantages",
         "step_result", "event", "checkpoint")
FORMAT_MAX, SEGMENT_HEADER, PREFIX, ALIGNMENT = 2, 128, 64, 64
HAS_STEP, HAS_TRAJECTORY, IS_PACKED = 1, 2, 4

# Columns by id, and array's and numpy's name of a dtype by its number.
COLUMNS = {1: "tokens", 2: "response_mask", 3: "behavior_logp", 4: "ref_logp", 5: "values",
           6: "token_rewards", 7: "token_versions", 8: "teacher_logp"}
DTYPES = {1: ("f", "<f4"), 3: ("i", "<i4"), 4: ("B", "u1"), 5: ("I", "<u4")}

# Fields of the header by number (runtime/proto/cohort.proto): name, and how to read the bytes.
TEXT, WHOLE, F32, F64, TRUTH = range(5)
TRAJECTORY = {1: ("run_id", TEXT), 2: ("kind", WHOLE), 3: ("step", WHOLE), 4: ("group", WHOLE),
              5: ("index", WHOLE), 6: ("attempt", WHOLE), 7: ("tag", TEXT), 8: ("seed", WHOLE),
              9: ("prompt_id", TEXT), 10: ("weight_version_min", WHOLE),
              11: ("weight_version_max", WHOLE), 12: ("stop_reason", TEXT),
              13: ("generate_seconds", F64), 14: ("env_seconds", F64), 15: ("score", F64),
              20: ("mask_reason", TEXT), 23: ("is_greedy", TRUTH), 21: ("data_source", TEXT),
              22: ("ground_truth", TEXT)}
REWARD_PART = {1: ("name", TEXT), 2: ("value", F64), 3: ("weight", F64), 4: ("detail", TEXT)}
METRIC = {1: ("name", TEXT), 2: ("value", F64)}
TURN = {1: ("response_begin", WHOLE), 2: ("response_end", WHOLE), 3: ("env_reward", F32),
        4: ("is_valid", TRUTH), 5: ("is_effective", TRUTH), 6: ("observation", TEXT),
        7: ("response", TEXT), 8: ("context_begin", WHOLE)}
ABSENT = {TEXT: "", WHOLE: 0, F32: 0.0, F64: 0.0, TRUTH: False}


class StreamError(ValueError):
    """The bytes are not those of a stream; `traj verify` names the damage."""


# -- protobuf, as far as headers need it ---------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields_of(data):
    """Yields (number, value) of each field: an int, or the bytes of any other."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if wire == 2:
                size, at = varint(data, at)
            if size is None or at + size > len(data):
                raise StreamError(f"field {number} of a header does not parse")
            value, at = data[at : at + size], at + size
        yield number, value


def value_of(how, raw):
    if how == TEXT:
        return bytes(raw).decode("utf-8", errors="replace")
    if how == TRUTH:
        return raw != 0
    return struct.unpack("<f" if how == F32 else "<d", raw)[0] if how in (F32, F64) else raw


def message_of(schema, data):
    """Returns {name: value} in the order of the schema; what is absent has its default."""
    found = {name: ABSENT[how] for name, how in schema.values()}
    for number, raw in fields_of(data):
        if number in schema:
            name, how = schema[number]
            found[name] = value_of(how, raw)
    return found


def column_of(data, columns, as_numpy):
    """Returns (name, entries) of one column; the name is None of one that a newer writer added."""
    place = dict(fields_of(data))
    name, dtype = COLUMNS.get(place.get(1)), DTYPES.get(place.get(2))
    if name is None:
        return None, None
    if dtype is None:
        raise StreamError(f"column {name}: dtype {place.get(2)} is not known")
    entries = array.array(dtype[0])
    begin, size = place.get(3, 0), place.get(4, 0) * entries.itemsize
    if begin + size > len(columns):
        raise StreamError(f"column {name} ends outside the record")
    if as_numpy:
        import numpy

        return name, numpy.frombuffer(columns[begin : begin + size], dtype=dtype[1])
    entries.frombytes(columns[begin : begin + size])
    if sys.byteorder == "big":
        entries.byteswap()
    return name, entries.tolist()


def trajectory_of(header, columns, as_numpy=False):
    """Returns the trajectory of a record as `traj export --jsonl` has it."""
    batch = [value for number, value in fields_of(header) if number == 3]
    if len(batch) != 1:
        raise StreamError(f"a record holds {len(batch)} trajectories, not one")
    found = message_of(TRAJECTORY, batch[0])
    found["kind"] = KINDS[found["kind"]]
    parts, metrics, turns, data = [], {}, [], {}
    for number, value in fields_of(batch[0]):
        if number == 16:
            parts.append(message_of(REWARD_PART, value))
        elif number == 17:
            metric = message_of(METRIC, value)
            metrics[metric["name"]] = metric["value"]
        elif number == 18:
            turns.append(message_of(TURN, value))
        elif number == 19:
            name, entries = column_of(value, columns, as_numpy)
            if name is not None:
                data[name] = entries
    found.update(reward_parts=parts, metrics=metrics, turns=turns)
    for name in COLUMNS.values():
        found[name] = data[name] if name in data else []
    return found


# -- the stream ------------------------------------------------------------------


def stream_folder(run):
    """Returns RUN/stream of a run folder, or RUN if it is the stream itself."""
    for folder in (os.path.join(run, "stream"), run):
        if os.path.isdir(folder) and any(n.endswith(".cohort") for n in os.listdir(folder)):
            return folder
    raise StreamError(f"{run}: neither a run folder nor a stream (no segment-*.cohort)")


def align_up(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


def zstd():
    """Returns libzstd, which Debian's own package tool needs; Python has none before 3.14."""
    if zstd.library is None:
        name = ctypes.util.find_library("zstd")
        if name is None:
            raise StreamError("the stream is packed, and there is no libzstd here; "
                              "`traj compact RUN -o OUT --compression none` unpacks it")
        zstd.library = ctypes.CDLL(name)
        for function, result in (("ZSTD_getFrameContentSize", ctypes.c_ulonglong),
                                 ("ZSTD_decompress", ctypes.c_size_t)):
            getattr(zstd.library, function).restype = result
    return zstd.library


zstd.library = None


def unpacked(frame):
    """Returns the content of a zstd frame."""
    source = (ctypes.c_char * len(frame)).from_buffer_copy(frame)
    size = zstd().ZSTD_getFrameContentSize(source, ctypes.c_size_t(len(frame)))
    if size > 1 << 30:  # the two numbers that stand for errors are greater
        raise StreamError("a packed record is damaged (traj verify RUN)")
    content = ctypes.create_string_buffer(max(1, size))
    done = zstd().ZSTD_decompress(content, ctypes.c_size_t(size), source,
                                  ctypes.c_size_t(len(frame)))
    if done != size:
        raise StreamError("a packed record is damaged (traj verify RUN)")
    return memoryview(content).cast("B")[:size]


class Record:
    """A record's type, number and key, and its bytes on demand."""

    def __init__(self, path, at, prefix):
        (self._path, self._at) = (path, at)
        (kind_of, kind, flags, self._header, group, self._columns, self.number, step, index,
         self.attempt) = struct.unpack("<4xHBBIIQQQII", prefix[:48])
        self.type = TYPES[kind_of] if 0 < kind_of < len(TYPES) else "unknown"
        self.step = step if flags & HAS_STEP else None
        self.key = (kind, step, group, index) if flags & HAS_TRAJECTORY else None
        self._is_packed = bool(flags & IS_PACKED)  # then _columns is the size of the frame
        before = 0 if self._is_packed else align_up(self._header)
        self.size = PREFIX + before + align_up(self._columns)

    def read(self):
        """Returns (header, columns)."""
        with open(self._path, "rb") as file:
            file.seek(self._at + PREFIX)
            body = memoryview(file.read(self.size - PREFIX))
        if self._is_packed:
            content = unpacked(body[: self._columns])
            return content[: self._header], content[self._header :]
        begin = align_up(self._header)
        return body[: self._header], body[begin : begin + self._columns]

    def trajectory(self, as_numpy=False):
        return trajectory_of(*self.read(), as_numpy=as_numpy)

    def json(self):
        """Of any other record."""
        return json.loads(bytes(self.read()[0]))


def records(run):
    """Yields each Record in the order written. A torn tail of the last segment is the end."""
    folder = stream_folder(run)
    names = sorted(n for n in os.listdir(folder) if n.endswith(".cohort"))
    for name in names:
        path = os.path.join(folder, name)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(SEGMENT_HEADER)
            if len(head) < SEGMENT_HEADER and name == names[-1]:
                return
            if head[:8] != b"COHORTS\n":
                raise StreamError(f"{path}: is no segment of a stream")
            version = struct.unpack("<H", head[8:10])[0]
            if version > FORMAT_MAX:
                raise StreamError(f"{path}: format {version}, this reader knows {FORMAT_MAX}")
            at = SEGMENT_HEADER
            while at < size:
                file.seek(at)
                prefix = file.read(PREFIX)
                whole = len(prefix) == PREFIX and prefix[:4] == b"CREC"
                record = Record(path, at, prefix) if whole else None
                if record is None or at + record.size > size:
                    if name == names[-1]:
                        return
                    raise StreamError(f"{path} at {at}: no whole record (traj verify RUN)")
                yield record
                at += record.size


def trajectories(source, step=None, kind=None, as_numpy=False):
    """Yields trajectories as dicts: of a .jsonl in its order, of a run the newest record of each
    key in the order of kind, step, group, index."""

    def is_wanted(k, s):
        return (step is None or s == step) and (kind is None or k == kind)

    if os.path.isfile(source):
        with open(source, encoding="utf-8") as file:
            for line in file:
                found = json.loads(line)
                if is_wanted(found["kind"], found["step"]):
                    yield with_numpy(found) if as_numpy else found
        return
    newest = {record.key: record for record in records(source) if record.key is not None}
    for key in sorted(newest):
        if is_wanted(KINDS[key[0]], key[1]):
            yield newest[key].trajectory(as_numpy)


def with_numpy(found):
    import numpy

    types = {"tokens": "<i4", "response_mask": "u1", "token_versions": "<u4"}
    for name in COLUMNS.values():
        found[name] = numpy.array(found[name], dtype=types.get(name, "<f4"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("source", metavar="RUN|FILE.jsonl")
    parser.add_argument("--step", type=int)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--jsonl", action="store_true", help="as `traj export --jsonl -`")
    words = parser.parse_args()
    try:
        for t in trajectories(words.source, words.step, words.kind):
            if words.jsonl:
                print(json.dumps(t, ensure_ascii=False, separators=(",", ":")))
            else:
                print(f"{t['kind']} {t['step']}/{t['group']}/{t['index']} score {t['score']:.3f} "
                      f"turns {len(t['turns'])} tokens {len(t['tokens'])} {t['stop_reason']}")
    except (OSError, KeyError, IndexError, ValueError) as error:
        print(f"read_stream.py: {words.source}: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
