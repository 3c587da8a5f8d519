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
CITED = re.compile(r"(?<![\w/.<{*-])([\w-]+(?:/[\w-]+)*\.(?:hpp|md))\b")
# Headers of others, and names that stand for any file.
FOREIGN = re.compile(r"caf/|init_fun_factory|ProcessGroup|(.*/)?(x|a|mine|NNNN-title)\.\w+$")
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


def endings_of(root):
    """Returns every way to name a file of the repository: its path, from any of its folders on."""
    found = set()
    for path in texts(root):
        parts = path.split("/")
        found.update("/".join(parts[i:]) for i in range(len(parts)))
    return found


def prose_of(path, line):
    """Returns the part of a line that a person reads: all of a document, else the comment."""
    if path.endswith(".md"):
        return "" if line.startswith("    ") else line
    if not path.endswith((".hpp", ".cpp")):
        return ""
    found = re.search(r"(?<!:)//(.*)", line)
    return found.group(1) if found else ""


def citations(path, line, known):
    for name in CITED.findall(prose_of(path, line)):
        if name not in known and not FOREIGN.match(name):
            yield f"{name} is no file of the repository"


def check_text(path, text, known=None):
    """`known`: names of files that may be cited; None: any."""
    complaints, is_fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        for found in HIDDEN_AGENT.finditer(line):
            complaints.append(f"{where}: '{found.group()}' hides who acts: name the role")
        for found in OUTSIDE.finditer(line):
            complaints.append(f"{where}: '{found.group()}' is no file of the repository")
        if path.endswith(".md") and line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        if known is not None and not is_fenced:
            complaints += [f"{where}: {text}" for text in citations(path, line, known)]
        if not path.endswith(".md") or is_fenced or not line.lstrip().startswith("|"):
            continue
        for cell in cells_of(line):
            if words_of(cell) > CELL_WORDS_MAX:
                size = f"{words_of(cell)} words > {CELL_WORDS_MAX}"
                complaints.append(f"{where}: a cell of {size}: {cell.strip()[:40]}…")
    return complaints


def check(root):
    complaints, known = [], endings_of(root)
    for path in texts(root):
        if path not in SELF:
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                complaints += check_text(path, file.read(), known)
    return complaints


if __name__ == "__main__":
    common.main("lint.words", check)
