"""A run under a preset with network `gate`: what it reaches, what its journal says of it, and what a dying gate means."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

import support

PROXY = 61080


class Upstream:
    """Answers every connection with one line; counts them."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.reached = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.reached += 1
            with connection:
                connection.recv(4096)
                connection.sendall(b"upstream here\r\n")

    def close(self):
        self.listener.close()


class GateRun(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.upstream = Upstream()
        self.other = Upstream()
        self.addCleanup(self.upstream.close)
        self.addCleanup(self.other.close)

    def arguments(self, script, *more):
        return ["run", *self.world.script_args(self.repo), "-m", script, "--sandbox", "repo-contained",
                "--relay", f"127.0.0.1:{self.upstream.port}", *more]

    def go(self, script, *more, **kwargs):
        return self.world.run(*self.arguments(script + "\ndone success ok\nexit 0\nend\n", *more), **kwargs)

    def said(self):
        """What the harness reported; its last message is the summary of `done`."""
        return [event["payload"]["text"] for event in self.world.journal() if event["kind"] == "message.assistant"][:-1]

    def decisions(self):
        return [event["payload"] for event in self.world.journal() if event["kind"] == "egress.decision"]

    def manifest(self):
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def gate(self, shim_of=None):
        """The living gate of the newest attempt: the child of its shim with that name."""
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
                with open(f"/proc/{name}/comm", encoding="utf-8") as file:
                    comm = file.read().strip()
            except OSError:
                continue
            parent = int(text.rpartition(")")[2].split()[1])
            if comm == "hitchrail-gate" and (shim_of is None or parent == shim_of):
                return int(name), parent
        return None

    def test_the_relay_is_reached_everything_else_is_not_and_the_journal_has_each_decision(self):
        up, other = self.upstream.port, self.other.port
        done = self.go("\n".join([
            f"connect 127.0.0.1 {up} hello",
            f"connect 127.0.0.1 {other} hello",
            f"connect 127.0.0.1 {PROXY} CONNECT 127.0.0.1:{other} HTTP/1.1",
            f"connect 127.0.0.1 {PROXY} CONNECT localhost:{up} HTTP/1.1",
            f"connect 127.0.0.1 {PROXY} CONNECT elsewhere.example:443 HTTP/1.1",
            f"connect 127.0.0.1 {PROXY} GET http://127.0.0.1:{up}/ HTTP/1.1",
        ]))
        self.assertEqual(done.code, 0, done)
        said = self.said()
        self.assertEqual(said[0], "connect 0 upstream here")
        self.assertEqual(said[1], "connect 111 ")
        self.assertEqual(said[2:6], ["connect 0 HTTP/1.1 403 Forbidden", "connect 0 HTTP/1.1 403 Forbidden",
                                     "connect 0 HTTP/1.1 403 Forbidden", "connect 0 HTTP/1.1 405 Method Not Allowed"])
        self.assertEqual((self.upstream.reached, self.other.reached), (1, 0))
        decisions = self.decisions()
        self.assertEqual([(one["decision"], one["reason"]) for one in decisions],
                         [("allow", "fixed-relay"), ("block", "loopback-blocked"), ("block", "loopback-blocked"),
                          ("block", "default-deny"), ("block", "method-not-allowed")])
        self.assertEqual(decisions[0]["matchedRule"], "relay")
        self.assertEqual(decisions[1]["blockedAddressClass"], "loopback")
        self.assertEqual(decisions[3]["port"], 443)
        key = "sha256:" + hashlib.sha256(b"egress-host:elsewhere.example").hexdigest()
        self.assertEqual(decisions[3]["hostKey"], key)
        for one in decisions:
            self.assertEqual(one["schemaVersion"], "run-egress-decision/v1")
            self.assertEqual(one["policyHash"], self.manifest()["sandbox"]["egress"]["policyHash"])
            self.assertNotIn("elsewhere", json.dumps(one))

    def test_the_manifest_has_the_posture_and_no_relay_by_name(self):
        done = self.world.run("preview", *self.arguments("end\n", "--json")[1:])
        self.assertEqual(done.code, 0, done)
        sandbox = done.json["manifest"]["sandbox"]
        self.assertEqual(sandbox["egress"]["mode"], "gate")
        self.assertEqual(sandbox["egress"]["allowedHostCount"], 0)
        relay = "sha256:" + hashlib.sha256(f"egress-relay:127.0.0.1:{self.upstream.port}".encode()).hexdigest()
        self.assertEqual(sandbox["egress"]["relays"], [relay])
        self.assertFalse(sandbox["effective"]["networkAccessEnabled"])
        self.assertNotIn(f"127.0.0.1:{self.upstream.port}", json.dumps(sandbox))

    def test_the_run_is_told_of_its_proxy_and_to_leave_its_relays_out(self):
        self.assertEqual(self.go("env-value HTTPS_PROXY\nenv-value no_proxy").code, 0)
        self.assertEqual(self.said(), [f"http://127.0.0.1:{PROXY}", "127.0.0.1,localhost"])

    def test_a_killed_gate_is_replaced_and_the_next_connection_served(self):
        up = self.upstream.port
        process = self.world.start(*self.arguments(
            f"connect 127.0.0.1 {up} a\nsleep 1500\nconnect 127.0.0.1 {up} b\ndone success ok\nexit 0\nend\n"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pid, shim = support.wait_until(self.gate)
        support.wait_until(lambda: any(event["kind"] == "message.assistant" for event in self.world.journal()))
        os.kill(pid, signal.SIGKILL)
        again, _ = support.wait_until(lambda: (lambda found: found if found and found[0] != pid else None)(self.gate(shim)))
        self.assertNotEqual(again, pid)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(self.said(), ["connect 0 upstream here", "connect 0 upstream here"])
        restarts = [event["payload"] for event in self.world.journal() if event["kind"] == "egress.gate-restarted"]
        self.assertEqual(restarts, [{"restarts": 1, "signal": 9}])

    def test_a_gate_that_only_dies_is_given_up_the_run_is_refused_at_once_and_ends_by_itself(self):
        up = self.upstream.port
        process = self.world.start(*self.arguments(
            f"sleep 16000\nconnect 127.0.0.1 {up} a\ndone failed no way out\nexit 0\nend\n"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, shim = support.wait_until(self.gate)
        killed = set()
        while process.poll() is None and len(killed) < 13:
            found = self.gate(shim)
            if found and found[0] not in killed:
                killed.add(found[0])
                os.kill(found[0], signal.SIGKILL)
            time.sleep(0.005)
        process.communicate(timeout=60)
        self.assertEqual(len(killed), 12)
        kinds = [event["kind"] for event in self.world.journal()]
        self.assertEqual(kinds.count("egress.gate-restarted"), 11)
        self.assertEqual(kinds.count("egress.gate-lost"), 1)
        self.assertEqual(self.said(), ["connect 111 "])
        self.assertEqual(self.upstream.reached, 0)

    def test_a_flood_of_decisions_costs_the_journal_little_and_the_counts_are_complete(self):
        flood = "\n".join(f"connect 127.0.0.1 {PROXY} CONNECT h{i % 5}.example:443 HTTP/1.1" for i in range(400))
        done = self.go(flood)
        self.assertEqual(done.code, 0, done)
        decisions = self.decisions()
        self.assertLess(len(decisions), 120)
        self.assertEqual(sum(one.get("count", 1) for one in decisions), 400)

    def test_nothing_of_the_gate_is_left_after_the_run(self):
        self.assertEqual(self.go(f"connect 127.0.0.1 {self.upstream.port} x").code, 0)
        self.assertIsNone(self.gate())

    def test_relay_invalid_and_relay_without_gate_are_refused_before_anything_starts(self):
        for text in ["localhost", "name.example:80", "127.1:80", "127.0.0.1:0", "127.0.0.1:99999"]:
            done = self.world.run("run", *self.world.script_args(self.repo), "-m", "end\n", "--sandbox", "repo-contained",
                                  "--relay", text, "--json")
            self.assert_refused(done, "relay-invalid", 2)
        done = self.world.run("run", *self.world.script_args(self.repo), "-m", "end\n", "--relay", "127.0.0.1:1", "--json")
        self.assert_refused(done, "relay-without-gate", 2)
        done = self.world.run("run", *self.world.script_args(self.repo), "-m", "end\n", "--sandbox", "repo-contained",
                              "--relay", "169.254.169.254:80", "--json")
        self.assert_refused(done, "gate-relay-invalid", 3)
        self.assertEqual(self.world.attempts(), [])


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for name, uid in ([("AsRoot", 0)] if os.geteuid() == 0 else []) + [("AsOrdinaryUser", support.ORDINARY_UID)]:
        suite.addTests(loader.loadTestsFromTestCase(type("GateRun" + name, (GateRun,), {"uid": uid})))
    return suite


if __name__ == "__main__":
    support.main()
