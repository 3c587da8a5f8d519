"""Shared by the lints: which files count, how a complaint is printed. Standard library only."""

import os
import re
import sys

FOLDERS = ("runtime", "actors", "algorithms", "tools", "bench", "tests")
SKIPPED_FOLDERS = {"build", "output", ".git", "__pycache__", ".cache"}


def files(root, folders=FOLDERS, endings=(".cpp", ".hpp")):
    """Yields paths relative to root, sorted, of the files with one of the endings."""
    for folder in folders:
        for path, names, found in os.walk(os.path.join(root, folder)):
            names[:] = sorted(n for n in names if n not in SKIPPED_FOLDERS)
            for name in sorted(found):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(path, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def blank_comments_and_strings(text):
    """Returns C++ text of the same length and lines, comments and literals blanked."""
    out, i, n = [], 0, len(text)

    def blank(end):
        nonlocal i
        out.append("".join(c if c == "\n" else " " for c in text[i:end]))
        i = end

    while i < n:
        if text.startswith("//", i):
            end = text.find("\n", i)
            blank(n if end < 0 else end)
        elif text.startswith("/*", i):
            end = text.find("*/", i + 2)
            blank(n if end < 0 else end + 2)
        elif text.startswith('R"', i) and not re.match(r"\w", text[i - 1 : i]):
            mark = text[i + 2 : text.find("(", i)]
            end = text.find(")" + mark + '"', i)
            blank(n if end < 0 else end + len(mark) + 2)
        elif text[i] == '"' or (text[i] == "'" and not (i and text[i - 1].isalnum())):
            end = i + 1
            while end < n and text[end] != text[i] and text[end] != "\n":
                end += 2 if text[end] == "\\" else 1
            blank(min(end + 1, n))
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def finish(name, complaints):
    """Prints the complaints and a summary; returns the exit status."""
    for complaint in complaints:
        print(complaint)
    print(f"{name}: {len(complaints)} complaint(s)" if complaints else f"{name}: ok")
    return 1 if complaints else 0


def root_of(arguments):
    """Returns the repository: the first argument, or two folders above this file."""
    if arguments:
        return os.path.abspath(arguments[0])
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main(name, check):
    """Runs check(root) -> complaints as a program."""
    sys.exit(finish(name, check(root_of(sys.argv[1:]))))
