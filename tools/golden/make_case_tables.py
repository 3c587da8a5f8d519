#!/usr/bin/env python3
"""Writes runtime/text/template/case_tables.inl: case mappings of Python's str, of its Unicode.

usage: make_case_tables.py > runtime/text/template/case_tables.inl
Rows {first, last, step, delta}: each step-th code point from first to last maps to itself + delta.
What maps to several characters is in a table of its own, as {code point, text}. digit and numeric:
what str.isdigit() and str.isnumeric() hold beyond the category Nd, as ranges.
"""
import sys
import unicodedata


def rows(pairs):
    out = []  # [first, last, step, delta]
    for c, d in pairs:
        if out and out[-1][3] == d:
            first, last, step, _ = out[-1]
            if c - last == step or (first == last and c - last <= 2):
                out[-1][1:3] = [c, c - last]
                continue
        out.append([c, c, 1, d])
    return out


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def category(c):
    return unicodedata.category(chr(c))


def is_case_ignorable(c):
    is_skipped = ("A" + chr(c) + "\u03a3").lower()[-1] == "\u03c2" and not chr(c).isalpha()
    return is_skipped or category(c) in ("Mn", "Me", "Cf", "Lm", "Sk")


def main():
    points = [c for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000]
    version = unicodedata.unidata_version
    print("// Made by tools/golden/make_case_tables.py; "
          f"Unicode {version}. Code points from U+0080.")
    mappings = (("lower", str.lower), ("upper", str.upper), ("title", str.title),
                ("fold", str.casefold))
    for name, f in mappings:
        mapped = [(c, f(chr(c))) for c in points if f(chr(c)) != chr(c)]
        single = [(c, ord(t) - c) for c, t in mapped if len(t) == 1]
        several = [(c, f(chr(c))) for c in points if len(f(chr(c))) > 1]
        print(f"constexpr CaseRow k_{name}_rows[] = {{")
        line = ""
        for r in rows(single):
            item = "{0x%X, 0x%X, %d, %d}, " % tuple(r)
            if len(line) + len(item) > 98:
                print(line.rstrip())
                line = ""
            line += item
        print(line.rstrip() + "};")
        print(f"constexpr LongCase k_{name}_long[] = {{")
        line = ""
        for c, t in several:
            text = "".join("\\u%04X" % ord(x) if ord(x) >= 0x80 else x for x in t)
            item = '{0x%X, "%s"}, ' % (c, text)
            if len(line) + len(item) > 98:
                print(line.rstrip())
                line = ""
            line += item
        print(line.rstrip() + "};")
    tables = {
        "other_digits": [c for c in points if chr(c).isdigit() and not chr(c).isdecimal()],
        "other_numeric": [c for c in points if chr(c).isnumeric() and not chr(c).isdigit()],
        "other_lower": [c for c in points if chr(c).islower() and category(c) != "Ll"],
        "other_upper": [c for c in points if chr(c).isupper() and category(c) not in ("Lu", "Lt")],
        "case_ignorable": [c for c in points if is_case_ignorable(c)],
    }
    for name, t in tables.items():
        print(f"constexpr CodeRange k_{name}[] = {{")
        line = ""
        for r in ranges(sorted(t)):
            item = "{0x%X, 0x%X}, " % tuple(r)
            if len(line) + len(item) > 98:
                print(line.rstrip())
                line = ""
            line += item
        print(line.rstrip() + "};")


if __name__ == "__main__":
    sys.exit(main())
