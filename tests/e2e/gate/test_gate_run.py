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

    @staticmethod
    def processes():
        """pid: (parent, name, command line); other tests may run on this machine, so everything is found by descent."""
        found = {}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found[int(name)] = (int(text.rpartition(")")[2].split()[1]), text[text.index("(") + 1:text.rindex(")")],
                                        file.read())
            except (OSError, ValueError, IndexError):
                continue
        return found

    def below_shim(self, process, command):
        """(pid, shim) of that program of the run which this `hitchrail run` started and is waiting for."""
        found = self.processes()
        for pid, (parent, _, line) in found.items():
            if line.startswith(command) and parent in found and found[parent][0] == process.pid:
                return pid, parent
        return None

    def gate(self, process):
        return self.below_shim(process, b"hitchrail-gate")

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
        pid, _ = support.wait_until(lambda: self.gate(process))
        support.wait_until(lambda: any(event["kind"] == "message.assistant" for event in self.world.journal()))
        os.kill(pid, signal.SIGKILL)
        again, _ = support.wait_until(lambda: (lambda found: found if found and found[0] != pid else None)(self.gate(process)))
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
        support.wait_until(lambda: self.gate(process))
        killed = set()
        while process.poll() is None and len(killed) < 13:
            found = self.gate(process)
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

    def test_killed_runners_lose_and_double_no_decision(self):
        script = "\n".join(f"connect 127.0.0.1 {PROXY} CONNECT h{i}.example:443 HTTP/1.1\nsleep 60" for i in range(40))
        process = self.world.start(*self.arguments(script + "\ndone success ok\nexit 0\nend\n"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(lambda: self.gate(process))
        kills = 0
        while process.poll() is None and kills < 5:
            runner = self.below_shim(process, b"hitchrail-runner")
            if runner:
                os.kill(runner[0], signal.SIGKILL)
                kills += 1
            time.sleep(0.3)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertGreaterEqual(kills, 3)
        keys = ["sha256:" + hashlib.sha256(f"egress-host:h{i}.example".encode()).hexdigest() for i in range(40)]
        self.assertEqual([one["hostKey"] for one in self.decisions()], keys)

    def test_a_stopped_run_takes_its_gate_along_and_so_does_a_killed_supervisor(self):
        for end in ("stop", "kill"):
            process = self.world.start(*self.arguments("sleep 60000\nend\n"), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            gate, shim = support.wait_until(lambda: self.gate(process))
            if end == "stop":
                done = self.world.run("runs", "stop", self.world.attempts()[-1])
                self.assertEqual(done.code, 0, done)
            else:
                os.kill(shim, signal.SIGKILL)
            support.wait_until(lambda: not os.path.exists(f"/proc/{gate}"))
            process.communicate(timeout=60)
            self.world.run("runs", "recover")

    def test_nothing_of_the_gate_is_left_after_the_run(self):
        before = {pid for pid, (_, name, _) in self.processes().items() if name == "hitchrail-gate"}
        process = self.world.start(*self.arguments("sleep 300\ndone success ok\nexit 0\nend\n"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        gate, _ = support.wait_until(lambda: self.gate(process))
        self.assertNotIn(gate, before)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertNotIn(gate, self.processes())

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
