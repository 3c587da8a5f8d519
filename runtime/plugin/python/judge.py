"""Runs the test code of rows: process 1 of a sandbox that stays. Each request is served by a child
of its own, so no test meets the leftovers of another. The answer under test is in another sandbox:
its functions are called through frames (sample.py), and what comes back are literals, parsed and
never evaluated. An object that cannot be sent as a value stays there; it equals only objects of
the answer's, so a class whose == is always true does not pass `assert f(2) == 4`.

Frames on descriptors 0 and 1 as in sample.py. In: J a request, V and B from the answer, D the
answer is gone. Out: I a case begins, K it has ended, Z all have, X the request is wrong, Q and A to
the answer. This part: frames, values, objects of the answer; judge_cases.py: the cases.
"""
import ast
import collections
import datetime
import decimal
import fractions
import json
import math
import os
import sys
import time
import types


class Gone(BaseException):
    """The answer's process has ended; why is known outside."""


def take(size):
    parts = []
    while size:
        part = os.read(IN, min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive():
    data = take(int.from_bytes(take(4), "little"))
    fields, at = [], 1
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "little")
        fields.append(data[at + 4:at + 4 + size].decode("utf-8", "surrogatepass"))
        at += 4 + size
    return data[:1].decode(), fields


def send(letter, *fields):
    body = letter.encode()
    for field in fields:
        data = field.encode("utf-8", "surrogatepass")
        body += len(data).to_bytes(4, "little") + data
    body = len(body).to_bytes(4, "little") + body
    while body:
        body = body[os.write(OUT, body):]


# ---- values from the answer ----------------------------------------------------------------------

def date_of(kind):
    return lambda text: kind.fromisoformat(text)


def array(dtype, values):
    import numpy
    return numpy.array(values, dtype=dtype)


VALUES = {
    "set": set, "frozenset": frozenset, "bytearray": bytearray, "range": lambda x: range(*x),
    "Fraction": fractions.Fraction, "Decimal": decimal.Decimal, "deque": collections.deque,
    "date": date_of(datetime.date), "datetime": date_of(datetime.datetime),
    "time": date_of(datetime.time), "timedelta": datetime.timedelta, "ndarray": array,
    "namedtuple": lambda name, fields, x: collections.namedtuple(name, fields, rename=True)(*x),
}


def value_of(node):
    """The value of a literal; R(…) is an object of the answer's, V(…) a value of the library's."""
    kind = type(node)
    if kind is ast.Constant:
        return node.value
    if kind is ast.List:
        return [value_of(x) for x in node.elts]
    if kind is ast.Tuple:
        return tuple([value_of(x) for x in node.elts])
    if kind is ast.Dict:
        return {value_of(k): value_of(v) for k, v in zip(node.keys, node.values)}
    if kind is ast.UnaryOp and type(node.op) is ast.USub:
        return -value_of(node.operand)
    if kind is ast.BinOp and type(node.op) in (ast.Add, ast.Sub):  # 1+2j
        left, right = value_of(node.left), value_of(node.right)
        return left + right if type(node.op) is ast.Add else left - right
    if kind is ast.Name and node.id in ("inf", "nan"):
        return float(node.id)
    if kind is ast.Call and type(node.func) is ast.Name and not node.keywords:
        args = [value_of(x) for x in node.args]
        if node.func.id == "R":
            return remote(*args)
        if node.func.id == "V":
            return VALUES[args[0]](*args[1:])
    raise ValueError("the answer's process sent what is no value")


def parse(text):
    try:
        return value_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as failure:
        raise Failure("the answer returned what is no value: %s" % str(failure)[:200])


class Failure(Exception):
    """The case is not passed, with a text."""


# ---- objects of the answer -----------------------------------------------------------------------

CLASSES = {}   # index there -> class here
FUNCTIONS = []  # functions of the test that the answer may call


def encode(x):
    kind = type(x)
    if kind in (int, float, str, bytes, bool, complex, type(None), type(...)):
        return "..." if x is ... else repr(x)
    if kind is list:
        return "[" + ",".join(map(encode, x)) + "]"
    if kind is tuple:
        return "(" + ",".join(map(encode, x)) + ("," if len(x) == 1 else "") + ")"
    if isinstance(x, dict):
        return "{" + ",".join(encode(k) + ":" + encode(v) for k, v in x.items()) + "}"
    if kind in (set, frozenset):
        return kind.__name__ + "([" + ",".join(map(encode, x)) + "])"
    if isinstance(x, Remote):
        return "H(%d)" % object.__getattribute__(x, "_index")
    if isinstance(x, RemoteClass):
        return "H(%d)" % x._index
    if isinstance(x, tuple):
        return encode(tuple(x))
    return encode_library(x)


# type, its name for sample.py's library(), its arguments; a class before its base.
LIBRARY = (
    (fractions.Fraction, "fractions.Fraction", lambda x: (x.numerator, x.denominator)),
    (decimal.Decimal, "decimal.Decimal", lambda x: (str(x),)),
    (collections.deque, "collections.deque", lambda x: (list(x),)),
    (datetime.datetime, "datetime.datetime", lambda x: x.timetuple()[:6] + (x.microsecond,)),
    (datetime.date, "datetime.date", lambda x: (x.year, x.month, x.day)),
    (datetime.timedelta, "datetime.timedelta", lambda x: (x.days, x.seconds, x.microseconds)),
    (range, "builtins.range", lambda x: (x.start, x.stop, x.step)),
    (bytearray, "builtins.bytearray", lambda x: (bytes(x),)),
)


def encode_library(x):
    for kind, name, args in LIBRARY:
        if isinstance(x, kind):
            return "X(%r,%s)" % (name, ",".join(map(encode, args(x))))
    if type(x).__module__ == "numpy":
        return "X('numpy.array',%s)" % encode(x.tolist())
    if callable(x):
        FUNCTIONS.append(x)
        return "C(%d)" % (len(FUNCTIONS) - 1)
    if hasattr(x, "__iter__"):
        return encode(list(x))
    raise Wrong("a test hands an object of class %s to the answer; only values and functions can be"
                % type(x).__name__)


class Wrong(BaseException):
    """The row's test cannot be run."""


def run_function(data):
    """The answer calls a function of the test."""
    index, args, kwargs = parse(data)
    try:
        reply = "('ok',%s)" % encode(FUNCTIONS[index](*args, **kwargs))
    except Exception as failure:
        reply = "('error',(%r,%r))" % (type(failure).__name__, str(failure))
    send("A", reply)


def ask(what, index, name, args=(), kwargs=None):
    given = encode(tuple(args)), encode(kwargs or {})
    send("Q", "(%r,H(%d),%r,%s,%s)" % (what, index, name, *given))
    while True:
        letter, fields = receive()
        if letter == "D":
            raise Gone()
        if letter == "B":
            run_function(fields[0])
            continue
        reply = parse(fields[0])
        if reply[0] == "ok":
            for at, changed in reply[2].items():
                renew(args[at], changed)
            return reply[1]
        raise_remote(*reply[1:4])


def renew(here, there):
    """An argument that the answer's function has changed in place."""
    if isinstance(here, (list, bytearray)) and here != there:
        here[:] = there
    elif isinstance(here, (dict, set)) and here != there:
        here.clear()
        here.update(there)


def raise_remote(names, message, described):
    kind = EXCEPTIONS.get(names[0]) or builtin_exception(names)
    try:
        error = kind(message)
    except Exception:
        error = RuntimeError(message)
    error.of_answer = described
    raise error


def builtin_exception(names):
    for name in names:
        kind = getattr(__builtins__, name, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind if issubclass(kind, Exception) else RuntimeError
    return RuntimeError


EXCEPTIONS = {}


class RemoteClass(type):
    """A class of the answer's: calling it makes an object there."""

    def __call__(cls, *args, **kwargs):
        made = ask("call", cls._index, "", args, kwargs)
        if isinstance(made, Remote):
            object.__setattr__(made, "_is_made", True)
        return made

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return ask("get", cls._index, name)


class Remote(metaclass=RemoteClass):
    """An object of the answer's. Operators that could pass for a value's work only on objects that
    the test itself has made from a class of the answer's."""
    _index = -1

    def __getattribute__(self, name):
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        return ask("get", object.__getattribute__(self, "_index"), name)

    def __setattr__(self, name, value):
        ask("set", object.__getattribute__(self, "_index"), name, (value,))

    def __call__(self, *args, **kwargs):
        return ask("call", object.__getattribute__(self, "_index"), "", args, kwargs)

    def __hash__(self):
        return object.__getattribute__(self, "_index")

    def __eq__(self, other):
        return isinstance(other, Remote) and same(self, other) or guarded(self, "__eq__", other)

    def __ne__(self, other):
        return not self == other


def same(a, b):
    return object.__getattribute__(a, "_index") == object.__getattribute__(b, "_index")


def is_made(x):
    return object.__getattribute__(x, "_is_made")


def guarded(self, name, other):
    if is_made(self) or (isinstance(other, Remote) and is_made(other)):
        return ask("call", object.__getattribute__(self, "_index"), name, (other,))
    if name == "__eq__":
        return False
    raise TypeError("the answer returned an object where a value is compared")


def forward(name):
    def method(self, *args):
        return ask("call", object.__getattribute__(self, "_index"), name, args)
    return method


def guard(name):
    return lambda self, other: guarded(self, name, other)


for _name in ("__str__", "__repr__", "__iter__", "__next__", "__len__", "__int__", "__float__",
              "__bool__", "__abs__", "__neg__", "__getitem__", "__setitem__", "__delitem__",
              "__enter__", "__exit__"):
    setattr(Remote, _name, forward(_name))
for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__add__", "__sub__",
              "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__"):
    setattr(Remote, _name, guard(_name))


def remote(index, class_name, class_index):
    if class_name == "type":
        return class_of(index, "Class%d" % index)
    kind = CLASSES.get(class_index, Remote)
    made = object.__new__(kind)
    object.__setattr__(made, "_index", index)
    object.__setattr__(made, "_is_made", False)
    return made


def class_of(index, name):
    if index not in CLASSES:
        CLASSES[index] = RemoteClass(name, (Remote,), {"_index": index})
    return CLASSES[index]


def names_of(text, entry):
    """The answer's names as the test sees them. Those of builtins stay Python's, unless the row
    asks for one: an answer's own all() or isinstance() must not decide an assert."""
    names, described = {}, ast.parse(text, mode="eval").body
    for key, node in zip(described.keys, described.values):
        name, kind = key.value, node.elts[0].value
        if name.startswith(("__", "_cohort")) or (hasattr(__builtins__, name) and name != entry):
            continue
        if kind == "module":
            home = node.elts[1].value
            if home.split(".")[0] in sys.stdlib_module_names | {"numpy"}:
                try:
                    names[name] = __import__(home, fromlist=["x"])
                except ImportError:
                    pass
        elif kind == "class":
            names[name] = class_of(node.elts[1].args[0].value, name)
        elif kind == "exception":
            base = builtin_exception(value_of(node.elts[1]))
            names[name] = EXCEPTIONS[name] = type(name, (base,), {})
        else:
            names[name] = value_of(node.elts[1])
    return names
