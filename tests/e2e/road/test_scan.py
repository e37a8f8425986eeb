"""What the host looks for below the granted roots before a run, and again right before it begins: each refusal by its code, and that
it changed nothing; and what is covered or held while the run lasts."""

import json
import os
import socket
import subprocess
import threading
import time

import support

DONE = "done success x\nexit 0\nend\n"
HARNESS = """#!/bin/bash
case "$1" in --version) echo 'script-harness 1.0.0'; exit 0;; esac
while IFS= read -r line; do [ "$line" = end ] && break; done
%s
echo '{"type":"done","status":"success","summary":"ok"}'
"""
PRESET = """schemaVersion: sandbox-preset/v1
id: %s
name: a preset of this test
enforcement: required
requiredCapabilities: [filesystem.protected-names, filesystem.read, filesystem.write]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: ["<workspace>"]
  deniedPaths: []
  stores: [%s]
  dotfileMasking: %s
network: host
environment: []
"""


class Scan(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.outside = self.world.folder("outside", 0o755)

    def path(self, *names):
        return os.path.join(self.repo, *names)

    def folder(self, *names):
        path = self.repo
        for name in names:
            path = os.path.join(path, name)
            if not os.path.isdir(path):
                os.mkdir(path)
                self.world.own(path)
        return path

    def refuse(self, code, *more):
        before = support.fingerprint(self.repo), support.state_print(self.world)
        result = self.world.run("run", "--json", *self.world.script_args(self.repo), "-m", DONE, *more, timeout=60)
        self.assert_refused(result, code, 3)
        self.assertEqual(before, (support.fingerprint(self.repo), support.state_print(self.world)))
        return result

    def preset(self, name, stores="", masking="false"):
        path = self.world.write(os.path.join(self.world.root, name + ".yaml"), (PRESET % (name, stores, masking)).encode())
        done = self.world.run("sandbox", "presets", "add", path)
        self.assertEqual(done.code, 0, done)
        return ["--sandbox", name]

    def play(self, commands, *more):
        program = self.world.write(os.path.join(self.world.folder("bin", 0o755), "harness"), (HARNESS % commands).encode(), 0o755)
        done = self.world.run("run", *self.world.script_args(self.repo), "--executable", program, "-m", "x\nend\n", *more)
        with open(os.path.join(self.world.attempt_dir(), "completion.json"), encoding="utf-8") as file:
            return done, json.load(file)

    def link_out(self, *names):
        target = os.path.join(self.outside, "file")
        self.world.write(target, b"outside\n")
        os.link(target, self.path(*names))


class Refusals(Scan):
    def test_a_hard_link_from_before_the_launch(self):
        self.link_out("src", "innocent")
        self.refuse("hard-link-outside")

    def test_a_writable_name_of_a_protected_file(self):
        self.folder(".claude")
        self.world.write(self.path(".claude", "settings.json"), b"{}")
        os.link(self.path(".claude", "settings.json"), self.path("src", "x"))
        self.refuse("hard-link-protected")

    def test_a_set_id_file(self):
        os.chmod(self.world.write(self.path("src", "tool"), b"#!/bin/sh\n", 0o755), 0o4755)
        result = self.refuse("set-id-inside")
        self.assertIn(self.path("src", "tool"), result.err.decode() + result.out.decode())
        os.chmod(self.path("src", "tool"), 0o755)
        done, _ = self.play("true")
        self.assertEqual(done.code, 0, done)

    def test_a_listening_socket(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path("s"))
            self.world.own(self.path("s"))
            listener.listen()
            self.refuse("listening-socket")
        done = self.world.run("run", *self.world.script_args(self.repo), "-m", DONE)
        self.assertEqual(done.code, 0, done)  # nobody listens any more

    def test_a_nested_git_directory_that_is_a_link(self):
        self.folder("lib")
        self.folder("src", "real")
        os.symlink("../src/real", self.path("lib", ".git"))
        self.refuse("protected-name-symlink")

    def test_too_many_nested_git_directories(self):
        for number in range(257):
            self.folder("lib", str(number), ".git")
        self.refuse("nested-git-limit")

    def test_too_many_dotfiles_to_mask(self):
        masking = self.preset("masking", masking="true")
        folder = self.folder("many")
        self.world.write(self.path(".gitignore"), b"many/\n")
        for number in range(2049):
            self.world.write(os.path.join(folder, ".f%d" % number), b"")
        self.refuse("dotfile-mask-limit", *masking)

    def test_a_mounted_file_system(self):
        mounted = self.folder("data")
        before = support.fingerprint(self.repo)
        command = self.world.command([support.BIN, "run", "--json", *self.world.script_args(self.repo), "-m", DONE])
        done = subprocess.run(["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c",
                               'mount -t tmpfs none "$1" && shift && exec "$@"', "sh", mounted, *command],
                              env=self.world.env(), capture_output=True, timeout=60)
        self.assert_refused(support.Result(done.returncode, done.stdout, done.stderr), "nested-mount", 3)
        self.assertEqual(before, support.fingerprint(self.repo))

    def test_a_folder_that_cannot_be_looked_into(self):
        closed = self.folder("closed")
        self.world.write(os.path.join(closed, "x"), b"x")
        os.chmod(closed, 0)
        self.addCleanup(os.chmod, closed, 0o755)
        if self.uid is None and os.geteuid() == 0:
            done = self.world.run("run", *self.world.script_args(self.repo), "-m", DONE)
            self.assertEqual(done.code, 0, done)  # root looks into it
            return
        result = self.world.run("run", "--json", *self.world.script_args(self.repo), "-m", DONE)
        self.assert_refused(result, "scan-unreadable", 3)


class Held(Scan):
    def test_an_existing_nested_git_directory_cannot_be_changed(self):
        inner = self.folder("inner")
        self.world.git(inner, "init", "-q")
        before = support.fingerprint(inner)
        _, completion = self.play("git config -f inner/.git/config core.fsmonitor x; echo x > inner/.git/hooks/pre-commit; "
                                  "mv inner/.git inner/old; rm -rf inner/.git; true")
        self.assertEqual(before, support.fingerprint(inner))
        self.assertEqual(completion["nestedGit"], [])

    def test_masked_dotfiles_and_git(self):
        self.folder(".github")
        self.world.write(self.path(".github", "ci.yml"), b"on: push\n")
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "ci")
        self.world.write(self.path(".env"), b"SECRET=1\n")
        done, completion = self.play(
            "cat .env .github/ci.yml && exit 9; git status --porcelain 2>/dev/null > status; echo new > src/new.txt; "
            "echo own > .own; git add src; git -c user.name=a -c user.email=b commit -q -m inside || exit 8",
            *self.preset("masking", masking="true"))
        self.assertEqual(done.code, 0, done)
        with open(self.path("status"), "rb") as file:
            self.assertEqual(file.read(), b"?? status\n")
        self.assertEqual(completion["dotNames"], {"count": 1, "names": [".own"]})
        self.assertEqual(self.world.git(self.repo, "log", "-1", "--format=%s"), "inside\n")
        self.assertEqual(self.world.git(self.repo, "ls-tree", "-r", "--name-only", "HEAD", ".github"), ".github/ci.yml\n")
        status = sorted(self.world.git(self.repo, "status", "--porcelain").splitlines())
        self.assertEqual(status, ["?? .env", "?? .own", "?? status"])
        self.assertNotIn("S ", self.world.git(self.repo, "ls-files", "-v"))

    def test_packages_linked_from_a_store(self):
        self.folder("node_modules", ".pnpm", "a")
        self.link_out("node_modules", ".pnpm", "a", "index.js")
        self.refuse("hard-link-outside")
        store = self.preset("with-store", stores='"<workspace>/node_modules/.pnpm"')
        done, _ = self.play("cat node_modules/.pnpm/a/index.js > src/copy; (echo x >> node_modules/.pnpm/a/index.js) && exit 9", *store)
        self.assertEqual(done.code, 0, done)
        with open(os.path.join(self.outside, "file"), "rb") as file:
            self.assertEqual(file.read(), b"outside\n")
        with open(self.path("src", "copy"), "rb") as file:
            self.assertEqual(file.read(), b"outside\n")

    def test_a_clone_that_shares_objects_by_hard_links(self):
        clone = os.path.join(self.world.root, "clone")
        self.world.git(self.world.root, "clone", "-q", "--local", self.repo, clone)
        shared = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(clone, ".git", "objects")) for name in names]
        self.assertTrue(any(os.stat(name).st_nlink > 1 for name in shared))
        done = self.world.run("run", *self.world.script_args(clone), "-m", DONE)
        self.assertEqual(done.code, 0, done)


class SecondLook(Scan):
    def test_what_changes_between_the_looks_is_refused_and_journaled(self):
        """A link comes and goes all the time: it is met by the first look (nothing is written), by the second (the attempt ends
        with its code), or by none, and then the run began before it came."""
        target = os.path.join(self.outside, "file")
        self.world.write(target, b"outside\n")
        self.world.write(self.path(".gitignore"), b"build/\n")  # else git's own first look sees the change already
        self.folder("build")
        stop = threading.Event()

        def toggle():
            while not stop.is_set():
                os.link(target, self.path("build", "link"))
                time.sleep(0.01)
                os.unlink(self.path("build", "link"))
                time.sleep(0.01)

        thread = threading.Thread(target=toggle)
        thread.start()
        seen = {"first": 0, "second": 0, "ran": 0}
        try:
            for _ in range(60):
                before = set(self.world.attempts())
                result = self.world.run("run", "--json", *self.world.script_args(self.repo), "-m", DONE)
                new = set(self.world.attempts()) - before
                if result.code == 0:
                    seen["ran"] += 1
                    continue
                self.assert_refused(result, "hard-link-outside", 3)
                if not new:
                    seen["first"] += 1
                    continue
                seen["second"] += 1
                last = self.world.journal(new.pop())[-1]
                self.assertEqual(last["kind"], "run.failed")
                self.assertEqual(last["payload"]["code"], "hard-link-outside")
                if seen["second"] >= 3 and seen["first"] >= 3:
                    break
        finally:
            stop.set()
            thread.join()
        self.assertGreater(seen["first"], 0, seen)
        self.assertGreater(seen["second"], 0, seen)
        self.assertEqual([name for name in os.listdir(self.repo) if name.startswith(".") and name != ".git"], [".gitignore"])
        free = self.world.run("run", *self.world.script_args(self.repo), "-m", DONE)
        self.assertEqual(free.code, 0, free)


class RefusalsAsOrdinaryUser(Refusals):
    uid = support.ORDINARY_UID

    def test_a_mounted_file_system(self):
        """Root mounts, the ordinary user runs."""
        if os.geteuid() == 0:
            super().test_a_mounted_file_system()


class HeldAsOrdinaryUser(Held):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
