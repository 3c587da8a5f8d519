#!/usr/bin/env python3
"""lint.words: prose names who acts, cites what a reader can open, and keeps table cells short.

A comment or a document may cite a file of the repository, a paper or a public document. The rules
are in docs/style.md.
"""

import os
import re

import common

CELL_WORDS_MAX = 25
ENDINGS = (".cpp", ".hpp", ".h", ".proto", ".md", ".py", ".sh", ".txt", ".cmake", ".yaml")
FOLDERS = common.FOLDERS + ("docs", "configs", "examples", "include")
SELF = ("tools/lint/words.py", "tools/lint/selftest.py")
HIDDEN_AGENT = re.compile(r"\b[Ww]hoever\b")
OUTSIDE = re.compile(
    r"\bDESIGN(\.md)?\b|\bSTYLE(\.md)?\b|\bseeds? 0\d\d(?!\d)"
    r"|(?<![\w/.])spec/\w+|\bspec \w+\.md"
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def texts(root):
    for name in sorted(os.listdir(root)):
        if name.endswith(".md") or name == "CMakeLists.txt":
            yield name
    yield from common.files(root, FOLDERS, ENDINGS)


def words_of(cell):
    """Counts what a reader reads: a link is its text, code is one word, punctuation is none."""
    text = re.sub(r"`[^`]*`", "code", LINK.sub(r"\1", cell))
    return sum(1 for word in text.split() if re.search(r"\w", word))


def cells_of(line):
    return re.split(r"(?<!\\)\|", line.strip().strip("|"))


def check_text(path, text):
    complaints, is_fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        for found in HIDDEN_AGENT.finditer(line):
            complaints.append(f"{where}: '{found.group()}' hides who acts: name the role")
        for found in OUTSIDE.finditer(line):
            complaints.append(f"{where}: '{found.group()}' is no file of the repository")
        if not path.endswith(".md"):
            continue
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        if is_fenced or not line.lstrip().startswith("|"):
            continue
        for cell in cells_of(line):
            if words_of(cell) > CELL_WORDS_MAX:
                size = f"{words_of(cell)} words > {CELL_WORDS_MAX}"
                complaints.append(f"{where}: a cell of {size}: {cell.strip()[:40]}…")
    return complaints


def check(root):
    complaints = []
    for path in texts(root):
        if path not in SELF:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                complaints += check_text(path, file.read())
    return complaints


if __name__ == "__main__":
    common.main("lint.words", check)
