"""SIGKILL of the finisher at a hundred random points, also more often than the shim starts it again: the journal is that of a run
that was not killed, with one terminal event and one completion result."""

import json
import os
import random
import time

import killing
import support

SCRIPT = "message begin\ndeltas 5 a\nwrite src/made.txt made by the run\ndone success all done\nexit 0\nend\n"


class KillFinisher(killing.KillTest):
    def test_a_hundred_random_points(self):
        seed = killing.seed_of("finisher")
        kills = []
        wanted = {}

        def round_(place, number):
            if place not in wanted:
                wanted[place], code, out = place.baseline(SCRIPT)
                self.assertEqual(code, 0, out)
            rng = random.Random(seed * 1000 + number)
            run = place.start(SCRIPT)
            shim = place.running(leader=False).shim
            struck = set()
            aim = rng.choice([2, 4, 8])
            end = time.monotonic() + 30
            while len(struck) < aim and killing.alive(shim) and time.monotonic() < end:
                for finisher in killing.children(shim, "hitchrail-finish"):
                    if finisher not in struck:
                        time.sleep(rng.uniform(0, 0.04))
                        struck.add(finisher)
                        kills.append(killing.kill(finisher))
                time.sleep(0.001)
            run.communicate(timeout=60)
            support.wait_until(lambda: not killing.alive(shim), 30)
            place.recover()
            self.same_journal(place, wanted[place], "round %d" % number)
            with open(os.path.join(place.folder(), "completion.json")) as file:
                completion = json.load(file)
            self.assertEqual(completion["terminal"]["sequence"], len(place.events()))
            self.assertFalse(os.path.exists(os.path.join(place.folder(), "token")))

        self.rounds(40, round_, 4, enough=lambda: sum(kills) >= 100)
        print("finisher: %d kills" % sum(kills))
        self.assertGreaterEqual(sum(kills), 100)


if __name__ == "__main__":
    support.main()
