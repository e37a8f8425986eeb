"""What changes between the plan and the harness is met by the second look: refused with its code, journaled, and cleaned up.

The launch is stopped between the two by holding the database: it waits there to claim the work tree, with everything planned and
nothing started."""

import contextlib
import os
import shutil
import sqlite3

import support

DONE = "done success x\nexit 0\nend\n"


class SecondLook(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.world.write(os.path.join(self.repo, ".gitignore"), b"build/\n")
        self.world.git(self.repo, "add", ".")
        self.world.git(self.repo, "commit", "-q", "-m", "second")
        os.mkdir(os.path.join(self.repo, "build"))
        self.world.own(os.path.join(self.repo, "build"))
        first = self.go()
        self.assertEqual(first.code, 0, first)

    def arguments(self):
        return [*self.world.script_args(self.repo), "-m", DONE]

    def go(self):
        return self.world.run("run", "--json", *self.arguments())

    def refused(self, code, change, undo=lambda: None):
        before = set(self.world.attempts())
        tree = support.fingerprint(self.repo)
        attempts = os.path.join(self.world.state, "attempts")
        with contextlib.closing(sqlite3.connect(os.path.join(self.world.state, "hitchrail.db"), isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            process = self.world.start("run", "--json", *self.arguments(), stdout=-1, stderr=-1)
            support.wait_until(lambda: any(name.startswith(".new-") and os.path.exists(os.path.join(attempts, name, "journal.jsonl"))
                                           for name in os.listdir(attempts)), interval=0.002)
            change(database)
            database.execute("COMMIT")
        out, err = process.communicate(timeout=60)
        done = support.Result(process.returncode, out, err)
        self.assert_refused(done, code, 3)
        (attempt,) = set(self.world.attempts()) - before
        last = self.world.journal(attempt)[-1]
        self.assertEqual((last["kind"], last["payload"]["code"]), ("run.failed", code))
        undo()
        self.assertEqual(support.fingerprint(self.repo), tree)  # nothing of the launch is left
        again = self.go()  # and the lease is free
        self.assertEqual(again.code, 0, again)

    def path(self, *names):
        return os.path.join(self.repo, *names)

    def test_a_hard_link_to_the_outside(self):
        outside = self.world.write(os.path.join(self.world.root, "outside"), b"x\n")
        self.refused("hard-link-outside", lambda _: os.link(outside, self.path("build", "link")),
                     lambda: os.unlink(self.path("build", "link")))

    def test_a_protected_name(self):
        self.refused("protected-name-appeared", lambda _: os.mkdir(self.path(".claude")), lambda: os.rmdir(self.path(".claude")))

    def test_a_change_in_the_worktree(self):
        self.refused("baseline-changed", lambda _: self.world.write(self.path("README"), b"another\n"),
                     lambda: self.world.write(self.path("README"), b"hello\n"))

    def test_an_adapter_whose_pin_is_withdrawn(self):
        self.refused("plugin-disabled", lambda database: database.execute("UPDATE plugin_pins SET enabled = 0"),
                     self.world.enable_script)

    def test_an_adapter_that_is_another_file(self):
        folder = self.world.folder("plugins", 0o755)
        good = self.world.write(os.path.join(folder, "script.so"), b"")
        shutil.copyfile(os.path.join(support.BUILD, "test-plugins", "script.so"), good)
        args = self.world.script_args(self.repo)
        args[args.index("--plugin-dir") + 1] = folder
        self.world.script_args = lambda repo: list(args)
        self.assertEqual(self.world.run("plugins", "enable", "script", "--plugin-dir", folder).code, 0)

        def other(_):
            with open(good, "ab") as file:
                file.write(b"more")

        def back():
            shutil.copyfile(os.path.join(support.BUILD, "test-plugins", "script.so"), good)

        self.refused("plugin-changed", other, back)

    def test_a_preset_that_is_disabled(self):
        for word in ("disable", "enable"):  # so that it has a row
            self.assertEqual(self.world.run("sandbox", "presets", word, "workspace").code, 0)
        self.refused("preset-disabled", lambda database: database.execute("UPDATE sandbox_presets SET enabled = 0"),
                     lambda: self.world.run("sandbox", "presets", "enable", "workspace"))

    def test_another_program(self):
        folder = self.world.folder("bin", 0o755)
        program = os.path.join(folder, "script-harness")
        source = os.path.join(support.BUILD, "peers", "script-harness")
        shutil.copyfile(source, program)
        os.chmod(program, 0o755)
        self.world.own(program)
        args = [*self.arguments(), "--executable", program]
        self.arguments = lambda: args
        self.assertEqual(self.go().code, 0)

        def other(_):
            with open(program, "ab") as file:
                file.write(b"\n")

        self.refused("executable-changed", other)


class SecondLookAsOrdinaryUser(SecondLook):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
