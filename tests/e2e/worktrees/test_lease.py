"""Who owns a managed worktree: the claim of a run, its release, and what stands in the way."""

import hashlib
import json
import os
import shutil
import signal

import support
import trees

SHORT = "message working\nwrite made.txt made by the run\ndone success all done\nexit 0\nend\n"
LONG = "message working\nsleep 60000\ndone success all done\nexit 0\nend\n"


class Leased(trees.Trees):
    def setUp(self):
        super().setUp()
        self.world.enable_script()
        self.made_ = self.made("--branch", "work", self.path)
        self.id = self.made_["id"]

    def go(self, script, *more, worktree=None):
        return self.world.run("run", *self.world.script_args(worktree or self.path), "-m", script, "--json", *more)

    def live(self):
        done = self.world.run("run", *self.world.script_args(self.path), "-m", LONG, "--detach", "--json")
        self.assertEqual(done.code, 0, done)
        attempt = self.world.attempts()[-1] if len(self.world.attempts()) == 1 else self.manifest(self.id)["lease"]["ownerAttemptId"]
        self.addCleanup(self.world.run, "runs", "stop", attempt, "--kill")
        return attempt

    def edit(self, identity, change):
        manifest = self.manifest(identity)
        change(manifest)
        manifest.pop("digest")
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        manifest["digest"] = "sha256:" + hashlib.sha256(text).hexdigest()
        with open(os.path.join(self.worktrees, identity + ".json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)

    def document(self, name, attempt=None):
        with open(os.path.join(self.world.attempt_dir(attempt), name), encoding="utf-8") as file:
            return json.load(file)

    def test_a_run_owns_its_tree_and_gives_it_back(self):
        done = self.go(SHORT)
        self.assertEqual(done.code, 0, done)
        attempt = self.world.attempts()[0]
        after = self.manifest(self.id)
        self.assertNotIn("ownerAttemptId", after["lease"])
        self.assertLess(after["lease"]["expiresAt"], self.made_["lease"]["expiresAt"])
        self.assertEqual(after["taskId"], self.document("header.json")["taskId"])
        self.assertEqual(self.document("header.json")["worktreeManifestId"], self.id)
        workspace = self.document("manifests/task-envelope.json")["workspace"]
        self.assertEqual((workspace["worktreeManifestId"], workspace["ownershipLeaseId"], workspace["ownershipAttemptId"],
                          workspace["baseBranch"], workspace["resolvedBaseCommit"], workspace["baseResolutionSource"]),
                         (self.id, self.made_["lease"]["id"], attempt, "main", self.made_["base"]["commit"], "local"))
        self.assertTrue(os.path.exists(os.path.join(self.path, "made.txt")))
        self.assertEqual(self.go(SHORT).code, 0)

    def test_a_live_owner_stands_in_the_way_by_name(self):
        attempt = self.live()
        self.assertEqual(self.manifest(self.id)["lease"]["ownerAttemptId"], attempt)
        self.assertEqual([(each["state"], each["ownerAttemptId"]) for each in self.listed()], [("leased", attempt)])
        done = self.go(SHORT)
        self.assert_refused(done, "worktree-leased", 3)
        self.assertIn(attempt, done.out.decode())
        done = self.remove(self.id, "--force", "please")
        self.assert_refused(done, "worktree-cleanup-refused", 3)
        self.assertEqual([each["code"] for each in done.json["reasons"]], ["active-run"])
        self.assertTrue(os.path.exists(os.path.join(self.path, "README")))
        self.assertEqual(self.world.run("runs", "stop", attempt, "--kill").code, 0)
        support.wait_until(lambda: "ownerAttemptId" not in self.manifest(self.id)["lease"])
        self.assertEqual(self.remove(self.id, "--force", "done with it").code, 0)

    def test_an_active_lease_alone_can_be_overridden(self):
        attempt = self.live()
        other = self.made("--branch", "other", self.path + "2")["id"]
        self.edit(other, lambda manifest: manifest["lease"].update(ownerAttemptId=attempt))
        done = self.remove(other)
        self.assertEqual([each["code"] for each in done.json["reasons"]], ["active-lease"])
        self.assert_refused(self.go(SHORT, worktree=self.path + "2"), "worktree-leased", 3)
        done = self.remove(other, "--force", "that run is in another tree")
        self.assertEqual((done.code, [each["code"] for each in done.json["bypassed"]]), (0, ["active-lease"]), done)

    def test_leases_of_the_dead_and_expired_ones_are_taken_over(self):
        self.edit(self.id, lambda manifest: manifest["lease"].update(ownerAttemptId="attempt_neverwasthere00000"))
        self.assertEqual(self.go(SHORT).code, 0)
        attempt = self.live()
        other = self.made("--branch", "other", self.path + "2")["id"]
        self.edit(other, lambda manifest: manifest["lease"].update(ownerAttemptId=attempt, expiresAt="2020-01-01T00:00:00.000Z"))
        self.assertEqual(self.go(SHORT, worktree=self.path + "2").code, 0)

    def test_the_lease_of_a_killed_supervisor_is_recovered(self):
        attempt = self.live()
        with open(os.path.join(self.world.attempt_dir(attempt), "header.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["worktreeManifestId"], self.id)
        shims = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_shim(pid, attempt)]
        self.assertEqual(len(shims), 1)
        os.kill(shims[0], signal.SIGKILL)
        done = support.wait_until(lambda: self.go(SHORT) if not os.path.exists("/proc/%d/exe" % shims[0]) else None)
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("ownerAttemptId", self.manifest(self.id)["lease"])

    def is_shim(self, pid, attempt):
        try:
            with open("/proc/%s/comm" % pid, encoding="utf-8") as file:
                if not file.read().startswith("hitchrail-shim"):
                    return False
            return any(os.readlink("/proc/%s/fd/%s" % (pid, fd)).endswith(attempt) for fd in os.listdir("/proc/%s/fd" % pid))
        except OSError:
            return False

    def test_a_tree_on_another_branch_or_of_another_make_is_refused(self):
        self.world.git(self.path, "switch", "-q", "-c", "elsewhere")
        self.assert_refused(self.go(SHORT), "worktree-branch-mismatch", 3)
        self.world.git(self.path, "switch", "-q", "work")
        self.world.git(self.repo, "remote", "add", "origin", "https://example.org/x")
        self.assert_refused(self.go(SHORT), "worktree-manifest-mismatch", 3)
        self.world.git(self.repo, "remote", "set-url", "origin", "https://user@example.org/x")
        self.world.git(self.repo, "remote", "remove", "origin")
        moved = self.path + "-moved"
        self.world.git(self.repo, "worktree", "move", self.path, moved)
        self.assert_refused(self.go(SHORT, worktree=moved), "worktree-manifest-mismatch", 3)
        self.world.git(self.repo, "worktree", "move", moved, self.path)
        os.rename(self.path, moved)
        shutil.copytree(moved, self.path, symlinks=True)
        for folder, folders, files in os.walk(self.path):
            for name in folders + files:
                self.world.own(os.path.join(folder, name))
        self.world.own(self.path)
        self.assert_refused(self.go(SHORT), "worktree-manifest-mismatch", 3)
        self.assertEqual(self.world.attempts(), [])

    def test_a_half_made_tree_is_not_run_in(self):
        self.edit(self.id, lambda manifest: manifest["lifecycle"].update(cleanup="removing"))
        self.assert_refused(self.go(SHORT), "worktree-not-ready", 3)


class LeasedAsUser(Leased):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
