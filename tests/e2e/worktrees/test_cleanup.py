"""worktrees remove, prune and list: each reason that speaks against a removal, overrides, kills, and what is never touched."""

import os
import shutil
import signal
import subprocess
import time

import support
import trees


class Refused(trees.Trees):
    def setUp(self):
        super().setUp()
        self.id = self.made("--branch", "work", self.path)["id"]

    def reasons(self, *args):
        done = self.remove(self.id, *args)
        self.assert_refused(done, "worktree-cleanup-refused", 3)
        return [each["code"] for each in done.json["reasons"]]

    def commit(self, name="made"):
        self.world.write(os.path.join(self.path, name), b"made\n")
        self.world.git(self.path, "add", ".")
        self.world.git(self.path, "commit", "-q", "-m", "made")

    def test_changed_and_untracked_files(self):
        self.world.write(os.path.join(self.path, "README"), b"changed\n")
        self.assertEqual(self.reasons(), ["dirty"])
        self.world.write(os.path.join(self.path, "new\nname"), b"")
        self.assertEqual(self.reasons(), ["dirty", "untracked"])
        self.world.git(self.path, "checkout", "README")
        self.assertEqual(self.reasons(), ["untracked"])
        self.assertEqual(self.manifest(self.id)["lifecycle"]["cleanup"], "blocked")
        os.unlink(os.path.join(self.path, "new\nname"))
        self.assertEqual(self.remove(self.id).code, 0)
        self.assertEqual((os.path.exists(self.path), self.leftovers(), self.branches()), (False, [], ["main"]))

    def test_files_that_git_was_told_not_to_look_at(self):
        for flag in ("--skip-worktree", "--assume-unchanged"):
            self.world.git(self.path, "update-index", flag, "README")
            self.assertEqual(self.reasons(), ["dirty"], flag)
            self.world.git(self.path, "update-index", "--no-" + flag[2:], "README")
        self.assertEqual(self.remove(self.id).code, 0)

    def test_a_commit_that_only_the_log_of_head_names(self):
        self.world.git(self.path, "checkout", "-q", "--detach")
        self.commit()
        self.world.git(self.path, "checkout", "-q", "work")
        self.assertEqual(self.reasons(), ["unmerged"])
        self.world.git(self.path, "branch", "kept", "HEAD@{1}")
        self.assertEqual(self.remove(self.id).code, 0)

    def test_a_merge_that_is_not_finished(self):
        self.world.git(self.repo, "checkout", "-q", "-b", "side")
        self.world.git(self.repo, "commit", "-q", "--allow-empty", "-m", "side")
        self.world.git(self.path, "merge", "-q", "--no-ff", "--no-commit", "side")
        self.assertEqual(self.reasons(), ["dirty"])
        self.world.git(self.path, "merge", "--abort")
        self.assertEqual(self.remove(self.id).code, 0)

    def test_ignored_files_speak_against_nothing(self):
        self.world.write(os.path.join(self.repo, ".git", "info", "exclude"), b"build\n")
        self.world.write(os.path.join(self.path, "build"), b"x")
        self.assertEqual(self.remove(self.id).code, 0)

    def test_commits_that_nobody_else_has(self):
        self.commit()
        self.assertEqual(self.reasons(), ["unmerged"])
        origin = self.world.folder("origin.git", 0o755)
        self.world.git(origin, "init", "-q", "--bare")
        self.world.git(self.repo, "remote", "add", "origin", origin)
        self.world.git(self.repo, "push", "-q", "origin", "main")
        # The origin is another one now: that is no commit, it is another repository than was recorded.
        self.assertEqual(self.reasons(), ["manifest-mismatch"])
        self.world.git(self.repo, "remote", "rename", "origin", "other")
        self.assertEqual(self.reasons(), ["unpushed", "unmerged"])
        self.world.git(self.path, "push", "-q", "other", "work")
        self.assertEqual(self.reasons(), ["unmerged"])
        self.world.git(self.repo, "merge", "-q", "work")
        done = self.remove(self.id)
        self.assertEqual((done.code, done.json["branchKept"]), (0, True), done)
        self.assertEqual(self.branches(), ["main", "work"])

    def test_a_hold_of_the_operator(self):
        self.world.git(self.repo, "worktree", "lock", "--reason", "on a stick", self.path)
        done = self.remove(self.id)
        self.assertEqual([(each["code"], each["detail"]) for each in done.json["reasons"]],
                         [("external-hold", "git worktree lock: on a stick")])
        self.world.git(self.repo, "worktree", "unlock", self.path)
        self.assertEqual(self.remove(self.id).code, 0)

    def test_another_branch(self):
        self.world.git(self.path, "switch", "-q", "-c", "elsewhere")
        self.assertEqual(self.reasons(), ["branch-mismatch"])
        self.world.git(self.path, "checkout", "-q", "--detach")
        self.assertEqual(self.reasons(), ["branch-mismatch"])

    def test_an_override_is_recorded_and_does_what_it_says(self):
        self.commit()
        self.world.write(os.path.join(self.path, "README"), b"changed\n")
        self.world.write(os.path.join(self.path, "new"), b"")
        self.assertEqual(self.reasons(), ["dirty", "untracked", "unmerged"])
        self.assert_refused(self.remove(self.id, "--force", " "), "force-reason-missing", 2)
        done = self.remove(self.id, "--force", "the experiment failed")
        self.assertEqual(done.code, 0, done)
        self.assertEqual([each["code"] for each in done.json["bypassed"]], ["dirty", "untracked", "unmerged"])
        override = self.manifest(self.id)["overrides"][0]
        self.assertEqual((override["operation"], override["reason"], override["bypassedReasons"]),
                         ("cleanup", "the experiment failed", ["dirty", "untracked", "unmerged"]))
        self.assertIn("uid %d" % self.world.uid, override["actor"])
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(self.branches(), ["main", "work"])  # its commit is only there

    def test_what_was_moved_or_replaced_is_never_touched(self):
        moved = self.path + "-moved"
        self.world.git(self.repo, "worktree", "move", self.path, moved)
        self.assertEqual(self.reasons("--force", "please"), ["manifest-mismatch"])
        self.world.git(self.repo, "worktree", "move", moved, self.path)
        self.assertEqual([each["state"] for each in self.listed()], ["idle"])
        os.rename(self.path, moved)
        shutil.copytree(moved, self.path, symlinks=True)
        self.assertEqual(self.reasons("--force", "please"), ["manifest-mismatch"])
        self.assertEqual([each["state"] for each in self.listed()], ["mismatch"])
        before = support.fingerprint(self.path)
        self.world.run("worktrees", "prune", "--json")
        self.assertEqual(support.fingerprint(self.path), before)
        shutil.rmtree(self.path)
        os.symlink(moved, self.path)
        self.assertEqual(self.reasons("--force", "please"), ["manifest-mismatch"])
        self.assertTrue(os.path.exists(os.path.join(moved, "README")))

    def test_a_missing_tree(self):
        shutil.rmtree(self.path)
        self.assertEqual([each["state"] for each in self.listed()], ["missing"])
        self.assertEqual(self.reasons(), ["worktree-missing"])
        self.assert_refused(self.create("--branch", "other", self.path), "worktree-path-taken", 3)
        dry = self.world.run("worktrees", "prune", "--dry-run", "--json")
        self.assertEqual([each["what"] for each in dry.json["worktrees"]], ["worktree-missing"])
        self.assertEqual([each["state"] for each in self.listed()], ["missing"])
        done = self.world.run("worktrees", "prune", "--json")
        self.assertEqual((done.code, self.listed(), self.leftovers(), self.branches()), (0, [], [], ["main"]), done)
        self.made("--branch", "other", self.path)

    def test_what_cannot_be_looked_at(self):
        with open(os.path.join(self.repo, ".git", "worktrees", self.manifest(self.id)["registration"], "index"), "wb") as file:
            file.write(b"garbage")
        self.assertEqual(self.reasons(), ["inspection-failed"])
        self.assertEqual(self.remove(self.id, "--force", "its index is broken").code, 0)

    def test_links_and_other_file_types_in_a_tree_are_removed_as_what_they_are(self):
        outside = self.world.folder("outside")
        kept = self.world.write(os.path.join(outside, "kept"), b"kept\n")
        os.symlink(outside, os.path.join(self.path, "link"))
        os.mkfifo(os.path.join(self.path, "fifo"))
        deep = self.path
        for _ in range(40):
            deep = os.path.join(deep, "deep")
            os.mkdir(deep)
            self.world.own(deep)
        os.link(kept, os.path.join(self.path, "hard"))
        size = self.listed()[0]["size"]
        self.assertTrue(size["complete"])
        self.assertGreater(size["bytes"], 40 * 512)
        self.assertEqual(self.remove(self.id, "--force", "a test").code, 0)
        with open(kept, "rb") as file:
            self.assertEqual(file.read(), b"kept\n")
        self.assertFalse(os.path.exists(self.path))

    def test_ids_and_their_prefixes(self):
        self.assert_refused(self.remove("nothing"), "worktree-not-found", 2)
        other = self.made("--branch", "two", self.path + "2")["id"]
        self.assert_refused(self.remove("worktree_"), "worktree-ambiguous", 2)
        self.assertEqual(self.remove(other[9:17]).code, 0)
        self.assertEqual(self.remove(self.path).code, 0)
        self.assertEqual(self.remove(self.id).code, 0)  # once more: it is gone


class Killed(trees.Trees):
    def test_a_removal_that_was_killed_goes_on(self):
        for number in range(60):
            self.world.write(os.path.join(self.repo, "f%d" % number), b"x" * 4000)
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "more")
        for number in range(10):
            made = self.made("--branch", "b", self.path)
            process = self.world.start("worktrees", "remove", made["id"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.01 * number)
            process.send_signal(signal.SIGKILL)
            process.wait()
            state = self.manifest(made["id"])["lifecycle"]["cleanup"]
            done = self.world.run("worktrees", "prune", "--json") if number % 2 and state == "removing" else self.remove(made["id"])
            self.assertEqual(done.code, 0, (state, done))
            self.assertEqual((self.listed(), self.leftovers(), os.path.exists(self.path), self.branches()), ([], [], False, ["main"]))
            self.assert_git_is_whole()


class RefusedAsUser(Refused):
    uid = support.ORDINARY_UID


class KilledAsUser(Killed):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
