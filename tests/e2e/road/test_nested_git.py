"""A run that plants git directories below the top level: none of it is imported, all of it is named, and the operator's `git status` at
the top level runs nothing of it."""

import json
import os

import support

PLANT = """#!/bin/bash
case "$1" in --version) echo 'script-harness 1.0.0'; exit 0;; esac
while IFS= read -r line; do [ "$line" = end ] && break; done
%s
echo '{"type":"done","status":"success","summary":"ok"}'
"""


class NestedGit(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.mark = os.path.join(self.world.root, "mark")

    def play(self, commands):
        program = self.world.write(os.path.join(self.world.folder("bin", 0o755), "harness"), (PLANT % commands).encode(), 0o755)
        done = self.world.run("run", *self.world.script_args(self.repo), "--executable", program, "-m", "x\nend\n")
        with open(os.path.join(self.world.attempt_dir(), "completion.json"), encoding="utf-8") as file:
            return done, json.load(file)

    def codes(self, completion):
        return [blocker["code"] for blocker in completion["blockers"]]

    def monitored(self, folder):
        return ("git init -q %s && cd %s && git -c user.name=a -c user.email=b commit -q --allow-empty -m s && "
                "git config core.fsmonitor 'touch %s; false' && cd -" % (folder, folder, self.mark))

    def assert_quiet_status(self):
        self.world.git(self.repo, "status")
        self.assertFalse(os.path.exists(self.mark), "the operator's git ran what the run planted")

    def test_a_committed_gitlink_is_not_imported(self):
        before = self.world.git(self.repo, "rev-parse", "HEAD")
        done, completion = self.play(self.monitored("lib") + "; git add lib; git -c user.name=a -c user.email=b commit -qm lib")
        self.assertEqual(done.code, 1, done)
        self.assertEqual(self.world.git(self.repo, "rev-parse", "HEAD"), before)
        self.assertIn("nested-git-changed", self.codes(completion))
        self.assertEqual(completion["nestedGit"], ["lib/.git"])
        self.assertIn("gitlink-added", json.dumps(completion["import"]))
        self.assert_quiet_status()

    def test_a_staged_gitlink_is_not_imported(self):
        _, completion = self.play(self.monitored("lib") + "; git add lib")
        self.assertIn("gitlink-added", json.dumps(completion["import"]))
        self.assertEqual(self.world.git(self.repo, "ls-files", "--stage", "lib"), "")
        self.assert_quiet_status()

    def test_a_committed_protected_name_is_not_imported(self):
        before = self.world.git(self.repo, "rev-parse", "HEAD")
        done, completion = self.play("b=$(echo '{}' | git hash-object -w --stdin); git update-index --add --cacheinfo 100644,$b,.claude/settings.json; "
                                     "git -c user.name=a -c user.email=b commit -qm settings")
        self.assertEqual(done.code, 1, done)
        self.assertEqual(self.world.git(self.repo, "rev-parse", "HEAD"), before)
        reasons = {(each["ref"], each["reason"]) for each in completion["import"]["notImported"]}
        self.assertEqual(reasons, {("refs/heads/main", "protected-name-committed"), ("index", "protected-name-committed")})
        self.assertIn("commits-not-imported", self.codes(completion))
        kept = os.path.join(self.world.attempt_dir(), "git-kept")
        self.world.git(self.repo, "fetch", "-q", kept, "+refs/heads/*:refs/remotes/run/*")
        self.world.git(self.repo, "checkout", "-q", "main")
        self.assertFalse(os.path.exists(os.path.join(self.repo, ".claude")))

    def test_a_repository_of_another_name_is_named(self):
        _, completion = self.play("git init -q --bare lib/x.git; git config -f lib/x.git/config core.fsmonitor 'touch %s; false'" % self.mark)
        self.assertEqual(completion["nestedGit"], ["lib/x.git"])
        self.assertIn("nested-git-changed", self.codes(completion))

    def test_a_plain_commit_is_still_imported(self):
        done, completion = self.play("echo x > src/new; git add src/new; git -c user.name=a -c user.email=b commit -qm new")
        self.assertEqual(done.code, 0, done)
        self.assertEqual((self.codes(completion), completion["nestedGit"]), ([], []))
        self.assertIn("new", self.world.git(self.repo, "log", "-1", "--format=%s"))

    def test_a_known_secret_in_names_and_subjects_is_nowhere_in_the_evidence(self):
        secret = "sekret-value-123456789"
        self.world.extra_env = {"SCRIPT_SECRET": secret}
        done, completion = self.play("echo x > src/f$SCRIPT_SECRET; git add src; "
                                     "git -c user.name=a -c user.email=b commit -qm m$SCRIPT_SECRET; git branch b$SCRIPT_SECRET")
        self.assertEqual(done.code, 0, done)
        self.assertIn("[REDACTED", json.dumps(completion["commits"]))
        for folder, _, files in os.walk(self.world.attempt_dir()):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    if not folder.startswith(os.path.join(self.world.attempt_dir(), "git")):
                        self.assertNotIn(secret.encode(), file.read(), name)

    def test_the_configuration_of_an_old_one_cannot_be_changed(self):
        inner = os.path.join(self.repo, "inner")
        os.makedirs(inner)
        self.world.own(inner)
        self.world.git(inner, "init", "-q")
        before = support.fingerprint(inner)
        _, completion = self.play("git config -f inner/.git/config core.fsmonitor false")
        self.assertEqual((completion["nestedGit"], support.fingerprint(inner)), ([], before))
        self.assertNotIn("nested-git-changed", self.codes(completion))


class NestedGitAsOrdinaryUser(NestedGit):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
