"""The probe cache as an operator meets it: what a second launch does not do again, what many launches share, and that a
cache which cannot be used costs time and nothing else."""

import ctypes
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import time

import support

DONE = "done success x\nexit 0\nend\n"
IN_ACCESS, IN_OPEN = 0x1, 0x20


class Watch:
    """inotify on one file: how often its bytes were read."""

    def __init__(self, path, mask):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or self.libc.inotify_add_watch(self.fd, os.fsencode(path), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def count(self):
        found = 0
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            while data:
                found += 1
                data = data[16 + struct.unpack_from("iIII", data)[3]:]

    def close(self):
        os.close(self.fd)


class Cache(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.cache = os.path.join(self.world.state, "cache")
        # A copy of the harness that says in a file when its version is asked for, and waits for another one. The file lies
        # beside it: a probe may read its package and write nothing, so it counts by the reads of `ask`.
        self.bin = self.world.folder("bin", 0o755)
        self.harness = os.path.join(self.bin, "script-harness")
        shutil.copy(os.path.join(support.BUILD, "peers", "script-harness"), self.harness)
        self.world.own(self.harness)

    def args(self, *more):
        return [*self.world.script_args(self.repo), "--executable", self.harness, "--json", "-m", DONE, *more]

    def preview(self, *more, **kwargs):
        done = self.world.run("preview", *self.args(*more), **kwargs)
        self.assertEqual(done.code, 0, done)
        return done.json

    def probed_at(self, preview):
        return preview["runtimeManifest"]["probe"]["probedAt"]

    def watch(self, path, mask=IN_ACCESS):
        watch = Watch(path, mask)
        self.addCleanup(watch.close)
        return watch

    def test_the_second_preview_probes_nothing_and_reads_no_byte_of_the_program(self):
        proofs = {"HITCHRAIL_PROOF_CACHE": ""}
        watch = self.watch(self.harness)
        first = self.preview(env=proofs)
        self.assertGreater(watch.count(), 0)  # the control: the first one reads it
        programs = [self.watch(os.path.join(support.BUILD, "bin", name), IN_ACCESS) for name in ["hitchrail-probe"]]
        kept = support.fingerprint(self.cache)
        second = self.preview(env=proofs)
        self.assertEqual(watch.count(), 0)
        self.assertEqual([each.count() for each in programs], [0])
        self.assertEqual(support.fingerprint(self.cache), kept)
        self.assertEqual(first["runtimeManifest"], second["runtimeManifest"])
        kinds = {entry["kind"] for entry in self.world.run("cache", "show", "--json").json["entries"]}
        self.assertEqual(kinds, {"executable", "runtime-manifest", "boundary-proof"})

    def test_preview_writes_the_cache_and_nowhere_else(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        before = support.fingerprint(self.repo), support.fingerprint(self.world.home), support.state_print(self.world)
        self.preview()
        self.assertTrue(os.listdir(self.cache))
        self.assertEqual(os.stat(self.cache).st_mode & 0o7777, 0o700)
        after = support.fingerprint(self.repo), support.fingerprint(self.world.home), support.state_print(self.world)
        self.assertEqual(before, after)

    def test_other_content_under_the_same_name_size_and_mtime_is_another_program(self):
        first = self.preview()
        status = os.stat(self.harness)
        with open(self.harness, "rb") as file:
            data = bytearray(file.read())
        data[data.index(b"script-harness 1.0.0") + 0:data.index(b"script-harness 1.0.0") + 6] = b"SCRIPT"
        with open(self.harness, "r+b") as file:
            file.write(data)
        os.utime(self.harness, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.assertEqual(os.stat(self.harness).st_size, status.st_size)
        second = self.world.run("preview", *self.args())
        shown = second.json.get("runtimeManifest", {}) if second.error_code is None else {}
        self.assertNotEqual(shown.get("executable"), first["runtimeManifest"]["executable"], second)

    def test_the_manifest_names_the_content_of_the_program(self):
        with open(self.harness, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        for _ in range(2):
            self.assertEqual(self.preview()["runtimeManifest"]["executable"]["sha256"], digest)

    def test_many_at_once_share_one_probe(self):
        runs = [self.world.start("preview", *self.args(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
        seen = set()
        for run in runs:
            out, err = run.communicate(timeout=120)
            self.assertEqual(run.returncode, 0, (out, err))
            seen.add(self.probed_at(json.loads(out)))
        self.assertEqual(len(seen), 1, seen)
        self.assertFalse([name for name in os.listdir(self.cache) if name.startswith(".")])

    def test_a_killed_prober_blocks_nobody(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        first = self.world.start("preview", *self.args(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        support.wait_until(lambda: os.path.isdir(self.cache) and any(
            name.startswith(".flight-runtime-manifest") for name in os.listdir(self.cache)) or first.poll() is not None)
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.preview(timeout=60)
        self.assertFalse([name for name in os.listdir(self.cache) if name.startswith(".flight")])

    def test_clear_forgets_and_says_how_much(self):
        first = self.probed_at(self.preview())
        self.assertEqual(self.probed_at(self.preview()), first)
        cleared = self.world.run("cache", "clear", "--json")
        self.assertEqual(cleared.code, 0, cleared)
        self.assertEqual(cleared.json["removed"], 2)
        self.assertEqual(self.world.run("cache", "show", "--json").json["entries"], [])
        self.assertNotEqual(self.probed_at(self.preview()), first)

    def test_a_failed_probe_is_told_and_never_kept(self):
        self.world.write(self.harness, b"#!/bin/sh\nexit 3\n", 0o755)
        for _ in range(2):
            shown = self.world.run("preview", *self.args())
            self.assertEqual((shown.code, shown.error_code), (3, None), shown)
            manifest = shown.json["runtimeManifest"]
            self.assertEqual(manifest["probe"]["state"], "failed")
            self.assertEqual({(each["state"], each["source"]) for each in manifest["capabilities"]},
                             {("unknown", "runtime-probe")})
            self.assertFalse([control for control in shown.json["controls"]["controls"] if control["available"]])
            self.assertIn("provider-probe-failed",
                          [blocker["code"] for blocker in shown.json["manifest"]["enforcement"]["blockers"]])
        states = {entry["kind"]: entry["state"] for entry in self.world.run("cache", "show", "--json").json["entries"]}
        self.assertNotEqual(states.get("runtime-manifest"), "kept")
        refused = self.world.run("run", *self.args())
        self.assertNotEqual(refused.code, 0)
        self.assertEqual(self.world.attempts(), [])

    def test_a_folder_that_cannot_be_trusted_is_left_alone_and_the_run_goes_on(self):
        victim = self.world.folder("victim")
        for name, spoil in [
                ("cache-unsafe", lambda: os.symlink(victim, self.cache)),
                ("cache-shared", lambda: (os.mkdir(self.cache), os.chmod(self.cache, 0o770))),
                ("cache-unsafe", lambda: self.world.write(self.cache, b"a file"))]:
            with self.subTest(name):
                if os.path.islink(self.cache) or os.path.isfile(self.cache):
                    os.unlink(self.cache)
                shutil.rmtree(self.cache, ignore_errors=True)
                spoil()
                if os.path.isdir(self.cache) and not os.path.islink(self.cache):
                    self.world.own(self.cache)
                done = self.world.run("run", *self.args())
                self.assertEqual(done.code, 0, done)
                self.assertIn(("warning[%s]" % name).encode(), done.err)
                self.assertEqual(os.listdir(victim), [])
                if os.path.isdir(self.cache):
                    self.assertEqual(os.listdir(self.cache), [])
                clear = self.world.run("cache", "clear", "--json")
                self.assertEqual(clear.error_code, name, clear)

    def test_damaged_entries_cost_a_probe_and_nothing_else(self):
        first = self.probed_at(self.preview())
        for name in os.listdir(self.cache):
            path = os.path.join(self.cache, name)
            with open(path, "r+b") as file:
                data = file.read()
                file.seek(0)
                file.write(data.replace(b"supported", b"SUPPORTED") if b"supported" in data else data[:-9] + b"\0garbage\n")
        again = self.preview()
        self.assertNotEqual(self.probed_at(again), first)
        self.assertEqual(self.probed_at(self.preview()), self.probed_at(again))

    def test_in_a_home_of_the_repository_nothing_is_made(self):
        before = support.fingerprint(self.repo)
        done = self.world.run("preview", *self.args(), env={"HITCHRAIL_HOME": os.path.join(self.repo, "state")})
        self.assertNotEqual(done.code, 0)
        self.assertEqual(support.fingerprint(self.repo), before)

    def test_without_a_state_home_the_cache_is_where_caches_are(self):
        place = self.world.folder("xdg")
        done = self.world.run("cache", "show", "--json", env={"HITCHRAIL_HOME": "", "XDG_CACHE_HOME": place})
        self.assertEqual(done.json["path"], os.path.join(place, "hitchrail"))
        self.assertEqual(os.listdir(place), [])  # looking makes nothing


class CacheAsOrdinaryUser(Cache):
    uid = support.ORDINARY_UID

    def test_a_folder_of_another_user_is_left_alone(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        os.mkdir(self.cache, 0o755)  # root's
        done = self.world.run("run", *self.args())
        self.assertEqual(done.code, 0, done)
        self.assertIn(b"warning[cache-", done.err)
        self.assertEqual(os.listdir(self.cache), [])


if __name__ == "__main__":
    support.main()
