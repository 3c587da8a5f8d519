#!/usr/bin/env python3
"""lint.headers: a public header begins with #pragma once and a /// head block (docs/style.md)."""

import common


def check_text(path, text):
    lines = text.splitlines()
    if not lines or lines[0] != "#pragma once":
        return [f"{path}:1: the first line must be #pragma once"]
    if len(lines) < 2 or not lines[1].startswith("/// "):
        return [f"{path}:2: the second line must begin the /// head block"]
    return []


def check(root):
    complaints = []
    for path in common.files(root, ("runtime", "actors", "algorithms"), (".hpp",)):
        complaints += check_text(path, common.read(root, path))
    return complaints


if __name__ == "__main__":
    common.main("lint.headers", check)
