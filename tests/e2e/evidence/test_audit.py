"""docs/operators/audit.md, run as it stands on a finished attempt: every digest of every document is made again by public tools only,
and a changed byte anywhere does not pass."""

import json
import os
import re
import shutil
import subprocess
import unittest

import support

PAGE = os.path.join(support.SOURCE, "docs", "operators", "audit.md")
HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# What the page may call, besides the shell: none of it is of this project.
TOOLS = ["jq", "sha256sum", "git", "sed", "cut", "tr", "head", "base64"]
# Values of 64 digits that are no digest of anything: the journal's beginning.
NO_DIGESTS = {"0" * 64}


def walk_of_the_page():
    with open(PAGE) as file:
        return "set -euo pipefail\n" + "\n".join(re.findall(r"^```bash\n(.*?)^```$", file.read(), re.S | re.M))


class Audit(support.TestCase):
    uid = None

    def setUp(self):
        support.require_build()
        self.world = support.World(self.uid)
        self.addCleanup(self.world.close)
        self.repo = self.world.repository()
        self.world.enable_script()
        self.tools = self.world.folder("tools", 0o755)
        for name in TOOLS:
            os.symlink(shutil.which(name), os.path.join(self.tools, name))

    def prepare(self):
        self.world.write(os.path.join(self.repo, "src", "main.txt"), b"two\n")  # the operator's own, left alone
        self.world.write(os.path.join(self.repo, "notes"), b"mine\n")
        self.world.write(os.path.join(self.repo, "AGENTS.md"), b"Be brief.\n")
        self.world.git(self.repo, "remote", "add", "origin", "https://example.org/repo.git")

    def attempt_of_a_run(self):
        """One with a bit of everything: dirt, instructions, a phase, a parent, a gate, a change of its own and a payload in spill/."""
        self.prepare()
        self.run_script("message hi\ndone success x\nexit 0\nend\n", "--phase", "implement")
        parent = self.world.attempts()[0]
        script = "message hi\nwrite src/made.txt made\nmessage %s\ndone success x\nexit 0\nend\n" % ("long " * 2500)
        task = os.path.join(self.world.root, "task.json")
        self.world.write(task, json.dumps({"message": script, "verificationGates": [
            {"id": "says", "description": "says something", "command": ["sh", "-c", "echo fine"]}]}).encode())
        self.run_script(None, "--phase", "implement", "--parent", parent, "--task", task)
        (name,) = set(self.world.attempts()) - {parent}
        return self.world.attempt_dir(name)

    def run_script(self, script, *more):
        message = [] if script is None else ["-m", script]
        done = self.world.run("run", *self.world.script_args(self.repo), *message, *more)
        self.assertEqual(done.code, 0, done.err)

    def walk(self, folder):
        adapter = os.path.join(support.BUILD, "test-plugins", "script.so")
        done = subprocess.run([shutil.which(word) or word for word in self.world.command(["/bin/bash", "-c", walk_of_the_page()])],
                              env={"PATH": self.tools, "ATTEMPT": folder, "REPOSITORY": self.repo, "ADAPTER": adapter,
                                   "LANG": "C.UTF-8", "HOME": self.world.home},
                              capture_output=True, cwd=self.world.root, timeout=120)
        return done

    @staticmethod
    def digests_in(folder):
        """Every value of 64 hexadecimal digits in every document, with where it stands."""
        found = {}
        names = ["header.json", "completion.json", "journal.jsonl"]
        names += [os.path.join("manifests", name) for name in os.listdir(os.path.join(folder, "manifests")) if name.endswith(".json")]
        for name in names:
            with open(os.path.join(folder, name)) as file:
                for number, line in enumerate(file, 1):
                    for match in HEX.finditer(line):
                        found.setdefault(match.group(), "%s:%d %s" % (name, number, line[max(0, match.start() - 60):match.start()]))
        return found

    def test_every_digest_of_an_attempt_is_made_again(self):
        folder = self.attempt_of_a_run()
        done = self.walk(folder)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        made = set(HEX.findall("\n".join(line for line in done.stdout.decode().splitlines() if line.startswith("ok "))))
        missing = {digits: where for digits, where in self.digests_in(folder).items() if digits not in made | NO_DIGESTS}
        self.assertEqual(missing, {})
        self.assertGreater(len(os.listdir(os.path.join(folder, "spill"))), 0)

    def test_a_changed_byte_in_any_file_is_found(self):
        folder = self.attempt_of_a_run()
        files = ["header.json", "completion.json", "journal.jsonl"]
        files += [os.path.join("manifests", name) for name in sorted(os.listdir(os.path.join(folder, "manifests")))]
        files += [os.path.join("spill", name) for name in os.listdir(os.path.join(folder, "spill"))]
        for name in [None, *files]:  # without a change the copy passes
            copy = os.path.join(os.path.dirname(folder), "copy")
            shutil.copytree(folder, copy, ignore=lambda _, names: [n for n in names if n in ("s", "c", "home", "git", "temp")])
            if name:
                self.change(os.path.join(copy, name), name)
            done = self.walk(copy)
            self.assertEqual(done.returncode != 0, name is not None, (name, done.stderr[-500:]))
            shutil.rmtree(copy)

    def change(self, path, name):
        with open(path, "r+b") as file:
            data = file.read()
            at = self.changeable(name, data)
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))

    @staticmethod
    def changeable(name, data):
        """A byte of a value, so that the file stays what it is and only says something else. In the header only what the digests bind."""
        if name == "header.json":
            return data.index(b'"taskEnvelopeDigest"') + data[data.index(b'"taskEnvelopeDigest"'):].index(b"sha256:") + 10
        if name == "completion.json":
            return data.index(b"completion-result/v1")
        return len(data) // 2

    def test_the_page_names_no_tool_of_this_project(self):
        words = set(re.findall(r"[\w-]+", walk_of_the_page()))
        self.assertEqual({word for word in words if word.startswith("hitchrail")}, set())


@unittest.skipIf(os.geteuid() != 0, "this is what the tests above are then")
class AuditAsOrdinaryUser(Audit):
    uid = support.ORDINARY_UID

    test_a_changed_byte_in_any_file_is_found = None
    test_the_page_names_no_tool_of_this_project = None


if __name__ == "__main__":
    unittest.main(verbosity=2)
