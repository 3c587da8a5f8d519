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
FAMILIES = {
    "turns": """{%- if tools %}
    {{- '<|start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- 'Tools, one a line:' }}
    {%- for tool in tools %}
        {{- '\\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|start|>system\\n' + messages[0].content + '<|end|>\\n' }}
{%- endif %}
{%- set ns = namespace(open=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.open and message.role == 'user' and message.content is string and not(message.content.startswith('<seen>')) %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|start|>' + message.role + '\\n' + message.content + '<|end|>' + '\\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- set content = message.content %}
        {%- if '</t>' in message.content %}
            {%- set content = message.content.split('</t>')[-1].lstrip('\\n') %}
            {%- set thought = message.content.split('</t>')[0].rstrip('\\n').split('<t>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<|start|>assistant\\n<t>\\n' + thought.strip('\\n') + '\\n</t>\\n\\n' + content }}
        {%- else %}
            {{- '<|start|>assistant\\n' + content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}{%- set call = call.function %}{%- endif %}
            {{- '\\n<call>{"name": "' + call.name + '", "arguments": ' }}
            {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
            {{- '}</call>' }}
        {%- endfor %}
        {{- '<|end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- '<|start|>user' }}{%- endif %}
        {{- '\\n<seen>\\n' ~ message.content ~ '\\n</seen>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\\n' }}
    {%- if quick is defined and quick is true %}{{- '<t>\\n\\n</t>\\n\\n' }}{%- endif %}
{%- endif %}
""",
    "headers": """{{- bos_token }}
{%- if not day is defined %}
    {%- if strftime_now is defined %}{%- set day = strftime_now("%d %b %Y") %}{%- else %}{%- set day = "1 Jan 2026" %}{%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "[system]\\n\\nToday: " + day + "\\n\\n" }}
{%- if tools is not none %}
    {{- "Answer with a call where one helps.\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + eos_token }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '[' + message['role'] + ']\\n\\n'+ message['content'] | trim + eos_token }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time, not " ~ message.tool_calls|length) }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '[assistant]\\n\\n{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + "}" + eos_token }}
    {%- else %}
        {{- "[seen]\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- eos_token }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '[assistant]\\n\\n' }}{%- endif %}
""",
    "alternation": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("user and assistant must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "(tools)[" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "(/tools)" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "(u)" + system_message + "\\n\\n" + message["content"] + "(/u)" }}
        {%- else %}
            {{- "(u)" + message["content"] + "(/u)" }}
        {%- endif %}
    {%- elif message["role"] == "tool" %}
        {%- if message.tool_call_id is not defined or message.tool_call_id|length != 9 %}
            {{- raise_exception("ids of calls have nine letters") }}
        {%- endif %}
        {{- '(seen){"content": ' + message.content|string + ', "id": "' + message.tool_call_id + '"}(/seen)' }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "(calls)[" }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function|tojson %}
            {{- out[:-1] }}{{- ', "id": "' + call.id + '"}' }}{{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token }}
    {%- else %}
        {{- raise_exception("only user, assistant and tool, not " ~ message.role) }}
    {%- endif %}
{%- endfor %}
""",
    "marked": """{#- Marks what the assistant says. -#}
{%- macro header(role) -%}
<{{ role }}>
{% endmacro -%}
{{ bos_token }}{% for message in messages %}
    {%- if message.role == 'assistant' -%}
        {{ header('assistant') }}{% generation %}{{ message.content }}
        {%- for call in message.tool_calls or [] %}{{ '\\n' ~ call.function.name }}({{ call.function.arguments | items | map('join', '=') | join(', ') }}){% endfor -%}
        {{ eos_token }}{% endgeneration %}
    {%- else -%}
        {{ header(message.role) }}{{ message.content }}{{ eos_token }}
    {%- endif %}{{ "\\n" if not loop.last }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '\\n' }}{{ header('assistant') }}{% endif %}
""",
}

TOOL = {
    "type": "function",
    "function": {
        "name": "depth_of",
        "description": 'Depth of a lake <in m> & its "name"',
        "parameters": {
            "type": "object",
            "properties": {"lake": {"type": "string", "description": "ein See, 湖"}, "n": {"type": "integer", "enum": [1, 2]}},
            "required": ["lake"],
        },
    },
}


def call(arguments, key="lakelake1"):
    return {"id": key, "type": "function", "function": {"name": "depth_of", "arguments": arguments}}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


DIALOGUES = [
    [turn("user", "How deep?")],
    [turn("system", " Be short. \n"), turn("user", "  So?\n\n")],
    [turn("user", "a"), turn("assistant", "<t>\nhm\n</t>\n\nb"), turn("user", "c 你好 é 🙂")],
    [turn("user", "a"), turn("assistant", "<t>\nhm\n</t>\n\nb")],
    [turn("user", "x"), turn("assistant", "", tool_calls=[call({"lake": "Zü\"ri", "n": 1.5, "deep": None, "ok": True})]), turn("tool", "136", tool_call_id="lakelake1")],
    [turn("user", "x"), turn("assistant", "", tool_calls=[call({"lake": "a"}), call({}, "lakelake2")]), turn("tool", {"m": [1, 2.0]}, tool_call_id="lakelake1"), turn("tool", "z", tool_call_id="lakelake2"), turn("assistant", "done"), turn("user", "so")],
    [turn("user", "x"), turn("assistant", "", tool_calls=[call('{"lake": "text"}')])],
    [turn("user", "x"), turn("user", "y")],
    [turn("assistant", "first"), turn("user", "y")],
    [turn("user", [{"type": "text", "text": "parts"}])],
    [turn("user", "no content"), turn("assistant", None)],
    [],
]

KWARGS = [{"add_generation_prompt": True}, {"add_generation_prompt": False, "quick": True, "day": "2 May 2026"}, {"add_generation_prompt": True, "quick": True}]

LAKE = {"name": "Bled", "depth": 30, "names": ["Bled", "Veldes"], "items": 3, "in": {"x": [1, {"y": "z"}]}, "none": None}
# One feature each.
SNIPPETS = r"""
a\n{% if lake %}\n b\n{% endif %}\nc\n
 {% if lake %} x {% endif %} \n  {%- if lake +%}\ny{% endif -%}\n z
a{#- c -#} b {# c #}\n c\n  {#+ d #}\ne
{{ lake.name -}}   \n  {{- lake.depth }}\n{{ 1 }}\n\n
{%+ if 1 %}  x\n  {%+ endif %}\n  y
{% raw %}{{ x }}{% y %}{% endraw %}|{%- raw -%} {# #} {%- endraw -%} |
{{ 1 + 2 * 3 ** 2 // 4 % 5 - -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ -x ** 2 }} {{ -2 ** x }}
{{ 1 ~ 2 * 3 }} {{ 'a' ~ 1 ~ none ~ [1] ~ 2.0 }} {{ 'a' * 3 + 'b' }}
{{ 1 ~ 2 + 3 }}
{{ not 1 == 2 and 3 < 4 <= 4 > 1 != 2 or false }} {{ 1 if 0 else 2 if 0 else 3 }}[{{ 1 if 0 }}]
{{ 'x' in 'axb' and 'y' not in ['x'] and not 'q' in lake and 'name' in lake }}
{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 4 / 2 }} {{ 1e300 * 10 }}
{{ 1 // 0 }}
{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 123456789.125 }} {{ 1e-5 }} {{ 0.0001 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.0 }} {{ 2.5e10 }}
{{ 9223372036854775807 + 1 }} {{ 2 ** 100 }} {{ 0xff }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }}
{{ [1, 'a', none, true, 1.5, "it's", 'q"t', 'b\\\\n', 'é', '\\x01', '\\u200b'] }} {{ ('a',) }} {{ () }} {{ {1: 2, 'k': [none]} }}
{{ "a\\tb\\n\\u00e9\\x41\\101\\q\\'" }}|{{ 'a' "b" 'c' }}
{{ lake.items is callable }} {{ lake['items'] }} {{ lake.name }} {{ lake['name'] }} {{ lake.in.x[1].y }} {{ lake.zzz }}|{{ lake.zzz is defined }}
{{ lake.zzz.more }}
{{ zzz }}|{{ zzz is undefined }}|{{ zzz == yyy }}|{{ zzz or 'd' }}|{{ zzz | default('e') }}|{{ zzz | length }}|{{ zzz is sequence }}
{{ zzz + 1 }}
{{ zzz() }}
{{ lake.names[0] }} {{ lake.names[-1] }} {{ lake.names[5] is defined }} {{ lake.names[::-1] }} {{ lake.name[1:3] }} {{ 'héllo'[1] }} {{ 'héllo'[::-2] }} {{ [1,2,3,4][-3:-1] }} {{ lake.names.0 }}
{{ [1, 2][::0] }}
{{ lake.__class__ }}|{{ ''._x }}
{{ ''.__class__.__mro__ }}
{{ lake.names.append(1) }}
{{ lake.update({}) }}
{% set lake.x = 1 %}
{% set a = 1 %}{% if a %}{% set a = 2 %}{% set b = 3 %}{% endif %}{{ a }}{{ b }}{% for i in [1] %}{% set a = 9 %}{{ a }}{% endfor %}{{ a }}
{% for i in [1,2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set n = namespace(a=1) %}{% for i in range(3) %}{% set n.a = n.a + i %}{% set n.b = i %}{% endfor %}{{ n.a }}{{ n.b }}{{ n.c is defined }}
{% set n, (m, o) = 1, [2, 3] %}{{ n }}{{ m }}{{ o }}{% set q %} q {{ n }}{% endset %}[{{ q }}]{% set q | upper | trim %} w {% endset %}[{{ q }}]
{% set a, b = 1 %}
{% for k, v in lake.items() if v %}{{ loop.index }}{{ k }}{% if loop.last %}.{% endif %}{% else %}none{% endfor %}
{% for x in [] %}a{% else %}b{% endfor %}{% for x in 'héy' %}{{ x }}{{ loop.nextitem }}{{ loop.previtem }}-{% endfor %}
{% for x in range(5) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{{ loop.revindex }}{{ loop.length }}{{ loop.cycle('o', 'e') }}{% endfor %}
{% for x in [1,1,2] %}{{ loop.changed(x) }}{{ loop.depth }}{% for y in [0] %}{{ loop.first }}{% endfor %}{{ loop.index0 }}{% endfor %}
{% for x in lake.names | map('upper') %}{{ loop.length }}{{ x }}{{ loop.last }}{% endfor %}
{% for x in 5 %}{% endfor %}
{% break %}
{% for x in [1] %}{% set loop = 1 %}{% endfor %}
{% macro f(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}]{% endmacro %}{{ f(1) }}{{ f(1, 3, 4, 5) }}{{ f(b=1, a=0, z=9) }}{{ f() }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(n) %}{{ n }}{% if n %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}{% macro w(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) w(4) %}{{ y + 1 }}{% endcall %}
{% macro f() %}{{ late }}{% endmacro %}{% set late = 5 %}{{ f() }}{% for i in [1] %}{% set late = 6 %}{{ f() }}{% endfor %}
{% filter upper | replace('A', 'b') %}a{{ 'x' }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{% print 1, 2 %}
{% generation %}x{% set q = 1 %}{% endgeneration %}{{ q is defined }}{% for i in [1, 2] %}é{% generation %}{{ i }}{% endgeneration %}{% endfor %}
{{ ' a b  c '.split() }}{{ ' a b  c '.split(' ') }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a\\r\\nb\\x0bc'.splitlines() }}{{ 'a-b'.partition('-') }}
{{ 'xxaxx'.strip('x') }}{{ ' a '.lstrip() }}|{{ 'abc'.endswith(('z', 'c')) }}{{ 'abc'.find('c', -1) }}{{ 'aXbX'.replace('X', '', 1) }}{{ 'ab'.center(5, '*') }}{{ '-7'.zfill(4) }}
{{ 'ΑΣ ǅ ß ﬁ'.lower() }} {{ 'straße'.upper() }} {{ "it's 3rd".title() }} {{ 'éA'.swapcase() }} {{ 'İ'.casefold() | length }} {{ 'hELLO wORLD'.capitalize() }}
{{ 'a1'.isalnum() }}{{ '²'.isdigit() }}{{ '½'.isnumeric() }}{{ '٣'.isdecimal() }}{{ ' \\x1f'.isspace() }}{{ 'Ab Cd'.istitle() }}{{ 'AB'.isupper() }}{{ ''.isalpha() }}
{{ 'b'.join(['x', 'y']) }}{{ 'a{}{x}{!r:>5}'.format(1, 'q', x='z') }}{{ '%(a)s%%%(b)-4d|' % {'a': 1, 'b': 2.9} }}
{{ 'a{}{0}'.format(1) }}
{{ '%05.1f|%-3s|%x|%+d|%%' % (3.14159, 'a', 255, 5) }} {{ '{:,} {:>6.2f} {:#x} {:^7} {:e}'.format(1234567, 2.5, 255, 'mid', 12345.678) }}
{{ '%d' % 'x' }}
{{ [3, 1, 2] | sort }}{{ ['b', 'A'] | sort }}{{ ['b', 'A'] | sort(case_sensitive=true, reverse=true) }}{{ [{'a': 2}, {'a': 1}] | sort(attribute='a') | map(attribute='a') | list }}
{{ [1, 'a'] | sort }}
{{ [1, 2, 3, 4, 5] | batch(2, 0) | list }}{{ [1, 2, 3, 4, 5] | slice(2) | list }}{{ [1, 1, 2] | unique | list }}{{ [1, 2] | sum }}{{ [[1], [2]] | sum(start=[]) }}{{ [1, 2] | min }}{{ ['b', 'A'] | max }}
{{ [{'k': 'x', 'v': 1}, {'k': 'Y', 'v': 2}, {'k': 'x', 'v': 3}] | groupby('k') }}{{ {'b': 1, 'A': 2} | dictsort }}{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }}
{{ [0, 1, 2] | select('odd') | list }}{{ [0, 1] | reject | list }}{{ [{'a': 1}, {}] | selectattr('a', 'defined') | list | length }}{{ ['1', 'x'] | map('int', 7) | list }}
{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}{{ 'yes' if [] | map('upper') }}
{{ [1] | map('upper') | length }}
{{ 3.14159 | round(2) }} {{ 2.5 | round }} {{ 3.7 | int }} {{ '0x1A' | int(base=16) }} {{ 'z' | int(5) }} {{ '1.5' | float }} {{ 2.4 | round(0, 'ceil') }} {{ 1234 | round(-2) }} {{ 7 | abs }}
{{ 'a b' | title }} {{ 'x y z' | wordcount }} {{ 'long text here' | truncate(8) }} {{ 'a\\nb\\n\\nc' | indent(2) }} {{ 'a' | center(5) }}| {{ [1, 2] | join('-') }} {{ 'abc' | first }} {{ [1, 2] | last }} {{ 'abc' | reverse }}
{{ '<a & "b">' | e }} {{ ('<' | e) + '<' }} {{ '<' | safe ~ '<' }} {{ '<b>x</b> &amp; y' | striptags }} {{ 'a b/ü' | urlencode }}
{{ lake | tojson }} {{ lake | tojson(indent=2) }} {{ ['é', '\\u2028', 1.0, 1e16, none, [], {}] | tojson }} {{ 'é🙂' | tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}
{{ zzz | tojson }}
{{ 1 is odd }}{{ 2 is even }}{{ 9 is divisibleby 3 }}{{ 1 is in [1] }}{{ 1.0 is integer }}{{ true is integer }}{{ true is number }}{{ 'a' is string }}{{ {} is mapping }}{{ () is sequence }}{{ 1 is true }}{{ none is none }}{{ 'A' is upper }}{{ 1 is not eq 2 }}
{{ 1 == true }}{{ 1 == 1.0 }}{{ [1, 2] == [1, 2.0] }}{{ {'a': 1} == {'a': true} }}{{ 'a' == ['a'] }}{{ (1,) == [1] }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}
{{ 1 < 'a' }}
{{ lake | nofilter }}
{% if false %}{{ lake | nofilter }}{% endif %}ok
{{ lake is notest }}
{{ dict(a=1, **{'b': 2}) }}{{ range(5, 0, -2) | list }}{{ range(3) }}{% set j = joiner(', ') %}{{ j() }}{{ j() }}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}
{{ range(1000000) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %b') }}
{{ raise_exception('stop ' ~ 1) }}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% nothing %}
{% if %}
{% if 1 %}
{{ 1 + }}
{{ [1, 2 }}
{{ 'open
{# open
{% endif %}
{{ lake.name | upper | lower() | replace('b', 'B', count=1) ~ '!' }} {{ -3 | abs }} {{ 'a' + 'B' | lower }}
{{ lake.get('name') }}{{ lake.get('q', 'd') }}{{ lake.keys() | list }}{{ lake.values() | list | length }}{{ {'a': 1}.items() }}{{ {'a': 1}.keys() }}
""".strip().split("\n")


def main():
    out = []
    for name, template in FAMILIES.items():
        for messages in DIALOGUES:
            for kwargs in KWARGS:
                tools = [TOOL] if len(out) % 2 else None
                context = dict(messages=messages, tools=tools, documents=None, bos_token="<b>", eos_token="<e>", **kwargs)
                out.append({"template": name, "context": context, **rendered(template, context)})
    context = {"lake": LAKE, "x": 3}
    snippets = []
    for line in SNIPPETS:
        template = line.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")
        snippets.append({"template": template, **rendered(template, copy.deepcopy(context))})
    with open(sys.argv[1], "w", encoding="ascii") as f:
        json.dump({"families": FAMILIES, "dialogues": out, "context": context, "snippets": snippets}, f, separators=(",", ":\n"))
        f.write("\n")
    bad = sum("error" in x for x in snippets)
    print(len(out), "dialogues,", sum("error" in x for x in out), "of them errors;", len(snippets), "snippets,", bad, "of them errors")


if __name__ == "__main__":
    main()
