#!/usr/bin/env python3
"""lint.docs: each relative link of a *.md file points at something that exists."""

import os
import re

import common

LINK = re.compile(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"`[^`]*`")


def markdown_files(root):
    for name in sorted(os.listdir(root)):
        if name.endswith(".md"):
            yield name
    yield from common.files(root, common.FOLDERS + ("docs", "configs"), (".md",))


def check_text(root, path, text):
    complaints, is_fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        if is_fenced:
            continue
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
                continue
            file = os.path.join(root, os.path.dirname(path), target.split("#")[0])
            if not os.path.exists(file):
                complaints.append(f"{path}:{number}: link to {target}: no such file")
    return complaints


def check(root):
    complaints = []
    for path in markdown_files(root):
        complaints += check_text(root, path, common.read(root, path))
    return complaints


if __name__ == "__main__":
    common.main("lint.docs", check)
