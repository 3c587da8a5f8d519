#!/usr/bin/env python3
"""lint.format: clang-format --dry-run on our C++ files; exit status 77 = skipped, no tool."""

import os
import shutil
import subprocess
import sys

import common

SKIPPED = 77


def find_tool():
    for name in ("clang-format", "clang-format-14"):
        if shutil.which(name):
            return name
    return None


def check_files(tool, root, paths):
    result = subprocess.run(
        [tool, "--dry-run", "--Werror", "--ferror-limit=1", *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in result.stderr.splitlines() if ": error:" in line]


def main():
    tool = find_tool()
    if tool is None:
        print("lint.format: skipped, clang-format is not installed")
        return SKIPPED
    root = common.root_of(sys.argv[1:])
    paths = [p for p in common.files(root) if os.path.getsize(os.path.join(root, p))]
    return common.finish("lint.format", check_files(tool, root, paths))


if __name__ == "__main__":
    sys.exit(main())
