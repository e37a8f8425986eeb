"""SIGKILL of everyone while control groups, overlay and id maps are prepared or in use: after `runs recover` nothing of them is left."""

import binascii
import json
import os
import random
import signal
import time
import unittest

import killing
import support

LIMITED = """schemaVersion: sandbox-preset/v1
id: limited
name: Limited
enforcement: required
requiredCapabilities: [filesystem.read, filesystem.write]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: ["<workspace>"]
network: none
limits:
  maxMemory: 536870912
  maxProcesses: 200
environment: [LANG]
"""

SCRIPT = "message begin\nsleep 150\nwrite src/made.txt made\ndone success x\nexit 0\nend\n"


def tree_of(pids):
    """These processes and everything below them."""
    found, look = set(), list(pids)
    while look:
        pid = look.pop()
        if pid in found or not killing.alive(pid):
            continue
        found.add(pid)
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                look += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


class KillBoundary(support.TestCase):
    def setUp(self):
        support.require_build()
        self.place = killing.Place(self.uid)
        self.addCleanup(self.place.close)
        folder = self.place.world.folder("files", 0o755)
        preset = self.place.world.write(os.path.join(folder, "limited.yaml"), LIMITED.encode())
        added = self.place.world.run("sandbox", "presets", "add", preset, "--json")
        self.assertEqual(added.code, 0, added)

    def folders(self):
        top = os.path.join(self.place.world.state, "attempts")
        return [os.path.join(top, name) for name in os.listdir(top)] if os.path.isdir(top) else []

    def left(self, name):
        return [folder for folder in self.folders() if os.path.lexists(os.path.join(folder, name))]

    def groups(self):
        found = set()
        for folder in self.left("cgroups"):
            try:
                with open(os.path.join(folder, "cgroups")) as file:
                    found.update(os.fsdecode(binascii.unhexlify(word)) for word in json.load(file))
            except OSError:
                pass  # removed meanwhile
        return found

    def kill_everyone(self):
        """The host stands still first, so that nobody it has just started is missed."""
        killing.kill(self.place.process.pid, signal.SIGSTOP)
        slot = self.place.slot()
        known = {self.place.process.pid} | ({slot.shim} if slot and slot.shim else set())
        for _ in range(100):
            known |= tree_of(known)
            for pid in known:
                killing.kill(pid)
            if not any(killing.alive(pid) for pid in known):
                break
            time.sleep(0.005)
        self.place.process.communicate(timeout=20)

    def test_thirty_random_points(self):
        seed = killing.seed_of("boundary")
        rng = random.Random(seed)
        begun = time.monotonic()
        run = self.place.start(SCRIPT, "--sandbox", "limited")
        out = run.communicate(timeout=60)[0]
        length = time.monotonic() - begun
        self.assertEqual(run.returncode, 0, out)
        hit = {"control group": 0, "overlay": 0, "prepared": 0}
        groups = set()
        for number in range(30):
            known = set(self.folders())
            self.place.start(SCRIPT, "--sandbox", "limited")
            if number % 3 == 0:
                time.sleep(rng.uniform(0, length))
            else:  # from the first trace of the preparation on
                end = time.monotonic() + 20
                while time.monotonic() < end and self.place.process.poll() is None:
                    fresh = set(self.folders()) - known
                    if any(os.path.lexists(os.path.join(one, name)) for one in fresh for name in ("overlay", "cgroups")):
                        break
                time.sleep(rng.uniform(0, 0.04))
            self.kill_everyone()
            seen = self.groups()
            groups |= seen
            hit["control group"] += any(os.path.isdir(group) for group in seen)
            hit["overlay"] += bool(self.left("overlay"))
            hit["prepared"] += bool(seen or self.left("overlay"))
            with self.subTest(number=number, seed=seed):
                def clean():
                    recovered = self.place.recover()
                    return recovered.code == 0 and not self.left("overlay") and not self.left("cgroups")
                support.wait_until(clean, 20, 0.05)
                self.assertEqual([group for group in groups if os.path.isdir(group)], [])
                self.assertEqual(sorted(name for name in os.listdir(self.place.repo)), [".git", "README", "src"])
        print("boundary: %s" % hit)
        doctor = self.place.world.run("doctor", "--json").json["findings"]
        if any("held by an overlay" in check["what"] for check in doctor if check["id"] == "protected-names"):
            self.assertGreaterEqual(hit["overlay"], 5)
        whole = self.place.start(SCRIPT, "--sandbox", "limited")
        out = whole.communicate(timeout=60)[0]
        self.assertEqual(whole.returncode, 0, out)
        self.assertEqual((self.left("overlay"), self.left("cgroups")), ([], []))


@unittest.skipIf(os.geteuid() != 0, "is an ordinary user's already")
class KillBoundaryAsOrdinaryUser(KillBoundary):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
