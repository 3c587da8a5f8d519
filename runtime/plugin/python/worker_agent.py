"""The part of a plugin's child (worker.py) in which a program of the user's acts: an agent, which
asks a server that speaks OpenAI's protocol, and does not know that the policy in training answers.
What it asks is the observation of a turn, what the policy says is the answer to its request. One
program with worker.py, which comes behind it: names that are not defined here are worker.py's.
"""

import json
import queue
import re
import threading
import time

ROLES = ("system", "developer", "user", "assistant", "tool")
CALL_PATTERN = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
REPLY_SHARE = 0.9  # of timeout_s: an agent that asks nothing for so long costs its episode alone


def dialogue_text(messages, tools):
    """Returns the text of an observation that is a dialogue (runtime/tasks/dialogue_text.hpp)."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, (list, tuple)) or not messages:
        raise Refusal("gave %.60r as dialogue, not a list of messages" % (messages,))
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise Refusal("gave %.80r in a dialogue: a message is a dict with a role of %s"
                          % (message, ", ".join(ROLES)))
    told = {"messages": list(messages)}
    if tools:
        told["tools"] = list(tools)
    return json.dumps(told, ensure_ascii=False, default=str)


def is_agent(item):
    return inspect.isclass(item) and hasattr(item, "run") and not hasattr(item, "step")


def tool_calls_of(text):
    """Returns (the text without its calls, the calls as OpenAI's protocol has them)."""
    bodies = CALL_PATTERN.findall(text)
    rest = CALL_PATTERN.sub("", text).strip() if bodies else text
    if not bodies and text.lstrip().startswith("{"):  # Llama 3
        bodies, rest = [text], ""
    calls = []
    for body in bodies:
        try:
            call = json.loads(body)
            arguments = call.get("arguments", call.get("parameters"))
            if not isinstance(call["name"], str) or not isinstance(arguments, dict):
                raise ValueError
        except (ValueError, KeyError, AttributeError):
            return text, []  # the agent sees what was said
        function = {"name": call["name"], "arguments": json.dumps(arguments, ensure_ascii=False)}
        calls.append({"id": "call_%d" % len(calls), "type": "function", "function": function})
    return rest, calls


class Request:
    """What an agent asks; its thread waits for the answer."""

    def __init__(self, body):
        self.body = body
        self.is_answered = threading.Event()
        self.answer = None  # None: the episode is over
        self.facts = None  # tokens in front of the answer, its own, whether a limit cut it

    def reply(self, answer, facts=None):
        self.answer, self.facts = answer, facts
        self.is_answered.set()


class AgentWorld:
    """An episode of an agent, as load_environment's classes are. The agent runs in a thread."""

    make_agent = None
    server = None
    lock = threading.Lock()
    worlds = {}  # by the key of the episode, which a request names
    keys = 0

    def reset(self, seed):
        with AgentWorld.lock:
            AgentWorld.keys += 1
            self.key = AgentWorld.keys
            AgentWorld.worlds[self.key] = self
        self.events = queue.Queue()  # requests; then what run() gave, or raised
        self.pending = None
        self.replies = []  # (message, what the policy said) of this episode
        played = threading.Thread(target=self.play, args=[AgentWorld.make_agent(), seed])
        played.daemon = True
        played.start()
        event = self.next_event()
        if not isinstance(event, Request):
            raise Refusal("the agent ended without a question to the policy")
        return self.asked(event)

    def play(self, agent, seed):
        server = "http://127.0.0.1:%d/%d" % (AgentWorld.server.server_port, self.key)
        try:
            found = agent.run(seed, server + "/v1")
            if inspect.isawaitable(found):
                import asyncio

                found = asyncio.run(as_coroutine(found))
        except BaseException as error:
            found = error
        self.events.put(found)

    def next_event(self):
        try:
            event = self.events.get(timeout=REPLY_SHARE * plugin.timeout_s)
        except queue.Empty:
            self.close()
            raise Late("the agent neither asked nor ended for %g s (timeout_s)"
                       % (REPLY_SHARE * plugin.timeout_s)) from None
        if isinstance(event, BaseException):
            self.close()
            raise event
        return event

    def asked(self, request):
        self.pending = request
        return [self.told(one) for one in request.body["messages"]], {
            "tools": request.body.get("tools")}

    def told(self, message):
        """Returns a message of the agent's; one that it had from here says what the policy said."""
        for reply, said in self.replies:
            if all(message.get(key) == reply.get(key) for key in ("role", "content", "tool_calls")):
                return dict(message, said=said)
        return message

    def step(self, answer):
        request, self.pending = self.pending, None
        request.reply(answer, plugin.answer_facts)
        event = self.next_event()
        if isinstance(event, Request):
            messages, info = self.asked(event)
            return messages, 0.0, False, info
        self.close()
        return ended(event)

    def close(self):
        with AgentWorld.lock:
            AgentWorld.worlds.pop(self.key, None)
        if self.pending is not None:
            self.pending.reply(None)
            self.pending = None
        while True:  # requests that nobody has seen
            try:
                event = self.events.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, Request):
                event.reply(None)

    metrics = {}


async def as_coroutine(value):
    return await value


def ended(found):
    """Returns the last step of an episode, of what run() gave."""
    info = {}
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
        found, info = found
    if isinstance(found, dict):
        info = dict(info, **found)
        found = found.get("reward", found.get("score"))
    reward = number(found)
    success = bool(info.get("success", reward >= 1))
    told = {"success": success, "stop_reason": "goal" if success else "done",
            "metrics": info.get("metrics") or {}}
    return "", reward, True, told


def ask_policy(key, body):
    """Returns (HTTP status, JSON) of a request of the agent with this key."""
    messages = body.get("messages") if isinstance(body, dict) else None
    try:
        dialogue_text(messages, body.get("tools") if isinstance(body, dict) else None)
    except (Refusal, TypeError) as error:
        return 400, failure("messages: %s" % error)
    if body.get("n") not in (None, 1):
        return 400, failure("n: a request has one answer")
    request = Request(body)
    with AgentWorld.lock:
        world = AgentWorld.worlds.get(key)
        if world is None:
            return 410, failure("the episode is over, or its key is another one")
        world.events.put(request)
    request.is_answered.wait()
    if request.answer is None:
        return 410, failure("the episode is over")
    text, calls = request.answer, []
    if body.get("tools") and body.get("tool_choice") != "none":
        text, calls = tool_calls_of(text)
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
        world.replies.append((message, request.answer))
    prompt_tokens, tokens, is_cut = request.facts
    reason = "tool_calls" if calls else "length" if is_cut else "stop"
    return 200, {
        "id": "chatcmpl-%d" % key, "object": "chat.completion", "created": int(time.time()),
        "model": body.get("model") or "policy",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens,
                  "total_tokens": prompt_tokens + tokens},
    }


def failure(text):
    return {"error": {"message": text, "type": "invalid_request_error"}}


def streamed(found, has_usage):
    """Returns a whole answer as the events of one that is streamed."""
    usage = found.pop("usage")
    choice = found["choices"][0]
    delta = dict(choice["message"])
    for i, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = i
    chunks = [{"index": 0, "delta": delta, "finish_reason": None},
              {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]
    lines = [dict(found, object="chat.completion.chunk", choices=[chunk]) for chunk in chunks]
    if has_usage:
        lines.append(dict(found, object="chat.completion.chunk", choices=[], usage=usage))
    return "".join("data: %s\n\n" % json.dumps(line) for line in lines) + "data: [DONE]\n\n"


def episode_key(path):
    """Returns the key of an episode in its path, /7/v1/chat/completions."""
    key = path.strip("/").split("/")[0]
    return int(key) if key.isdigit() else 0


def start_server():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status, text, kind="application/json"):
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if not self.path.split("?")[0].endswith("/models"):
                return self.answer(404, json.dumps(failure("only /v1/models is there")))
            one = {"id": "policy", "object": "model", "created": 0, "owned_by": "cohort"}
            self.answer(200, json.dumps({"object": "list", "data": [one]}))

        def do_POST(self):
            try:
                data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not self.path.split("?")[0].endswith("/chat/completions"):
                    return self.answer(404, json.dumps(failure("POST /v1/chat/completions")))
                body = json.loads(data)
            except ValueError as error:
                return self.answer(400, json.dumps(failure("no JSON: %s" % error)))
            status, found = ask_policy(episode_key(self.path), body)
            if status == 200 and body.get("stream"):
                options = body.get("stream_options") or {}
                return self.answer(200, streamed(found, options.get("include_usage")),
                                   "text/event-stream")
            self.answer(status, json.dumps(found))

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def server_bind(self):  # without the look-up of this host's name
            import socketserver

            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = self.server_address[:2]

    AgentWorld.server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=AgentWorld.server.serve_forever, daemon=True).start()


def serve_agents(make_agent):
    if not plugin.is_dialogue:
        raise Refusal("is an agent, which writes the dialogues itself: give its entry of "
                      "custom_envs env_manager_cls: ProxyEnvManager")
    try:
        start_server()
    except OSError as error:
        raise Refusal("an agent asks a server on loopback, and none can be opened (%s): sandbox "
                      "mode bubblewrap, or sandbox.network: true" % error) from None
    AgentWorld.make_agent = staticmethod(make_agent)
    plugin.function, plugin.args, plugin.form = AgentWorld, {}, "environment"
