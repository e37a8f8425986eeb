#!/usr/bin/env python3
"""A scripted model server: the streaming parts of the Responses API (POST /v1/responses) and of the Messages API
(POST /v1/messages), on 127.0.0.1 only.

It lets a real coding-agent harness run a whole task without an account, a key or a network. It says what its
scenario file says and nothing else. Python 3.8 or newer, standard library only.

    model_server.py --scenario FILE [--port 0] [--ready-file FILE] [--log FILE] [--expect-key-env NAME] [--watch-stdin]

--port 0 lets the kernel choose. When the socket listens, one JSON line {"port", "base_url", "pid"} goes to stdout
and, by rename, to --ready-file. --log gets one JSON line a request: number, method, path, whether a bearer
credential came (never its value), a few harmless headers, the body, the index of the response chosen.
--expect-key-env answers 401 unless the bearer credential equals that environment variable. --watch-stdin ends the
server at the end of its input, so that it cannot outlive whoever started it. SIGTERM and SIGINT end it with status
0; a bad scenario is refused before listening, with status 2.

A scenario is one JSON object:

    {"responses": [RESPONSE, ...], "after_last": "refuse"}

Each conversation (the request's prompt_cache_key; of the Messages API: all requests that offer tools, the others get the
title they ask for) walks through the responses from the first, one a request.
after_last: "refuse" answers HTTP 400, "repeat" gives the last response again. RESPONSE has either

    "status": 503, "times": 2, "headers": {...}, "body": {...}    an HTTP answer, given `times` times (default 1)
    "garbage": true                                              with status 200: a stream that is no event stream

or

    "output": [ITEM, ...]       what the model produces, in order
    "usage": {"input": 100, "cached": 0, "output": 10, "reasoning": 0}
    "end": "completed"          or "failed" (with "error": {"code", "message"}), "incomplete", "none"
    "times": 1                  the same response for so many requests

and any of

    "delay_ms": 0               before the status line
    "event_delay_ms": 0         between two events
    "delta_chars": 64           characters a text delta carries
    "cut_after": N              close the connection after N events
    "stall_after": N, "stall_ms": 600000    stop sending after N events, keep the connection for that long, close it

ITEM is one of

    {"message": TEXT}                             an answer of the assistant
    {"reasoning": TEXT}                           a reasoning summary
    {"command": TEXT, "workdir"?, "yield_ms"?}    a call of exec_command
    {"patch": TEXT}                               a call of the freeform tool apply_patch
    {"tool": NAME, "arguments": {...}, "namespace"?}    a call of any function tool
    {"tool": NAME, "arguments_text": TEXT}        the same with arguments that need not be JSON
    {"plan": [[STEP, STATUS], ...]}               a call of update_plan
    {"web_search": TEXT}                          a search done by the provider
    {"event": {...}}                              one raw event
    {"pause_ms": N}                               nothing for so long

TEXT is a string or {"repeat": UNIT, "count": N}.
"""

import argparse
import hmac
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from messages_stream import MessagesStream

RESPONSE_KEYS = {
    "status", "times", "headers", "body", "garbage", "output", "usage", "end", "error", "delay_ms",
    "event_delay_ms", "delta_chars", "cut_after", "stall_after", "stall_ms", "note",
}
ITEM_KEYS = {
    "message": set(), "reasoning": set(), "command": {"workdir", "yield_ms"}, "patch": set(),
    "tool": {"arguments", "arguments_text", "namespace"}, "plan": set(), "web_search": set(), "event": set(),
    "pause_ms": set(),
}
ENDS = ("completed", "failed", "incomplete", "none")
LOGGED_HEADERS = ("content-type", "user-agent", "originator", "session-id", "thread-id", "accept")


class BadScenario(ValueError):
    """The scenario does not have the documented form."""


class ConnectionCut(Exception):
    """The scenario wants the connection closed here."""


def check(scenario):
    """Raises BadScenario unless `scenario` has the documented form."""
    if not isinstance(scenario, dict) or set(scenario) - {"responses", "after_last", "note"}:
        raise BadScenario("a scenario is an object with responses and after_last")
    if scenario.get("after_last", "refuse") not in ("refuse", "repeat"):
        raise BadScenario("after_last is refuse or repeat")
    responses = scenario.get("responses")
    if not isinstance(responses, list) or not responses:
        raise BadScenario("responses is a list with at least one response")
    for index, response in enumerate(responses):
        where = f"responses[{index}]"
        if not isinstance(response, dict) or set(response) - RESPONSE_KEYS:
            raise BadScenario(f"{where}: not an object of known keys")
        if ("status" in response) == ("output" in response):
            raise BadScenario(f"{where}: has either status or output")
        if response.get("end", "completed") not in ENDS:
            raise BadScenario(f"{where}: end is one of {', '.join(ENDS)}")
        for number, item in enumerate(response.get("output", [])):
            check_item(f"{where}.output[{number}]", item)


def check_item(where, item):
    kinds = set(item) & set(ITEM_KEYS) if isinstance(item, dict) else set()
    if len(kinds) != 1:
        raise BadScenario(f"{where}: not exactly one of {', '.join(ITEM_KEYS)}")
    if set(item) - kinds - ITEM_KEYS[next(iter(kinds))]:
        raise BadScenario(f"{where}: unknown keys")


class Script:
    """Which response a request gets: a position for each conversation."""

    def __init__(self, scenario):
        self.steps = []
        for index, response in enumerate(scenario["responses"]):
            self.steps += [(index, response)] * max(1, int(response.get("times", 1)))
        self.repeat = scenario.get("after_last") == "repeat"
        self.lock = threading.Lock()
        self.positions = {}

    def next(self, conversation):
        with self.lock:
            position = self.positions.get(conversation, 0)
            self.positions[conversation] = position + 1
        if position < len(self.steps):
            return self.steps[position]
        if self.repeat:
            return self.steps[-1]
        return None, {"status": 400, "body": {"error": {"message": "the scenario has no further response"}}}


def text_of(value):
    if isinstance(value, dict):
        return value["repeat"] * int(value["count"])
    return value


def pieces(text, size):
    return (text[at:at + size] for at in range(0, len(text), max(1, size)))


class Stream:
    """The events of one response: each is a dict with "type"."""

    def __init__(self, response, number, model):
        self.response = response
        self.number = number
        self.head = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": model}
        self.delta_chars = int(response.get("delta_chars", 64))
        self.done_items = []

    def events(self):
        opened = dict(self.head, status="in_progress", output=[])
        yield {"type": "response.created", "response": opened}
        yield {"type": "response.in_progress", "response": opened}
        for index, item in enumerate(self.response["output"]):
            yield from self.item(index, item)
        yield from self.last()

    def item(self, index, item):
        if "pause_ms" in item:
            time.sleep(item["pause_ms"] / 1000.0)
        elif "event" in item:
            yield dict(item["event"])
        elif "message" in item:
            yield from self.message(index, text_of(item["message"]))
        elif "reasoning" in item:
            yield from self.reasoning(index, text_of(item["reasoning"]))
        elif "patch" in item:
            yield from self.call(index, "custom_tool_call", "apply_patch", "input", text_of(item["patch"]))
        elif "web_search" in item:
            wire = {"type": "web_search_call", "id": f"search_{self.number}_{index}"}
            yield from self.whole(index, dict(wire, status="in_progress"),
                                  dict(wire, status="completed",
                                       action={"type": "search", "query": text_of(item["web_search"])}))
        else:
            name, arguments, namespace = self.function(item)
            yield from self.call(index, "function_call", name, "arguments", arguments, namespace)

    @staticmethod
    def function(item):
        if "command" in item:
            arguments = {"cmd": text_of(item["command"])}
            if "workdir" in item:
                arguments["workdir"] = item["workdir"]
            if "yield_ms" in item:
                arguments["yield_time_ms"] = item["yield_ms"]
            return "exec_command", json.dumps(arguments), None
        if "plan" in item:
            steps = [{"step": step, "status": status} for step, status in item["plan"]]
            return "update_plan", json.dumps({"plan": steps}), None
        if "arguments_text" in item:
            return item["tool"], item["arguments_text"], item.get("namespace")
        return item["tool"], json.dumps(item.get("arguments", {})), item.get("namespace")

    def whole(self, index, first, last):
        yield {"type": "response.output_item.added", "output_index": index, "item": first}
        self.done_items.append(last)
        yield {"type": "response.output_item.done", "output_index": index, "item": last}

    def message(self, index, text):
        wire = {"type": "message", "id": f"msg_{self.number}_{index}", "role": "assistant"}
        place = {"item_id": wire["id"], "output_index": index, "content_index": 0}
        full = {"type": "output_text", "text": text, "annotations": []}
        opened = dict(wire, status="in_progress", content=[])
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield dict(place, type="response.content_part.added", part=dict(full, text=""))
        for piece in pieces(text, self.delta_chars):
            yield dict(place, type="response.output_text.delta", delta=piece)
        yield dict(place, type="response.output_text.done", text=text)
        closed = dict(wire, status="completed", content=[full])
        self.done_items.append(closed)
        yield {"type": "response.output_item.done", "output_index": index, "item": closed}

    def reasoning(self, index, text):
        wire = {"type": "reasoning", "id": f"rs_{self.number}_{index}"}
        place = {"item_id": wire["id"], "output_index": index, "summary_index": 0}
        opened = dict(wire, summary=[])
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        yield dict(place, type="response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""})
        for piece in pieces(text, self.delta_chars):
            yield dict(place, type="response.reasoning_summary_text.delta", delta=piece)
        closed = dict(wire, summary=[{"type": "summary_text", "text": text}], encrypted_content="")
        self.done_items.append(closed)
        yield {"type": "response.output_item.done", "output_index": index, "item": closed}

    def call(self, index, kind, name, field, value, namespace=None):
        wire = {"type": kind, "id": f"item_{self.number}_{index}", "call_id": f"call_{self.number}_{index}",
                "name": name}
        if namespace:
            wire["namespace"] = namespace
        yield from self.whole(index, dict(wire, **{field: ""}), dict(wire, status="completed", **{field: value}))

    def last(self):
        end = self.response.get("end", "completed")
        usage = self.usage(self.response.get("usage", {}))
        if end == "completed":
            yield {"type": "response.completed",
                   "response": dict(self.head, status=end, output=self.done_items, usage=usage)}
        elif end == "failed":
            error = self.response.get("error", {"code": "server_error", "message": "scripted failure"})
            yield {"type": "response.failed", "response": dict(self.head, status=end, error=error)}
        elif end == "incomplete":
            yield {"type": "response.incomplete",
                   "response": dict(self.head, status=end, output=self.done_items, usage=usage,
                                    incomplete_details={"reason": "max_output_tokens"})}

    @staticmethod
    def usage(given):
        read, written = given.get("input", 100), given.get("output", 10)
        return {"input_tokens": read, "input_tokens_details": {"cached_tokens": given.get("cached", 0)},
                "output_tokens": written, "output_tokens_details": {"reasoning_tokens": given.get("reasoning", 0)},
                "total_tokens": read + written}


class Handler(BaseHTTPRequestHandler):
    """One connection; every answer closes it."""

    protocol_version = "HTTP/1.1"
    server_version = "model-server"
    sys_version = ""
    timeout = 60

    def log_message(self, *_):
        """stderr stays empty; the log is --log."""

    def do_GET(self):  # noqa: N802 (http.server's name)
        self.server.note(self, b"", None)
        self.answer(404, {"error": {"message": "no such path"}})

    def do_POST(self):  # noqa: N802 (http.server's name)
        self.close_connection = True
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        path = self.path.split("?")[0]
        if path not in ("/v1/responses", "/v1/messages"):
            self.server.note(self, body, None)
            self.answer(404, {"error": {"message": "no such path"}})
            return
        if not self.server.admits(self.credential()):
            self.server.note(self, body, None)
            self.answer(401, {"error": {"message": "the credential is not the expected one"}})
            return
        try:
            asked = json.loads(body)
        except ValueError:
            asked = {}
        if path == "/v1/messages" and not asked.get("tools"):
            index, response = None, {"output": [{"message": "A title"}]}  # a side request, not the task's
        else:
            index, response = self.server.script.next(str(asked.get("prompt_cache_key", "")))
        number = self.server.note(self, body, index)
        self.server.wait(response.get("delay_ms", 0))
        try:
            if response.get("garbage"):
                self.begin("text/event-stream")
                self.wfile.write(b"\x00\xff not an event stream\n\n{]")
            elif "status" in response:
                self.answer(response["status"], response.get("body", {"error": {"message": "scripted error"}}),
                            response.get("headers", {}))
            else:
                form = MessagesStream if path == "/v1/messages" else Stream
                self.stream(form(response, number, asked.get("model", "scripted")), response)
        except (ConnectionCut, BrokenPipeError, ConnectionResetError):
            pass

    def credential(self):
        """As a bearer credential, whichever header it came in."""
        key = self.headers.get("x-api-key")
        return f"Bearer {key}" if key else self.headers.get("authorization", "")

    def begin(self, content_type, status=200, length=None, headers=None):
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("connection", "close")
        if length is not None:
            self.send_header("content-length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, str(value))
        self.end_headers()

    def answer(self, status, value, headers=None):
        data = json.dumps(value).encode("utf-8")
        self.begin("application/json", status, len(data), headers)
        self.wfile.write(data)

    def stream(self, stream, response):
        self.begin("text/event-stream")
        sent = 0
        for event in stream.events():
            self.limits(response, sent)
            if isinstance(stream, Stream):
                event["sequence_number"] = sent
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode("utf-8"))
            self.wfile.flush()
            sent += 1
            self.server.wait(response.get("event_delay_ms", 0))
        self.limits(response, sent)

    def limits(self, response, sent):
        if sent == response.get("cut_after"):
            raise ConnectionCut
        if sent == response.get("stall_after"):
            self.server.wait(response.get("stall_ms", 600000))
            raise ConnectionCut


class Server(ThreadingHTTPServer):
    """The listening socket, the script's position and the log."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port, scenario, log_path, key):
        super().__init__(("127.0.0.1", port), Handler)
        self.script = Script(scenario)
        self.key = key
        self.log = open(log_path, "a", encoding="utf-8") if log_path else None
        self.lock = threading.Lock()
        self.number = 0
        self.stopping = threading.Event()

    def admits(self, authorization):
        return self.key is None or hmac.compare_digest(authorization.encode(), f"Bearer {self.key}".encode())

    def wait(self, milliseconds):
        """Sleeps unless the server is being ended."""
        if milliseconds and self.stopping.wait(milliseconds / 1000.0):
            raise ConnectionCut

    def note(self, handler, body, index):
        with self.lock:
            self.number += 1
            if self.log:
                try:
                    document = json.loads(body) if body else None
                except ValueError:
                    document = {"undecoded_bytes": len(body)}
                headers = {name: handler.headers[name] for name in LOGGED_HEADERS if name in handler.headers}
                entry = {"number": self.number, "method": handler.command, "path": handler.path,
                         "credential": bool(handler.credential()), "headers": headers,
                         "body": document, "response": index}
                self.log.write(json.dumps(entry) + "\n")
                self.log.flush()
            return self.number

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is no fault of the server's."""


def wait_for_end_of_input(then):
    # Not sys.stdin: a thread blocked in its buffer makes the interpreter abort at exit.
    while os.read(0, 4096):
        pass
    then()


def announce(server, ready_file):
    port = server.server_address[1]
    line = json.dumps({"port": port, "base_url": f"http://127.0.0.1:{port}/v1", "pid": os.getpid()})
    if ready_file:
        with open(ready_file + ".new", "w", encoding="utf-8") as handle:
            handle.write(line + "\n")
        os.rename(ready_file + ".new", ready_file)
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description="A scripted Responses API on 127.0.0.1.")
    parser.add_argument("--scenario", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready-file")
    parser.add_argument("--log")
    parser.add_argument("--expect-key-env", metavar="NAME")
    parser.add_argument("--watch-stdin", action="store_true")
    options = parser.parse_args()
    try:
        with open(options.scenario, encoding="utf-8") as handle:
            scenario = json.load(handle)
        check(scenario)
    except (OSError, ValueError) as error:
        print(f"model_server: {options.scenario}: {error}", file=sys.stderr)
        return 2
    key = os.environ.get(options.expect_key_env) if options.expect_key_env else None
    if options.expect_key_env and not key:
        print(f"model_server: {options.expect_key_env} is not set", file=sys.stderr)
        return 2
    server = Server(options.port, scenario, options.log, key)

    def stop(*_):
        server.stopping.set()
        # shutdown() waits for the loop that runs in this very thread, so another one has to ask for it.
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if options.watch_stdin:
        threading.Thread(target=wait_for_end_of_input, args=(stop,), daemon=True).start()
    announce(server, options.ready_file)
    server.serve_forever(poll_interval=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
