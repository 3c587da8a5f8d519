"""Part of lint.dead: each function that a header declares is used by production code.

A use is any mention outside tests/, bench/, comments and strings that is neither a declaration nor
a definition of the name. Names, not signatures, are compared: an overload or a namesake keeps a
function alive. tools/lint/dead_functions.txt lists the exceptions, each with its reason.
"""

import re

import common

PRODUCTION = ("runtime", "actors", "algorithms", "tools", "include")
CHECKED = ("runtime", "actors", "algorithms", "tools")
ALLOWED = "tools/lint/dead_functions.txt"

QUIET = re.compile(
    r'//[^\n]*|/\*.*?\*/|(?<!\w)R"(\w*)\(.*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])*\'',
    re.S,
)
# A type, then the name with its class, then the parameters: a declaration or a definition.
DECLARED = re.compile(
    r"^[ \t]*(?:template *<[^;{}]*?> *)?(?:\[\[\w+\]\] *)?"
    r"(?P<type>(?:[A-Za-z_][\w:]*(?:<[^;={}()]*>)?(?:::\w+)?[ \t*&]+)+)"
    r"(?P<scope>(?:\w+(?:<[\w, ]*>)?::)*)(?P<name>[a-z_]\w*)\((?!\*)",
    re.M,
)
NO_TYPES = {"return", "co_return", "else", "throw", "case", "delete", "new", "goto", "using"}
HOOKS = {"main", "inspect", "operator", "begin", "end", "what", "swap"}  # the language, CAF, std
FILES = (".cpp", ".hpp", ".inl", ".cu", ".h")


def bare(text):
    """Returns the text without comments and literals, with the same lines."""
    return QUIET.sub(lambda m: "\n" * m.group().count("\n"), text)


def declarations(text):
    """Yields (name, offset, end, is_override) of what declares or defines a function."""
    for found in DECLARED.finditer(text):
        first = re.match(r"\w+", found.group("type"))
        if first is None or first.group() in NO_TYPES:
            continue
        rest = re.compile(r"[^;{]*").match(text, found.end()).group()
        is_override = re.search(r"\boverride\b", rest) is not None
        yield found.group("name"), found.start("name"), found.end("name"), is_override


def allowed(root):
    try:
        lines = common.read(root, ALLOWED).split("\n")
    except FileNotFoundError:
        return {}
    entries = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return {entry[0]: entry[1] if len(entry) > 1 else "" for entry in entries}


def check(root):
    declared, used = {}, set()
    for path in common.files(root, folders=PRODUCTION, endings=FILES):
        text = bare(common.read(root, path))
        rest, last = [], 0
        is_checked = path.endswith(".hpp") and path.startswith(CHECKED)
        for name, start, end, is_override in declarations(text):
            if is_checked and not is_override and name not in HOOKS:
                declared.setdefault(name, (path, text.count("\n", 0, start) + 1))
            rest.append(text[last:start])
            last = end
        rest.append(text[last:])
        used.update(re.findall(r"[a-z_]\w*", "".join(rest)))
    exceptions = allowed(root)
    complaints = [
        f"{path}:{line}: no production code uses {name}() (or give a reason in {ALLOWED})"
        for name, (path, line) in declared.items()
        if name not in used and name not in exceptions
    ]
    for name, reason in exceptions.items():
        if not reason:
            complaints.append(f"{ALLOWED}:1: {name} needs a reason")
        elif name in used:
            complaints.append(f"{ALLOWED}:1: {name} needs no exception")
    return sorted(complaints)
