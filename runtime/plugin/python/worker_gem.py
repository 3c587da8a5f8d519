"""The part of a plugin's child (worker.py) that plays worlds of the package GEM (gem-llm), under
the names that ROLL's configs give them. One program with worker.py, which comes behind it: names
that are not defined here are worker.py's.

TASK-1: GEM draws chance for the whole process, and some of its worlds remember earlier episodes. So
each episode starts from a copy of one untouched world, and has a state of chance of its own.
"""

import copy
import random
import tempfile

GEM_OF_ROLL = {  # ROLL's own names, and what its classes stand on
    "roll_math": ("gem.envs.math_env", "MathEnv"),
    "roll_code": ("gem.envs.code_env", "CodeEnv"),
    "roll_qa": ("gem.envs.qa_env", "QaEnv"),
}
GEM_SEEDS = 1 << 32  # numpy takes no more


class GemRows(list):
    """Rows of a file, with what GEM's worlds ask of a Dataset of the package datasets."""

    def shuffle(self, seed=None):
        return self  # the episode's seed draws the row

    def map(self, function, **_):
        return GemRows(function(dict(row)) for row in self)


class GemState:
    """What the child has loaded: one world, which no episode touches, and its tools."""

    world = None
    tools = ()
    wrapper_args = {}


def gem_advice(why):
    return (
        "is a world of the package gem-llm, and %s has none (%s): make a virtual environment, pip "
        "install gem-llm in it, and give env_config.python: /that/venv/bin/python3"
        % (sys.executable, why)
    )


def gem_file(path, split):
    """Returns the file of rows that `path` is, or holds; None if it is a folder of another form."""
    if not os.path.isdir(path):
        return path
    names = sorted(name for name in os.listdir(path) if name.endswith((".jsonl", ".json")))
    wanted = [name for name in names if os.path.splitext(name)[0] == split]
    chosen = wanted or names
    return os.path.join(path, chosen[0]) if len(chosen) == 1 else None


def gem_rows(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.lstrip().startswith("["):
        rows = json.loads(text)
    else:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise Refusal("dataset_name %s: no rows, one JSON object a line" % path)
    return GemRows(rows)


def gem_data(name, split, has_network):
    """Returns the rows of a local file, or None where the package datasets has to load `name`."""
    if os.path.exists(name):
        path = gem_file(name, split)
        if path is None:
            return None
        # The package datasets, which GEM imports for these names, need not be installed.
        stand_in = types.ModuleType("datasets")
        stand_in.Dataset, stand_in.DatasetDict, stand_in.load_dataset = GemRows, GemState, None
        sys.modules["datasets"] = stand_in
        return gem_rows(path)
    if not has_network:
        raise Refusal(
            "dataset_name %s: no such file or folder, and a world has no network: get its rows "
            "(hf download --repo-type dataset %s --local-dir FOLDER) and give that folder, or a "
            ".jsonl file, as env_config.dataset_name" % (name, name)
        )
    return None


def gem_class(env_id):
    """Returns (how to make it, what it is given unless the config says otherwise)."""
    import importlib

    import gem
    from gem.envs import registration

    if env_id in GEM_OF_ROLL:
        module, name = GEM_OF_ROLL[env_id]
        return (lambda **kw: getattr(importlib.import_module(module), name)(**kw)), {}
    known = registration.ENV_REGISTRY
    if env_id in known:
        return (lambda **kw: gem.make(env_id, **kw)), known[env_id].kwargs
    # gem-llm 0.1 has game:X-v0-easy, not ROLL's game:X-v0: the same class, with its own defaults.
    for other in sorted(known):
        if other.startswith(env_id + "-") and isinstance(known[other].entry_point, str):
            module, name = known[other].entry_point.split(":")
            return (lambda **kw: getattr(importlib.import_module(module), name)(**kw)), {}
    start = env_id.split(":")[0] + ":"
    listed = ", ".join(sorted(name for name in known if name.startswith(start))) or "none"
    raise Refusal("its gem-llm has no such world; there is: %.600s" % listed)


def make_gem(env_id, config, has_network):
    make, defaults = gem_class(env_id)
    name = config.get("dataset_name", defaults.get("dataset_name"))
    if name is None and env_id in GEM_OF_ROLL:
        raise Refusal("needs env_config.dataset_name: a .jsonl file, or a folder with one")
    config = dict(config)
    if name is not None:
        split = config.get("split", defaults.get("split"))
        rows = gem_data(name, split, has_network)
        if rows is not None:
            config["dataset"] = rows
        # One process a world to compare two answers would be thousands: it is done in this one.
        config.setdefault("use_mp", False)
    seed_gem(0)
    world = make(**config)
    for key in ("question_key", "answer_key", "test_key"):
        column = getattr(world, key, None)
        if name is not None and column is not None and column not in world.dataset[0]:
            listed = ", ".join(map(str, world.dataset[0]))
            raise Refusal("%s: rows have no column %r (they have: %s)" % (key, column, listed))
    return world


def make_gem_tools(wrapper, has_network):
    tools = []
    for one in wrapper.get("tool_configs") or ():
        name, args = one.get("tool_id"), one.get("tool_args") or {}
        if name == "python_code":
            tools.append(gem_python(**args))
        elif name == "search" and has_network:
            tools.append(gem_search(**args))
        else:
            known = "python_code, or search with env_config.sandbox.network: true"
            raise Refusal("tool_wrapper: %s asks a server; use %s" % (name, known))
    return tools


def gem_search(**args):
    from gem.tools.search_tool import SearchTool

    return SearchTool(**args)


def gem_python(timeout=5, **args):
    from gem.tools.python_code_tool import PythonCodeTool
    from gem.utils import sandbox

    run = sandbox.subprocess_run

    def run_in_time(code, command, kind, stdin=None, **_):
        return run(code, command, kind, stdin, timeout)  # gem-llm 0.1 forgets the tool's timeout

    sandbox.subprocess_run = run_in_time
    return PythonCodeTool(timeout=timeout, **args)


def seed_gem(seed):
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def gem_chance():
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy and numpy.random.get_state()


def set_gem_chance(chance):
    random.setstate(chance[0])
    if chance[1]:
        sys.modules["numpy"].random.set_state(chance[1])


class GemWorld:
    """One episode after the other, as load_environment's classes are."""

    uses = None

    def reset(self, seed):
        seed = (seed ^ seed >> 32) % GEM_SEEDS
        seed_gem(seed)
        world = GemState.world
        is_shared = hasattr(world, "dataset") or hasattr(world, "ds")  # rows, which nobody changes
        self.world = copy.copy(world) if is_shared else copy.deepcopy(world)
        if GemState.tools:
            from gem.tools.tool_env_wrapper import ToolEnvWrapper

            self.world = ToolEnvWrapper(self.world, GemState.tools, **GemState.wrapper_args)
        observation, info = self.world.reset(seed=seed)
        self.chance = gem_chance()
        return self.seen(observation, info), {}

    def step(self, answer):
        set_gem_chance(self.chance)
        try:
            found = self.world.step(answer)
        except UnboundLocalError:  # QaEnv of gem-llm 0.1, of an answer without <answer>
            if not hasattr(self.world, "extractor"):
                raise
            found = "", 0.0, True, True, {}
        self.chance = gem_chance()
        observation, reward, terminated, truncated, info = found
        is_done = bool(terminated or truncated)
        is_right = is_done and float(reward) >= 1  # GEM pays a solved task with 1
        stop = "goal" if is_right else "done" if terminated else "max_turns"
        told = {"success": is_right, "stop_reason": stop if is_done else ""}
        return self.seen(observation, info), reward, is_done, told

    def seen(self, observation, info):
        """What ROLL's templates show by {observation} and {suffix}."""
        if "tool_use_counter" in info:
            self.uses = (info["tool_use_counter"], info["tool_success_counter"])
        suffix = info.get("suffix")
        return "%s\n%s" % (observation, suffix) if suffix else str(observation)

    def metrics(self):
        return {} if self.uses is None else dict(zip(("tool_uses", "tool_successes"), self.uses))


def load_gem(_, request):
    args, env_id = plugin.args, plugin.args["env_id"]
    # Programs of answers run below /tmp, by this interpreter (GEM calls it python).
    os.chdir(tempfile.gettempdir())
    os.environ["PATH"] = "%s:%s" % (os.path.dirname(sys.executable), os.environ.get("PATH", ""))
    try:
        import gem

        if not hasattr(gem, "make"):
            raise ImportError("its package gem is another one")
    except ImportError as error:
        raise Refusal("%s %s" % (env_id, gem_advice(error))) from None
    wrapper = args.get("tool_wrapper") or {}
    try:
        GemState.world = make_gem(env_id, args.get("env_config") or {}, request["has_network"])
        GemState.tools = make_gem_tools(wrapper, request["has_network"])
        GemState.wrapper_args = wrapper.get("wrapper_args") or {}
        plugin.function, plugin.args, plugin.form = GemWorld, {}, "environment"
        GemWorld().reset(0)
    except ImportError as error:  # pylatexenc of MathEnv, pandas of Crosswords
        raise Refusal(
            "%s: %s; gem-llm does not install all that its worlds import: %s -m pip install it"
            % (env_id, error, sys.executable)
        ) from None
    except LookupError as error:
        if "nltk" not in str(error):
            raise Refusal("%s %s" % (env_id, reason(error))) from None
        folder = os.path.join(sys.prefix, "nltk_data")
        raise Refusal(
            "%s needs NLTK's list of words: %s -m nltk.downloader -d %s words"
            % (env_id, sys.executable, folder)
        ) from None
    except Exception as error:
        raise Refusal("%s (%s): %s" % (env_id, sys.executable, reason(error))) from None
    return env_id
