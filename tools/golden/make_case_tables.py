#!/usr/bin/env python3
"""Writes runtime/text/template/case_tables.inl: cases of Python's str, from this Python's Unicode.

usage: make_case_tables.py > runtime/text/template/case_tables.inl
Rows {first, last, step, delta}: each step-th code point from first to last maps to itself + delta.
What maps to several characters is in a table of its own, as {code point, text}. The ranges are what
str.isdigit(), isnumeric(), islower() and isupper() hold beyond a general category, and what a rule
of Unicode on the Greek letter sigma at the end of a word looks through.
"""
import unicodedata

POINTS = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
IGNORABLE = ("Mn", "Me", "Cf", "Lm", "Sk")


def rows(pairs):
    out = []  # [first, last, step, delta]
    for c, delta in pairs:
        if out and out[-1][3] == delta:
            first, last, step, _ = out[-1]
            if c - last == step or (first == last and c - last <= 2):
                out[-1][1:3] = [c, c - last]
                continue
        out.append([c, c, 1, delta])
    return out


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def print_table(type_name, name, items):
    print(f"constexpr {type_name} k_{name}[] = {{")
    line = ""
    for item in items:
        if len(line) + len(item) > 97:
            print(line.rstrip())
            line = ""
        line += item + ", "
    print(line.rstrip() + "};")


def escaped(text):
    return "".join("\\u%04X" % ord(x) if ord(x) >= 0x80 else x for x in text)


def is_other_upper(c):
    return chr(c).isupper() and unicodedata.category(chr(c)) not in ("Lu", "Lt")


def is_ignorable(c):
    ends_word = ("A" + chr(c) + "\u03a3").lower()[-1] == "\u03c2" and not chr(c).isalpha()
    return ends_word or unicodedata.category(chr(c)) in IGNORABLE


def main():
    version = unicodedata.unidata_version
    print(f"// Made by tools/golden/make_case_tables.py; Unicode {version}. From U+0080.")
    cases = {"lower": str.lower, "upper": str.upper, "title": str.title, "fold": str.casefold}
    for name, case in cases.items():
        mapped = [(c, case(chr(c))) for c in POINTS]
        single = [(c, ord(t) - c) for c, t in mapped if len(t) == 1 and t != chr(c)]
        several = [(c, t) for c, t in mapped if len(t) > 1]
        items = ["{0x%X, 0x%X, %d, %d}" % tuple(r) for r in rows(single)]
        print_table("CaseRow", name + "_rows", items)
        items = ['{0x%X, "%s"}' % (c, escaped(t)) for c, t in several]
        print_table("LongCase", name + "_long", items)
    tests = {
        "other_digits": lambda c: chr(c).isdigit() and not chr(c).isdecimal(),
        "other_numeric": lambda c: chr(c).isnumeric() and not chr(c).isdigit(),
        "other_lower": lambda c: chr(c).islower() and unicodedata.category(chr(c)) != "Ll",
        "other_upper": is_other_upper,
        "case_ignorable": is_ignorable,
    }
    for name, test in tests.items():
        items = ["{0x%X, 0x%X}" % tuple(r) for r in ranges(filter(test, POINTS))]
        print_table("CodeRange", name, items)


if __name__ == "__main__":
    main()
