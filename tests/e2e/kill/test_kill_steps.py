"""SIGKILL of the harness and of the shim at each named step: what is journaled is a prefix of the whole, then exactly one terminal
event with the true cause. And what a run may not do: forge its own records, leave a process, hold the caller's descriptors."""

import os
import signal
import subprocess
import time
import unittest

import killing
import support

# Each step is reached when its text is in the journal; the script then waits there.
STEPS = [
    ("first-output", "message first\n"),
    ("in-a-record", "unterminated {\"type\":\"mess\nerr here-now\n"),
    ("answer-awaited", "ask 7\nerr here-now\n"),
    ("after-the-last-record", "done success all done\nerr here-now\n"),
    ("output-closed", "close 1\nerr here-now\n"),
]
MARK = {"first-output": b'"first"'}


def script_of(step, wait):
    out = "message begin\ndeltas 20 a\n"
    for name, text in STEPS:
        if name == step:
            return out + text + ("sleep 60000\n" if wait else "") + "exit 0\nend\n"
    raise AssertionError(step)


class Killed(killing.KillTest):
    steps = [name for name, _ in STEPS]

    def setUp(self):
        super().setUp()
        self.place = killing.Place(self.uid)
        self.addCleanup(self.place.close)

    def reach(self, step):
        run = self.place.start(script_of(step, True))
        slot = self.place.running()
        support.wait_until(lambda: MARK.get(step, b"here-now") in self.place.text(), 20, 0.002)
        return run, slot

    def check_prefix(self, whole, note):
        events = self.place.events()
        kinds = [event["kind"] for event in events]
        self.assertEqual(len([kind for kind in kinds if kind in killing.TERMINAL]), 1, (note, kinds))
        self.assertIn(kinds[-1], killing.TERMINAL, note)
        body = [event for event in killing.comparable(events[:-1]) if event["kind"] != "run.verdict"]
        # stderr and stdout are two streams: their order in time is compared stream by stream.
        for kind in ("stdout", "stderr"):
            mine = [e for e in body if (e["kind"] == "stream.stderr") == (kind == "stderr")]
            all_ = [e for e in whole if (e["kind"] == "stream.stderr") == (kind == "stderr")]
            self.assertTrue(killing.is_prefix(mine, all_), (note, mine[-1:], all_))
        return events[-1]

    def test_the_harness_at_each_step(self):
        for step in self.steps:
            whole = self.place.baseline(script_of(step, False))[0]
            run, slot = self.reach(step)
            killing.kill(slot.leader)
            out = run.communicate(timeout=30)[0]
            self.place.wait_terminal()
            terminal = self.check_prefix(whole, step)
            exit_ = terminal["payload"]["completion"]["exit"]
            self.assertEqual((exit_["kind"], exit_["value"], exit_["source"]), ("signal", 9, "init"), (step, out))
            self.assertEqual(terminal["kind"], "run.failed", step)
            self.assertFalse(killing.alive(slot.leader) or killing.alive(slot.init))

    def test_the_shim_at_each_step(self):
        for step in self.steps:
            whole = self.place.baseline(script_of(step, False))[0]
            run, slot = self.reach(step)
            runner = killing.children(slot.shim, "hitchrail-runner")
            killing.kill(slot.shim)
            out = run.communicate(timeout=30)[0]
            for pid in [slot.shim, slot.init, slot.leader] + runner:
                support.wait_until(lambda: not killing.alive(pid), 10)
            self.place.recover()
            terminal = self.check_prefix(whole, step)
            self.assertEqual(terminal["kind"], "run.failed", (step, out))
            self.assertEqual(terminal["payload"]["code"], "supervisor-lost", step)
            self.assertEqual(terminal["payload"]["completion"]["exit"]["kind"], "unknown", step)
        # The worktree is free again.
        self.assertEqual(self.place.baseline(script_of(step, False))[0], whole)

    def test_the_shim_while_it_stops_and_while_the_finisher_runs(self):
        run = self.place.start("ignore 15\nignore 2\nmessage first\nsleep 60000\nexit 0\nend\n")
        slot = self.place.running()
        support.wait_until(lambda: b'"first"' in self.place.text(), 20, 0.002)
        run.send_signal(signal.SIGINT)
        support.wait_until(lambda: self.place.slot().stop != 0, 10)
        killing.kill(slot.shim)
        run.communicate(timeout=30)
        support.wait_until(lambda: not killing.alive(slot.leader), 10)
        self.place.recover()
        kinds = [event["kind"] for event in self.place.events()]
        self.assertEqual(len([kind for kind in kinds if kind in killing.TERMINAL]), 1, kinds)
        self.assertEqual(self.place.events()[-1]["payload"]["completion"]["exit"]["kind"], "unknown")

        whole = self.place.baseline("message x\ndone success good\nexit 0\nend\n")[0]
        for _ in range(5):
            run = self.place.start("message x\ndone success good\nexit 0\nend\n")
            slot = self.place.running(leader=False)
            support.wait_until(lambda: self.place.slot().state == 4, 20, 0.001)
            killing.kill(slot.shim)
            run.communicate(timeout=30)
            support.wait_until(lambda: not killing.children(1, "hitchrail-finish"), 10)
            self.place.recover()
            self.same_journal(self.place, whole, "finishing")

    def test_records_cannot_be_forged_through_proc(self):
        run = self.place.start("forge parent\ndone success x\nexit 0\nend\n")
        out = run.communicate(timeout=30)[0]
        text = self.place.text().decode()
        self.assertNotIn("FORGED", text, out)
        self.assertRegex(text, "forge write=(6|13|2) read=(6|13|2)")

    def test_long_records_and_a_late_runner(self):
        script = "record 300000 1\nrecord 5000000 2\nmessage end\ndone success x\nexit 0\nend\n"
        whole, code, out = self.place.baseline(script)
        self.assertEqual(code, 0, out)
        run = self.place.start(script)
        slot = self.place.running()
        for _ in range(20):  # the reader sleeps, three seconds in all
            for runner in killing.children(slot.shim, "hitchrail-runner"):
                killing.kill(runner, signal.SIGSTOP)
            time.sleep(0.15)
        for runner in killing.children(slot.shim, "hitchrail-runner"):
            killing.kill(runner, signal.SIGCONT)
        run.communicate(timeout=60)
        self.place.wait_terminal()
        self.same_journal(self.place, whole, "late")


class NothingLeft(support.TestCase):
    """All processes of a uid that nobody else has, before and after. Needs root to take such a uid."""

    def test_no_process_of_the_run_is_left(self):
        uid = 61000 + os.getpid() % 4000 if os.geteuid() == 0 else os.geteuid()
        place = killing.Place(uid)
        self.addCleanup(place.close)

        def mine():
            out = set()
            for name in os.listdir("/proc"):
                try:
                    if name.isdigit() and os.stat("/proc/" + name).st_uid == uid:
                        with open("/proc/%s/stat" % name) as file:
                            fields = file.read().rsplit(")", 1)
                        if fields[1].split()[0] not in "ZX":
                            out.add(int(name))
                except OSError:
                    continue
            return out

        script = ("spawn-setsid 600000\nspawn-double 600000\nspawn-stopped\nspawn-stubborn 600000\nhold-pipe 600000\n"
                  "fork-storm 3\nmessage up\n")
        for ending in ("done success x\nexit 0\nend\n", "ignore 15\nsleep 60000\nend\n"):
            before = mine()
            run = place.start(script + ending)
            slot = place.running()
            support.wait_until(lambda: b'"up"' in place.text(), 20)
            if "sleep" in ending:
                self.assertEqual(place.world.run("runs", "stop", place.attempt(), timeout=60).code, 0)
            run.communicate(timeout=60)
            support.wait_until(lambda: not killing.alive(slot.shim), 20)
            support.wait_until(lambda: mine() <= before if os.geteuid() == 0 else not killing.alive(slot.init), 10)
            self.assertIn(place.events()[-1]["kind"], killing.TERMINAL)

    def test_detached_holds_no_descriptor_of_the_caller(self):
        place = killing.Place(os.geteuid())
        self.addCleanup(place.close)
        read, write = os.pipe()
        os.set_inheritable(write, True)
        run = subprocess.run([support.BIN, "run", *place.world.script_args(place.repo), "--detach", "-m",
                              "message up\nsleep 1500\ndone success x\nexit 0\nend\n"],
                             env=place.world.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False, timeout=30)
        self.assertEqual(run.returncode, 0, run)
        os.close(write)
        # End of file at once: neither shim nor init, harness or runner has the other end.
        os.set_blocking(read, False)
        self.assertEqual(os.read(read, 1), b"")
        os.close(read)
        slot = place.slot()
        self.assertTrue(killing.alive(slot.shim))
        self.assertEqual(os.getsid(slot.shim), slot.shim)
        place.wait_terminal()
        self.assertEqual(place.events()[-1]["kind"], "run.completed")


@unittest.skipIf(os.geteuid() != 0, "this is what the tests above are then")
class KilledAsOrdinaryUser(Killed):
    uid = support.ORDINARY_UID
    steps = ["first-output", "answer-awaited"]


if __name__ == "__main__":
    support.main()
