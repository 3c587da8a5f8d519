#!/usr/bin/env python3
"""Writes tests/data/chat/templates.json: what transformers' Jinja environment makes of templates.

usage: make_template_vectors.py     (from anywhere)
needs: the package jinja2 3.1 (not to build or test: the file is in the repository)

Templates are our own: tests/data/chat/families, with the features of the families of models, and
tests/data/chat/snippets.txt, one feature a line (\\n is a newline, \\\\ a backslash). Beside them,
dialogues.jsonl has a dialogue a line. The environment is the one that transformers documents and
uses: an immutable sandbox, trim_blocks, lstrip_blocks, loop controls, a generation block, a tojson
that is json.dumps. Ranges of generation blocks are counted where the template prints them.
"""

import copy
import datetime
import json
import os

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tests", "data", "chat")
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
    text = "".join(Ranges.printed)
    out = {"expected": text}
    if Ranges.ranges:
        # Where text was changed or dropped behind the block, a range may reach behind the end.
        out["generation"] = [[min(place, len(text)) for place in x] for x in Ranges.ranges]
    return out


LAKE_PROPERTIES = {
    "lake": {"type": "string", "description": "ein See, 湖"},
    "n": {"type": "integer", "enum": [1, 2]},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "depth_of",
        "description": 'Depth of a lake <in m> & its "name"',
        "parameters": {"type": "object", "properties": LAKE_PROPERTIES, "required": ["lake"]},
    },
}
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


def text_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return f.read()


def dialogue_vectors():
    out = []
    for name in sorted(os.listdir(os.path.join(FOLDER, "families"))):
        template = text_of(os.path.join("families", name))
        for line in text_of("dialogues.jsonl").splitlines():
            for kwargs in KWARGS:
                context = {"messages": json.loads(line), "tools": [TOOL] if len(out) % 2 else None}
                context.update(documents=None, bos_token="<b>", eos_token="<e>", **kwargs)
                result = rendered(template, copy.deepcopy(context))
                out.append({"template": name, "context": context, **result})
    return out


def snippet_vectors(context):
    out = []
    for line in text_of("snippets.txt").split("\n")[:-1]:
        template = line.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
        out.append({"template": template, **rendered(template, copy.deepcopy(context))})
    return out


def main():
    context = {"lake": LAKE, "x": 3}
    dialogues, snippets = dialogue_vectors(), snippet_vectors(context)
    with open(os.path.join(FOLDER, "templates.json"), "w", encoding="ascii") as f:
        all_of_them = {"dialogues": dialogues, "context": context, "snippets": snippets}
        json.dump(all_of_them, f, separators=(",", ":\n"))
        f.write("\n")
    for name, vectors in (("dialogues", dialogues), ("snippets", snippets)):
        print(len(vectors), name + ",", sum("error" in x for x in vectors), "of them errors")


if __name__ == "__main__":
    main()
