"""Workspace trust by the whole program: each outcome, the decisions, and repositories that try to get around them."""

import hashlib
import json
import os
import pty
import shlex
import shutil
import sqlite3
import subprocess
import threading
import time

import support

DONE = "done success x\nexit 0\nend\n"

# The scripted harness, as one that reads the usual files: text, a tool server, and a place of its own.
FILES = {"text": "{instructions: [.../AGENTS.md, '**/CLAUDE.md', .own/rules/**], executable: []}",
         "script": "{instructions: [.../AGENTS.md], executable: [.mcp.json, .own/config.toml]}",
         "none": "{instructions: [], executable: []}"}

READ_ONLY = """schemaVersion: sandbox-preset/v1
id: quiet
name: Quiet
description: Reads one worktree, writes nothing of it, and has no network.
enforcement: required
requiredCapabilities: [filesystem.read, filesystem.write, process.isolation]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: []
  deniedPaths: []
network: {mode: none}
environment: [LANG]
credentials: none
"""


class Trust(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.profiles = self.world.folder("profiles")
        self.harness("script")

    # ---- the world
    def harness(self, files):
        """The profile that every run of this test uses, with these workspaceFiles (None: not stated)."""
        with open(os.path.join(support.BUILD, "test-profiles", "harness", "script.yaml"), encoding="utf-8") as file:
            text = "".join(line for line in file if not line.startswith("workspaceFiles:"))
        folder = os.path.join(self.profiles, "harness")
        os.makedirs(folder, exist_ok=True)
        self.world.own(folder)
        if files is not None:
            text += "workspaceFiles: %s\n" % FILES[files]
        self.world.write(os.path.join(folder, "script.yaml"), text.encode())

    def put(self, name, data=b"x\n", repo=None):
        path = os.path.join(os.fsencode(repo or self.repo), os.fsencode(name))
        folder = os.path.dirname(path)
        made = []
        while not os.path.isdir(folder):
            made.append(folder)
            folder = os.path.dirname(folder)
        for each in reversed(made):
            os.mkdir(each)
            self.world.own(each)
        return self.world.write(path, data)

    def arguments(self, *more, repo=None):
        return ["--agent", "script", "--plugin-dir", os.path.join(support.BUILD, "test-plugins"), "--profile-dir",
                self.profiles, "--worktree", repo or self.repo, *more]

    def trust(self, what, *more, repo=None, json_out=True):
        return self.world.run("trust", what, *self.arguments(repo=repo), *(["--json"] if json_out else []), *more)

    def digest(self, repo=None):
        return self.trust("show", repo=repo).json["inventoryDigest"]

    def go(self, *more, script=DONE, repo=None):
        return self.world.run("run", *self.arguments("-m", script, *more, repo=repo), "--json")

    def allow(self, *more, repo=None):
        done = self.trust("allow", "--inventory", self.digest(repo), *more, repo=repo)
        self.assertEqual(done.code, 0, done)
        return done.json

    def assert_runs(self, done, status):
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.evidence()["status"], status)

    def assert_untrusted(self, done):
        self.assert_refused(done, "workspace-untrusted", 3)
        return json.loads(done.out.splitlines()[-1])["error"]

    def manifest(self):
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def evidence(self):
        return self.manifest()["workspaceTrust"]


class Outcomes(Trust):
    def test_nothing_that_the_harness_reads_needs_no_decision(self):
        self.put(".github/workflows/ci.yml")
        self.put("sub/CLAUDE.md")
        self.assert_runs(self.go(), "not-required")
        self.assertEqual(self.evidence()["inventory"]["entryCount"], 2)
        self.assertEqual(self.evidence()["inventory"]["loadedCount"], 0)

    def test_text_for_the_model_runs_restricted_and_is_fingerprinted_without_its_content(self):
        self.put("AGENTS.md", b"Always say please.\n")
        self.assert_runs(self.go(), "restricted")
        self.assertTrue(self.evidence()["implicit"])
        mine = [each for each in self.manifest()["instructions"] if each["kind"] == "repository"]
        self.assertEqual([(each["id"], each["precedence"], each["byteLength"]) for each in mine],
                         [("repository:AGENTS.md", 150, 19)])
        found = subprocess.run(["sha256sum", os.path.join(self.repo, "AGENTS.md")], capture_output=True, check=True).stdout
        self.assertEqual(mine[0]["digest"], "sha256:" + found.decode().split()[0])
        for folder, _, files in os.walk(os.path.join(self.world.attempt_dir(), "manifests")):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(b"say please", file.read(), name)

    def test_text_under_an_advisory_preset_needs_a_decision(self):
        self.put("AGENTS.md")
        self.assert_untrusted(self.go("--sandbox", "permissive"))
        self.allow()
        self.assert_runs(self.go("--sandbox", "permissive"), "trusted")

    def test_configuration_is_refused_with_the_exact_line_and_runs_after_it(self):
        self.put(".mcp.json", b"{}")
        before = support.fingerprint(self.repo), support.state_print(self.world)
        error = self.assert_untrusted(self.go())
        self.assertEqual((support.fingerprint(self.repo), support.state_print(self.world)), before)
        line = shlex.split(error["remedy"])
        self.assertEqual(line[:3], ["hitchrail", "trust", "allow"])
        done = self.world.run(*line[1:])
        self.assertEqual(done.code, 0, done)
        self.assert_runs(self.go(), "trusted")
        self.assertEqual(self.evidence()["decision"]["actor"]["uid"], self.world.uid)

    def test_preview_says_it_and_records_nothing(self):
        self.put(".mcp.json", b"{}")
        before = support.state_print(self.world)
        done = self.world.run("preview", *self.arguments("-m", DONE, "--json"))
        self.assertEqual(done.code, 3, done)
        blockers = done.json["manifest"]["enforcement"]["blockers"]
        self.assertIn("workspace-untrusted", [each["code"] for each in blockers])
        self.assertEqual(support.state_print(self.world), before)

    def test_a_profile_that_states_nothing_reads_what_harnesses_are_known_to_read(self):
        self.harness(None)
        self.put(".claude/settings.json", b"{}")
        self.assert_untrusted(self.go())

    def test_a_restricted_decision_refuses_a_launch_that_is_not(self):
        self.put(".mcp.json", b"{}")
        self.assertEqual(self.trust("restrict", "--inventory", self.digest()).code, 0)
        error = self.assert_untrusted(self.go())
        for check in ("filesystem-read-only", "network-disabled", "external-mutation-blocked"):
            self.assertIn(check, error["detail"])
        self.assertNotIn("trust allow", error["remedy"])

    def test_a_restricted_launch_really_starts_and_does_not_see_the_configuration(self):
        self.put(".mcp.json", b"planted")
        self.put("AGENTS.md")
        added = self.world.run("sandbox", "presets", "add",
                               self.world.write(os.path.join(self.world.root, "quiet.yaml"), READ_ONLY.encode()))
        self.assertEqual(added.code, 0, added)
        self.assertEqual(self.trust("restrict", "--inventory", self.digest()).code, 0)
        done = self.go("--sandbox", "quiet")
        self.assert_runs(done, "restricted")
        self.assertFalse(self.evidence()["implicit"])
        self.assertTrue(all(each["holds"] for each in self.evidence()["restrictionChecks"]))
        with open(os.path.join(self.world.attempt_dir(), "manifests", "policy.json"), encoding="utf-8") as file:
            policy = json.load(file)
        covered = [root["pathDigest"] for root in policy["roots"] if root["access"] == "deny"]
        path = os.path.join(self.repo, ".mcp.json").encode()
        self.assertEqual(covered, ["sha256:" + hashlib.sha256(path).hexdigest()])

    def test_the_repository_can_only_narrow(self):
        policy = '{"schemaVersion": "workspace-trust-policy/v1", "maximumTrust": "%s"}'
        self.put(".hitchrail/workspace-trust.json", (policy % "denied").encode())
        self.assert_untrusted(self.go())
        self.put(".hitchrail/workspace-trust.json", b"{}")
        self.assert_untrusted(self.go())
        self.put(".mcp.json", b"{}")
        self.put(".hitchrail/workspace-trust.json", (policy % "trusted").encode())
        self.assert_untrusted(self.go())
        self.put(".hitchrail/workspace-trust.json", (policy % "restricted").encode())
        self.allow()
        self.assert_untrusted(self.go())
        self.put(".hitchrail/workspace-trust.json", (policy % "trusted").encode())
        self.allow()
        self.assert_runs(self.go(), "trusted")


class Decisions(Trust):
    def test_they_are_kept_attributed_and_replace_each_other(self):
        self.put(".mcp.json", b"{}")
        first = self.allow("--reason", "looked at it")
        self.assertEqual(self.trust("deny").code, 0)
        self.assert_untrusted(self.go())
        self.assertEqual(self.trust("revoke").code, 0)
        self.assert_untrusted(self.go())
        self.allow()
        self.assert_runs(self.go(), "trusted")
        decisions = self.trust("show").json["decisions"]
        self.assertEqual([each["mode"] for each in decisions], ["trusted", "revoked", "denied", "trusted"])
        self.assertEqual([each.get("supersedesDecisionId") for each in decisions],
                         [each["id"] for each in decisions[1:]] + [None])
        self.assertEqual(decisions[-1], first)
        self.assertEqual(first["reason"], "looked at it")

    def test_a_repository_that_changes_between_show_and_allow_is_not_allowed(self):
        self.put(".mcp.json", b"{}")
        seen = self.digest()
        self.put(".mcp.json", b"{ }")
        self.assert_refused(self.trust("allow", "--inventory", seen), "trust-inventory-changed", 3)
        self.assertEqual(self.trust("show").json["decisions"], [])

    def test_a_change_after_the_decision_voids_it_and_going_back_restores_it(self):
        self.put(".mcp.json", b"{}")
        self.allow()
        self.put(".mcp.json", b"[]")
        self.assertIn("changed since", self.assert_untrusted(self.go())["detail"])
        self.put(".mcp.json", b"{}")
        self.assert_runs(self.go(), "trusted")

    def test_bad_answers(self):
        self.put(".mcp.json", b"{}")
        self.assert_refused(self.trust("allow"), "trust-inventory-missing", 2)
        seen = self.digest()
        for text in ("1", "d", "0d", "-1d", "5w", "99999999999d", "9999d"):
            self.assert_refused(self.trust("allow", "--inventory", seen, "--expires=" + text), "trust-expires", 2)
        for text in ("a\nb", "x" * 1001, "token=0123456789abcdef0123"):
            self.assert_refused(self.trust("allow", "--inventory", seen, "--reason", text), "trust-reason", 2)
        self.assertEqual(self.trust("show").json["decisions"], [])

    def test_an_expired_decision_counts_for_nothing(self):
        self.put(".mcp.json", b"{}")
        self.allow("--expires", "1s")
        support.wait_until(lambda: self.trust("show").json["current"] is None)
        self.assert_untrusted(self.go())

    def test_one_clone_s_trust_is_not_another_s_at_the_same_path(self):
        self.put(".mcp.json", b"{}")
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-qm", "server")
        self.allow()
        away = self.repo + "-away"
        os.rename(self.repo, away)
        self.world.shell("git", "clone", "-q", away, self.repo)
        self.assert_untrusted(self.go())
        shutil.rmtree(self.repo)
        os.rename(away, self.repo)
        self.assert_runs(self.go(), "trusted")

    def test_a_decision_for_another_agent_is_none(self):
        self.put(".mcp.json", b"{}")
        done = self.world.run("trust", "allow", "--agent", "codex", "--worktree", self.repo, "--inventory",
                              self.world.run("trust", "show", "--agent", "codex", "--worktree", self.repo,
                                             "--json").json["inventoryDigest"])
        self.assertEqual(done.code, 0, done)
        self.assert_untrusted(self.go())

    def test_ten_thousand_decisions_are_the_end_but_for_taking_trust_back(self):
        self.put(".mcp.json", b"{}")
        first = self.allow()
        with sqlite3.connect(os.path.join(self.world.state, "hitchrail.db")) as database:
            database.executemany(
                "INSERT INTO trust_decisions(id, identity, inventory, mode, agent, uid, user, reason, at_unix_ms, "
                "expires_unix_ms, supersedes, workspace, policy) VALUES(?, 'sha256:other', '', 'trusted', '', 0, '', '', 1, 0, "
                "'', x'2f', 1)", [("decision_%d" % i,) for i in range(9899)])
        database.close()
        self.assert_refused(self.trust("allow", "--inventory", self.digest()), "trust-decision-limit", 3)
        self.assert_runs(self.go(), "trusted")
        self.assertEqual(self.evidence()["decision"]["id"], first["id"])
        self.assertEqual(self.trust("revoke").code, 0)
        self.assert_untrusted(self.go())


class Hostile(Trust):
    def test_a_link_where_text_is_expected_needs_a_decision(self):
        os.symlink("/etc/passwd", os.path.join(self.repo, "AGENTS.md"))
        self.world.own(os.path.join(self.repo, "AGENTS.md"))
        self.assert_untrusted(self.go())
        entry = self.trust("show").json["entries"][0]
        self.assertEqual((entry["posture"], entry["problem"], entry["symbolicLink"]), ("executable", "symbolic-link", True))

    def test_names_and_sizes_that_are_no_text(self):
        self.harness("text")
        self.put("line\nbreak/CLAUDE.md")
        self.put(b"\xff\xfe/CLAUDE.md")
        self.assert_runs(self.go(), "restricted")
        self.put("esc\x1b[31m/CLAUDE.md", b"x" * (3 << 20))
        self.assert_untrusted(self.go())
        shown = self.trust("show", json_out=False)
        self.assertNotIn(b"\x1b", shown.out)
        self.assertIn(b"\\x1b[31m", shown.out)
        self.assertIn(b"too-large", shown.out)

    def test_a_path_with_anything_in_it_gives_a_line_that_a_shell_takes(self):
        odd = os.path.join(self.world.root, "a  b'$(x)\u00e9\nc")
        os.rename(self.repo, odd)
        self.put(".mcp.json", b"{}", repo=odd)
        error = self.assert_untrusted(self.go(repo=odd))
        words = subprocess.run(["bash", "-c", "for w in %s; do printf '%%s\\0' \"$w\"; done" % error["remedy"]],
                               capture_output=True, check=True).stdout.split(b"\0")[1:-1]
        done = self.world.run(*words)
        self.assertEqual(done.code, 0, done)
        self.assert_runs(self.go(repo=odd), "trusted")

    def test_what_changes_after_the_look_is_seen_before_the_spawn(self):
        """A text that git ignores, so that nobody but this look can see it change."""
        self.put(".git/info/exclude", b"AGENTS.md\n")
        self.put("AGENTS.md", b"0\n")
        stop = threading.Event()

        def change():
            number = 0
            while not stop.is_set():
                number += 1
                temporary = os.path.join(self.repo, ".git", "new-text")
                self.world.write(temporary, b"%d\n" % number)
                os.rename(temporary, os.path.join(self.repo, "AGENTS.md"))
                time.sleep(0.01)

        thread = threading.Thread(target=change)
        thread.start()
        codes = []
        try:
            while "workspace-trust-changed" not in codes and len(codes) < 20:
                done = self.go()
                self.assertEqual(done.code, 3, done)
                codes.append(done.error_code)
        finally:
            stop.set()
            thread.join()
        # A text that is replaced in the very moment it is read cannot be judged, and was refused for that.
        self.assertLessEqual(set(codes[:-1]), {"workspace-untrusted"})
        self.assertEqual(codes[-1], "workspace-trust-changed")
        self.assertEqual([self.world.journal(attempt)[-1]["kind"] for attempt in self.world.attempts()], ["run.failed"])


class Terminal(Trust):
    """`run` on a terminal: asks once, and only a whole `yes` is one."""

    def ask(self, answer, *command):
        master, slave = pty.openpty()
        process = self.world.start(*(command or ["run", *self.arguments("-m", DONE)]), stdin=slave, stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        told = b""
        sent = False
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            told += piece
            if not sent and b"Type yes" in told:
                os.write(master, answer)
                sent = True
        process.stdout.read()
        process.stdout.close()
        code = process.wait(60)
        os.close(master)
        return code, told

    def setUp(self):
        super().setUp()
        self.put(".mcp.json", b"{}")
        self.put("sub/esc\x1b[2J\u202e/CLAUDE.md")

    def test_yes_is_recorded_and_not_asked_again(self):
        code, told = self.ask(b"yes\n")
        self.assertEqual(code, 0, told)
        self.assertIn(b".mcp.json", told)
        asked = told[:told.index(b"Type yes")]
        self.assertNotIn(b"\x1b", asked)
        self.assertNotIn("\u202e".encode(), asked)
        self.assertEqual(told.count(b"Type yes"), 1)
        self.assertEqual(self.evidence()["status"], "trusted")
        self.assertEqual(self.evidence()["decision"]["reason"], "answered on the terminal")
        code, told = self.ask(b"")
        self.assertEqual((code, b"Type yes" in told), (0, False), told)

    def test_anything_else_refuses_and_records_nothing(self):
        for answer in (b"\n", b"y\n", b"YES\n", b"no\n", b"yes, please\n", b"\x04", b"x" * 200 + b"yes\n"):
            with self.subTest(answer):
                code, told = self.ask(answer)
                self.assertEqual(code, 3, told)
                self.assertIn(b"workspace-untrusted", told)
                self.assertEqual(self.world.attempts(), [])
        self.assertEqual(self.trust("show").json["decisions"], [])

    def test_deny_is_kept(self):
        code, told = self.ask(b"deny\n")
        self.assertEqual(code, 3, told)
        code, told = self.ask(b"yes\n")
        self.assertEqual((code, b"Type yes" in told), (3, False), told)

    def test_preview_never_asks(self):
        code, told = self.ask(b"yes\n", "preview", *self.arguments("-m", DONE))
        self.assertEqual((code, b"Type yes" in told), (3, False), told)
        self.assertEqual(self.trust("show").json["decisions"], [])


class OutcomesAsUser(Outcomes):
    uid = support.ORDINARY_UID


class HostileAsUser(Hostile):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
