#!/usr/bin/env python3
"""Writes runtime/text/unicode_tables.inl and runtime/text/nfc_tables.inl.

usage: make_unicode_tables.py [--check]     (from anywhere; --check compares with the files)
needs: the package unicodedata2 16.0.0 (Unicode 16); with the package tokenizers 0.22 it also checks
       the classes and the quirks below against that library, which is the reference for both.

Facts, not text, come from there: which code points are in which general category (the regex engine
of the reference has Unicode 16), canonical decompositions, and combining classes. The reference's
NFC is that of Unicode 9: of what came later it knows neither combining class nor composition. No
package has tables that old, so AFTER_9 lists the marks and characters that it does not know.
"""

import os
import sys

import unicodedata2 as unicode16

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CATEGORIES = (
    "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co"
).split()
# Combining marks of Unicode 10 to 16, inclusive ranges.
AFTER_9_MARKS = (
    "7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1ace 1df6-1dfa a82c 10d24-10d27 10d69-10d6d "
    "10eab-10eac 10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 113ce-113d0 1145e 11839-1183a "
    "1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42 11d44-11d45 11d97 11f41-11f42 1612f "
    "16ff0-16ff1 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef"
)
# Characters of Unicode 10 to 16 with a canonical decomposition.
AFTER_9_COMPOSED = (
    "105c9 105e4 11383 11385 1138e 11391 113c5 113c7-113c8 11938 16121-16128 16d68-16d6a"
)
HEAD = "// Made by tools/golden/make_unicode_tables.py: do not edit.\n"


def scalars():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def code_points(text):
    found = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def lines_of(items):
    """Joins items to lines of at most 100 characters."""
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) + 1 > 100:
            lines.append(line)
            line = ""
        line += (" " if line else "") + item
    return "\n".join(lines + [line]) + "\n"


def category_runs():
    runs, last = [], None
    for c in range(0x110000):
        category = "Cs" if 0xD800 <= c < 0xE000 else unicode16.category(chr(c))
        if category != last:
            runs.append((c, category))
            last = category
    return runs


def unicode_tables():
    text = HEAD + "// General categories of Unicode 16: {first code point of a run, category}.\n"
    return text + lines_of(f"{{{c},{category}}}," for c, category in category_runs())


def combining_runs():
    unknown, runs, last = code_points(AFTER_9_MARKS), [], 0
    for c in range(0x110000):
        surrogate = 0xD800 <= c < 0xE000
        value = 0 if surrogate or c in unknown else unicode16.combining(chr(c))
        if value != last:
            runs.append((c, value))
            last = value
    return runs


def decompositions():
    """Returns [(code point, first, second or 0, whether NFC composes it again)]."""
    unknown, found = code_points(AFTER_9_COMPOSED), []
    for c in scalars():
        parts = unicode16.decomposition(chr(c))
        if not parts or parts.startswith("<") or c in unknown:
            continue
        first, second = ([int(x, 16) for x in parts.split()] + [0])[:2]
        composes = second != 0 and unicode16.normalize("NFC", chr(first) + chr(second)) == chr(c)
        found.append((c, first, second, composes))
    return found


def nfc_tables():
    text = HEAD + "#ifdef COHORT_NFC_COMBINING\n"
    text += "// Canonical combining classes: {first code point of a run, class}.\n"
    text += lines_of(f"{{{c},{value}}}," for c, value in combining_runs())
    text += "#endif\n#ifdef COHORT_NFC_DECOMPOSED\n"
    text += "// Canonical decompositions: {code point, first, second or 0, composed again}.\n"
    text += lines_of(f"{{{c},{a},{b},{int(again)}}}," for c, a, b, again in decompositions())
    return text + "#endif\n"


def check_nfc(normalize):
    """The reference against an NFC that does not know what came after Unicode 9."""
    known = {c: (a, b, again) for c, a, b, again in decompositions()}
    for c in scalars():
        expected = chr(c)
        if c in known and not known[c][2]:
            expected = unicode16.normalize("NFC", chr(c))
        assert normalize(chr(c)) == expected, f"NFC of U+{c:04X}"
    for c, (a, b, again) in known.items():
        assert not again or normalize(chr(a) + chr(b)) == chr(c), f"composition of U+{c:04X}"
    for c in code_points(AFTER_9_COMPOSED):
        apart = unicode16.normalize("NFD", chr(c))
        assert normalize(apart) == apart, f"U+{c:04X} is known"
    unknown = code_points(AFTER_9_MARKS)
    for c in scalars():
        if unicode16.combining(chr(c)) == 0:
            continue
        for mark in "\u0301\u0323\u0334\u0345\u05b0\u3099\u094d":
            pair = "\U0001f600" + chr(c) + mark
            expected = pair if c in unknown else unicode16.normalize("NFC", pair)
            assert normalize(pair) == expected, f"class of U+{c:04X}"


def check_reference():
    from tokenizers import Regex, normalizers, pre_tokenizers

    every = [chr(c) for c in scalars()]
    for category in CATEGORIES:
        split = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed", invert=True)
        found = set()
        for i in range(0, len(every), 4096):
            for piece, _ in split.pre_tokenize_str("".join(every[i : i + 4096])):
                found.update(piece)
        assert found == {x for x in every if unicode16.category(x) == category}, category
    check_nfc(normalizers.NFC().normalize_str)


def main():
    assert unicode16.unidata_version == "16.0.0", unicode16.unidata_version
    try:
        check_reference()
        print("equal to the reference")
    except ImportError:
        print("the package tokenizers is not here: not compared with it")
    for name, text in (("unicode", unicode_tables()), ("nfc", nfc_tables())):
        path = os.path.join(ROOT, "runtime", "text", name + "_tables.inl")
        if "--check" in sys.argv:
            with open(path, encoding="utf-8") as file:
                assert file.read() == text, path + " differs"
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        print(path, len(text), "bytes")


if __name__ == "__main__":
    main()
