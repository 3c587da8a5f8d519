"""Runs one answer: process 1 of a sandbox that lives for one sample. Everything in here is in the
hands of the answer once it runs, so nothing that is said here is believed: outputs and values go
out, and they are compared outside, where the expected ones are.

Frames on descriptors 0 (in) and 1 (out): length, 4 bytes little-endian, then a letter, then fields
of length and bytes. In: S run the answer on inputs; C the same for C++; V import it, serve calls;
T run a tool's call.
Imports cost milliseconds of every sample: built-in modules only (signal.py alone takes 3).
"""
import posix
import sys
import _signal

LINE_LIMIT = 300


def take(size):
    parts = []
    while size:
        part = posix.read(IN, min(size, 1 << 20))
        if not part:
            posix._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def receive():
    data = take(int.from_bytes(take(4), "little"))
    fields, at = [], 1
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "little")
        fields.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return data[:1], fields


def send(letter, *fields):
    body = b"".join([letter] + [len(x).to_bytes(4, "little") + x for x in fields])
    body = len(body).to_bytes(4, "little") + body
    while body:
        body = body[posix.write(OUT, body):]


def text(x):
    return str(x).encode("utf-8", "replace")


def describe(error):
    """"ZeroDivisionError: division by zero, line 3", the line of the answer."""
    line, at = 0, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == "<answer>":
            line = at.tb_lineno
        at = at.tb_next
    if isinstance(error, SyntaxError) and error.filename == "<answer>":
        line = error.lineno or 0
    try:
        what = str(error.msg if isinstance(error, SyntaxError) else error)
        what = what.split("\n")[0][:LINE_LIMIT]
    except BaseException:
        what = ""
    name = type(error).__name__ + (": " + what if what else "")
    return name + (", line %d" % line if line else "")


def open_fresh(data):
    """A descriptor of a file in /tmp that has no name any more; it is gone with its last reader."""
    name = ".%d" % posix.getpid()
    fd = posix.open(name, posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_CLOEXEC, 0o600)
    posix.unlink(name)
    while data:
        data = data[posix.write(fd, data):]
    posix.lseek(fd, 0, 0)
    return fd


def run_python(code, last=None):
    """In the child. `last`, an expression, is printed as a session does. Returns what went wrong,
    or ""."""
    names = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(code, names)
        value = None if last is None else eval(last, names)
        if value is not None:
            print(repr(value))
        error = ""
    except SystemExit as stop:
        error = "" if stop.code in (None, 0) else "exit code %s" % stop.code
    except BaseException as failure:
        error = describe(failure)
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    try:
        sys.stdout.flush()
    except BaseException as failure:
        error = error or describe(failure)
    return error


def child(stdin, out, err, note, body):
    """Never returns."""
    for fd, at in ((stdin, 0), (out, 1), (err, 2)):
        posix.dup2(fd, at)
    posix.close(OUT)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGCHLD])
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    posix.write(note, text(body()))
    posix._exit(0)


def wait(pid, seconds):
    """Returns the child's wait status, or None when the time is over."""
    end = monotonic() + seconds
    while True:
        got, status = posix.waitpid(pid, posix.WNOHANG)
        if got:
            return status
        left = end - monotonic()
        if left <= 0:
            return None
        _signal.sigtimedwait([_signal.SIGCHLD], left)


def sweep():
    """Ends what a case has left. Where no namespace holds it the filter forbids that."""
    options = 0
    try:
        posix.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass
    except OSError:
        options = posix.WNOHANG
    try:
        while posix.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        pass


def run_case(stdin, seconds, limit, body):
    """Sends R: how it ended, wait status, output, note of the child, end of stderr."""
    files = [open_fresh(x) for x in (stdin, b"", b"", b"")]
    pid = posix.fork()
    if pid == 0:
        child(*files, body)
    status = wait(pid, seconds)
    if status is None:
        try:
            posix.kill(pid, _signal.SIGKILL)
        except OSError:
            send(b"R", b"timeout", b"0", b"", b"", b"")
            posix._exit(0)
    sweep()
    sizes = [posix.fstat(fd).st_size for fd in files]
    out = posix.pread(files[1], limit + 1, 0)
    note = posix.pread(files[3], 2000, 0)
    err = posix.pread(files[2], 2000, max(0, sizes[2] - 2000))
    for fd in files:
        posix.close(fd)
    send(b"R", b"timeout" if status is None else b"ended", text(status or 0), out, note, err)


def run_inputs(fields):
    code, seconds, limit = fields[0], float(fields[1]), int(fields[2])
    try:
        compiled = compile(code, "<answer>", "exec", dont_inherit=True)
    except BaseException as failure:
        send(b"E", text(describe(failure)))
        return
    for stdin in fields[3:]:
        run_case(stdin, seconds, limit, lambda: run_python(compiled))


def run_session(fields):
    """A tool's call: as run_inputs once without input, and the value of a last expression."""
    import _ast

    code, seconds, limit = fields[0], float(fields[1]), int(fields[2])
    try:
        tree = compile(code, "<answer>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr):
            last = compile(_ast.Expression(tree.body.pop().value), "<answer>", "eval")
        compiled = compile(tree, "<answer>", "exec", dont_inherit=True)
    except BaseException as failure:
        send(b"E", text(describe(failure)))
        return
    run_case(b"", seconds, limit, lambda: run_python(compiled, last))


def run_program(path, arguments):
    try:
        posix.execve(path, arguments, dict(posix.environ))
    except OSError as failure:
        return describe(failure)


def run_cpp(fields):
    source, seconds, limit, compile_seconds = fields[0], float(fields[1]), int(fields[2]), fields[3]
    fd = posix.open("a.cpp", posix.O_WRONLY | posix.O_CREAT, 0o600)
    while source:
        source = source[posix.write(fd, source):]
    posix.close(fd)
    compiler = [x.decode() for x in fields[4].split(b"\0")]
    run_case(b"", float(compile_seconds), 1000, lambda: run_program(compiler[0], compiler))
    for stdin in fields[5:]:
        run_case(stdin, seconds, limit, lambda: run_program("./a.out", ["./a.out"]))


# ---- V: calls from the judge (judge.py), values as Python literals -------------------------------

HANDLES = []
PLAIN = (int, float, str, bytes, bool, complex, type(None), type(...))
OPERATORS = {
    "__bool__": bool, "__str__": str, "__repr__": repr, "__iter__": iter, "__next__": next,
    "__len__": len, "__int__": int, "__float__": float, "__hash__": hash, "__abs__": abs,
    "__neg__": lambda a: -a, "__contains__": lambda a, b: b in a, "__eq__": lambda a, b: a == b,
    "__lt__": lambda a, b: a < b, "__le__": lambda a, b: a <= b, "__gt__": lambda a, b: a > b,
    "__ge__": lambda a, b: a >= b, "__add__": lambda a, b: a + b, "__sub__": lambda a, b: a - b,
    "__mul__": lambda a, b: a * b, "__truediv__": lambda a, b: a / b, "__mod__": lambda a, b: a % b,
    "__floordiv__": lambda a, b: a // b, "__pow__": lambda a, b: a ** b,
    "__getitem__": lambda a, b: a[b],
}


def handle(x):
    """R(index, name of the class, index of the class): an object that stays here."""
    for index, known in enumerate(HANDLES):
        if known is x:
            break
    else:
        index = len(HANDLES)
        HANDLES.append(x)
    if isinstance(x, type):
        return "R(%d,'type',-1)" % index
    return "R(%d,%r,%d)" % (index, str(type(x).__name__), class_index(type(x)))


def class_index(kind):
    for index, known in enumerate(HANDLES):
        if known is kind:
            return index
    return -1


def encode_items(items, depth):
    return ",".join([encode(x, depth + 1) for x in items])


def encode(x, depth=0):
    kind = type(x)
    if kind in PLAIN:
        return "..." if x is ... else repr(x)
    if depth > 100:
        raise ValueError("a value that is nested more than 100 deep")
    if kind is list:
        return "[" + encode_items(x, depth) + "]"
    if kind is tuple:
        return "(" + encode_items(x, depth) + ("," if len(x) == 1 else "") + ")"
    if isinstance(x, dict):
        pairs = ["%s:%s" % (encode(k, depth + 1), encode(v, depth + 1)) for k, v in x.items()]
        return "{" + ",".join(pairs) + "}"
    if kind in (set, frozenset):
        return "V(%r,[%s])" % (kind.__name__, encode_items(x, depth))
    return encode_library(x, kind, depth)


def encode_library(x, kind, depth):
    """Values of the standard library and numpy that the judge can build again."""
    home, name = kind.__module__, kind.__name__
    if (home, name) == ("fractions", "Fraction"):
        return "V('Fraction',%d,%d)" % (x.numerator, x.denominator)
    if (home, name) == ("decimal", "Decimal"):
        return "V('Decimal',%r)" % str(x)
    if (home, name) == ("collections", "deque"):
        return "V('deque',[%s])" % encode_items(x, depth)
    if home == "datetime" and name in ("date", "datetime", "time"):
        return "V(%r,%r)" % (name, x.isoformat())
    if (home, name) == ("datetime", "timedelta"):
        return "V('timedelta',%d,%d,%d)" % (x.days, x.seconds, x.microseconds)
    if kind in (range, bytearray):
        return "V(%r,%s)" % (name, encode((x.start, x.stop, x.step) if kind is range else bytes(x)))
    if home == "numpy" and name == "ndarray":
        return "V('ndarray',%r,%s)" % (str(x.dtype), encode(x.tolist(), depth + 1))
    if home == "numpy" and hasattr(x, "item"):
        return encode(x.item(), depth + 1)
    if isinstance(x, tuple) and hasattr(kind, "_fields"):
        return "V('namedtuple',%r,%s,%s)" % (
            name, encode(tuple(kind._fields), depth), encode(tuple(x), depth + 1))
    return handle(x)


def callback(index):
    """A function of the test, for the answer to call."""
    def call(*args, **kwargs):
        send(b"B", text("(%d,%s,%s)" % (index, encode(args), encode(kwargs))))
        while True:
            letter, fields = receive()
            if letter == b"A":
                kind, value = decode(fields[0])
                if kind == "ok":
                    return value
                raise getattr(__builtins__, value[0], RuntimeError)(value[1])
            answer(fields[0])
    return call


def decode(data):
    """What the judge sends is the judge's own: no answer has had a hand in it."""
    return eval(data.decode("utf-8", "surrogatepass"), {
        "H": lambda index: HANDLES[index], "C": callback, "set": set, "frozenset": frozenset,
        "inf": float("inf"), "nan": float("nan"), "X": lambda name, *a: library(name)(*a),
        "__builtins__": {}})


def library(name):
    home, kind = name.rsplit(".", 1)
    return getattr(__import__(home), kind)


def perform(request):
    what, target, name, args, kwargs = request
    if what == "get":
        return getattr(target, name)
    if what == "set":
        return setattr(target, name, args[0])
    if name == "":
        return target(*args, **kwargs)
    if name in OPERATORS:
        return OPERATORS[name](target, *args)
    return getattr(target, name)(*args, **kwargs)


def answer(data):
    """Sends V: what came of a request, and the arguments that can have been changed."""
    try:
        request = decode(data)
        value = perform(request)
        mutable = ["%d:%s" % (i, encode(x)) for i, x in enumerate(request[3])
                   if type(x) in (list, dict, set, bytearray)]
        reply = "('ok',%s,{%s})" % (encode(value), ",".join(mutable))
    except BaseException as failure:
        names = [x.__name__ for x in type(failure).__mro__]
        try:
            what = str(failure)
        except BaseException:
            what = ""
        reply = "('error',%r,%r,%r)" % (names, what, describe(failure))
    send(b"V", reply.encode("utf-8", "surrogatepass"))


def kind_of(x):
    if isinstance(x, type):
        return "exception" if issubclass(x, BaseException) else "class"
    if type(x) is type(sys):
        return "module"
    return "function" if callable(x) else "value"


def describe_name(x):
    kind = kind_of(x)
    if kind == "module":
        return repr((kind, x.__name__))
    if kind == "exception":
        return "(%r,%r,%s)" % (kind, [c.__name__ for c in x.__mro__], handle(x))
    try:
        return "(%r,%s)" % (kind, encode(x))
    except BaseException:
        return "(%r,%s)" % (kind, handle(x))


def serve(fields):
    global IN
    IN = posix.dup(0)
    null = posix.open("/dev/null", posix.O_RDWR)
    for fd in (0, 1, 2):
        posix.dup2(null, fd)
    module = type(sys)("solution")
    sys.modules["solution"] = module
    try:
        compiled = compile(fields[0], "<answer>", "exec", dont_inherit=True)
    except BaseException as failure:
        return send(b"C", text(describe(failure)))
    try:
        exec(fields[1].decode(), module.__dict__)
        exec(compiled, module.__dict__)
    except BaseException as failure:
        return send(b"E", text(describe(failure)))
    names = ["%r:%s" % (name, describe_name(x)) for name, x in list(vars(module).items())
             if not name.startswith("__")]
    send(b"N", ("{" + ",".join(names) + "}").encode("utf-8", "surrogatepass"))
    while True:
        answer(receive()[1][0])


def stop(code=None):
    raise SystemExit(code)


IN, OUT = 0, posix.dup(1)
sys.set_int_max_str_digits(0)
sys.path[:] = [x for x in sys.path if x] + ["/usr/lib/python3/dist-packages"]
sys.argv = ["answer.py"]
__builtins__.exit = __builtins__.quit = stop
monotonic = __import__("time").monotonic
_signal.signal(_signal.SIGINT, _signal.SIG_DFL)
_signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
LETTER, FIELDS = receive()
{b"S": run_inputs, b"T": run_session, b"C": run_cpp, b"V": serve}[LETTER](FIELDS)
