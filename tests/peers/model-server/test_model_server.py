#!/usr/bin/env python3
"""What the scripted model server promises, checked over its socket and without any harness."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, "model_server.py")
KEY = "dummy-key-of-the-test"


class ModelServer(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="model-server-")
        self.addCleanup(self.directory.cleanup)
        self.process = None

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def start(self, scenario, *options):
        with open(self.path("scenario.json"), "w", encoding="utf-8") as handle:
            json.dump(scenario, handle)
        self.process = subprocess.Popen(
            [sys.executable, SERVER, "--scenario", self.path("scenario.json"), "--ready-file", self.path("ready"),
             "--log", self.path("log"), "--watch-stdin", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"MODEL_KEY": KEY})
        self.addCleanup(self.stop)
        ready = json.loads(self.process.stdout.readline())
        with open(self.path("ready"), encoding="utf-8") as handle:
            self.assertEqual(ready, json.load(handle))
        self.base_url = ready["base_url"]
        self.assertTrue(self.base_url.startswith("http://127.0.0.1:"))

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.assertEqual(self.process.wait(timeout=10), 0)

    def ask(self, conversation="one", key=KEY):
        """The events of one response; an HTTP error is raised."""
        body = json.dumps({"model": "m", "stream": True, "prompt_cache_key": conversation}).encode()
        request = urllib.request.Request(self.base_url + "/responses", body, {"authorization": "Bearer " + key})
        with urllib.request.urlopen(request, timeout=10) as answer:
            data = answer.read().decode()
        return [json.loads(line[6:]) for line in data.split("\n") if line.startswith("data: ")]

    def ask_messages(self, tools=True, key=KEY):
        """The events of one response of the Messages API."""
        body = json.dumps({"model": "m", "stream": True, "tools": [{"name": "Bash"}] if tools else []}).encode()
        request = urllib.request.Request(self.base_url + "/messages?beta=true", body, {"x-api-key": key})
        with urllib.request.urlopen(request, timeout=10) as answer:
            data = answer.read().decode()
        return [json.loads(line[6:]) for line in data.split("\n") if line.startswith("data: ")]

    def status(self, **arguments):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.ask(**arguments)
        self.addCleanup(caught.exception.close)
        return caught.exception.code

    def log(self):
        with open(self.path("log"), encoding="utf-8") as handle:
            return handle.read()

    def test_a_message_is_streamed_in_deltas_and_completed_with_usage(self):
        self.start({"responses": [{"output": [{"message": "Hello, world"}], "delta_chars": 5,
                                   "usage": {"input": 7, "cached": 2, "output": 3, "reasoning": 1}}]})
        events = self.ask()
        self.assertEqual([e["delta"] for e in events if e["type"].endswith("text.delta")], ["Hello", ", wor", "ld"])
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["text"], "Hello, world")
        usage = events[-1]["response"]["usage"]
        self.assertEqual((usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"],
                          usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"]), (7, 2, 3, 1))

    def test_tool_calls_have_the_form_of_each_tool(self):
        self.start({"responses": [{"output": [
            {"command": "ls", "yield_ms": 300}, {"patch": "*** Begin Patch\n*** End Patch\n"},
            {"tool": "add", "namespace": "mcp__tiny", "arguments": {"a": 1}},
            {"tool": "odd", "arguments_text": "{not json"}, {"plan": [["one", "pending"]]}]}]})
        items = [e["item"] for e in self.ask() if e["type"] == "response.output_item.done"]
        self.assertEqual(json.loads(items[0]["arguments"]), {"cmd": "ls", "yield_time_ms": 300})
        self.assertEqual((items[1]["type"], items[1]["name"]), ("custom_tool_call", "apply_patch"))
        self.assertEqual((items[2]["namespace"], items[2]["name"]), ("mcp__tiny", "add"))
        self.assertEqual(items[3]["arguments"], "{not json")
        self.assertEqual(items[4]["name"], "update_plan")
        self.assertEqual(len({item["call_id"] for item in items}), 5)

    def test_errors_come_the_given_number_of_times_and_then_the_answer(self):
        self.start({"responses": [{"status": 503, "times": 2}, {"output": [{"message": "ok"}]}]})
        self.assertEqual([self.status(), self.status()], [503, 503])
        self.assertEqual(self.ask()[-1]["type"], "response.completed")

    def test_each_conversation_walks_through_the_scenario_by_itself(self):
        self.start({"responses": [{"output": [{"message": "first"}]}, {"status": 429}]})
        self.assertEqual(self.ask("one")[-1]["type"], "response.completed")
        self.assertEqual(self.ask("two")[-1]["type"], "response.completed")
        self.assertEqual(self.status(conversation="one"), 429)

    def test_after_the_last_response_a_request_is_refused_or_repeated(self):
        self.start({"responses": [{"output": []}]})
        self.ask()
        self.assertEqual(self.status(), 400)
        self.stop()
        self.doCleanups()
        self.setUp()
        self.start({"after_last": "repeat", "responses": [{"output": []}]})
        self.ask()
        self.assertEqual(self.ask()[-1]["type"], "response.completed")

    def test_a_cut_stream_ends_without_its_last_event(self):
        self.start({"responses": [{"output": [{"message": "x"}], "cut_after": 3}]})
        self.assertEqual(len(self.ask()), 3)

    def test_a_stalled_stream_sends_nothing_more_until_it_is_cut(self):
        self.start({"responses": [{"output": [{"message": "x"}], "stall_after": 2, "stall_ms": 400}]})
        begin = time.monotonic()
        self.assertEqual(len(self.ask()), 2)
        self.assertGreaterEqual(time.monotonic() - begin, 0.4)

    def test_the_credential_is_compared_and_never_written(self):
        self.start({"responses": [{"output": []}]}, "--expect-key-env", "MODEL_KEY")
        self.assertEqual(self.status(key="another"), 401)
        self.assertEqual(self.ask()[-1]["type"], "response.completed")
        self.assertNotIn(KEY, self.log())
        self.assertNotIn("another", self.log())
        self.assertEqual([json.loads(line)["credential"] for line in self.log().splitlines()], [True, True])

    def test_sigterm_ends_it_with_status_0_in_the_middle_of_a_stall(self):
        self.start({"responses": [{"output": [], "stall_after": 1}]})
        body = json.dumps({"prompt_cache_key": "one"}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.base_url + "/responses", body), timeout=10) as answer:
            answer.readline()
            self.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.process.wait(timeout=10), 0)

    def test_a_bad_scenario_is_refused_before_listening(self):
        for scenario in ({}, {"responses": []}, {"responses": [{"output": [{"massage": "x"}]}]},
                         {"responses": [{"output": [], "status": 200}]}, {"responses": [{"output": []}], "x": 1}):
            with open(self.path("bad.json"), "w", encoding="utf-8") as handle:
                json.dump(scenario, handle)
            done = subprocess.run([sys.executable, SERVER, "--scenario", self.path("bad.json")], timeout=10,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, b""), scenario)
            self.assertIn(b"bad.json", done.stderr)


    def test_the_messages_api_plays_the_same_scenario_and_asks_for_its_tool(self):
        self.start({"responses": [{"output": [{"command": "make"}]}, {"output": [{"message": "done"}]}]},
                   "--expect-key-env", "MODEL_KEY")
        first = self.ask_messages()
        self.assertEqual([event["type"] for event in first][:2], ["message_start", "content_block_start"])
        self.assertEqual(first[1]["content_block"]["name"], "Bash")
        arguments = "".join(event["delta"]["partial_json"] for event in first if event["type"] == "content_block_delta")
        self.assertEqual(json.loads(arguments)["command"], "make")
        self.assertEqual(first[-2]["delta"]["stop_reason"], "tool_use")
        self.assertEqual(self.ask_messages(tools=False)[2]["delta"]["text"], "A title")
        self.assertEqual(self.ask_messages()[2]["delta"]["text"], "done")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.ask_messages(key="another")
        self.addCleanup(caught.exception.close)
        self.assertEqual(caught.exception.code, 401)


if __name__ == "__main__":
    unittest.main()
