#!/usr/bin/env python3
"""Turns parquet files into the jsonl that Cohort reads, one JSON object per row.

    python3 tools/parquet_to_jsonl.py train.parquet [more.parquet …] [--out FOLDER] [--columns a,b]

Each x.parquet becomes x.jsonl beside it (or in FOLDER), under its name only when it is whole. Lists
and structs become lists and objects (verl's prompt, reward_model, extra_info); bytes become base64
text and NaN null, which is said. Needs pyarrow: pip install pyarrow.
"""

import argparse
import base64
import datetime
import decimal
import json
import math
import os
import sys


def plain(value, lost):
    """Returns what JSON can hold of a value; names of what it cannot hold go into `lost`."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        lost.add("NaN or infinity as null")
        return None
    if isinstance(value, dict):
        return {str(key): plain(item, lost) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, lost) for item in value]
    if isinstance(value, (bytes, bytearray)):
        lost.add("bytes as base64")
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"a value of type {type(value).__name__}")


def convert(parquet, path, target, columns):
    """Writes target.  Returns (rows, set of what was lost)."""
    source = parquet.ParquetFile(path)
    missing = [name for name in columns or [] if name not in source.schema_arrow.names]
    if missing:
        there = ", ".join(source.schema_arrow.names)
        raise ValueError(f"no column {', '.join(missing)}; there is {there}")
    rows, lost = 0, set()
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            for batch in source.iter_batches(batch_size=1024, columns=columns):
                for row in batch.to_pylist():
                    try:
                        line = json.dumps(plain(row, lost), ensure_ascii=False, allow_nan=False)
                    except TypeError as error:
                        raise ValueError(f"row {rows}: {error} has no JSON") from error
                    file.write(line + "\n")
                    rows += 1
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return rows, lost


def main():
    parser = argparse.ArgumentParser(description="parquet files to jsonl, one JSON object per row")
    parser.add_argument("files", nargs="+", help="*.parquet")
    parser.add_argument("--out", help="folder of the new files; default: beside each file")
    parser.add_argument(
        "--columns", type=lambda text: text.split(","), help="only these, with commas"
    )
    options = parser.parse_args()
    try:
        from pyarrow import parquet
    except ImportError as error:
        sys.exit(f"parquet_to_jsonl.py: needs pyarrow ({error}): pip install pyarrow")
    for path in options.files:
        name = os.path.splitext(os.path.basename(path))[0] + ".jsonl"
        target = os.path.join(options.out or os.path.dirname(path), name)
        try:
            if options.out:
                os.makedirs(options.out, exist_ok=True)
            rows, lost = convert(parquet, path, target, options.columns)
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors or OSErrors
            sys.exit(f"parquet_to_jsonl.py: {path}: {error}")
        print(f"{target}: {rows} rows" + "".join(f"; {what}" for what in sorted(lost)))


if __name__ == "__main__":
    main()
