#!/usr/bin/env python3
"""lint.caps: file <= 600 lines, function <= 70 lines, line <= 100 characters (docs/style.md)."""

import re

import common

FILE_LINES, FUNCTION_LINES, LINE_CHARACTERS = 600, 70, 100
ENDINGS = (".cpp", ".hpp", ".inl", ".proto", ".py", ".sh")
# What stands before a brace that opens no function.
NOT_A_FUNCTION = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
CONTROL = re.compile(r"(^|[\s;}])(if|for|while|switch|catch|else|do|try)\b\s*(\(|$|constexpr)")


TEMPLATE = re.compile(r"\btemplate\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>")
ACCESS = re.compile(r"^\s*(public|private|protected)\s*:(?!:)")


def is_value_brace(head):
    """True for the brace of "A(int a) : a_{a}": an initialiser inside a constructor's list."""
    return (
        re.search(r"\)\s*(noexcept\b[^:]*)?:(?!:)", head) is not None
        and re.search(r"[\w>]\s*$", head) is not None
    )


def opens_function(head):
    """`head` is the text between the last ';', '{' or '}' and an opening brace."""
    head = re.sub(r"\{[^{}]*\}", "", TEMPLATE.sub("", head)).strip()
    if not head or "(" not in head or CONTROL.search(head):
        return False
    if NOT_A_FUNCTION.search(head.split("(")[0]):
        return False
    if re.search(r"(=|,|\breturn)\s*$", head):
        return False  # an initialiser list
    if head.count("(") != head.count(")"):
        return False  # an argument list, or a lambda inside one
    # ") {", ") const {", ") -> T {", ") : member_(x) {"
    tail = head[head.rfind(")") + 1 :]
    return re.fullmatch(r"[\s\w:<>,&*\-\]\[]*", tail) is not None


def blank_directives(code):
    return re.sub(
        r"^[ \t]*#(?:.*\\\n)*.*$", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M
    )


def cpp_functions(text):
    """Yields (first line, last line) of each outermost function, its head included."""
    code = blank_directives(common.blank_comments_and_strings(text))
    braces = []  # of the open ones, whether each is a value brace
    start, start_depth, head_begin = None, 0, 0
    for match in re.finditer(r"[{};]", code):
        i, c = match.start(), match.group()
        head = code[head_begin:i]
        if c == "{":
            braces.append(is_value_brace(head))
            if braces[-1]:
                continue
            if start is None and opens_function(head):
                head = head[ACCESS.match(head).end() :] if ACCESS.match(head) else head
                start = i - len(head.lstrip())
                start_depth = len(braces) - 1
        elif c == "}":
            if braces and braces.pop():
                continue
            if start is not None and len(braces) == start_depth:
                yield code.count("\n", 0, start) + 1, code.count("\n", 0, i) + 1
                start = None
        elif start is None and head.count("(") != head.count(")"):
            continue  # a ';' inside parentheses ends no declaration
        head_begin = i + 1


def python_functions(text):
    import ast

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def shell_functions(text):
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"^(function\s+)?[\w-]+\s*\(\)\s*\{\s*$", line):
            start = number
        elif line.startswith("}") and start:
            yield start, number
            start = None


def functions_of(path, text):
    if path.endswith((".cpp", ".hpp", ".inl")):
        return cpp_functions(text)
    if path.endswith(".py"):
        return python_functions(text)
    return shell_functions(text) if path.endswith(".sh") else ()


def check_text(path, text):
    complaints = []
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        complaints.append(f"{path}:1: {len(lines)} lines > {FILE_LINES}")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARACTERS:
            complaints.append(f"{path}:{number}: {len(line)} characters > {LINE_CHARACTERS}")
    for first, last in functions_of(path, text):
        if last - first + 1 > FUNCTION_LINES:
            complaints.append(
                f"{path}:{first}: function of {last - first + 1} lines > {FUNCTION_LINES}"
            )
    return complaints


def check(root):
    complaints = []
    for path in common.files(root, endings=ENDINGS):
        complaints += check_text(path, common.read(root, path))
    return complaints


if __name__ == "__main__":
    common.main("lint.caps", check)
