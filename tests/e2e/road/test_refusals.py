"""Bad input: each refusal has its exact code and exit code, and leaves state directory and repository unchanged."""

import os
import shutil
import stat
import subprocess

import support

DONE = "done success x\nexit 0\nend\n"


class Refusals(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()

    def preview(self, *args, **kwargs):
        kwargs.setdefault("timeout", 30)
        return self.world.run("preview", "--json", *args, **kwargs)

    def script(self, worktree=None, message=DONE):
        return [*self.world.script_args(worktree or self.repo), "-m", message]

    def refuse(self, args, code, exit_code, command="run", **kwargs):
        """The refusal, and that nothing was changed by it."""
        before = support.fingerprint(self.repo), support.state_print(self.world)
        result = self.world.run(command, "--json", *args, timeout=30, **kwargs)
        self.assert_refused(result, code, exit_code)
        after = support.fingerprint(self.repo), support.state_print(self.world)
        self.assertEqual(before, after)
        return result


class Agents(Refusals):
    def test_no_such_agent(self):
        self.refuse(["--agent", "nobody", "--worktree", self.repo, "-m", "x"], "no-such-agent", 2)

    def codex(self, program):
        return ["--agent", "codex", "--executable", program, "--worktree", self.repo, "-m", "x", "--provider-option",
                "base_url=http://127.0.0.1:9/v1"]

    def fake(self, text, mode=0o755):
        return self.world.write(os.path.join(self.world.folder("bin", 0o755), "codex"), text.encode(), mode)

    def test_executable_missing(self):
        self.refuse(self.codex(os.path.join(self.world.root, "absent")), "executable-missing", 4)

    def test_executable_not_executable(self):
        self.refuse(self.codex(self.fake("#!/bin/sh\n", 0o644)), "executable-not-executable", 4)

    def test_other_versions(self):
        for line in ["codex-cli 0.144.0", "codex-cli 0.145.0-alpha", "codex-cli 10.145.0", "codex-cli 0.145.00",
                     "codex-cli 0.145.0 ", " codex-cli 0.145.0", "codex-cli 0.145.0\\r", "x"]:
            with self.subTest(line):
                self.refuse(self.codex(self.fake("#!/bin/sh\nprintf '%s\\n'\n" % line)), "provider-version-unsupported", 3)

    def test_ten_megabytes_on_version(self):
        self.refuse(self.codex(self.fake("#!/bin/sh\nhead -c 10000000 /dev/zero | tr '\\0' x\n")),
                    "provider-probe-failed", 3)

    def test_a_version_that_hangs(self):
        self.refuse(self.codex(self.fake("#!/bin/sh\nsleep 60\n")), "provider-probe-timeout", 3)


class Worktrees(Refusals):
    def setUp(self):
        super().setUp()
        self.world.enable_script()

    def test_missing(self):
        self.refuse(self.script(os.path.join(self.world.root, "absent")), "worktree-missing", 3)

    def test_not_a_repository(self):
        self.refuse(self.script(self.world.folder("plain", 0o755)), "worktree-not-a-repository", 3)

    def test_bare(self):
        bare = self.world.folder("bare", 0o755)
        self.world.git(bare, "init", "-q", "--bare")
        self.refuse(self.script(bare), "worktree-bare", 3)

    def test_a_symlink(self):
        link = os.path.join(self.world.root, "link")
        os.symlink(self.repo, link)
        self.world.own(link)
        self.refuse(self.script(link), "worktree-symlink", 3)

    def test_too_wide(self):
        for path in ["/", self.world.home]:
            with self.subTest(path):
                if path != "/":
                    self.world.git(path, "init", "-q")
                self.refuse(self.script(path), "worktree-too-wide", 3)

    def test_around_the_state_directory(self):
        moved = os.path.join(self.repo, "state")
        os.rename(self.world.state, moved)
        self.world.state = moved
        self.refuse(self.script(), "worktree-overlaps-state", 3)

    def test_foreign_owner_is_refused_and_can_be_trusted(self):
        if os.geteuid() != 0:
            self.fail("this test has to be started by root, who can give a repository away")
        other = 12345
        for folder, folders, files in os.walk(self.repo):
            for name in [*files, *folders, "."]:
                os.chown(os.path.join(folder, name), other, other, follow_symlinks=False)
        self.refuse(self.script(), "worktree-foreign-owner", 3)
        trusted = self.world.run("preview", "--json", *self.script(), "--trust-owner")
        self.assertEqual(trusted.code, 0, trusted)


class Messages(Refusals):
    def setUp(self):
        super().setUp()
        self.world.enable_script()

    def task(self, data):
        path = self.world.write(os.path.join(self.world.root, "task"), data)
        return [*self.world.script_args(self.repo), "--task", path]

    def test_empty(self):
        self.refuse(self.script(message=""), "task-empty", 2)
        self.refuse(self.task(b" \n\t"), "task-empty", 2)

    def test_two_mebibytes(self):
        self.refuse(self.task(b"x" * (2 << 20)), "task-too-large", 2)

    def test_invalid_utf8(self):
        self.refuse(self.task(b"caf\xe9"), "task-invalid-utf8", 2)

    def test_del(self):
        self.refuse(self.task(b"a\x7fb"), "task-has-del", 2)

    def test_beginning_with_a_slash_or_a_dash_is_accepted_unchanged(self):
        for text in ["/init the project", "- a list item", "--help"]:
            result = self.preview(*self.task(text.encode()))
            self.assertEqual(result.code, 0, result)
            self.assertEqual(result.json["taskEnvelope"]["subject"]["message"], text)


class Plugins(Refusals):
    def setUp(self):
        super().setUp()
        self.folder = self.world.folder("plugins", 0o755)
        self.good = os.path.join(support.BUILD, "test-plugins", "script.so")
        self.args = ["--agent", "script", "--plugin-dir", self.folder, "--profile-dir",
                     os.path.join(support.BUILD, "test-profiles"), "--worktree", self.repo, "-m", DONE]

    def install(self):
        path = os.path.join(self.folder, "script.so")
        shutil.copyfile(self.good, path)
        os.chmod(path, 0o755)
        self.world.own(path)
        return path

    def enable(self, what="script"):
        return self.world.run("plugins", "enable", "--json", "--plugin-dir", self.folder, what)

    def test_never_enabled(self):
        self.install()
        self.refuse(self.args, "plugin-disabled", 3)

    def test_changed_after_enabling(self):
        path = self.install()
        self.assertEqual(self.enable().code, 0)
        with open(path, "ab") as file:
            file.write(b"\0")
        self.refuse(self.args, "plugin-changed", 3)

    def test_writable_by_others(self):
        path = self.install()
        self.assertEqual(self.enable().code, 0)
        os.chmod(path, 0o757)
        self.refuse(self.args, "plugin-path-unsafe", 3)
        os.chmod(path, 0o755)
        os.chmod(self.folder, 0o777)
        self.refuse(self.args, "plugin-path-unsafe", 3)

    def test_broken_files_are_listed_with_the_reason(self):
        path = os.path.join(self.folder, "script.so")
        self.world.write(path, b"#!/bin/sh\n", 0o755)
        listed = self.world.run("plugins", "list", "--json", "--plugin-dir", self.folder)
        self.assertEqual(listed.code, 0, listed)
        broken = [p for p in listed.json["plugins"] if p["path"] == path]
        self.assertEqual([(p["state"], p["problem"]["code"]) for p in broken], [("broken", "plugin-not-elf")])
        doctor = self.world.run("doctor", "--json", "--plugin-dir", self.folder)
        self.assertTrue(any("plugin-not-elf" in finding["what"] for finding in doctor.json["findings"]), doctor)


class Options(Refusals):
    def setUp(self):
        super().setUp()
        self.world.enable_script()

    def test_an_empty_resume_is_no_new_conversation(self):
        self.refuse([*self.script(), "--resume", ""], "attempt-not-found", 2)

    def test_a_time_limit_out_of_range(self):
        for value in ["0", "-1", "18446744073709551615", "x"]:
            with self.subTest(value):
                self.assertEqual(self.world.run("preview", *self.script(), "--time-limit", value).code, 2)

    def test_output_that_cannot_be_written_is_no_success(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(self.world.command([support.BIN, "plugins", "list"]), stdout=full, env=self.world.env())
        self.assertEqual(done.returncode, 1)


class StateDirectories(Refusals):
    def setUp(self):
        super().setUp()
        self.world.enable_script()

    def test_a_symlink(self):
        real = self.world.state
        self.world.state = os.path.join(self.world.root, "link")
        os.symlink(real, self.world.state)
        self.world.own(self.world.state)
        self.refuse(self.script(), "state-directory-unsafe", 3)

    def test_shared(self):
        os.chmod(self.world.state, 0o755)
        self.refuse(self.script(), "state-directory-shared", 3)

    def test_foreign(self):
        if os.geteuid() != 0:
            self.fail("this test has to be started by root, who can give a directory away")
        os.chown(self.world.state, 12345, 12345)
        self.refuse(self.script(), "state-directory-foreign", 3)


class Admission(Refusals):
    def setUp(self):
        super().setUp()
        self.world.enable_script()
        inner = os.path.join(self.repo, "inner")
        os.makedirs(inner)
        self.world.own(inner)
        self.world.git(inner, "init", "-q")
        self.world.git(inner, "commit", "-q", "--allow-empty", "-m", "inner")
        self.inner = inner
        self.linked = os.path.join(self.world.root, "linked")
        self.world.git(self.repo, "worktree", "add", "-q", self.linked)
        started = self.world.run("run", "--detach", *self.script(message="sleep 60000\n" + DONE))
        self.assertEqual(started.code, 0, started)
        self.attempt = started.out.decode().strip()
        self.addCleanup(self.world.run, "runs", "stop", "--kill", self.attempt)

    def again(self, worktree, **kwargs):
        return self.world.run("run", "--json", *self.script(worktree), timeout=30, **kwargs)

    def test_a_second_run_on_the_same_worktree(self):
        self.assert_refused(self.again(self.repo), "worktree-busy", 3)

    def test_by_another_path(self):
        self.assert_refused(self.again(os.path.join(self.repo, "..", "repo")), "worktree-busy", 3)

    def test_on_its_subdirectory(self):
        self.assert_refused(self.again(os.path.join(self.repo, "src")), "worktree-busy", 3)
        self.assert_refused(self.again(self.inner), "worktree-overlap", 3)

    def test_on_a_directory_above(self):
        self.world.run("runs", "stop", "--kill", self.attempt)
        started = self.world.run("run", "--detach", *self.script(self.inner, "sleep 60000\n" + DONE))
        self.assertEqual(started.code, 0, started)
        self.addCleanup(self.world.run, "runs", "stop", "--kill", started.out.decode().strip())
        self.assert_refused(self.again(self.repo), "worktree-overlap", 3)

    def test_a_linked_worktree_of_the_same_repository_runs_beside_it(self):
        beside = self.again(self.linked)
        self.assertEqual(beside.code, 0, beside)

    def test_after_the_run_has_ended_the_worktree_is_free(self):
        self.assertEqual(self.world.run("runs", "stop", "--kill", self.attempt).code, 0)
        free = self.again(self.repo)
        self.assertEqual(free.code, 0, free)


if __name__ == "__main__":
    support.main()
