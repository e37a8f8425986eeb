"""Verification gates against an agent that argues: what git shows in a gate is the host's, and a gate without a program is none."""

import os

import gates
import support
from gates import gate, sh

PLAY = """#!/bin/bash
case "$1" in --version) echo 'script-harness 1.0.0'; exit 0;; esac
while IFS= read -r line; do [ "$line" = end ] && break; done
export GIT_AUTHOR_NAME=Run GIT_AUTHOR_EMAIL=run@example.org GIT_COMMITTER_NAME=Run GIT_COMMITTER_EMAIL=run@example.org
g=$(git rev-parse --absolute-git-dir)
(set -e; %s
) > /dev/null 2>&1
if [ $? = 0 ]; then echo '{"type": "done", "status": "success", "summary": "ok"}'
else echo '{"type": "done", "status": "failed", "summary": "the attack was not made"}'; fi
"""
UNCHANGED = gate("unchanged", "git", "diff", "--exit-code", "HEAD", "--", "README")


class GateGit(gates.GateTest):
    def after(self, attack, *checks, more=()):
        """The gates' results after an agent that did all of this."""
        attack = attack.replace("\n", "; ")
        harness = self.world.write(os.path.join(self.world.folder("bin", 0o755), "harness"),
                                   (PLAY.replace("%s", attack)).encode(), 0o755)
        done = self.world.run("run", *self.world.script_args(self.repo), "--executable", harness, "--task",
                              self.task_file(list(checks), "x\nend\n"), *more)
        self.assertNotIn("run-not-successful", [one.get("reason") for one in self.results().values()], done)
        return self.results()

    def test_an_index_that_assumes_files_unchanged_is_not_believed(self):
        first = self.world.git(self.repo, "rev-parse", "HEAD").strip()
        for attack in ("git update-index --assume-unchanged README\necho evil > README",
                       "git update-index --skip-worktree README\necho evil > README",
                       "echo evil > README\ngit add README\ngit commit -qm evil",
                       "echo evil > README\ngit add README\ngit update-ref refs/heads/main "
                       "$(git commit-tree -m evil $(git write-tree))",
                       "rm -f $g/index\nln -s /etc/passwd $g/index\necho evil > README"):
            with self.subTest(attack):
                result = self.after(attack, UNCHANGED)["unchanged"]
                self.assertEqual((result["status"], result.get("exitCode")), ("failed", 1), result)
                self.assertIn("+evil", result["output"]["tail"])
                self.world.git(self.repo, "reset", "-q", "--hard", first)  # a commit was imported

    def test_a_file_of_the_same_size_and_time_is_read(self):
        os.utime(os.path.join(self.repo, "README"), (1_600_000_000, 1_600_000_000))
        self.world.git(self.repo, "update-index", "--refresh")
        result = self.after("size=$(stat -c %s README)\nhead -c $size /dev/zero | tr '\\0' e > README\ntouch -d @1600000000 README",
                            UNCHANGED)["unchanged"]
        self.assertEqual((result["status"], result.get("exitCode")), ("failed", 1), result)

    def test_an_honest_run_passes_the_same_gates(self):
        results = self.after("echo more > other.txt\ngit add other.txt\ngit commit -qm more", UNCHANGED,
                             sh("seen", "git status --porcelain; git log --format=%s; git symbolic-ref HEAD"))
        self.assertEqual([one["status"] for one in results.values()], ["passed", "passed"], results)
        # As at launch: what the run committed is a difference of the worktree.
        self.assertEqual(results["seen"]["output"]["tail"], "?? other.txt\nfirst\nrefs/heads/main\n")

    def test_the_runs_git_configuration_runs_nothing_in_a_gate(self):
        planted = ("printf '#!/bin/sh\\necho RAN-%s >&2\\ncat\\n' $0 > plant\nchmod 755 plant\n" % "agent" +
                   "git config core.fsmonitor \"$PWD/plant\"\ngit config filter.x.clean \"$PWD/plant\"\n"
                   "git config diff.external \"$PWD/plant\"\ngit config alias.st '!echo RAN-agent'\n"
                   "mkdir -p $g/info $g/hooks\necho '* filter=x' > $g/info/attributes\necho '*' > $g/info/exclude\n"
                   "cp plant $g/hooks/post-index-change\ncp plant $g/hooks/pre-commit\necho more >> README")
        look = sh("look", "git status --porcelain; git diff HEAD >/dev/null; git st; cat .git 2>/dev/null; git config --list | grep plant; "
                          "git -c user.name=a -c user.email=b@c commit -qam x; true")
        for more in ((), ("--backend", "landlock")):
            with self.subTest(more):
                result = self.after(planted, look, more=more)["look"]
                self.assertEqual(result["status"], "passed", result)
                self.assertNotIn("RAN-", result["output"]["tail"])
                self.assertNotIn("plant\n", result["output"]["tail"].replace("?? plant\n", ""))
                self.assertIn(" M README\n?? plant\n", result["output"]["tail"])
                self.world.git(self.repo, "checkout", "-q", "README")

    def test_the_landlock_backend_shows_the_same(self):
        result = self.after("git update-index --assume-unchanged README\necho evil > README", UNCHANGED,
                            more=("--backend", "landlock"))["unchanged"]
        self.assertEqual((result["status"], result.get("exitCode")), ("failed", 1), result)

    def test_nothing_of_it_is_left(self):
        self.after("echo more > other.txt", gate("one", "true"))
        self.assertNotIn("git-gate", os.listdir(self.folder()))

    def test_a_command_that_names_no_program_is_refused(self):
        for command in (["CI=1"], ["A=b", "C=d"], ["-"], ["-i", "true"], ["A=b", "-"]):
            with self.subTest(command):
                done = self.go([gate("empty", *command)])
                self.assertNotEqual(done.code, 0)
                self.assertIn(b"task-bounds", done.err)
                self.assertIn(b"verificationGates[0].command", done.err)
                self.assertEqual(self.world.attempts(), [])
        self.assertEqual(self.result([gate("full", "CI=1", "sh", "-c", "test $CI = 1")])["status"], "passed")


if __name__ == "__main__":
    support.main()
