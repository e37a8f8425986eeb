#!/usr/bin/env python3
"""The real codex-cli 0.145.0 under `repo-contained`: its model server stands outside the run's network, and the gate is the only
way to it. Namespaces, users and scenarios as in ../codex/codex_test.py."""

import os
import signal
import socket
import sys
import threading
import time
import unittest

import real_harness
import support
from real_harness import users

sys.path.insert(0, os.path.join(support.SOURCE, "tests", "e2e", "codex"))
import codex_test  # noqa: E402

codex_test.HOST_KINDS |= {"egress.decision", "egress.gate-restarted", "egress.gate-lost"}


class Contained(codex_test.Codex):
    def arguments(self, server, *more):
        return super().arguments(server, "--sandbox", "repo-contained", *more)

    def egress(self, kind="egress.decision"):
        return [event["payload"] for event in self.world.journal() if event["kind"] == kind]

    def test_a_task_is_done_through_the_gate(self):
        server, done = self.play(codex_test.COMMAND_AND_PATCH)
        self.assert_completed(done, codex_test.COMMAND_AND_PATCH)
        self.assertEqual(len(server.requests()), 3)
        self.assert_no_secret(server, done)
        decisions = self.egress()
        self.assertTrue(decisions)
        relayed = [one for one in decisions if one["reason"] == "fixed-relay"]
        self.assertTrue(relayed)
        port = int(server.base_url.split(":")[2].split("/")[0])
        self.assertTrue(all(one["decision"] == "allow" and one["port"] == port for one in relayed))
        # What Codex asks for besides its model (updates, telemetry) is not allowed by its profile, or has no network.
        self.assertTrue(all(one["decision"] == "block" or one["reason"] in ("fixed-relay", "allowed-by-host-rule")
                            for one in decisions))

    def test_a_tool_command_that_ignores_the_proxy_reaches_nothing(self):
        reached = []
        listener = socket.create_server(("0.0.0.0", 0))
        self.addCleanup(listener.close)

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                reached.append(1)
                connection.close()
        threading.Thread(target=serve, daemon=True).start()
        port = listener.getsockname()[1]
        command = (f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo direct-reached || echo direct-no; "
                   f"exec 4<>/dev/tcp/127.0.0.1/61080; printf 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n' >&4; head -1 <&4; "
                   f"exec 5<>/dev/tcp/127.0.0.1/61080; printf 'CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n' >&5; head -1 <&5")
        scenario = {"responses": [{"output": [{"command": f"bash -c \"{command}\"".replace("\\r", "\\\\r").replace("\\n", "\\\\n")}]},
                                  {"delay_ms": 300, "output": [{"message": "Tried."}]}]}
        _, done = self.play(scenario)
        self.assertEqual(done.code, 0, done)
        output = self.of_kind("command.completed")[0]["output"]
        self.assertIn("direct-no", output)
        self.assertEqual(output.count("403 Forbidden"), 2, output)
        self.assertEqual(reached, [])
        blocked = [one["reason"] for one in self.egress() if one["decision"] == "block"]
        self.assertIn("loopback-blocked", blocked)
        self.assertIn("default-deny", blocked)
        with socket.create_connection(("127.0.0.1", port), 5):
            pass
        support.wait_until(lambda: reached)  # it was there to be reached

    def test_a_gate_killed_in_mid_turn_is_replaced_and_the_run_ends_well(self):
        final = {"delay_ms": 2500, "times": 4, "output": [{"message": "Said through the second gate."}]}
        scenario = {"responses": [{"output": [{"command": "echo before"}]}, final]}
        server = self.serve(scenario)
        process = self.start(server, "Go.")
        support.wait_until(lambda: len(server.requests()) >= 2, 40)
        pid = support.wait_until(lambda: self.process_named("hitchrail-gate"))
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        again = support.wait_until(lambda: next((p for p, name in self.new_processes().items()
                                                 if name == "hitchrail-gate" and p != pid), None))
        self.assertNotEqual(again, pid)
        out, err = process.communicate(timeout=90)
        self.assertEqual(process.returncode, 0, (out, err))
        self.wait_for_no_processes()
        self.assertEqual(self.of_kind("message.assistant")[-1]["text"], "Said through the second gate.")
        self.assertEqual(self.completion()["status"], "success")
        self.assertEqual([one["signal"] for one in self.egress("egress.gate-restarted")], [9])


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for name, uid in users():
        suite.addTests(loader.loadTestsFromTestCase(type("Contained" + name, (Contained,), {"uid": uid})))
    return suite


if __name__ == "__main__":
    real_harness.main(__file__)
