"""Gates that do not end by themselves, and finishers that do not live to see it: bounds, stops, kills, a plan that was edited."""

import contextlib
import json
import os
import signal
import subprocess

import gates
import support
from gates import gate, sh, wait_event

PRESET = b"""schemaVersion: sandbox-preset/v1
id: limited
name: Limited
enforcement: required
requiredCapabilities: [filesystem.read, filesystem.write]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: ["<workspace>"]
network: host
environment: [LANG]
limits:
  maxProcesses: 100
"""


class GateEnds(gates.GateTest):
    def start(self, list_of_gates, *more, **kwargs):
        run = self.world.start(*self.arguments(list_of_gates, *more, **kwargs), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(run.stdout.close)
        return run

    def shim(self):
        return self.slot_field(7)

    def slot_field(self, number):
        with open(os.path.join(self.folder(), "exit"), "rb") as file:
            return int.from_bytes(file.read()[4 * (number + 1):4 * (number + 2)], "little")

    def children(self, pid):
        with contextlib.suppress(OSError), open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
        return []

    def finisher(self):
        """The shim's only child when gates are run."""
        def look():
            found = self.children(self.shim())
            return found[0] if len(found) == 1 else None
        return support.wait_until(look, 30)

    def kill(self, pid, number=signal.SIGKILL):
        fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(fd, number)
        os.close(fd)

    # ---- bounds
    def test_time_output_and_processes_are_bounded_and_nothing_is_left(self):
        preset = self.limited_preset()
        done = self.go([sh("slow", "sleep 1000 # " + self.token, timeoutMs=500),
                        sh("flood", "yes " + self.token),
                        sh("storm", "bomb() { bomb | bomb & }; bomb; sleep 1000 # " + self.token, timeoutMs=2000),
                        sh("behind", "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done #%s' & "
                           "echo left" % self.token)], "--sandbox", preset)
        self.assertEqual(done.code, 1, done)
        results = self.results()
        self.assertEqual([(one["status"], one.get("reason")) for one in results.values()],
                         [("failed", "timeout"), ("failed", "output-limit"), ("failed", "timeout"), ("passed", None)])
        self.assertGreaterEqual(results["slow"]["durationMs"], 500)
        flood = results["flood"]["output"]
        self.assertTrue(flood["truncated"])
        self.assertEqual(len(self.output(results["flood"])), flood["bytes"])
        self.assertLess(flood["bytes"], 8 << 20)
        self.assertEqual(results["behind"]["output"]["tail"], "left\n")
        self.assertIn("fork", results["storm"]["output"]["tail"])
        self.assert_nothing_left()

    def limited_preset(self):
        """At most 100 processes, so that a storm stays small."""
        path = self.world.write(os.path.join(self.world.root, "limited.yaml"), PRESET)
        added = self.world.run("sandbox", "presets", "add", path)
        self.assertEqual(added.code, 0, added)
        return "limited"

    def test_a_gate_that_attacks_what_runs_it_only_ends_itself(self):
        done = self.go([sh("attack", "kill -KILL 1; kill -STOP 1; kill -KILL -1; echo alone"), gate("after", "true")])
        results = self.results()
        self.assertIn(results["attack"]["status"], ("passed", "failed"), done)
        self.assertEqual(results["after"]["status"], "passed", done)
        self.assert_nothing_left()

    def test_the_time_of_all_gates_together_is_bounded(self):
        done = self.go([sh("first", "sleep 1000", timeoutMs=100000), gate("second", "true")], verificationTimeoutMs=700)
        self.assertEqual([(one["status"], one["reason"]) for one in self.results().values()],
                         [("failed", "timeout"), ("skipped", "time-budget")], done)

    # ---- stops
    def test_a_stop_during_gates_ends_them_and_says_so(self):
        run = self.start([sh("long", "sleep 1000 # " + self.token), gate("next", "true")])
        wait_event(self, "verification.started")
        stopped = self.world.run("runs", "stop", os.path.basename(self.folder()), "--json")
        self.assertEqual(stopped.code, 0, stopped)
        run.communicate(timeout=60)
        self.assertEqual([(one["status"], one["reason"]) for one in self.results().values()], [("skipped", "stopped")] * 2)
        self.assertEqual(self.completion()["status"], "partial")
        self.assert_nothing_left()

    def test_ctrl_c_during_gates_ends_them(self):
        run = self.start([sh("long", "sleep 1000 # " + self.token)])
        wait_event(self, "verification.started")
        run.send_signal(signal.SIGINT)
        out = run.communicate(timeout=60)[0]
        self.assertEqual(self.results()["long"]["reason"], "stopped", out)
        self.assert_nothing_left()

    # ---- kills
    def test_a_finisher_killed_during_a_gate_runs_it_again(self):
        # The second time the mark is there: a gate cannot leave one itself.
        mark = os.path.join(self.repo, "mark")
        run = self.start([gate("first", "true"), sh("long", "test -e mark || sleep 1000 # " + self.token), gate("last", "true")])
        wait_event(self, "verification.started", 2)
        support.wait_until(lambda: self.processes(), 20)
        self.world.write(mark, b"")
        self.kill(self.finisher())
        out = run.communicate(timeout=60)[0]
        self.assertEqual([one["status"] for one in self.results().values()], ["passed"] * 3, out)
        self.assertEqual([event["payload"]["gateId"] for event in self.events("verification.started")],
                         ["first", "long", "first", "long", "last"])
        self.assertEqual(len([event for event in self.world.journal(self.folder()) if event["kind"] == "run.completed"]), 1)
        self.assert_nothing_left()

    def test_a_run_whose_shim_and_finisher_died_during_a_gate_is_completed_later(self):
        for backend in ("native", "landlock"):
            mark = os.path.join(self.repo, "src", "mark-" + backend)
            self.world.write(mark, b"")
            run = self.start([sh("long", "test -s src/mark-%s || sleep 1000 # %s" % (backend, self.token))], "--backend", backend)
            known = self.world.attempts()
            support.wait_until(lambda: len(self.world.attempts()) > (0 if backend == "native" else 1) or known is None, 30)
            wait_event(self, "verification.started")
            support.wait_until(lambda: self.processes(), 20)
            finisher, shim = self.finisher(), self.shim()
            self.kill(shim)
            self.kill(finisher)
            self.world.write(mark, b"go on")
            run.communicate(timeout=60)
            support.wait_until(lambda: not self.processes(), 20)
            recovered = self.world.run("runs", "recover", os.path.basename(self.folder()))
            self.assertEqual(recovered.code, 0, recovered)
            self.assertEqual(self.results()["long"]["status"], "passed", backend)
            self.assert_nothing_left()

    # ---- the plan
    def test_a_plan_that_was_edited_is_not_run(self):
        run = self.start([gate("one", "false"), gate("two", "true", required=False)],
                         script="script\nmessage up\nsleep 60000\ndone success x\nexit 0\nend\n".replace("sleep 60000", "sleep 1500"))
        wait_event(self, "message.assistant")
        path = os.path.join(self.folder(), "manifests", "gate-plan.json")
        with open(path) as file:
            plan = json.load(file)
        plan["gates"][0]["command"]["argv"] = ["true"]
        self.world.write(path, json.dumps(plan).encode(), 0o600)
        out = run.communicate(timeout=60)[0]
        self.assertEqual(run.returncode, 1, out)
        self.assertEqual([(one["gateId"], one["status"], one["reason"], one["required"])
                          for one in self.completion()["verification"]],
                         [("one", "failed", "gate-plan-changed", True), ("two", "failed", "gate-plan-changed", False)])
        self.assertEqual(self.events("verification.started"), [])
        self.assertEqual(self.completion()["status"], "partial")


class GateEndsAsOrdinaryUser(GateEnds):
    uid = support.ORDINARY_UID

    def test_a_storm_below_the_landlock_backend_is_bounded_and_ended(self):
        # Only here: for root nothing counts processes where no control group can be made.
        self.limited_preset()
        done = self.go([sh("storm", "bomb() { bomb | bomb & }; bomb; sleep 1000 # " + self.token, timeoutMs=2000)],
                       "--backend", "landlock", "--sandbox", "limited")
        self.assertEqual(self.results()["storm"]["reason"], "timeout", done)
        self.assertIn("fork", self.results()["storm"]["output"]["tail"])
        self.assert_nothing_left()

    def test_the_uid_is_real(self):
        self.assertEqual(self.world.shell("id", "-u").decode().strip(), str(support.ORDINARY_UID))


if __name__ == "__main__":
    support.main()
