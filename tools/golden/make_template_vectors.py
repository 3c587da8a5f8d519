#!/usr/bin/env python3
"""Writes tests/data/chat/templates.json: what transformers' Jinja environment makes of templates.

usage: make_template_vectors.py OUT.json
needs: the package jinja2 3.1 (not to build or test: the file is in the repository)

Templates and dialogues are written here. The environment is the one that transformers documents
and uses: an immutable sandbox, trim_blocks, lstrip_blocks, loop controls, a generation block, a
tojson that is json.dumps. Ranges of generation blocks are counted where the template prints them.
"""

import copy
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 9, 5, 3)


class Ranges(jinja2.ext.Extension):
    """{% generation %}: prints its body, notes where."""

    tags = {"generation"}
    printed = None
    ranges = None

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_note"), [], [], body).set_lineno(line)

    def _note(self, caller):
        text = caller()
        start = len("".join(Ranges.printed))
        Ranges.ranges.append([start, start + len(text)])
        return text


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Ranges, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def rendered(template, context):
    Ranges.printed, Ranges.ranges = [], []
    try:
        for part in environment().from_string(template).generate(**context):
            Ranges.printed.append(part)
    except Exception as e:  # any: only the fact counts
        return {"error": f"{type(e).__name__}: {e}"}
    out = {"expected": "".join(Ranges.printed)}
    if Ranges.ranges:
        out["generation"] = Ranges.ranges
    return out


# Templates of our own with the features of the families.
DATA = pathlib.Path(__file__).resolve().parent / "templates"
NAMES = ("turns", "headers", "alternation", "marked")
FAMILIES = {name: (DATA / f"{name}.jinja").read_text() for name in NAMES}

TOOL = {
    "type": "function",
    "function": {
        "name": "depth_of",
        "description": 'Depth of a lake <in m> & its "name"',
        "parameters": {
            "type": "object",
            "properties": {
                "lake": {"type": "string", "description": "ein See, 湖"},
                "n": {"type": "integer", "enum": [1, 2]},
            },
            "required": ["lake"],
        },
    },
}


def call(arguments, key="lakelake1"):
    return {
        "id": key,
        "type": "function",
        "function": {"name": "depth_of", "arguments": arguments},
    }


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


DIALOGUES = [
    [turn("user", "How deep?")],
    [turn("system", " Be short. \n"), turn("user", "  So?\n\n")],
    [turn("user", "a"), turn("assistant", "<t>\nhm\n</t>\n\nb"), turn("user", "c 你好 é 🙂")],
    [turn("user", "a"), turn("assistant", "<t>\nhm\n</t>\n\nb")],
    [
        turn("user", "x"),
        turn(
            "assistant",
            "",
            tool_calls=[call({"lake": 'Zü"ri', "n": 1.5, "deep": None, "ok": True})],
        ),
        turn("tool", "136", tool_call_id="lakelake1"),
    ],
    [
        turn("user", "x"),
        turn("assistant", "", tool_calls=[call({"lake": "a"}), call({}, "lakelake2")]),
        turn("tool", {"m": [1, 2.0]}, tool_call_id="lakelake1"),
        turn("tool", "z", tool_call_id="lakelake2"),
        turn("assistant", "done"),
        turn("user", "so"),
    ],
    [turn("user", "x"), turn("assistant", "", tool_calls=[call('{"lake": "text"}')])],
    [turn("user", "x"), turn("user", "y")],
    [turn("assistant", "first"), turn("user", "y")],
    [turn("user", [{"type": "text", "text": "parts"}])],
    [turn("user", "no content"), turn("assistant", None)],
    [],
]

KWARGS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False, "quick": True, "day": "2 May 2026"},
    {"add_generation_prompt": True, "quick": True},
]

LAKE = {
    "name": "Bled",
    "depth": 30,
    "names": ["Bled", "Veldes"],
    "items": 3,
    "in": {"x": [1, {"y": "z"}]},
    "none": None,
}
# One feature each.
SNIPPETS = (DATA / "snippets.txt").read_text().strip("\n").split("\n")


def main():
    out = []
    for name, template in FAMILIES.items():
        for messages in DIALOGUES:
            for kwargs in KWARGS:
                tools = [TOOL] if len(out) % 2 else None
                context = dict(
                    messages=messages,
                    tools=tools,
                    documents=None,
                    bos_token="<b>",
                    eos_token="<e>",
                    **kwargs,
                )
                out.append({"template": name, "context": context, **rendered(template, context)})
    context = {"lake": LAKE, "x": 3}
    snippets = []
    for line in SNIPPETS:
        template = line.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
        snippets.append({"template": template, **rendered(template, copy.deepcopy(context))})
    with open(sys.argv[1], "w", encoding="ascii") as f:
        json.dump(
            {"families": FAMILIES, "dialogues": out, "context": context, "snippets": snippets},
            f,
            separators=(",", ":\n"),
        )
        f.write("\n")
    bad = sum("error" in x for x in snippets)
    print(
        len(out),
        "dialogues,",
        sum("error" in x for x in out),
        "of them errors;",
        len(snippets),
        "snippets,",
        bad,
        "of them errors",
    )


if __name__ == "__main__":
    main()
