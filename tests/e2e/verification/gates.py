"""What the tests of verification gates share: a world, a task with gates, and what came of them."""

import json
import os
import time
import uuid

import support

WRITE = "script\nwrite src/made.txt made by the run\ndone success all done\nexit 0\nend\n"


def gate(name, *command, **more):
    value = {"id": name, "description": "checks " + name}
    if command:
        value["command"] = list(command)
    value.update(more)
    return value


def sh(name, script, **more):
    return gate(name, "sh", "-c", script, **more)


class GateTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.token = "gate-" + uuid.uuid4().hex

    def task_file(self, gates, script=WRITE, path=None, **more):
        task = {"message": script, "verificationGates": gates}
        task.update(more)
        return self.world.write(path or os.path.join(self.world.root, "task.json"), json.dumps(task).encode())

    def arguments(self, gates, *more, script=WRITE, **task):
        return ["run", *self.world.script_args(self.repo), "--task", self.task_file(gates, script, **task), *more]

    def go(self, gates, *more, env=None, **kwargs):
        return self.world.run(*self.arguments(gates, *more, **kwargs), env=env)

    def folder(self):
        """Of the last attempt; names are random."""
        return max((self.world.attempt_dir(name) for name in self.world.attempts()), key=lambda path: os.stat(
            os.path.join(path, "header.json")).st_mtime_ns)

    def completion(self):
        with open(os.path.join(self.folder(), "completion.json")) as file:
            return json.load(file)

    def results(self):
        return {one["gateId"]: one for one in self.completion()["verification"]}

    def result(self, gates, *more, **kwargs):
        """The only gate's."""
        done = self.go(gates, *more, **kwargs)
        self.assertTrue(self.world.attempts(), done)
        results = self.completion()["verification"]
        self.assertEqual(len(results), len(gates), done)
        return results[0]

    def output(self, result):
        with open(os.path.join(self.folder(), result["output"]["reference"]), "rb") as file:
            return file.read()

    def events(self, kind):
        return [event for event in self.world.journal(self.folder()) if event["kind"] == kind]

    def processes(self):
        """Those of this test that are still there: a gate's have the token in their arguments or environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    if self.token.encode() in file.read():
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def assert_nothing_left(self):
        support.wait_until(lambda: not self.processes(), 20)
        with open("/proc/self/mountinfo") as file:
            self.assertNotIn(self.world.root, file.read())
        names = os.listdir(self.folder())
        for name in ("gate-scratch", "cgroups", "temp", "token"):
            self.assertNotIn(name, names)


def wait_event(test, kind, count=1):
    def seen():
        try:
            return len(test.events(kind)) >= count
        except (OSError, IndexError, ValueError):
            return False
    support.wait_until(seen, 60)


def now_ms():
    return int(time.time() * 1000)
