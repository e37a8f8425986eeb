"""A claimed success against what was found: each thing that makes it partial, and each that does not, through the whole road."""

import hashlib
import json
import os
import shlex
import subprocess

import support

PLAY = """#!/bin/bash
case "$1" in --version) echo 'script-harness 1.0.0'; exit 0;; esac
while IFS= read -r line; do [ "$line" = end ] && break; done
export GIT_AUTHOR_NAME=Run GIT_AUTHOR_EMAIL=run@example.org GIT_COMMITTER_NAME=Run GIT_COMMITTER_EMAIL=run@example.org
{ %s
} > /dev/null 2>&1
echo '%s'
"""
DONE = {"type": "done", "status": "success", "summary": "ok"}


class Completion(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()

    def harness(self, commands, done=None):
        record = json.dumps(done or DONE).replace("'", "'\\''")
        return self.world.write(os.path.join(self.world.folder("bin", 0o755), "harness"), (PLAY % (commands, record)).encode(), 0o755)

    def args(self, commands, done=None):
        return ["run", *self.world.script_args(self.repo), "--executable", self.harness(commands, done), "-m", "x\nend\n"]

    def last(self):
        return max((self.world.attempt_dir(name) for name in self.world.attempts()),
                   key=lambda folder: os.stat(os.path.join(folder, "header.json")).st_mtime_ns)

    def completion(self):
        with open(os.path.join(self.last(), "completion.json"), encoding="utf-8") as file:
            return json.load(file)

    def play(self, commands, *more, done=None):
        result = self.world.run(*self.args(commands, done), *more)
        completion = self.completion()
        self.assertEqual(result.code, 0 if completion["status"] == "success" else 1, result)
        return completion

    def codes(self, completion):
        return [blocker["code"] for blocker in completion["blockers"]]

    def other_branch(self):
        self.world.git(self.repo, "checkout", "-q", "-b", "other")
        self.world.write(os.path.join(self.repo, "other.txt"), b"other\n")
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "other")
        self.world.git(self.repo, "checkout", "-q", "main")

    def assert_kept(self, subject):
        """The run's commits can be fetched from the attempt."""
        kept = os.path.join(self.last(), "git-kept")
        self.world.git(self.repo, "fetch", "-q", kept, "+refs/*:refs/kept/*")
        self.assertIn(subject, self.world.git(self.repo, "log", "--format=%s", "--glob=refs/kept/*"))

    # ---- history
    def test_a_commit_of_the_run_is_credited_and_imported(self):
        completion = self.play("echo x > new; git add new; git commit -qm mine")
        self.assertEqual(completion["status"], "success", completion)
        self.assertEqual([commit["subject"] for commit in completion["commits"]], ["mine"])
        self.assertEqual([file["path"] for file in completion["changedFiles"]], ["new"])

    def test_a_cherry_pick_is_credited(self):
        self.other_branch()
        completion = self.play("echo x > new; git add new; git commit -qm mine; git cherry-pick other")
        self.assertEqual(completion["status"], "success", completion)
        self.assertEqual([commit["subject"] for commit in completion["commits"]], ["other", "mine"])

    def test_history_that_was_there_is_not_credited(self):
        for number, commands in enumerate(["git merge -q --ff-only other", "git reset -q --hard other", "git checkout -q other",
                                           "git merge -q --no-ff -m m other"]):
            with self.subTest(commands):
                self.repo = self.world.repository("repo%d" % number)
                self.other_branch()
                completion = self.play(commands)
                self.assertEqual(completion["status"], "partial")
                self.assertIn("unauthorized-git-commit", self.codes(completion))
                self.assertEqual(completion["commits"], [])

    def test_the_operators_own_changes_are_not_the_runs(self):
        self.world.write(os.path.join(self.repo, "README"), b"by the operator\n")
        self.world.write(os.path.join(self.repo, "notes\n\xff".encode("latin-1").decode("latin-1")), b"mine\n")
        completion = self.play("echo x > new")
        self.assertEqual(completion["status"], "success", completion)
        self.assertEqual([file["path"] for file in completion["changedFiles"]], ["new"])

    def test_a_change_with_size_and_time_put_back_is_told(self):
        completion = self.play("t=$(stat -c %y src/main.txt); echo two > src/main.txt; touch -d \"$t\" src/main.txt")
        self.assertEqual([file["path"] for file in completion["changedFiles"]], ["src/main.txt"])

    # ---- the operator does something meanwhile
    def waiting(self, commands):
        """The run says when it is ready, and waits for other content of a file that was there: a new name need not show inside."""
        ready = os.path.join(self.repo, "ready")
        return ready, "%s; touch %s; until grep -q 'go on' %s; do sleep 0.02; done" % (
            commands, shlex.quote(ready), shlex.quote(os.path.join(self.repo, "README")))

    def meanwhile(self, act, commands="echo x > new; git add new; git commit -qm mine"):
        ready, wait = self.waiting(commands)
        run = self.world.start(*self.args(wait), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(lambda: os.path.exists(ready), 60)
        act()
        head = self.world.git(self.repo, "rev-parse", "--symbolic-full-name", "HEAD"), self.world.git(self.repo, "for-each-ref")
        index = self.world.git(self.repo, "ls-files", "--stage")
        self.world.write(os.path.join(self.repo, "README"), b"go on\n")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, (out, err))
        self.assertEqual((self.world.git(self.repo, "rev-parse", "--symbolic-full-name", "HEAD"), self.world.git(self.repo, "for-each-ref")), head)
        self.assertEqual(self.world.git(self.repo, "ls-files", "--stage"), index)
        completion = self.completion()
        self.assertEqual(completion["status"], "partial")
        self.assertIn("launch-head-moved", self.codes(completion))
        self.assert_kept("mine")
        return completion

    def test_the_operator_commits(self):
        self.meanwhile(lambda: self.world.git(self.repo, "commit", "-q", "--allow-empty", "-m", "theirs"))

    def test_the_operator_amends(self):
        self.meanwhile(lambda: self.world.git(self.repo, "commit", "-q", "--amend", "--allow-empty", "-m", "theirs"))

    def test_the_operator_switches_the_branch(self):
        self.meanwhile(lambda: self.world.git(self.repo, "checkout", "-q", "-b", "elsewhere"))

    def test_the_operator_deletes_the_branch(self):
        def act():
            self.world.git(self.repo, "checkout", "-q", "-b", "elsewhere")
            self.world.git(self.repo, "branch", "-q", "-D", "main")
        self.meanwhile(act)

    def test_the_operator_goes_back(self):
        self.world.git(self.repo, "commit", "-q", "--allow-empty", "-m", "second")
        self.meanwhile(lambda: self.world.git(self.repo, "reset", "-q", "--soft", "HEAD^"))

    def test_a_moved_head_does_not_matter_to_a_run_without_commits(self):
        ready, wait = self.waiting("true")
        run = self.world.start(*self.args(wait), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(lambda: os.path.exists(ready), 60)
        self.world.git(self.repo, "commit", "-q", "--allow-empty", "-m", "theirs")
        self.world.write(os.path.join(self.repo, "README"), b"go on\n")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, (out, err))
        self.assertIn("launch-head-moved", [item["id"] for item in self.completion()["evidence"]])

    # ---- what a provider says of itself
    def test_claims_of_the_provider_are_kept_unverified(self):
        claims = {"evidence": [{"id": "tests pass", "kind": "verification", "summary": "all green", "verified": True}],
                  "artifacts": [{"id": "report", "kind": "file", "name": "report", "reference": "report.txt", "sha256": "a" * 64, "verified": True}]}
        completion = self.play("true", done=dict(DONE, details=json.dumps(claims)))
        self.assertEqual(completion["status"], "success", completion)
        mine = [item for item in completion["evidence"] if item["source"] == "provider"]
        self.assertEqual([(item["id"], item["verified"], item["requirementIds"]) for item in mine], [("provider-tests-pass", False, [])])
        self.assertEqual([(item["id"], item["verified"]) for item in completion["artifacts"]], [("provider-report", False)])

    def test_a_success_that_names_what_blocks_it_is_none(self):
        claims = {"blockers": [{"code": "quota", "summary": "nearly out", "detail": "", "retryable": True}]}
        completion = self.play("true", done=dict(DONE, details=json.dumps(claims)))
        self.assertEqual((completion["status"], self.codes(completion)), ("partial", ["provider-quota"]))

    # ---- what the task file asks for
    def asked(self, commands, **task):
        path = self.world.write(os.path.join(self.world.root, "task.json"), json.dumps(dict({"message": "x\nend\n"}, **task)).encode())
        result = self.world.run("run", *self.world.script_args(self.repo), "--executable", self.harness(commands), "--task", path)
        completion = self.completion()
        self.assertEqual(result.code, 0 if completion["status"] == "success" else 1, result)
        return completion

    def test_a_required_output_must_be_a_file_that_this_run_made(self):
        output = {"id": "report", "kind": "file", "description": "d", "path": "src/report"}
        for commands, reason in [("true", "missing"), ("mkfifo src/report", "not-a-file"), ("ln -s main.txt src/report", "not-a-file"),
                                 ("mkdir src/report", "not-a-file"), ("echo x > src/report", None)]:
            with self.subTest(commands):
                subprocess.run(["rm", "-rf", os.path.join(self.repo, "src", "report")], check=True)
                completion = self.asked(commands, expectedOutputs=[output])
                self.assertEqual(self.codes(completion), ["expected-output-missing-report"] if reason else [])
                artifact = completion["artifacts"][0]
                self.assertEqual((artifact["verified"], artifact.get("reason")), (reason is None, reason))
        self.assertEqual(artifact["sha256"], hashlib.sha256(b"x\n").hexdigest())

    def test_a_file_that_was_there_is_no_output_of_the_run(self):
        completion = self.asked("touch src/main.txt", expectedOutputs=[{"id": "old", "kind": "file", "description": "d", "path": "src/main.txt"}])
        self.assertEqual(completion["artifacts"][0]["reason"], "not-changed-by-run")
        self.assertEqual(completion["status"], "partial")

    def test_a_gate_that_nobody_runs_is_not_passed(self):
        gate = {"id": "seen", "description": "somebody looked"}
        self.assertIn("verification-missing-seen", self.codes(self.asked("true", verificationGates=[gate])))
        self.assertEqual(self.asked("true", verificationGates=[dict(gate, required=False)])["status"], "success")

    def test_required_and_forbidden_commits(self):
        self.assertEqual(self.codes(self.asked("true", commitPolicy="required")), ["required-commit-missing"])
        self.assertIn("forbidden-commit-created",
                      self.codes(self.asked("echo x > new; git add new; git commit -qm mine", commitPolicy="forbidden")))

    def test_a_file_outside_every_allowed_scope_is_unauthorised(self):
        scope = [{"kind": "filesystem-write", "scope": "src"}, {"kind": "git-commit", "scope": "src"}]
        completion = self.asked("echo x >> README; echo x > evil.txt; echo x > srcs; echo x > src/fine", sideEffects=scope)
        self.assertEqual((completion["status"], self.codes(completion)), ("partial", ["unauthorized-filesystem-write"]))
        effect, = (effect for effect in completion["sideEffects"] if not effect["authorized"])
        self.assertTrue(effect["description"].endswith(": README, evil.txt, srcs"), effect)
        self.assertEqual(effect["target"], "README")

    def test_what_lies_in_the_allowed_scope_is_fine(self):
        scope = [{"kind": "filesystem-write", "scope": "src"}, {"kind": "git-commit", "scope": "src"}]
        self.assertEqual(self.asked("echo x > src/fine; git add src; git commit -qm mine", sideEffects=scope)["status"], "success")

    def test_a_commit_that_was_put_back_counts_against_its_scope(self):
        scope = [{"kind": "filesystem-write", "scope": "."}, {"kind": "git-commit", "scope": "src"}]
        completion = self.asked("echo x > out; git add out; git commit -qm out; git rm -q out; git commit -qm back", sideEffects=scope)
        self.assertEqual((completion["status"], self.codes(completion)), ("partial", ["unauthorized-git-commit"]))

    def test_forbidden_commits_are_found_wherever_they_are(self):
        commit = "git commit -q --allow-empty -m mine"
        for number, commands in enumerate(["git checkout -q -b z; %s; git checkout -q main" % commit, "%s; git reset -q --hard HEAD^" % commit,
                                           "%s; git tag t; git reset -q --hard HEAD^; rm -r \"$(git rev-parse --git-dir)/logs\"" % commit]):
            with self.subTest(commands):
                self.repo = self.world.repository("repo%d" % number)
                self.assertEqual(self.codes(self.asked(commands, commitPolicy="forbidden")), ["forbidden-commit-created"])

    def test_a_branch_without_a_commit_is_no_forbidden_commit(self):
        self.other_branch()
        self.assertEqual(self.asked("git branch z; git tag t; git branch y other", commitPolicy="forbidden")["status"], "success")

    # ---- more than a result can list
    MANY = "mkdir src/many; for i in $(seq 2100); do echo x > src/many/$i; done"

    def test_a_cut_list_is_kept_whole(self):
        completion = self.play(self.MANY + "; echo x > zzz")
        self.assertEqual(completion["status"], "success", completion["blockers"])
        self.assertEqual((len(completion["changedFiles"]), completion["changedFilesTotal"], completion["changedFilesTruncated"]), (2000, 2101, True))
        path = os.path.join(self.last(), completion["changedFilesReference"])
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, "rb") as file:
            data = file.read()
        self.assertEqual("sha256:" + hashlib.sha256(data).hexdigest(), completion["changedFilesDigest"])
        self.assertEqual(sorted(file["path"] for file in json.loads(data)["changedFiles"]), sorted(["src/many/%d" % i for i in range(1, 2101)] + ["zzz"]))

    def test_a_file_beyond_the_listed_ones_is_held_against_the_scope(self):
        completion = self.asked(self.MANY + "; echo x > zzz", sideEffects=[{"kind": "filesystem-write", "scope": "src"}])
        self.assertEqual((completion["status"], self.codes(completion)), ("partial", ["unauthorized-filesystem-write"]))
        self.assertNotIn("zzz", [file["path"] for file in completion["changedFiles"]])

    def test_a_requirement_of_evidence_is_met_by_evidence(self):
        wanted = [{"id": "work", "kind": "file-change", "description": "d"}]
        self.assertEqual(self.codes(self.asked("true", evidenceRequirements=wanted)), ["evidence-missing-work"])
        self.assertEqual(self.asked("echo x > new", evidenceRequirements=wanted)["status"], "success")

    # ---- a trap for git
    def test_a_fifo_where_git_opens_a_file_does_not_hide_the_run(self):
        completion = self.play("rm -f .gitignore; mkfifo .gitignore src/.gitattributes; echo x > new")
        self.assertEqual(self.codes(completion), ["worktree-unsafe-entry"])
        self.assertIn("new", [file["path"] for file in completion["changedFiles"]])


class CompletionAsOrdinaryUser(Completion):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
