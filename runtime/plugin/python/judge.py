"""Runs the test code of rows: process 1 of a sandbox that stays. Each request is served by a child
of its own, so no test meets the leftovers of another. The answer under test is in another sandbox:
its functions are called through frames (sample.py), and what comes back are literals, parsed and
never evaluated. An object that cannot be sent as a value stays there; it equals only objects of the
answer's, so a class whose == is always true does not pass `assert f(2) == 4`.

Frames on descriptors 0 and 1 as in sample.py. In: J a request, V and B from the answer, D the answer
is gone. Out: I a case begins, K it has ended, Z all have, X the request is wrong, Q and A to the answer.
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


def encode_library(x):
    if isinstance(x, fractions.Fraction):
        return "X('fractions.Fraction',%d,%d)" % (x.numerator, x.denominator)
    if isinstance(x, decimal.Decimal):
        return "X('decimal.Decimal',%r)" % str(x)
    if isinstance(x, collections.deque):
        return "X('collections.deque',%s)" % encode(list(x))
    if isinstance(x, datetime.datetime):
        return "X('datetime.datetime',%s)" % ",".join(map(str, x.timetuple()[:6] + (x.microsecond,)))
    if isinstance(x, datetime.date):
        return "X('datetime.date',%d,%d,%d)" % (x.year, x.month, x.day)
    if isinstance(x, datetime.timedelta):
        return "X('datetime.timedelta',%d,%d,%d)" % (x.days, x.seconds, x.microseconds)
    if isinstance(x, range):
        return "X('builtins.range',%d,%d,%d)" % (x.start, x.stop, x.step)
    if isinstance(x, bytearray):
        return "X('builtins.bytearray',%r)" % bytes(x)
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
    send("Q", "(%r,H(%d),%r,%s,%s)" % (what, index, name, encode(tuple(args)), encode(kwargs or {})))
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
    """The answer's names as the test sees them. Those of builtins stay Python's, unless the row asks
    for one: an answer's own all() or isinstance() must not decide an assert."""
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


# ---- cases ---------------------------------------------------------------------------------------

def show(x):
    text = repr(x)
    return text if len(text) <= 80 else text[:80] + "…"


class Equalities(ast.NodeTransformer):
    """`assert a == b` says what a and b are."""

    def visit_Assert(self, node):
        test = node.test
        if (isinstance(test, ast.Compare) and len(test.ops) == 1 and node.msg is None
                and isinstance(test.ops[0], ast.Eq)):
            call = ast.Call(ast.Name("_cohort_equal", ast.Load()),
                            [test.left, test.comparators[0]], [])
            return ast.copy_location(ast.Expr(call), node)
        return node


def assert_equal(got, expected):
    if not got == expected:
        raise AssertionError("expected %s, got %s" % (show(expected), show(got)))


def compiled(code, name="<test>"):
    return compile(ast.fix_missing_locations(Equalities().visit(ast.parse(code))), name, "exec")


class Raises:
    def __init__(self, kind, match=None):
        self.kind, self.match, self.value = kind, match, None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            raise AssertionError("expected %s, nothing was raised" % show(self.kind))
        if not issubclass(kind, self.kind):
            return False
        self.value = value
        import re
        if self.match is not None and not re.search(self.match, str(value)):
            raise AssertionError("expected %r in %r" % (self.match, str(value)))
        return True


class Approx:
    def __init__(self, expected, rel=None, abs=None):
        self.expected, self.rel, self.abs = expected, rel, abs

    def __eq__(self, got):
        return self.close(self.expected, got)

    def close(self, a, b):
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(
                self.close(a[k], b[k]) for k in a)
        if isinstance(a, (list, tuple)):
            return type(a) is type(b) and len(a) == len(b) and all(map(self.close, a, b))
        if not isinstance(b, (int, float, complex)):
            return False
        if a == b:
            return True
        rel = self.rel if self.rel is not None else 0.0 if self.abs is not None else 1e-6
        return abs(a - b) <= max(rel * abs(a), self.abs if self.abs is not None else 1e-12)

    def __repr__(self):
        return "approx(%r)" % (self.expected,)


class Skip(Exception):
    pass


def fail(reason=""):
    raise AssertionError(reason)


def skip(reason=""):
    raise Skip(reason)


class Marks:
    """pytest.mark: parametrize is kept, the others change nothing here."""

    def __getattr__(self, name):
        def mark(*args, **kwargs):
            if len(args) == 1 and callable(args[0]) and not kwargs:
                return args[0]

            def decorate(function):
                if name == "parametrize":
                    function.cases = getattr(function, "cases", []) + [args[:2]]
                if name in ("skip", "skipif") and (name == "skip" or args[0]):
                    function.is_skipped = True
                return function
            return decorate
        return mark


def raises(kind, *args, match=None, **kwargs):
    if not args:
        return Raises(kind, match)
    with Raises(kind, match):
        args[0](*args[1:], **kwargs)


def pytest_module():
    """What test functions of data sets use of pytest; the real one takes 200 ms to import."""
    module = types.ModuleType("pytest")
    module.raises, module.approx, module.mark = raises, Approx, Marks()
    module.fail, module.skip = fail, skip
    module.fixture = lambda f=None, **k: f if f is not None else (lambda g: g)
    return module


def calls_of(function):
    """The argument sets that parametrize gives a test function."""
    sets = [{}]
    for names, values in getattr(function, "cases", []):
        names = [x.strip() for x in names.split(",")] if isinstance(names, str) else list(names)
        rows = [dict(zip(names, x if len(names) > 1 else (x,))) for x in values]
        sets = [{**a, **b} for a in sets for b in rows]
    return sets


def run_functions(space):
    import inspect
    count = 0
    for name, function in list(space.items()):
        if isinstance(function, RemoteClass) or isinstance(function, Remote):
            continue
        if name.startswith("test") and isinstance(function, types.FunctionType):
            if getattr(function, "is_skipped", False):
                continue
            for given in calls_of(function):
                wanted = inspect.signature(function).parameters
                fixtures = {x: space[x]() for x in wanted if x not in given and x in space}
                function(**given, **fixtures)
                count += 1
        elif name.startswith("Test") and isinstance(function, type):
            count += run_class(function)
    return count


def run_class(kind):
    import unittest
    if issubclass(kind, unittest.TestCase):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        for _, trace in result.errors + result.failures:
            raise AssertionError(trace.strip().split("\n")[-1])
        return result.testsRun
    count = 0
    for name in [x for x in vars(kind) if x.startswith("test")]:
        item = kind()
        if hasattr(item, "setup_method"):
            item.setup_method()
        for given in calls_of(getattr(kind, name)):
            getattr(item, name)(**given)
            count += 1
    return count


def calls_check(tree):
    return any(isinstance(x, ast.Expr) and isinstance(x.value, ast.Call)
               and isinstance(x.value.func, ast.Name) and x.value.func.id == "check"
               for x in tree.body)


class Response(ast.NodeTransformer):
    """"{response}" in a literal becomes the answer's text, as a value and never as code."""

    def visit_Constant(self, node):
        if not isinstance(node.value, str) or "{response}" not in node.value:
            return node
        parts = node.value.split("{response}")
        join = ast.Call(ast.Attribute(ast.Name("_cohort_response", ast.Load()), "join", ast.Load()),
                        [ast.List([ast.Constant(x) for x in parts], ast.Load())], [])
        return ast.copy_location(join, node)

    def visit_Set(self, node):
        if len(node.elts) == 1 and isinstance(node.elts[0], ast.Name) \
                and node.elts[0].id == "response":
            return ast.copy_location(ast.Name("_cohort_response", ast.Load()), node)
        return self.generic_visit(node)


def plain(x):
    """Tuples as lists, as JSON has them."""
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def agree(expected, got):
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(agree, expected, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        return {str(k): None for k in expected} == {str(k): None for k in got} and all(
            agree(v, got.get(k, got.get(int(k)) if k.lstrip("-").isdigit() else None))
            for k, v in expected.items())
    if isinstance(expected, float) and type(got) in (int, float):
        return expected == got or math.isclose(expected, got, rel_tol=1e-6, abs_tol=1e-6)
    return type(got) in (int, float, str, bool, type(None)) and expected == got \
        and isinstance(expected, bool) == isinstance(got, bool)


def load(text):
    value = json.loads(text)
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def arguments_of(text):
    """A list of arguments, or text with one a line."""
    value = json.loads(text)
    if isinstance(value, str):
        return [json.loads(x) for x in value.split("\n") if x.strip()]
    return value if isinstance(value, list) else [value]


class Request:
    def __init__(self, fields):
        self.kind, names, self.entry, self.prefix, self.response, self.stops = fields[:6]
        self.cases = list(zip(fields[6::2], fields[7::2]))
        self.names, self.broken = {}, None
        try:
            self.names = names_of(names, self.entry)
        except Exception:
            self.broken = "crash: the answer's process sent no names"

    def space(self):
        space = {"__name__": "__test__", "_cohort_equal": assert_equal}
        space.update(self.names)
        if self.prefix:
            exec(compile(self.prefix, "<import_prefix>", "exec"), space)
        return space

    def target(self, space):
        """entry_point or fn_name: a function, or a method of the class Solution."""
        if self.entry in space:
            return space[self.entry]
        if "Solution" in self.names:
            return getattr(self.names["Solution"](), self.entry)
        raise Failure("the answer defines no %s" % (self.entry or "function"))

    def run_call(self, given, expected):
        args = arguments_of(given)
        got, expected = plain(self.target(self.names)(*args)), load(expected)
        if agree(expected, got):
            return
        # APPS wraps the value into a list.
        if isinstance(expected, list) and len(expected) == 1 and agree(expected[0], got):
            return
        raise AssertionError("expected %s, got %s" % (show(expected), show(got)))

    def run_test(self, _, code):
        space = self.space()
        exec(compiled(code), space)
        # The answer's names are no tests, but a test may have the name of one.
        run_functions({k: v for k, v in space.items() if v is not self.names.get(k)})

    def run_check(self, _, code):
        space = self.space()
        if self.entry:
            space[self.entry] = space["candidate"] = self.target(space)
        tree = ast.parse(code)
        exec(compiled(code), space)
        if "check" in space and not calls_check(tree):
            space["check"](self.target(space))

    def run_text(self, _, code):
        tree = ast.fix_missing_locations(Response().visit(ast.parse(code)))
        space = {"__name__": "__test__", "_cohort_response": self.response, "response": self.response}
        tree = ast.fix_missing_locations(Equalities().visit(tree))
        exec(compile(tree, "<test>", "exec"), {**space, "_cohort_equal": assert_equal})

    def run(self):
        run = {"call": self.run_call, "test": self.run_test, "check": self.run_check,
               "text": self.run_text}[self.kind]
        for index, (given, expected) in enumerate(self.cases):
            send("I", str(index))
            failure = self.outcome(run, given, expected)
            send("K", "1" if failure is None else "", failure or "")
            if failure is not None and self.stops:
                break
        send("Z")

    def outcome(self, run, given, expected):
        """None: passed. "": the answer's process is gone."""
        if self.broken is not None:
            return self.broken
        try:
            run(given, expected)
            return None
        except Gone:
            return ""
        except Skip:
            return None
        except (AssertionError, Failure) as error:
            return "wrong answer: " + describe(error)
        except Wrong:
            raise
        except BaseException as error:
            what = getattr(error, "of_answer", None)
            if what is not None and what.startswith("MemoryError"):
                return "memory limit: " + what
            if what is not None:
                return "exception: " + what
            return "exception: in the test: " + describe(error)


def describe(error):
    what = str(error).split("\n")[0][:300]
    line, at = 0, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "<test>":
            line = at.tb_lineno
        at = at.tb_next
    name = "" if isinstance(error, (AssertionError, Failure)) else type(error).__name__ + ": "
    return name + (what or "an assert does not hold") + (", line %d of the test" % line if line else "")


def serve(fields):
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        request = Request(fields)
        solution = types.ModuleType("solution")
        solution.__dict__.update(request.names)
        sys.modules["solution"] = solution
        sys.modules["pytest"] = pytest_module()
        request.run()
    except BaseException as error:
        send("X", "the test cannot be run: " + describe(error))
    os._exit(0)


IN, OUT = os.dup(0), os.dup(1)
sys.set_int_max_str_digits(0)
sys.path[:] = [x for x in sys.path if x] + ["/usr/lib/python3/dist-packages"]
while True:
    LETTER, FIELDS = receive()
    if LETTER != "J":
        continue  # meant for a child that is done
    if os.fork() == 0:
        serve(FIELDS)
    if os.waitpid(-1, 0)[1] != 0:
        send("X", "the judge's child has died")
