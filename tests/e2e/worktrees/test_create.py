"""worktrees create: from which base, where, under which name; with a hostile repository, two at once, and killed at any moment."""

import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import support
import trees


class Created(trees.Trees):
    def test_a_tree_is_whole_and_git_knows_it(self):
        os.makedirs(os.path.join(self.repo, "deep"))
        self.world.own(os.path.join(self.repo, "deep"))
        for name in ("a\nb", "deep/tab\there", "esc\x1b[31m", "ümlaut"):
            self.world.write(os.path.join(self.repo, name), name.encode())
        self.world.write(os.path.join(self.repo, "run.sh"), b"#!/bin/sh\n", 0o755)
        os.symlink("/etc/passwd", os.path.join(self.repo, "link"))
        self.world.own(os.path.join(self.repo, "link"))
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "names")
        manifest = self.made("--branch", "feature/x", self.path)
        self.assertEqual(self.world.git(self.path, "status", "--porcelain"), "")
        self.assertEqual(self.world.git(self.path, "rev-parse", "--abbrev-ref", "HEAD").strip(), "feature/x")
        self.assertEqual(self.world.git(self.path, "rev-parse", "HEAD"), self.world.git(self.repo, "rev-parse", "main"))
        with open(os.path.join(self.path, "a\nb"), "rb") as file:
            self.assertEqual(file.read(), b"a\nb")
        self.assertTrue(os.access(os.path.join(self.path, "run.sh"), os.X_OK))
        self.assertEqual(os.readlink(os.path.join(self.path, "link")), "/etc/passwd")
        self.assertEqual(os.lstat(self.path).st_uid, self.world.uid)
        self.assertIn(self.path, self.world.git(self.repo, "worktree", "list", "--porcelain"))
        self.assertEqual(manifest["base"]["source"], "local")
        self.assertEqual([name for name in self.leftovers() if manifest["registration"] not in name], [])
        self.assert_git_is_whole()
        self.world.write(os.path.join(self.path, "more"), b"more\n")
        self.world.git(self.path, "add", ".")
        self.world.git(self.path, "commit", "-q", "-m", "in the tree")

    def test_the_manifest_is_ours_alone_and_proves_itself(self):
        manifest = self.made(self.path)
        path = os.path.join(self.worktrees, manifest["id"] + ".json")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        stored = self.manifest(manifest["id"])
        self.assertEqual(stored, manifest)
        digest = stored.pop("digest")
        canonical = json.dumps(stored, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        self.assertEqual(digest, "sha256:" + hashlib.sha256(canonical).hexdigest())
        self.assertEqual(stored["schemaVersion"], "worktree-manifest/v1")
        self.assertEqual(stored["lifecycle"], {"creation": "ready", "integration": "idle", "cleanup": "active"})
        status = os.stat(self.path)
        self.assertEqual(stored["identity"]["root"], "%d:%d" % (status.st_dev, status.st_ino))

    def test_a_manifest_that_was_edited_is_refused(self):
        manifest = self.made(self.path)
        path = os.path.join(self.worktrees, manifest["id"] + ".json")
        with open(path, "rb") as file:
            good = file.read()
        unknown = dict(manifest, extra=1)
        for bad in (good.replace(b"ready", b"reedy"), good[:-20], b"{}", json.dumps(unknown).encode(), good.replace(b'"branch"', b'"branch":"x","branch"', 1)):
            with open(path, "wb") as file:
                file.write(bad)
            self.assert_refused(self.remove(manifest["id"]), "worktree-manifest-damaged", 4)
            self.assertEqual([each["state"] for each in self.listed()], ["damaged"])
        with open(path, "wb") as file:
            file.write(good)
        self.assertEqual([each["state"] for each in self.listed()], ["idle"])

    def test_what_is_refused_leaves_repository_and_neighbours_as_they_were(self):
        self.world.git(self.repo, "branch", "taken")
        self.world.write(os.path.join(self.world.root, "file"), b"")
        bare = self.world.folder("bare", 0o755)
        self.world.git(bare, "init", "-q", "--bare")
        unborn = self.world.folder("unborn", 0o755)
        self.world.git(unborn, "init", "-q")
        before = support.fingerprint(self.repo)
        cases = [(["--branch", "taken", self.path], "branch-exists", 3),
                 (["--branch", "a..b", self.path], "branch-invalid", 2),
                 (["--branch=-x", self.path], "branch-invalid", 2),
                 (["--base", "nothing", self.path], "base-unknown", 2),
                 (["--base", "0123456789", self.path], "base-unknown", 2),
                 (["--lease", "59", self.path], "lease-bounds", 2),
                 (["--lease", "31536001", self.path], "lease-bounds", 2),
                 (["--accept-stale-base", " ", self.path], "base-stale-reason", 2),
                 (["--accept-stale-base", "x" * 1001, self.path], "base-stale-reason", 2),
                 (["--fetch", self.path], "base-remote-other", 2),
                 ([self.repo], "worktree-path-exists", 3),
                 ([os.path.join(self.world.root, "file")], "worktree-path-exists", 3),
                 ([os.path.join(self.repo, "below")], "worktree-path-inside", 3),
                 ([os.path.join(self.repo, ".git", "below")], "worktree-path-inside", 3),
                 ([os.path.join(self.world.root, "none", "below")], "worktree-path-invalid", 2),
                 ([os.path.join(self.world.root, "a\nb")], "worktree-path-invalid", 2),
                 ([os.path.join(self.world.config, "below")], "worktree-overlaps-state", 3),
                 (["--repository", bare, self.path], "worktree-bare", 3),
                 (["--repository", unborn, self.path], "base-unborn", 3)]
        for args, code, exit_code in cases:
            with self.subTest(args):
                named = [] if "--repository" in args else ["--repository", self.repo]
                done = self.world.run("worktrees", "create", "--json", *named, *args)
                self.assert_refused(done, code, exit_code)
                self.assertEqual(self.leftovers(), [])
        folders = [path for path in os.listdir(self.world.root) if path != "state"]
        self.assertEqual(sorted(folders), sorted(["home", "config", "repo", "file", "bare", "unborn"]))
        self.assertEqual(support.fingerprint(self.repo), before)
        self.assertEqual(self.branches(), ["main", "taken"])

    def test_two_makers_of_one_path_and_branch(self):
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.create("--branch", "one", self.path))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(done.code for done in results), [0, 3, 3, 3], results)
        self.assertLessEqual({done.error_code for done in results if done.code},
                             {"worktree-being-made", "worktree-path-exists", "branch-exists"})
        self.assertEqual(self.world.git(self.path, "status", "--porcelain"), "")
        self.assertEqual(len(os.listdir(os.path.join(self.repo, ".git", "worktrees"))), 1)
        self.assert_git_is_whole()

    def test_two_makers_of_two_trees(self):
        results = []
        threads = [threading.Thread(target=lambda n=n: results.append(self.create("--branch", "b%d" % n, self.path + str(n))))
                   for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([done.code for done in results], [0, 0, 0], results)
        self.assertEqual(len(self.listed()), 3)
        self.assert_git_is_whole()

    def test_killed_at_any_moment_and_run_again(self):
        for number in range(80):
            self.world.write(os.path.join(self.repo, "f%d" % number), b"x" * 5000)
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "more")
        seen = set()
        for number in range(14):
            process = self.world.start("worktrees", "create", "--repository", self.repo, "--branch", "mine", self.path,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.012 * number)
            process.send_signal(signal.SIGKILL)
            process.wait()
            state = [each["state"] for each in self.listed()]
            seen.update(state)
            if state == ["idle"]:  # it was complete
                self.assertEqual(self.remove(self.path).code, 0)
            elif number % 2:
                done = self.world.run("worktrees", "prune", "--json")
                self.assertEqual(done.code, 0, done)
                self.assertEqual((self.leftovers(), self.listed(), self.branches()), ([], [], ["main"]))
            else:
                made = self.made("--branch", "mine", self.path)
                self.assertEqual([each["id"] for each in self.listed()], [made["id"]])
                self.assertEqual(self.world.git(self.path, "status", "--porcelain"), "")
                self.assertEqual(self.remove(self.path).code, 0)
            self.assertEqual((self.leftovers(), os.path.exists(self.path), self.branches()), ([], False, ["main"]))
            self.assert_git_is_whole()


class Based(trees.Trees):
    def test_a_branch_with_a_remote_is_fetched_or_answered_for(self):
        _, ahead = self.origin()
        here = self.world.git(self.repo, "rev-parse", "main").strip()
        self.assert_refused(self.create("--branch", "a", self.path), "base-stale", 3)
        stale = self.made("--branch", "a", "--accept-stale-base", "good enough for a test", self.path)
        self.assertEqual((stale["base"]["source"], stale["base"]["commit"]), ("local-stale", here))
        acknowledged = stale["base"]["staleBaseAcknowledgement"]
        self.assertEqual(acknowledged["reason"], "good enough for a test")
        self.assertIn("uid %d" % self.world.uid, acknowledged["actor"])
        fresh = self.made("--branch", "b", "--fetch", self.path + "2")
        self.assertEqual((fresh["base"]["source"], fresh["base"]["commit"]), ("remote", ahead))
        self.assertIn("fetchedAt", fresh["base"])
        self.assertEqual(self.world.git(self.repo, "rev-parse", "origin/main").strip(), ahead)
        self.assertEqual(self.world.git(self.repo, "rev-parse", "main").strip(), here)
        self.assertTrue(os.path.exists(os.path.join(self.path + "2", "new")))
        named = self.made("--branch", "c", "--base", here[:12], self.path + "3")
        self.assertEqual((named["base"]["source"], named["base"]["commit"]), ("local", here))
        self.world.git(self.repo, "branch", "alone", here)
        alone = self.made("--branch", "d", "--base", "alone", self.path + "4")
        self.assertEqual(alone["base"]["source"], "local")
        self.assertEqual([name for name in self.leftovers() if "scratch" in name or "hitchrail" in name], [])
        self.assert_git_is_whole()

    def test_a_plain_path_is_an_origin_too(self):
        _, ahead = self.origin("")
        self.assertEqual(self.made("--fetch", self.path)["base"]["commit"], ahead)

    def test_an_origin_behind_http_is_reached(self):
        origin, ahead = self.origin()
        self.world.git(origin, "update-server-info")

        class Quiet(SimpleHTTPRequestHandler):
            def __init__(self, *args):
                super().__init__(*args, directory=origin)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.world.git(self.repo, "remote", "set-url", "origin", "http://127.0.0.1:%d/" % server.server_port)
        self.assertEqual(self.made("--fetch", self.path)["base"]["commit"], ahead)

    def test_an_origin_that_fails_can_be_answered_for(self):
        origin, _ = self.origin()
        os.rename(origin, origin + ".gone")
        done = self.create("--branch", "a", "--fetch", self.path)
        self.assert_refused(done, "base-fetch-failed", 4)
        self.assertFalse(os.path.exists(self.path))
        failed = [each["manifest"] for each in self.listed("--all")]
        self.assertEqual([(each["lifecycle"]["creation"], each["lastError"]["code"]) for each in failed], [("failed", "base-fetch-failed")])
        self.assertIn("base-fetch-failed", failed[0]["base"]["fetchError"])
        self.assertEqual((self.leftovers(), self.branches()), ([], ["main"]))
        made = self.made("--branch", "a", "--fetch", "--accept-stale-base", "the origin is down", self.path)
        self.assertEqual(made["base"]["source"], "local-stale")
        self.assertIn("fetchError", made["base"])

    def test_origins_that_would_need_a_program_or_show_a_key_are_refused(self):
        self.origin()
        for url, code, exit_code in (("ssh://git@example.org/x", "fetch-transport-unsupported", 3),
                                     ("git@example.org:x", "fetch-transport-unsupported", 3),
                                     ("ext::sh -c 'touch %s/ran'" % self.world.root, "fetch-transport-unsupported", 3),
                                     ("https://user:geheim@example.org/x", "fetch-url-credentials", 3)):
            self.world.git(self.repo, "remote", "set-url", "origin", url)
            done = self.create("--fetch", self.path)
            self.assert_refused(done, code, exit_code)
            self.assertNotIn(b"geheim", done.out + done.err)
        for folder, _, files in os.walk(self.world.state):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(b"geheim", file.read(), name)
        self.world.git(self.repo, "remote", "add", "upstream", "file:///nowhere")
        self.world.git(self.repo, "config", "branch.main.remote", "upstream")
        self.assert_refused(self.create("--fetch", self.path), "base-remote-other", 3)
        self.assertFalse(os.path.exists(os.path.join(self.world.root, "ran")))

    def test_an_origin_without_the_branch(self):
        self.origin()
        self.world.git(self.repo, "branch", "mine")
        self.world.git(self.repo, "config", "branch.mine.remote", "origin")
        self.assert_refused(self.create("--base", "mine", "--fetch", self.path), "base-fetch-failed", 4)


class Hostile(trees.Trees):
    def test_nothing_of_the_repositorys_choice_runs(self):
        origin, _ = self.origin()
        marker = os.path.join(self.world.root, "ran")
        trees.hostile(self.world, self.repo, marker)
        self.world.git(self.repo, "push", "-q", origin, "main", "--force")
        if os.path.exists(marker):
            os.unlink(marker)
        # Positive control: git itself runs them, for a worktree and for a fetch.
        control = os.path.join(self.world.root, "control")
        trees.run_git(self.world, self.repo, "worktree", "add", "-b", "control", control)
        with open(marker, "rb") as file:
            ran = file.read()
        self.assertIn(b"hook", ran)
        self.assertIn(b"evil.sh", ran)
        os.unlink(marker)
        trees.run_git(self.world, self.repo, "fetch", "origin", "+refs/heads/main:refs/remotes/origin/main")
        self.assertTrue(os.path.exists(marker))
        os.unlink(marker)
        self.made("--branch", "ours", "--fetch", self.path)
        self.assertFalse(os.path.exists(marker))
        with open(os.path.join(self.path, "a.txt"), "rb") as file:
            self.assertEqual(file.read(), b"a\n")
        # Looking and removing, too.
        self.listed()
        self.world.run("worktrees", "remove", self.path, "--json")
        self.world.run("worktrees", "prune", "--json")
        self.assertFalse(os.path.exists(marker))

    def test_the_parents_git_gets_only_what_a_worktree_needs(self):
        git = os.path.join(self.repo, ".git")

        def entries():
            return {os.path.relpath(os.path.join(folder, name), git) for folder, folders, files in os.walk(git) for name in folders + files}

        def content(name):
            with open(os.path.join(git, name), "rb") as file:
                return file.read()

        before = entries()
        contents = {name: content(name) for name in before if os.path.isfile(os.path.join(git, name))}
        manifest = self.made("--branch", "ours", self.path)
        own = "worktrees/" + manifest["registration"]
        self.assertEqual(entries() - before, {"worktrees", own, own + "/HEAD", own + "/commondir", own + "/gitdir", own + "/index",
                                              "refs/heads/ours", "logs/refs/heads/ours"})
        self.assertEqual(contents, {name: content(name) for name in contents})

    def test_links_in_the_place_of_metadata_are_refused(self):
        outside = self.world.folder("outside")
        os.symlink(outside, os.path.join(self.repo, ".git", "worktrees"))
        done = self.create(self.path)
        self.assertEqual((done.code, done.error_code), (3, "worktree-metadata-unsafe"), done)
        self.assertEqual(os.listdir(outside), [])
        self.assertFalse(os.path.exists(self.path))


class CreatedAsUser(Created):
    uid = support.ORDINARY_UID


class BasedAsUser(Based):
    uid = support.ORDINARY_UID


class HostileAsUser(Hostile):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
