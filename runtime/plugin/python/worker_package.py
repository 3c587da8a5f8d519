"""The part of a plugin's child (worker.py) that plays what packages of the user's register with
GEM, as ROLL's package does (webshop, rock_tb_native_env, atropos_env, …), and that runs ROLL's
agent runners. One program with worker.py, which comes behind it: names that are not defined here
are worker.py's, or those of its other parts.
"""

RESET_FAILED = "its reset failed"


def import_all(modules):
    import importlib

    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise Refusal(
                "module %s: %s; %s -m pip install what it lacks, or give the folder that it lies "
                "in as env_config.pythonpath" % (name, error, sys.executable)
            ) from None


class PackageState:
    """What the child has loaded, and worlds whose episode is over: each plays one after the other,
    as ROLL has it (to make one may take long: rows to load, a server to greet)."""

    make = None
    idle = []


class PackageWorld(GemWorld):
    """One episode after the other, as load_environment's classes are."""

    world = None
    instructions = ""
    tools = None

    def reset(self, seed):
        seed = (seed ^ seed >> 32) % GEM_SEEDS
        seed_gem(seed)
        self.world = PackageState.idle.pop() if PackageState.idle else PackageState.make()
        items = getattr(self.world, "env", None)
        if hasattr(items, "iter"):
            items.iter = seed  # Atropos counts its items: those of a group are to be the same
        observation, info = self.world.reset(seed=seed)
        if getattr(self.world, "env_reset_failed", False) or observation is None:
            raise Refusal("%s (%s)" % (RESET_FAILED, info.get("failure_mode") or "no observation"))
        self.instructions = info.get("env_instruction") or ""
        self.tools = info.get("tools")
        self.chance = gem_chance()
        return self.seen(observation, info), {"tools": self.tools}

    def step(self, answer):
        set_gem_chance(self.chance)
        observation, reward, terminated, truncated, info = self.world.step(answer)
        self.chance = gem_chance()
        is_done = bool(terminated or truncated)
        told = {"tools": self.tools, "metrics": {}}
        for name, value in (info.get("metrics") or {}).items():
            if is_number(value):
                told["metrics"][name] = value
        told["success"] = is_done and bool(told["metrics"].get("success", float(reward) >= 1))
        for ours, theirs in (("valid", "action_is_valid"), ("effective", "action_is_effective")):
            if theirs in told["metrics"]:
                told[ours] = bool(told["metrics"][theirs])
        stop = "goal" if told["success"] else "done" if terminated else "max_turns"
        told["stop_reason"] = stop if is_done else ""
        return self.seen(observation, info), reward, is_done, told

    def seen(self, observation, info):
        return observation if isinstance(observation, list) else GemWorld.seen(
            self, "" if observation is None else observation, info)

    def metrics(self):
        return {}

    def close(self):
        if self.world is not None:
            PackageState.idle.append(self.world)
            self.world = None


def load_package(_, request):
    args = plugin.args
    env_id, config = args["env_id"], args.get("env_config") or {}
    sys.path[:0] = args.get("pythonpath") or []
    try:
        import gem

        if not hasattr(gem, "make"):
            raise ImportError("its package gem is another one")
    except ImportError as error:
        raise Refusal("%s %s" % (env_id, gem_advice(error))) from None
    modules = args.get("modules") or []
    import_all(modules)
    tools, wrapper = (), args.get("tool_wrapper") or {}

    def make():
        world = gem.make(env_id, **config)
        if not tools:
            return world
        from gem.tools.tool_env_wrapper import ToolEnvWrapper

        return ToolEnvWrapper(world, tools, **wrapper.get("wrapper_args") or {})

    PackageState.make = make
    try:
        tools = make_gem_tools(wrapper, request["has_network"])
        PackageState.idle = [make()]
    except Exception as error:
        raise Refusal(
            "%s (%s, behind import %s): %s" % (env_id, sys.executable, ", ".join(modules),
                                               reason(error))
        ) from None
    plugin.function, plugin.args, plugin.form = PackageWorld, {}, "environment"
    return env_id


class Settings(dict):
    """What ROLL's runners read of a config, where the package omegaconf is not installed."""

    def __getattr__(self, name):
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(name) from None
        return Settings(value) if isinstance(value, dict) else value


def settings(values):
    try:
        from omegaconf import OmegaConf
    except ImportError:
        return Settings(values)
    return OmegaConf.create(values)


class RunnerAgent:
    """An AgentRunner of ROLL's as an agent of worker_agent.py. A runner plays one episode after the
    other, as ROLL has it."""

    runner_class = None
    entry = {}  # of custom_envs
    idle = []

    def run(self, seed, base_url):
        server = base_url[: -len("/v1")]  # a runner appends it
        if RunnerAgent.idle:
            runner = RunnerAgent.idle.pop()
        else:
            runner = RunnerAgent.runner_class(
                base_url=server, env_id=len(AgentWorld.worlds), worker_config=None,
                env_config=settings(RunnerAgent.entry))
        runner.base_url = server
        found = runner.run_job(seed)
        RunnerAgent.idle.append(runner)
        if not isinstance(found, dict):
            found = found.to_dict() if hasattr(found, "to_dict") else dict(vars(found))
        if found.get("status", "Finished") != "Finished":
            why = found.get("agent_exit_reason") or "it gave no reason"
            raise Refusal("run_job ended as %s: %s" % (found["status"], why))
        metrics = dict(found.get("metrics") or {})
        granularity = (RunnerAgent.entry.get("config") or {}).get("reward_granularity", "pass_rate")
        score = found.get(granularity, metrics.get(granularity, found.get("score", 0.0)))
        return {"reward": score, "metrics": {k: v for k, v in metrics.items() if is_number(v)}}


def load_runner(_, request):
    args = plugin.args
    sys.path[:0] = args.get("pythonpath") or []
    module, _, name = args["agent_runner"].rpartition(".")
    import_all([module])
    RunnerAgent.runner_class = getattr(sys.modules[module], name, None)
    if RunnerAgent.runner_class is None:
        raise Refusal("agent_runner_cls: module %s has no class %s" % (module, name))
    RunnerAgent.entry = dict(args.get("entry") or {}, config=args.get("env_config") or {})
    serve_agents(RunnerAgent)
    return args["agent_runner"]
