"""The second part of the judge (judge.py goes before it): the cases."""

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
        tree = ast.fix_missing_locations(Equalities().visit(tree))
        exec(compile(tree, "<test>", "exec"), {
            "__name__": "__test__", "_cohort_equal": assert_equal,
            "_cohort_response": self.response, "response": self.response})

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
    where = ", line %d of the test" % line if line else ""
    return name + (what or "an assert does not hold") + where


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
