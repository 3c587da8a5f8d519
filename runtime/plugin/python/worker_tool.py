"""The part of a plugin's child (worker.py) that runs a tool. One program with worker.py, which
comes behind it: names that are not defined here are worker.py's.
"""

JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array",
              tuple: "array", dict: "object"}


def is_tool(item):
    return inspect.isfunction(item) or (inspect.isclass(item) and hasattr(item, "execute"))


def load_tool(module, request):
    """A function f(**arguments), or verl's class: Class(config, tool_schema) with
    execute(instance_id, parameters), and create and release around each call if it has them."""
    name, found = choose(module, request.get("name"), is_tool, "tool", "call")
    plugin.output_max = request["output_bytes_max"]
    given = request.get("schema") or getattr(module, "tool_schema", None)
    if inspect.isclass(found):
        plugin.form = "class"
        plugin.function = found(plugin.args, typed_schema(given))
        own = getattr(plugin.function, "tool_schema", None)
        given = given or (own.model_dump(exclude_none=True) if hasattr(own, "model_dump") else own)
        if given is None:
            raise Refusal("%s has no tool_schema: give it in the config, or in the file" % name)
    else:
        plugin.form = "function"
        plugin.function = found
        check_args(name, found)
    plugin.schema = given or schema_of(name, found)
    plugin.is_async = inspect.iscoroutinefunction(getattr(plugin.function, "execute", found))
    return name


def typed_schema(schema):
    """verl's own type of a schema where verl is installed, else the dict."""
    try:
        from verl.tools.schemas import OpenAIFunctionToolSchema
    except ImportError:
        return schema
    return schema and OpenAIFunctionToolSchema.model_validate(schema)


def check_args(name, function):
    names = inspect.signature(function).parameters
    takes_any = any(p.kind == p.VAR_KEYWORD for p in names.values())
    for key in plugin.args:
        if key not in names and not takes_any:
            listed = ", ".join(names)
            raise Refusal("args.%s: %s has no such parameter (it has: %s)" % (key, name, listed))


def json_type(hint):
    """Returns the JSON schema of a type hint; {} says nothing of the type."""
    import typing

    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return {"type": "string", "enum": list(typing.get_args(hint))}
    found = JSON_TYPES.get(origin or hint)
    if found is None:
        return {}
    schema = {"type": found}
    if found == "array" and typing.get_args(hint):
        schema["items"] = json_type(typing.get_args(hint)[0])
    return schema


def documented(function):
    """Returns the text of a docstring before "Args:", and the words behind "name:" in it."""
    text = inspect.getdoc(function) or ""
    head, _, rest = text.partition("Args:\n")
    words, last = {}, None
    for line in rest.splitlines():
        if not line.strip() or not line.startswith(" "):
            break
        name, colon, said = line.strip().partition(":")
        name = name.split(" ")[0].split("(")[0]
        if colon and name.isidentifier():
            last = name
            words[last] = said.strip()
        elif last:
            words[last] += " " + line.strip()
    return " ".join(head.split()), words


def schema_of(name, function):
    """Returns the schema that a function's signature and docstring tell."""
    import typing

    hints = typing.get_type_hints(function)
    text, words = documented(function)
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        key = parameter.name
        is_open = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if key in plugin.args or is_open:
            continue
        properties[key] = json_type(hints.get(key))
        if key in words:
            properties[key]["description"] = words[key]
        if parameter.default is parameter.empty:
            required.append(key)
    parameters = {"type": "object", "properties": properties, "required": required}
    described = {"name": name, "description": text, "parameters": parameters}
    return {"type": "function", "function": described}


def perform(arguments):
    """One call; what the function gives, or what verl's execute gives first."""
    if plugin.form == "function":
        return finish(plugin.function(**{**arguments, **plugin.args}))
    tool = plugin.function
    instance = "0"
    if hasattr(tool, "create"):
        made = finish(tool.create())
        instance = made[0] if isinstance(made, tuple) else made or instance
    try:
        found = finish(tool.execute(instance, arguments))
    finally:
        if hasattr(tool, "release"):
            finish(tool.release(instance))
    return found[0] if isinstance(found, tuple) else found


def text_of_output(value):
    if hasattr(value, "text"):  # verl's ToolResponse
        value = value.text
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def call_tool(seq, payload):
    text = text_of_output(perform(json.loads(payload))).encode("utf-8", "replace")
    if len(text) > plugin.output_max:
        raise Refusal("gave %d bytes, more than %d" % (len(text), plugin.output_max))
    send(seq, OUTPUT, text)


