#!/usr/bin/env python3
"""lint.headers: a header begins with #pragma once and a /// head block; no two share a name."""

import os

import common


def check_text(path, text):
    lines = text.splitlines()
    if not lines or lines[0] != "#pragma once":
        return [f"{path}:1: the first line must be #pragma once"]
    if len(lines) < 2 or not lines[1].startswith("/// "):
        return [f"{path}:2: the second line must begin the /// head block"]
    return []


def same_names(paths):
    """Returns a complaint for each header whose name another one before it has."""
    seen, complaints = {}, []
    for path in paths:
        other = seen.setdefault(os.path.basename(path), path)
        if other != path:
            complaints.append(f"{path}:1: {other} has the same name")
    return complaints


def check(root):
    complaints = []
    for path in common.files(root, ("runtime", "actors", "algorithms"), (".hpp",)):
        complaints += check_text(path, common.read(root, path))
    return complaints + same_names(common.files(root, (*common.FOLDERS, "include"), (".hpp",)))


if __name__ == "__main__":
    common.main("lint.headers", check)
