"""The child of a Python plugin: loads one reward, environment or tool and serves it. The parts for
environments (worker_world.py), worlds of GEM and of other packages (worker_gem.py,
worker_package.py), agents (worker_agent.py) and tools (worker_tool.py) come before this text.

Embedded in the binary (tools/cmake/embed_python.cmake), sent through the pipe; standard library
only, Python 3.9 and later. Frames on what were stdin and stdout (plugin/child/plugin_frames.hpp);
what the plugin prints goes to stderr. The source of the plugin comes in the load frame: a file
that is edited while a step runs changes nothing before the supervisor reloads.
"""

import fcntl
import inspect
import json
import math
import os
import struct
import sys
import types

LOAD, SCORE, RESET, STEP, CLOSE, CALL = 1, 2, 3, 4, 5, 6
LOADED, RESULTS, FAILED, WORLD, OUTPUT = 1, 2, 3, 4, 5
SCORED, RAISED, REFUSED = 0, 1, 2
CONFIG, COMPUTE = 2, 9  # cohort::Errc

HEAD = struct.Struct("<IIB")
U32 = struct.Struct("<I")
F64 = struct.Struct("<d")
ROW_TAIL = struct.Struct("<IB")

TEXTS = ("id", "response", "prompt", "messages", "ground_truth", "data_source")
FIELDS = TEXTS + ("response_tokens", "is_finished")
SIGNATURES = """compute_score(data_source, solution_str, ground_truth, extra_info=None) [verl], \
compute_score(data_sources, solution_strs, ground_truths, extra_infos) [verl, batch], \
f(prompts, completions, **columns) [TRL], reward_func(queries, prompts, labels) [OpenRLHF], \
score(row), score(rows), score(response, ground_truth, ...)"""


class Refusal(Exception):
    """The plugin answered, but not by the contract."""


class Late(Refusal):
    """An awaitable did not end by its deadline: worth one more try."""


def text_of(data):
    return U32.pack(len(data)) + data


def encode(text):
    return text_of(str(text).encode("utf-8", "replace"))


# ---- rows ------------------------------------------------------------------------------------


class Row:
    """One row of a score frame; JSON columns are parsed when somebody asks."""

    __slots__ = FIELDS + ("raw_columns", "parsed")

    def columns(self):
        if self.parsed is None:
            self.parsed = json.loads(self.raw_columns) if self.raw_columns else {}
        return self.parsed

    def chat(self):
        if self.messages:
            return json.loads(self.messages)
        return [{"role": "user", "content": self.prompt}]

    def as_dict(self):
        found = dict(self.columns())
        found.update((name, getattr(self, name)) for name in FIELDS)
        found["messages"] = self.chat()
        return found


def read_rows(payload):
    (count,) = U32.unpack_from(payload, 0)
    at = 4
    rows = []
    for _ in range(count):
        texts = []
        for _ in range(7):
            (size,) = U32.unpack_from(payload, at)
            at += 4
            texts.append(payload[at : at + size].decode("utf-8", "replace"))
            at += size
        row = Row()
        for name, text in zip(TEXTS, texts):
            setattr(row, name, text)
        row.raw_columns = texts[-1]
        row.response_tokens, finished = ROW_TAIL.unpack_from(payload, at)
        row.is_finished = finished != 0
        row.parsed = None
        at += ROW_TAIL.size
        rows.append(row)
    return rows


# ---- results ---------------------------------------------------------------------------------


def number(value):
    if value is None:
        raise Refusal("returned None (no score)")
    if isinstance(value, (str, bytes)):
        raise Refusal("returned the text %.40r, not a number" % (value,))
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise Refusal("returned a %s, not a number" % type(value).__name__) from None
    if not math.isfinite(found):
        raise Refusal("returned %s" % found)
    return found


def is_number(value):
    return not isinstance(value, (str, bytes)) and hasattr(value, "__float__")


def score_key(value, keys):
    for key in keys:
        if key in value:
            return key
    found = ", ".join(map(str, value)) or "none"
    raise Refusal("returned a dict without %r (keys: %s)" % (keys[0], found))


def one_result(value):
    """Returns (score, [(name, number)], detail) of what a function returned for one row."""
    if not isinstance(value, dict):
        return number(value), [], ""
    if value.get("error"):
        raise Refusal(str(value["error"]))
    chosen = score_key(value, ("score", "reward"))
    parts, words = [], []
    for key, item in value.items():
        if key == chosen or key == "error" or item is None:
            continue
        if is_number(item):
            found = float(item)
            if not math.isfinite(found):
                raise Refusal("returned %s as %r" % (found, key))
            parts.append((str(key), found))
        elif key in ("detail", "reason"):
            words.insert(0, str(item))
        else:
            words.append("%s=%.200s" % (key, item))
    return number(value[chosen]), parts, "; ".join(words)


def as_list(value, count):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__len__"):
        raise Refusal("returned a %s, not a list of %d" % (type(value).__name__, count))
    if len(value) != count:
        raise Refusal("returned %d results for %d rows" % (len(value), count))
    return list(value)


def batch_results(value, count):
    """Returns one raw result per row of what a batch function returned."""
    if not isinstance(value, dict):
        return as_list(value, count)
    chosen = score_key(value, ("rewards", "scores", "score"))
    found = [{"score": score} for score in as_list(value[chosen], count)]
    columns = dict(value)
    columns.update(columns.pop("extra_logs", None) or {})
    for key, column in columns.items():
        if key != chosen and column is not None:
            for result, item in zip(found, as_list(column, count)):
                result[str(key)] = item
    return found


def pack_result(value):
    """Returns the bytes of one result; `value` is what the plugin returned, or an exception."""
    try:
        if isinstance(value, BaseException):
            raise value
        score, parts, detail = one_result(value)
    except Refusal as refusal:
        verdict = RAISED if isinstance(refusal, Late) else REFUSED
        return F64.pack(0) + bytes((verdict,)) + encode("") + encode(refusal) + U32.pack(0)
    except BaseException as error:
        return F64.pack(0) + bytes((RAISED,)) + encode("") + encode(reason(error)) + U32.pack(0)
    out = [F64.pack(score), bytes((SCORED,)), encode(detail), encode(""), U32.pack(len(parts))]
    for name, part in parts:
        out += (encode(name), F64.pack(part))
    return b"".join(out)


def reason(error):
    """Returns what went wrong and where in the plugin, in one line."""
    if isinstance(error, Refusal):
        return str(error)
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == plugin.path or (file != "<cohort>" and not place):
            place = " (%s:%d)" % (os.path.basename(file), trace.tb_lineno)
        trace = trace.tb_next
    said = " ".join(str(error).split())[:300]
    if isinstance(error, SystemExit):
        return "called sys.exit(%s)%s" % (said, place)
    if isinstance(error, MemoryError):
        return "ran out of memory%s" % place
    if isinstance(error, SyntaxError):
        return "%s: %s" % (type(error).__name__, said)
    return "raised %s%s%s" % (type(error).__name__, said and ": " + said, place)


# ---- the plugin ------------------------------------------------------------------------------


class Plugin:
    """What was loaded: a function with its signature, or a class."""

    path = ""
    function = None
    form = ""  # "verl", "trl", ...
    is_batch = False
    is_async = False
    args = {}
    timeout_s = 0.0
    loop = None
    names = ()
    required = ()  # parameters without default that args does not give
    takes_any = False
    completions = ""
    worlds = {}
    schema = None  # of a tool
    output_max = 0  # bytes of a tool's answer
    is_dialogue = False  # an observation is a dialogue, which the policy reads as it is
    answer_facts = (0, 0, 0)  # of this step: tokens before the answer, its own, is it cut


plugin = Plugin()


def load_module(request):
    plugin.path = request["path"]
    sys.argv = [plugin.path]
    folder, base = os.path.split(plugin.path)
    name = os.path.splitext(base)[0]
    if name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
        name = "cohort_plugin_" + name
    sys.path.insert(0, folder)
    module = types.ModuleType(name)
    module.__file__ = plugin.path
    sys.modules[name] = module
    exec(compile(request["source"], plugin.path, "exec"), module.__dict__)
    return module


def choose(module, wanted, is_wanted, kind, preferred):
    """Returns (name, object): the named one, the preferred one, else the only public one."""
    own = {
        name: item
        for name, item in vars(module).items()
        if not name.startswith("_")
        and is_wanted(item)
        and getattr(item, "__module__", "") == module.__name__
    }
    listed = ", ".join(sorted(own)) or "none"
    if wanted:
        if not callable(getattr(module, wanted, None)):
            raise Refusal("has no %s %r (it has: %s)" % (kind, wanted, listed))
        return wanted, getattr(module, wanted)
    if preferred in own:
        return preferred, own[preferred]
    if len(own) != 1:
        raise Refusal("name the %s, PATH.py:NAME (it has: %s)" % (kind, listed))
    return next(iter(own.items()))


def detect(names):
    """Returns (form, is_batch, the names that the form itself gives)."""
    if "solution_strs" in names:
        return "verl_batch", True, ("data_sources", "solution_strs", "ground_truths", "extra_infos")
    if "solution_str" in names:
        return "verl", False, ("data_source", "solution_str", "ground_truth", "extra_info")
    if "completions" in names:
        return "trl", True, None
    if "queries" in names:
        return "openrlhf", True, ("queries", "prompts", "labels")
    if names and names[0] in ("rows", "batch"):
        return "rows", True, (names[0],)
    if names and names[0] == "row":
        return "row", False, (names[0],)
    if "response" in names:
        return "fields", False, None
    taken = ", ".join(names)
    raise Refusal("takes (%s), which is no known signature; known: %s" % (taken, SIGNATURES))


def describe(name, function):
    """Finds the signature of `function` and checks that it can be called."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    plugin.names = tuple(p.name for p in named)
    plugin.takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters)
    plugin.form, plugin.is_batch, given = detect(plugin.names)
    for key in plugin.args:
        if key not in plugin.names and not plugin.takes_any:
            listed = ", ".join(plugin.names)
            raise Refusal("args.%s: %s has no such parameter (it has: %s)" % (key, name, listed))
    plugin.required = tuple(
        p.name for p in named if p.default is p.empty and p.name not in plugin.args
    )
    for parameter in plugin.required if given is not None else ():
        if parameter not in given:
            raise Refusal("%s needs %r: give it in args" % (name, parameter))
    plugin.function = function
    called = function if inspect.isfunction(function) else getattr(function, "__call__", function)
    plugin.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def load_reward(module, request):
    name, function = choose(
        module, request.get("name"), inspect.isfunction, "function", "compute_score"
    )
    describe(name, function)
    plugin.completions = getattr(module, "cohort_completions", "")
    return name


def load(request):
    plugin.args = request.get("args") or {}
    plugin.timeout_s = request["timeout_s"]
    plugin.is_dialogue = request.get("is_dialogue", False)
    module = load_module(request) if "source" in request else None
    name = LOADERS[request["kind"]](module, request)
    if plugin.is_async:
        event_loop()
    return {
        "name": name,
        "form": plugin.form,
        "is_batch": plugin.is_batch,
        "is_concurrent": plugin.is_async and not plugin.is_batch,
        "schema": plugin.schema,
        "has_stacks": write_stacks(),
        "python": "%d.%d.%d" % sys.version_info[:3],
    }


def write_stacks():
    """Has the stacks written to stderr at SIGUSR2, whatever runs. Returns whether they are."""
    try:
        import _signal
        import faulthandler

        faulthandler.register(_signal.SIGUSR2, file=2, all_threads=False)
        return True
    except Exception:
        return False


# ---- calls -----------------------------------------------------------------------------------


def given(values):
    """Returns the keyword arguments that the function takes of `values`, args on top."""
    if not plugin.takes_any:
        values = {key: values[key] for key in values if key in plugin.names}
    if plugin.args:
        values.update(plugin.args)
    return values


def extra_info(row):
    """verl's extra_info: the column of that name; without one, all further columns."""
    columns = row.columns()
    found = columns.get("extra_info")
    return found if isinstance(found, dict) else columns


def call_one(row):
    form = plugin.form
    if form == "verl":
        values = {"data_source": row.data_source, "solution_str": row.response,
                  "ground_truth": row.ground_truth, "extra_info": extra_info(row)}
        return plugin.function(**given(values))
    if form == "row":
        return plugin.function(row.as_dict(), **plugin.args)
    values = row.as_dict()
    need(values)
    return plugin.function(**given(values))


def need(values):
    """Refuses a call that lacks a parameter without default, naming the columns there are."""
    for name in plugin.required:
        if name not in values:
            listed = ", ".join(sorted(values))
            raise Refusal("needs the column %r; the row has: %s" % (name, listed))


def trl_values(rows):
    """TRL: columns as lists; completions are messages where the prompt is a list of messages."""
    prompts, completions = [], []
    for row in rows:
        is_chat = bool(row.messages) and plugin.completions != "text"
        prompts.append(row.chat() if is_chat else row.prompt)
        message = {"role": "assistant", "content": row.response}
        completions.append([message] if is_chat else row.response)
    names = {}
    for row in rows:
        names.update(dict.fromkeys(row.columns()))
    values = {name: [row.columns().get(name) for row in rows] for name in names}
    values["ground_truth"] = [row.ground_truth for row in rows]
    values["data_source"] = [row.data_source for row in rows]
    values.update(prompts=prompts, completions=completions)
    need(values)
    return values


def call_batch(rows):
    form = plugin.form
    if form == "rows":
        return plugin.function([row.as_dict() for row in rows], **plugin.args)
    if form == "trl":
        return plugin.function(**given(trl_values(rows)))
    if form == "openrlhf":
        values = dict(
            queries=[row.prompt + row.response for row in rows],
            prompts=[row.prompt for row in rows],
            labels=[row.ground_truth for row in rows])
    else:
        values = dict(
            data_sources=[row.data_source for row in rows],
            solution_strs=[row.response for row in rows],
            ground_truths=[row.ground_truth for row in rows],
            extra_infos=[extra_info(row) for row in rows])
    return plugin.function(**given(values))


def event_loop():
    if plugin.loop is None:
        import asyncio  # 40 ms that most plugins need not wait for

        plugin.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(plugin.loop)
    return plugin.loop


def finish(value):
    """Runs what a function that was not declared async returned as an awaitable."""
    async def wait():
        return await value

    return event_loop().run_until_complete(wait()) if inspect.isawaitable(value) else value


def send_results(seq, first, values):
    packed = [pack_result(value) for value in values]
    send(seq, RESULTS, struct.pack("<II", first, len(packed)) + b"".join(packed))


def score_each(seq, rows):
    for i, row in enumerate(rows):
        try:
            value = finish(call_one(row))
        except BaseException as error:
            value = error
        send_results(seq, i, (value,))


def score_concurrently(seq, rows):
    """An async function of one row: all rows at once, each with its own deadline."""
    import asyncio

    async def judge(i, row):
        try:
            value = await asyncio.wait_for(call_one(row), plugin.timeout_s)
        except asyncio.TimeoutError:
            value = Late("timeout after %g s" % plugin.timeout_s)
        except BaseException as error:
            value = error
        send_results(seq, i, (value,))

    async def judge_all():
        await asyncio.gather(*(judge(i, row) for i, row in enumerate(rows)))

    plugin.loop.run_until_complete(judge_all())


def score(seq, payload):
    rows = read_rows(payload)
    if plugin.is_batch:
        send_results(seq, 0, batch_results(finish(call_batch(rows)), len(rows)))
    elif plugin.is_async:
        score_concurrently(seq, rows)
    else:
        score_each(seq, rows)


# ---- the pipe --------------------------------------------------------------------------------


def take_pipes():
    """Moves the protocol away from fds 0 and 1, so that a print cannot reach it."""
    low = fcntl.F_DUPFD_CLOEXEC
    requests, answers = fcntl.fcntl(0, low, 100), fcntl.fcntl(1, low, 100)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True, errors="replace")
    return open(requests, "rb", buffering=1 << 16), answers


def send(seq, kind, payload):
    if os.getpid() != own_pid:  # a fork that the plugin made and that came back here
        os._exit(0)
    data = memoryview(HEAD.pack(len(payload) + 5, seq, kind) + payload)
    while data:
        data = data[os.write(answers, data) :]


LOADERS = {"reward": load_reward, "environment": load_environment, "tool": load_tool,
           "gem": load_gem, "package": load_package, "agent_runner": load_runner}


def serve():
    handlers = {SCORE: score, RESET: reset, STEP: step, CLOSE: close, CALL: call_tool}
    while True:
        head = requests.read(HEAD.size)
        if len(head) < HEAD.size:
            os._exit(0)
        size, seq, op = HEAD.unpack(head)
        payload = requests.read(size - 5)
        try:
            if op == LOAD:
                send(seq, LOADED, json.dumps(load(json.loads(payload))).encode())
            else:
                handlers[op](seq, payload)
        except BaseException as error:
            kind = REFUSED if isinstance(error, Refusal) else RAISED
            code = CONFIG if op == LOAD else COMPUTE
            send(seq, FAILED, bytes((kind, code)) + encode(reason(error)))


def be_init():
    """As process 1 of a sandbox: leaves the work to a child, so that signals work as usual and
    orphans of the plugin are reaped."""
    child = os.fork()
    if child == 0:
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(status >> 8 if status & 127 == 0 else 128 + (status & 127))


if os.getpid() == 1:
    be_init()
own_pid = os.getpid()
requests, answers = take_pipes()
serve()
