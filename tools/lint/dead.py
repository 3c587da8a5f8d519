#!/usr/bin/env python3
"""lint.dead: each .cpp and .hpp is listed in a CMake file or included by a file that is alive;
each function of a header has a production user (dead_functions.py)."""

import glob
import os
import re

import common
import dead_functions

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
LISTED = re.compile(r"[\w./${}*-]+\.(?:cpp|hpp|inl)")


def listed_files(root):
    """Returns the paths, relative to root, that CMake files name, or glob, from their folder or
    from root."""
    named = set()
    cmake = [p for p in common.files(root, endings=("CMakeLists.txt", ".cmake"))]
    for path in cmake:
        text = re.sub(r"#.*", "", common.read(root, path))
        for name in LISTED.findall(text):
            name = name.replace("${PROJECT_SOURCE_DIR}/", "").replace("${CMAKE_SOURCE_DIR}/", "")
            name = name.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            for found in (os.path.join(os.path.dirname(path), name), name):
                if "*" in found:
                    matches = glob.glob(os.path.join(root, found))
                    named.update(os.path.relpath(match, root) for match in matches)
                else:
                    named.add(os.path.normpath(found))
    return named


def check(root):
    files = list(common.files(root, endings=(".cpp", ".hpp", ".inl")))
    alive = listed_files(root).intersection(files)
    queue = list(alive)
    while queue:
        for include in INCLUDE.findall(common.read(root, queue.pop())):
            if include in files and include not in alive:
                alive.add(include)
                queue.append(include)
    return [
        f"{path}:1: in no CMake file, and nothing alive includes it"
        for path in files
        if path not in alive
    ] + dead_functions.check(root)


if __name__ == "__main__":
    common.main("lint.dead", check)
