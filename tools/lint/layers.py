#!/usr/bin/env python3
"""lint.layers: each #include must be allowed by layers.txt (the matrix of docs/style.md)."""

import os
import re

import common

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TOP_USERS = ("tests", "tools", "bench")


def load_matrix(text):
    """Returns ({folder: [allowed]}, [([prefixes], [owners])])."""
    matrix, owned = {}, []
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        left, right = line.split(":")
        if left.startswith("own "):
            owned.append((left.split()[1:], right.split()))
        else:
            matrix[left.strip()] = right.split()
    return matrix, owned


def layer_of(path, matrix):
    """Returns the longest folder of the matrix that the path lies in, or None."""
    inside = [f for f in matrix if path == f or path.startswith(f + "/")]
    return max(inside, key=len, default=None)


def matches(include, prefix):
    return include.endswith(prefix) if prefix.startswith(".") else include.startswith(prefix)


def may_own(path, layer, owners):
    for owner in owners:
        folder, star, ending = owner.partition("*")
        if layer == folder and (not star or path.endswith(ending)):
            return True
    return layer in TOP_USERS


def judge(path, layer, include, matrix, owned):
    """Returns None, or why `path` may not include `include`."""
    target = layer_of(include, matrix)
    if target is not None:
        allowed = [layer] + matrix[layer]
        if not any(target == a or target.startswith(a + "/") for a in allowed):
            return f"{layer} may not include {target}"
    for prefixes, owners in owned:
        if any(matches(include, p) for p in prefixes) and not may_own(path, layer, owners):
            return f"{layer} may not include <{include}> (owners: {', '.join(owners)})"
    return None


def check(root):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "layers.txt"), encoding="utf-8") as file:
        matrix, owned = load_matrix(file.read())
    complaints = []
    for path in common.files(root, endings=(".cpp", ".hpp", ".inl", ".h")):
        layer = layer_of(path, matrix)
        if layer is None:
            complaints.append(f"{path}:1: no layer of tools/lint/layers.txt holds this file")
            continue
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            quote, include = found.groups()
            reason = judge(path, layer, include, matrix, owned)
            if reason is None and quote == '"' and "/" not in include:
                reason = f'"{include}": give the path from the root'
            if reason:
                complaints.append(f"{path}:{number}: {reason}")
    return complaints


if __name__ == "__main__":
    common.main("lint.layers", check)
