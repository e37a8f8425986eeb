"""SIGKILL of the host at a hundred random points: either nothing was started and that is what is journaled, or the run goes on to
the same journal."""

import random
import time

import killing
import support


class KillHost(killing.KillTest):
    def test_a_hundred_random_points(self):
        seed = killing.seed_of("host")
        outcome = {"nothing": 0, "not started": 0, "went on": 0}
        wanted = {}

        def round_(place, number):
            if place not in wanted:
                begun = time.monotonic()
                wanted[place], code, out = place.baseline()
                self.assertEqual(code, 0, out)
                place.length = time.monotonic() - begun
            rng = random.Random(seed * 1000 + number)
            run = place.start()
            time.sleep(rng.uniform(0, place.length))
            killing.kill(run.pid)
            run.communicate()
            folder = place.folder()
            if folder is None:
                outcome["nothing"] += 1
                return
            # A supervisor that was just being started may still come to life.
            end = time.monotonic() + 30
            while time.monotonic() < end:
                slot = place.slot()
                if slot and slot.shim and killing.alive(slot.shim):
                    time.sleep(0.01)
                    continue
                place.recover()
                if place.ended():
                    break
            kinds = [event["kind"] for event in place.events()]
            self.assertEqual(len([kind for kind in kinds if kind in killing.TERMINAL]), 1, "round %d" % number)
            slot = place.slot()
            if slot is None or slot.kind == 0:
                outcome["not started"] += 1
                self.assertEqual(kinds, ["run.started", "run.failed"], "round %d" % number)
            else:
                outcome["went on"] += 1
                self.same_journal(place, wanted[place], "round %d" % number)

        self.rounds(100, round_, enough=lambda: outcome["went on"] >= 20)
        print("host: %s" % outcome)
        self.assertGreaterEqual(outcome["went on"], 20)


if __name__ == "__main__":
    support.main()
