"""A full disk, on a real small file system: before, during and at the end of a run. Re-executes itself in a mount namespace of its
own; the state directory is a file system of 24 MiB there."""

import ctypes
import os
import subprocess
import sys
import time

import killing
import support

MARK = "HITCHRAIL_IN_OWN_MOUNTS"
SIZE = 24 << 20
SCRIPT = ("message begin\ndeltas 50 a\nmessage filled\nsleep 700\ndeltas 200 b\nrecord 300000 1\nmessage end\n"
          "done success all done\nexit 0\nend\n")


def mount_small(path):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"small", os.fsencode(path), b"tmpfs", 0, b"size=%d,mode=700" % SIZE) != 0:
        raise OSError(ctypes.get_errno(), "mount a small file system on " + path)


class FullDisk(support.TestCase):
    def setUp(self):
        super().setUp()
        self.place = killing.Place(os.geteuid())
        self.addCleanup(self.place.close)
        state = self.place.world.state
        self.addCleanup(lambda: ctypes.CDLL(None).umount2(os.fsencode(state), 2))
        mount_small(self.place.world.folder("state"))
        self.place.world.enable_script()
        self.filler = os.path.join(state, "filler")

    def fill(self):
        with open(self.filler, "wb", 0) as file:
            block = b"x" * 65536
            while block:
                try:
                    file.write(block)
                except OSError:
                    block = block[:len(block) // 2]
        self.assertEqual(os.statvfs(self.filler).f_bavail, 0)

    def free(self):
        os.unlink(self.filler)

    def test_before_nothing_starts_and_nothing_is_half_written(self):
        self.assertEqual(self.place.baseline(SCRIPT)[1], 0)
        before = support.fingerprint(self.place.repo)
        known = set(self.place.world.attempts())
        self.fill()
        done = self.place.world.run("run", *self.place.world.script_args(self.place.repo), "-m", SCRIPT)
        self.assertNotEqual(done.code, 0, done)
        self.assertNotIn(b"begin", done.out)
        self.free()
        self.place.recover()
        for attempt in set(self.place.world.attempts()) - known:
            kinds = [event["kind"] for event in self.place.world.journal(attempt)]
            self.assertEqual(kinds[-1:], ["run.failed"], kinds)
        self.assertEqual(support.fingerprint(self.place.repo), before)
        self.assertEqual(self.place.baseline(SCRIPT)[1], 0)

    def test_during_nothing_is_lost(self):
        whole, code, out = self.place.baseline(SCRIPT)
        self.assertEqual(code, 0, out)
        run = self.place.start(SCRIPT)
        self.place.running()
        support.wait_until(lambda: b'"filled"' in self.place.text(), 20, 0.002)
        self.fill()
        time.sleep(1.5)
        self.assertNotIn(b'"end"', self.place.text())
        self.free()
        out = run.communicate(timeout=60)[0]
        self.place.wait_terminal()
        self.assertEqual(run.returncode, 0, out)
        self.same(whole)

    def test_at_the_end_the_exit_is_recorded_all_the_same(self):
        whole, code, out = self.place.baseline(SCRIPT)
        run = self.place.start(SCRIPT)
        slot = self.place.running()
        support.wait_until(lambda: b'"filled"' in self.place.text(), 20, 0.002)
        self.fill()
        support.wait_until(lambda: self.place.slot().state == 3, 20)
        after = self.place.slot()
        self.assertEqual((after.kind, after.value), (1, 0))  # the true code, on a full disk
        self.assertFalse(killing.alive(slot.leader))
        time.sleep(1)
        self.assertTrue(killing.alive(slot.shim))
        self.free()
        run.communicate(timeout=60)
        self.place.wait_terminal()
        self.same(whole)

    def test_a_disk_that_fills_when_only_the_finisher_is_left(self):
        script = "message begin\ndone success all done\nexit 0\nend\n"
        whole, code, out = self.place.baseline(script)
        run = self.place.start(script)
        slot = self.place.running(leader=False)
        support.wait_until(lambda: self.place.slot().state >= 3, 20, 0.0005)
        self.fill()
        time.sleep(2)
        self.free()
        run.communicate(timeout=60)
        support.wait_until(lambda: not killing.alive(slot.shim), 30)
        self.place.recover()
        self.same(whole)

    def same(self, whole):
        self.assertEqual(killing.comparable(self.place.events()), whole)


if __name__ == "__main__":
    support.require_build()
    if MARK not in os.environ:
        os.environ[MARK] = "1"
        options = ["-m"] if os.geteuid() == 0 else ["-r", "-m"]
        sys.exit(subprocess.run(["unshare", *options, "--propagation", "private", sys.executable, "-B", __file__]).returncode)
    support.main()
