"""The part of a plugin's child (worker.py) that plays environments. One program with worker.py,
which comes behind it: names that are not defined here are worker.py's.
"""


def is_environment(item):
    return inspect.isclass(item) and hasattr(item, "reset") and hasattr(item, "step")


def load_environment(module, request):
    name, chosen = choose(
        module, request.get("name"), lambda item: is_environment(item) or is_agent(item), "class",
        "Environment"
    )
    if is_agent(chosen):
        args = plugin.args
        serve_agents(lambda: chosen(**args))
        return name
    plugin.function, plugin.form = chosen, "environment"
    return name


def attribute(world, name, otherwise):
    found = getattr(world, name, otherwise)
    return found() if callable(found) else found


def send_world(seq, world, observation, reward, is_done, info, rules=""):
    if not isinstance(info, dict):
        raise Refusal("gave a %s as info, not a dict" % type(info).__name__)
    if plugin.is_dialogue and not is_done:
        observation = dialogue_text(observation, info.get("tools"))
    if not isinstance(observation, (list, str) if is_done else str):
        kind = type(observation).__name__
        raise Refusal("gave a %s as observation, not a str (a list of messages: env_manager_cls "
                      "AgentNativeStepEnvManager)" % kind)
    if isinstance(observation, list):  # behind the last answer; nobody reads it
        observation = ""
    flags = (
        (1 if is_done else 0)
        | (2 if info.get("valid", True) else 0)
        | (4 if info.get("effective", info.get("valid", True)) else 0)
        | (8 if info.get("success", False) else 0)
    )
    stop = info.get("stop_reason") or ("done" if is_done else "")
    left = int(info.get("actions_left", attribute(world, "actions_left", -1)))
    metrics = dict(info.get("metrics") or attribute(world, "metrics", {}))
    out = [struct.pack("<dBi", number(reward), flags, left), encode(observation), encode(stop),
           encode(info.get("event", "")), encode(rules), U32.pack(len(metrics))]
    for key, value in metrics.items():
        out += (encode(key), F64.pack(number(value)))
    send(seq, WORLD, b"".join(out))


def reset(seq, payload):
    world_id, seed = struct.unpack_from("<QQ", payload, 0)
    world = plugin.worlds.get(world_id)
    if world is None:
        world = plugin.worlds[world_id] = plugin.function(**plugin.args)
    found = finish(world.reset(seed))
    observation, info = found if isinstance(found, tuple) else (found, {})
    send_world(seq, world, observation, 0.0, False, info, attribute(world, "instructions", ""))


def step(seq, payload):
    head = struct.Struct("<QIIB")
    world_id, *plugin.answer_facts = head.unpack_from(payload, 0)
    world = plugin.worlds.get(world_id)
    if world is None:
        raise Refusal("has no environment %d" % world_id)
    found = finish(world.step(payload[head.size:].decode("utf-8", "replace")))
    if not isinstance(found, tuple) or not 3 <= len(found) <= 5:
        raise Refusal("step gave %.60r, not (observation, reward, done[, info])" % (found,))
    observation, reward, is_done = found[:3]
    if len(found) == 5:  # gymnasium: terminated, truncated
        is_done = found[2] or found[3]
    send_world(seq, world, observation, reward, is_done, found[-1] if len(found) > 3 else {})


def close(_, payload):
    world = plugin.worlds.pop(struct.unpack_from("<Q", payload, 0)[0], None)
    end = getattr(world, "close", None)
    try:
        if callable(end):
            end()
    except Exception as error:  # nobody waits for an answer
        print("close() %s" % reason(error), file=sys.stderr)
