"""Verification gates: what they come to, what they can see, and that nothing of them reaches the worktree."""

import hashlib
import json
import os
import socket
import stat
import subprocess

import gates
import support
from gates import gate, sh


class Gates(gates.GateTest):
    def test_each_way_a_gate_ends_is_told(self):
        done = self.go([gate("good", "test", "-f", "src/made.txt"), sh("bad", "echo why; exit 3"),
                        gate("missing", "no-such-program-here"), sh("killed", "kill -KILL $$"), gate("ticked")])
        self.assertEqual(done.code, 1, done)
        results = self.results()
        self.assertEqual([(one["gateId"], one["status"], one.get("reason")) for one in results.values()],
                         [("good", "passed", None), ("bad", "failed", "exit-code"), ("missing", "failed", "exit-code"),
                          ("killed", "failed", "signal"), ("ticked", "skipped", "no-command")])
        self.assertEqual([results[name].get("exitCode") for name in ("good", "bad", "missing")], [0, 3, 127])
        self.assertEqual(results["killed"]["signal"], 9)
        self.assertEqual(results["bad"]["output"]["tail"], "why\n")
        self.assertEqual(self.output(results["bad"]), b"why\n")
        self.assertEqual(results["bad"]["output"]["sha256"], "sha256:" + hashlib.sha256(b"why\n").hexdigest())
        self.assertEqual(results["ticked"]["evidenceIds"], [])
        completion = self.completion()
        evidence = {one["id"]: one for one in completion["evidence"]}
        self.assertEqual(evidence["verification-good"]["requirementIds"], ["verification"])
        self.assertEqual(evidence["verification-bad"]["requirementIds"], [])
        self.assertEqual(results["good"]["evidenceIds"], ["verification-good"])
        self.assertEqual(completion["status"], "partial")
        self.assertIn("verification-missing-bad", [one["code"] for one in completion["blockers"]])

    def test_a_run_whose_gates_pass_is_a_success_and_its_journal_tells_them(self):
        done = self.go([gate("one", "true"), gate("two", "grep", "-q", "made", "src/made.txt")])
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.completion()["status"], "success")
        kinds = [event["kind"] for event in self.world.journal() if event["kind"].startswith(("verification", "run."))]
        self.assertEqual(kinds, ["run.started", "run.verdict"] + ["verification.started", "verification.completed"] * 2 +
                         ["run.completed"])
        self.assertEqual(self.events("verification.started")[0]["payload"]["command"], ["true"])
        self.assertIn(b"gate two passed", done.err)
        first, second = self.results().values()
        self.assertLessEqual(first["startedAt"], first["completedAt"])
        self.assertLessEqual(first["completedAt"], second["startedAt"])
        self.assertLess(self.events("run.started")[0]["receivedAt"], first["startedAt"])

    def test_an_optional_gate_that_fails_does_not_lower_the_run(self):
        done = self.go([gate("extra", "false", required=False)])
        self.assertEqual((done.code, self.completion()["status"]), (0, "success"), done)
        self.assertEqual(self.results()["extra"]["status"], "failed")

    def test_what_a_gate_does_to_the_worktree_is_gone(self):
        def seen():
            return support.fingerprint(self.repo)
        script = ("echo changed > README; rm -rf src; mkdir -p src/deep .new; ln -s / root; chmod 700 .; "
                  "git config user.name Gate; git add -A; git -c user.email=g@h commit -qm gate; cat README; git log --oneline | wc -l")
        before = seen()
        result = self.result([sh("edit", script)], script="script\ndone success nothing\nexit 0\nend\n")
        self.assertEqual((result["status"], result["worktree"]), ("passed", "throw-away"), result)
        self.assertEqual(result["output"]["tail"], "changed\n2\n")
        self.assertEqual(seen(), before)
        self.assertEqual(self.completion()["changedFiles"], [])

    def test_git_in_a_gate_sees_what_the_run_left(self):
        result = self.result([sh("git", "git status --porcelain; git diff --stat HEAD; git log --format=%s")])
        self.assertEqual((result["status"], result["output"]["tail"]), ("passed", "?? src/made.txt\nfirst\n"))

    def test_each_gate_begins_with_the_worktree_as_the_run_left_it(self):
        self.go([sh("first", "rm src/made.txt; echo x > /tmp/x; echo x > ~/x"),
                 sh("second", "cat src/made.txt && ! cat /tmp/x && ! cat ~/x")])
        self.assertEqual([one["status"] for one in self.results().values()], ["passed", "passed"])

    def test_a_gate_finds_no_network_no_secret_no_home_and_no_other_process(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        port = server.getsockname()[1]
        secret = "s3cr3t-value-of-the-test-0123456789"
        look = ("(exec 3<>/dev/tcp/127.0.0.1/%d) 2>/dev/null && echo network; env | grep -i secret; ls -A ~; ls -A /tmp; "
                "ls -d %s/attempts 2>/dev/null; cat %s/attempts/*/token 2>/dev/null; "
                "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -v '^bash -c'; done; true" % (port, self.world.state, self.world.state))
        # Control: the same, from outside, finds all of it.
        with_secret = dict(self.world.env(), MY_SECRET=secret, HOME=self.world.root)
        found = subprocess.run(["bash", "-c", look], env=with_secret, capture_output=True).stdout.decode()
        for word in ("network", "MY_SECRET=" + secret, "state", "python"):
            self.assertIn(word, found)
        result = self.result([gate("look", "bash", "-c", look)], env={"SCRIPT_SECRET": secret, "MY_SECRET": secret})
        lines = [line for line in result["output"]["tail"].splitlines() if not line.startswith("tr ") and line != "hitchrail-init "]
        self.assertEqual(lines, [], result)

    def test_a_gate_does_not_see_what_the_policy_hides(self):
        self.world.write(os.path.join(self.repo, ".env"), b"hidden\n")
        self.world.write(os.path.join(self.repo, "src", ".env"), b"hidden\n")
        with open(os.path.join(self.repo, "src", ".env")) as file:
            self.assertEqual(file.read(), "hidden\n")
        look = sh("look", "cat .env src/.env; chmod 600 .env; mv src other; cat other/.env other/made.txt; echo end")
        result = self.result([look], "--sandbox", "network-allowlist")
        self.assertIn("made by the run", result["output"]["tail"])
        self.assertNotIn("hidden", result["output"]["tail"])
        # Control: where nothing hides them the same gate sees them.
        self.assertIn("hidden", self.result([look])["output"]["tail"])

    def test_the_agent_cannot_change_the_list_of_gates(self):
        path = os.path.join(self.repo, "task.json")
        script = "script\nwrite task.json {\"message\": \"x\", \"verificationGates\": []}\ndone success x\nexit 0\nend\n"
        done = self.world.run("run", *self.world.script_args(self.repo), "--task",
                              self.task_file([gate("strict", "false")], script, path))
        with open(path) as file:
            self.assertIn("\"verificationGates\": []", file.read())
        self.assertEqual((done.code, self.results()["strict"]["status"]), (1, "failed"), done)

    def test_the_plan_is_kept_0600_with_its_digest_in_the_header(self):
        self.assertEqual(self.go([gate("one", "true", timeoutMs=5000)]).code, 0)
        folder = self.folder()
        path = os.path.join(folder, "manifests", "gate-plan.json")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path) as file, open(os.path.join(folder, "header.json")) as header:
            plan, header = json.load(file), json.load(header)
        text = subprocess.run("jq -cSj 'del(.digest)' '%s' | sha256sum" % path, shell=True, check=True,
                              capture_output=True).stdout.decode().split()[0]
        self.assertEqual(header["gatePlanDigest"], "sha256:" + text)
        self.assertEqual(plan["gates"], [{"id": "one", "required": True, "evidenceRequired": True,
                                          "command": {"argv": ["true"], "timeoutMs": 5000}}])
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, "gates", "1.out")).st_mode), 0o600)

    def test_known_secrets_are_redacted_in_what_is_kept(self):
        secret = "s3cr3t-value-of-the-test-0123456789"
        self.world.write(os.path.join(self.repo, "leak.txt"), secret.encode() + b"\n")
        result = self.result([gate("leak", "cat", "leak.txt")], env={"SCRIPT_SECRET": secret},
                             script="script\nenv-value SCRIPT_SECRET\ndone success x\nexit 0\nend\n")
        self.assertEqual(result["status"], "passed")
        self.assertIn("[REDACTED", result["output"]["tail"])
        for folder, _, files in os.walk(self.world.state):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(secret.encode(), file.read(), name)

    def test_no_gate_is_run_after_a_run_that_was_no_success(self):
        done = self.go([gate("one", "true")], script="script\ndone failed no\nexit 1\nend\n")
        self.assertEqual(done.code, 1, done)
        self.assertEqual((self.results()["one"]["status"], self.results()["one"]["reason"]), ("skipped", "run-not-successful"))
        self.assertEqual(self.events("verification.started"), [])

    def test_the_landlock_backend_only_reads(self):
        before = support.fingerprint(self.repo)
        script = ("echo x > README; chmod 777 README; touch README; rm README; mkdir x; echo in > $TMPDIR/x && cat $TMPDIR/x; "
                  "git status --porcelain; echo end")
        done = self.go([sh("edit", script)], "--backend", "landlock", script="script\ndone success x\nexit 0\nend\n")
        result = self.results()["edit"]
        self.assertEqual((result["status"], result["worktree"]), ("passed", "read-only"), done)
        self.assertTrue(result["output"]["tail"].endswith("in\nend\n"), result)
        self.assertEqual(support.fingerprint(self.repo), before)
        self.assertIn(b"gates-read-only", done.err)
        self.assert_nothing_left()

    def test_a_boundary_that_cannot_be_had_blocks_the_launch_before_anything_is_made(self):
        if os.geteuid() != 0:
            self.skipTest("only root can take a program away for one process; the unit tests of launch take the backend away")
        empty = self.world.write(os.path.join(self.world.root, "empty"), b"", 0o644)
        without = ["unshare", "--mount", "sh", "-c", "mount --bind %s /usr/bin/env && exec \"$@\"" % empty, "sh"]

        def preview(required):
            command = ["preview", *self.world.script_args(self.repo), "--json", "--task",
                       self.task_file([gate("one", "true", required=required)])]
            done = subprocess.run([*without, *self.world.command([support.BIN, *command])],
                                  capture_output=True, env=self.world.env(), cwd=self.world.root)
            return support.Result(done.returncode, done.stdout, done.stderr)
        blocked = preview(True)
        self.assertEqual(blocked.code, 3, blocked)
        codes = [one["code"] for one in blocked.json["manifest"]["enforcement"]["blockers"]]
        self.assertEqual(codes, ["gate-boundary-unavailable"])
        warned = preview(False)
        self.assertEqual(warned.code, 0, warned)
        self.assertIn("gate-boundary-unavailable",
                      [one["code"] for one in warned.json["manifest"]["enforcement"]["warnings"]])
        self.assertEqual(self.world.attempts(), [])


class GatesAsOrdinaryUser(Gates):
    uid = support.ORDINARY_UID

    def test_the_uid_is_real(self):
        self.assertEqual(self.world.shell("id", "-u").decode().strip(), str(support.ORDINARY_UID))


if __name__ == "__main__":
    support.main()
