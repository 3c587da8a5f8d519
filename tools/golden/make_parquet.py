#!/usr/bin/env python3
"""Writes tests/data/parquet: small files in every form that runtime/columnar reads, with the rows
that pyarrow reads back (of x_y.parquet: x.jsonl), and files that it refuses (refused_*.parquet).

    python3 -m venv /tmp/pq && /tmp/pq/bin/pip install pyarrow==26.0.1
    /tmp/pq/bin/python tools/golden/make_parquet.py
"""

import datetime
import decimal
import json
import math
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data/parquet"
CORPUS = DATA.parents[1] / "fuzz/corpus/parquet"

WRITTEN = set()
CHAT = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))


def gsm8k(count):
    """Rows as verl's preprocessing of GSM8K writes them: additions, our own text."""
    rows = []
    for i in range(count):
        a, b = 3 + 7 * i % 89, 11 + 5 * i % 83
        question = f"A shelf has {a} books and gets {b} more. How many are there?"
        rows.append({
            "data_source": "openai/gsm8k",
            "prompt": [{
                "content": question + ' Let\'s think step by step and output the final answer '
                           'after "####".',
                "role": "user",
            }],
            "ability": "math",
            "reward_model": {"ground_truth": str(a + b), "style": "rule"},
            "extra_info": {
                "answer": f"{a} + {b} = {a + b}\n#### {a + b}",
                "index": i,
                "question": question,
                "split": "train",
            },
        })
    schema = pa.schema([
        ("data_source", pa.string()),
        ("prompt", CHAT),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        ("extra_info", pa.struct([("answer", pa.string()), ("index", pa.int64()),
                                  ("question", pa.string()), ("split", pa.string())])),
    ])
    return pa.Table.from_pylist(rows, schema=schema)


def mixed():
    """Every type, nulls at every level, empty lists, lists of lists, maps."""
    schema = pa.schema([
        ("flag", pa.bool_()), ("small", pa.int8()), ("i32", pa.int32()), ("i64", pa.int64()),
        ("u32", pa.uint32()), ("u64", pa.uint64()), ("f32", pa.float32()), ("f64", pa.float64()),
        ("text", pa.string()), ("empty", pa.null()),
        pa.field("required", pa.int32(), nullable=False),
        ("numbers", pa.list_(pa.int64())),
        ("deep", pa.list_(pa.list_(pa.list_(pa.string())))),
        ("inner", pa.struct([("a", pa.struct([("b", pa.list_(pa.int32()))])), ("c", pa.string())])),
        ("people", pa.list_(pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string())),
                                       ("at", pa.struct([("x", pa.float64())]))]))),
        ("scores", pa.map_(pa.string(), pa.float64())),
    ])
    rows = []
    for i in range(60):
        if i % 7 == 3:
            rows.append({name: None for name in schema.names} | {"required": i})
            continue
        rows.append({
            "flag": None if i % 5 == 0 else i % 3 == 0, "small": i - 30,
            "i32": (-1) ** i * (2**31 - 1 - i), "i64": (-1) ** i * (2**63 - 1 - i * 10**12),
            "u32": 2**32 - 1 - i, "u64": 2**64 - 1 - i, "f32": i / 8 - 2,
            "f64": math.nan if i == 8 else (i - 20) * 1e-3 * 10 ** (i % 9),
            "text": None if i % 4 == 1 else f'"{i}"\n\t\\ é 你好 😀' * (i % 3),
            "empty": None, "required": i * i,
            "numbers": None if i % 6 == 0 else [None if k == 2 else k * i for k in range(i % 5)],
            "deep": [[[f"{i}-{j}-{k}" for k in range(j)] or None for j in range(i % 3)], None, []][
                : i % 4],
            "inner": None if i % 5 == 2 else {
                "a": None if i % 3 == 1 else {"b": None if i % 4 == 0 else [i, None, -i][: i % 4]},
                "c": None if i % 2 else "c"},
            "people": [None if (i + j) % 5 == 4 else
                       {"name": f"p{j}", "tags": None if j == 1 else ["t"] * j,
                        "at": None if j == 2 else {"x": j / 2}} for j in range(i % 4)],
            "scores": None if i % 4 == 0 else {f"k{j}": j / 4 if j else None for j in range(i % 3)},
        })
    return pa.Table.from_pylist(rows, schema=schema)


def plain(value, kind):
    """What JSON has of a value: NaN as null, maps as objects."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def save(name, table, **options):
    path = DATA / f"{name}.parquet"
    pq.write_table(table, path, **options)
    back = pq.read_table(path)
    lines = []
    for row in back.to_pylist():
        row = {field.name: plain(row[field.name], field.type) for field in back.schema}
        lines.append(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
    rows = DATA / f"{name.partition('_')[0]}.jsonl"
    if rows in WRITTEN and rows.read_text() != "".join(lines):
        raise SystemExit(f"{path} does not hold the rows of {rows}")
    WRITTEN.add(rows)
    rows.write_text("".join(lines))


def save_forms():
    save("gsm8k", gsm8k(40))  # pyarrow's defaults: snappy, dictionary, one row group
    table = mixed()
    for codec in ("none", "snappy", "gzip", "zstd"):
        for version in ("1.0", "2.0"):
            save(f"mixed_{codec}_v{version[0]}", table, compression=codec,
                 data_page_version=version, row_group_size=25, use_dictionary=version == "1.0")
    save("gsm8k_small_pages", gsm8k(40), data_page_size=256, write_batch_size=4,
         dictionary_pagesize_limit=300, row_group_size=30, write_page_checksum=True)
    delta = {"i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED",
             "text": "DELTA_BYTE_ARRAY", "flag": "RLE",
             "numbers.list.element": "DELTA_BINARY_PACKED",
             "deep.list.element.list.element.list.element": "DELTA_LENGTH_BYTE_ARRAY"}
    save("mixed_delta", table, use_dictionary=False, column_encoding=delta, data_page_version="2.0")
    save("old", table.select(["numbers", "people"]), use_compliant_nested_type=False,
         version="1.0")
    save("none", gsm8k(0))
    many = pa.table({"i": pa.array([(k * k * 7919) % 100003 - 50000 for k in range(500)],
                                   pa.int32()),
                     "same": pa.array([7] * 500, pa.int64()),
                     "bit": pa.array([k % 5 == 0 for k in range(500)])})
    save("many_delta", many, use_dictionary=False, compression="zstd",
         column_encoding={"i": "DELTA_BINARY_PACKED", "same": "DELTA_BINARY_PACKED",
                          "bit": "RLE"})
    save("many_dictionary", many, compression="zstd")


def save_refused():
    def refuse(name, table, **options):
        pq.write_table(table, DATA / f"refused_{name}.parquet", **options)

    text = pa.table({"text": ["a", "b"]})
    refuse("brotli", text, compression="brotli")
    refuse("lz4", text, compression="lz4")
    refuse("timestamp", pa.table({"at": [datetime.datetime(2026, 1, 2, 3, 4)]}))
    refuse("decimal", pa.table({"price": [decimal.Decimal("1.25")]}))
    refuse("split", pa.table({"x": [1.0, 2.0]}), use_dictionary=False,
           column_encoding={"x": "BYTE_STREAM_SPLIT"})
    refuse("bytes", pa.table({"image": [b"\xff\xd8\xff\xe0"]}))
    refuse("map", pa.table({"m": pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string()))}))


def save_corpus():
    """Seeds of tests/fuzz/parquet_fuzz.cpp: few rows, each encoding and codec once."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    few = mixed().select(["flag", "i64", "text", "deep", "people", "scores"]).slice(5, 4)
    delta = {"i64": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "flag": "RLE"}
    no_statistics = {"write_statistics": False, "store_schema": False}
    for codec in ("none", "snappy", "gzip", "zstd"):
        pq.write_table(few, CORPUS / f"{codec}.parquet", compression=codec, **no_statistics)
    pq.write_table(few.select(["i64", "text", "flag"]), CORPUS / "delta.parquet",
                   compression="none", use_dictionary=False, column_encoding=delta,
                   data_page_version="2.0", write_page_checksum=True, **no_statistics)
    pq.write_table(few.select(["text"]), CORPUS / "text.parquet", compression="none",
                   **no_statistics)


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    save_forms()
    save_refused()
    save_corpus()


if __name__ == "__main__":
    main()
