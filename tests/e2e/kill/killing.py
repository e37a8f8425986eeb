"""Killing processes of a run at random points and comparing what is left with a run of the same script that was not killed."""

import concurrent.futures
import contextlib
import json
import os
import itertools
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import support

# About half a second of everything a run consists of: deltas to merge, answers on stdin, a long record, stderr, a file.
SCRIPT = """message begin
deltas 60 a 1
ask 1
expect answer 1
record 300000 7
sleep 20
deltas 40 b 1
ask 2
expect answer 2
err some talk
sleep 40
write src/made.txt made by the run
deltas 30 c 1
message end
done success all done
exit 0
end
"""

# Differs between two runs of one script by its nature.
VOLATILE = {"sequence", "eventId", "taskId", "runId", "attemptId", "receivedAt", "redaction", "payloadHash", "prev", "line",
            "dedupeKey", "origin"}
EXITED = 3  # state of the exit slot: the leader's status is known
TERMINAL = {"run.completed", "run.failed", "run.interrupted"}


def seed_of(test):
    seed = int(os.environ.get("HITCHRAIL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print("%s: HITCHRAIL_SEED=%d" % (test, seed), flush=True)
    return seed


def terminal_view(payload):
    completion = payload.get("completion", {})
    return {"status": payload.get("status"), "code": payload.get("code"), "summary": payload.get("summary"),
            "exit": completion.get("exit"), "changedFiles": completion.get("changedFiles")}


def comparable(events):
    """Events without ids, times and hashes; adjacent deltas of one item joined."""
    out = []
    for event in events:
        view = {key: value for key, value in event.items() if key not in VOLATILE}
        if event["kind"] == "run.started":
            view["payload"] = None
        elif event["kind"] in TERMINAL:
            view["payload"] = terminal_view(event["payload"])
        elif "spill" in event["payload"]:
            view["payload"] = dict(event["payload"], spill=event["payload"]["spill"]["sha256"])
        else:
            view["payload"] = dict(event["payload"])
        if event["kind"] == "message.delta" and out and out[-1]["kind"] == "message.delta" and \
                out[-1].get("itemId") == event.get("itemId"):
            out[-1]["payload"]["text"] += view["payload"]["text"]
        else:
            out.append(view)
    return out


def is_prefix(part, whole):
    """Of comparable journals; the last delta of `part` may be the beginning of the one in `whole`."""
    if not part:
        return True
    if part[:-1] != whole[:len(part) - 1] or len(part) > len(whole):
        return False
    last, other = part[-1], whole[len(part) - 1]
    if last == other:
        return True
    return last["kind"] == other["kind"] == "message.delta" and last.get("itemId") == other.get("itemId") and \
        other["payload"]["text"].startswith(last["payload"]["text"])


class Slot:
    """The exit slot; None while it cannot be read whole."""

    def __init__(self, folder):
        with open(os.path.join(folder, "exit"), "rb") as file:
            data = file.read()
        if len(data) != 512:
            raise ValueError("exit slot of %d bytes" % len(data))
        (_, _, self.state, self.kind, self.value, self.source, self.stop, self.restarts, self.shim, self.init, self.leader,
         _) = struct.unpack_from("=IIIIiIIIiiiI", data)
        self.cause = data[128:176].split(b"\0")[0].decode()


def slot_of(folder):
    try:
        return Slot(folder)
    except (OSError, ValueError):
        return None


def children(pid, name):
    """Children of a process by name, without a race worth speaking of: the name is read after the parent."""
    out = []
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            pids = [int(word) for word in file.read().split()]
    except OSError:
        return out
    for child in pids:
        try:
            with open("/proc/%d/comm" % child) as file:
                if file.read().strip() == name[:15]:
                    out.append(child)
        except OSError:
            continue
    return out


def kill(pid, number=signal.SIGKILL):
    """Through a pidfd; False when it was gone already."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Place:
    """A world with one repository, used by one thread; runs follow each other in it."""

    def __init__(self, uid=None):
        self.world = support.World(uid)
        self.repo = self.world.repository()
        self.world.enable_script()
        self.known = set()

    def close(self):
        self.world.close()

    def start(self, script=SCRIPT, *more):
        self.known = set(self.world.attempts())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.repo, "src", "made.txt"))
        self.process = self.world.start("run", *self.world.script_args(self.repo), "-m", script, *more,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        return self.process

    def attempt(self):
        """The attempt of the last start, or None so far."""
        # One still being made has another name; when its maker dies the next run sweeps it away.
        fresh = sorted(name for name in set(self.world.attempts()) - self.known if name.startswith("attempt_"))
        return fresh[0] if fresh else None

    def folder(self):
        attempt = self.attempt()
        return self.world.attempt_dir(attempt) if attempt else None

    def slot(self):
        folder = self.folder()
        return slot_of(folder) if folder else None

    def running(self, seconds=20, leader=True):
        """Waits until the shim has started a harness; the slot. One that was gone before the shim looked is without a number there,
        for ever: its exit is enough then."""
        def look():
            slot = self.slot()
            if slot and slot.state >= 2 and (slot.leader or not leader or slot.state >= EXITED):
                return slot
            if self.process.poll() is not None and not (slot and slot.shim):
                raise AssertionError("the run was not started: %r" % self.process.communicate()[0])
            return None
        return support.wait_until(look, seconds, 0.001)

    def events(self):
        return self.world.journal(self.attempt())

    def text(self):
        try:
            with open(os.path.join(self.folder(), "journal.jsonl"), "rb") as file:
                return file.read()
        except (OSError, TypeError):
            return b""

    def state(self):
        shown = self.world.run("runs", "show", self.attempt(), "--json")
        return shown.json["state"] if shown.code == 0 else None

    def recover(self):
        return self.world.run("runs", "recover", timeout=90)

    def ended(self):
        return any(b'"kind":"%s"' % kind.encode() in self.text() for kind in TERMINAL)

    def wait_terminal(self, seconds=40):
        support.wait_until(self.ended, seconds, 0.01)
        shim = self.slot().shim
        support.wait_until(lambda: not alive(shim) or not children(shim, "hitchrail-finish"), seconds, 0.01)

    def baseline(self, script=SCRIPT):
        run = self.start(script)
        out = run.communicate(timeout=60)[0]
        self.wait_terminal()
        return comparable(self.events()), run.returncode, out


class KillTest(support.TestCase):
    """Runs rounds in a few places at once."""

    def setUp(self):
        support.require_build()

    def rounds(self, count, body, places=3, enough=None):
        """body(place, number) for each number, each place in a thread of its own; the first failure ends all. With `enough` it goes
        on past `count` until enough() holds, to at most four times as many: how many points one round hits depends on the machine."""
        numbers = itertools.takewhile(lambda number: number < count or (enough and number < 4 * count and not enough()),
                                      itertools.count())
        lock = threading.Lock()
        failed = threading.Event()

        def work():
            place = Place(self.uid)
            try:
                while not failed.is_set():
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    body(place, number)
            except BaseException:
                failed.set()
                text = place.text().decode("utf-8", "replace")
                sys.stderr.write("--- journal of the failed round\n%s\n" % "\n".join(
                    line[:300] for line in text.splitlines()[-40:]))
                raise
            finally:
                place.close()

        with concurrent.futures.ThreadPoolExecutor(places) as pool:
            for future in [pool.submit(work) for _ in range(places)]:
                future.result()

    def same_journal(self, place, wanted, note):
        got = comparable(place.events())
        if got != wanted:
            for index, (one, other) in enumerate(zip(got, wanted)):
                if one != other:
                    self.fail("%s: event %d differs:\n%s\n%s" % (note, index, json.dumps(one)[:2000], json.dumps(other)[:2000]))
            self.fail("%s: %d events instead of %d: %s" % (note, len(got), len(wanted), [e["kind"] for e in got]))


def sleep_until(when):
    rest = when - time.monotonic()
    if rest > 0:
        time.sleep(rest)
