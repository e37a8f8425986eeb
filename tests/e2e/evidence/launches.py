"""What the tests of the launch manifest share: previews that are kept, and runs of what was kept."""

import hashlib
import json
import os

import support

DONE = "script\ndone success x\nexit 0\nend\n"


def tree_print(path, without=()):
    """Names, modes, owners, times and bytes of a tree."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if os.path.join(folder, name) not in without)
        for name in sorted(files) + ["."]:
            full = os.path.join(folder, name)
            status = os.lstat(full)
            times = 0 if name == "." and any(os.path.dirname(one) == folder for one in without) else status.st_mtime_ns
            digest.update(b"%s\0%o %d %d %d\n" % (os.fsencode(full), status.st_mode, status.st_uid, times,
                                                 status.st_size if name != "." else 0))
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as file:
                    digest.update(file.read())
    return digest.hexdigest()


class Launches(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.plan = os.path.join(self.world.root, "plan.json")

    def call(self, command, *args, task=DONE, agent=None, **kwargs):
        kwargs.setdefault("timeout", 60)
        given = list(args) if "--task" in args else ["-m", task, *args]
        return self.world.run(command, "--json", *(agent or self.world.script_args(self.repo)), *given, **kwargs)

    def keep(self, *args, path=None, **kwargs):
        done = self.call("preview", *args, "--output", path or self.plan, **kwargs)
        self.assertEqual(done.code, 0, done)
        return done.json

    def run_kept(self, *args, path=None, **kwargs):
        return self.call("run", "--manifest", path or self.plan, *args, **kwargs)

    def task_file(self, fields, name="task.json"):
        return self.world.write(os.path.join(self.world.root, name), json.dumps(fields).encode())

    def document(self, name="launch-manifest.json", attempt=None):
        with open(os.path.join(self.world.attempt_dir(attempt), "manifests", name)) as file:
            return json.load(file)

    def assert_nothing_started(self):
        self.assertEqual(self.world.attempts(), [])

    def codes(self, result):
        return [one["code"] for one in result.json["manifest"]["enforcement"]["blockers"]]
