"""The streaming part of the Messages API for model_server.py: the events of one response of a scenario.

Takes the items "message" and "command" (a call of the tool Bash), "tool" with "arguments", and "pause_ms"; any other
kind of item is refused when it is reached, for a server that left it out would say something else than its scenario.
"""

import json
import time


class UnknownItem(ValueError):
    """An item that the Messages API has no form for here."""


def text_of(value):
    return value["repeat"] * int(value["count"]) if isinstance(value, dict) else value


class MessagesStream:
    """The events of one response, each a dict with "type"."""

    def __init__(self, response, number, model):
        self.response = response
        self.number = number
        self.model = model
        self.delta_chars = max(1, int(response.get("delta_chars", 64)))
        self.calls = False

    def events(self):
        used = self.response.get("usage", {})
        start = {"id": f"msg_{self.number}", "type": "message", "role": "assistant", "model": self.model, "content": [],
                 "stop_reason": None, "stop_sequence": None,
                 "usage": {"input_tokens": used.get("input", 100), "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        for index, item in enumerate(item for item in self.response["output"] if not self.pause(item)):
            yield from self.block(index, item)
        if self.response.get("end", "completed") == "completed":
            yield {"type": "message_delta",
                   "delta": {"stop_reason": "tool_use" if self.calls else "end_turn", "stop_sequence": None},
                   "usage": {"output_tokens": used.get("output", 10)}}
            yield {"type": "message_stop"}

    @staticmethod
    def pause(item):
        if "pause_ms" in item:
            time.sleep(item["pause_ms"] / 1000.0)
        return "pause_ms" in item

    def block(self, index, item):
        if "message" in item:
            first, kind, text = {"type": "text", "text": ""}, ("text_delta", "text"), text_of(item["message"])
        elif "command" in item or "tool" in item:
            self.calls = True
            name = item.get("tool", "Bash")
            arguments = item.get("arguments", {"command": text_of(item.get("command", "")), "description": "scripted"})
            first = {"type": "tool_use", "id": f"toolu_{self.number}_{index}", "name": name, "input": {}}
            kind, text = ("input_json_delta", "partial_json"), json.dumps(arguments)
        else:
            raise UnknownItem(f"no form in the Messages API for {sorted(item)}")
        yield {"type": "content_block_start", "index": index, "content_block": first}
        for at in range(0, len(text), self.delta_chars):
            yield {"type": "content_block_delta", "index": index,
                   "delta": {"type": kind[0], kind[1]: text[at:at + self.delta_chars]}}
        yield {"type": "content_block_stop", "index": index}
