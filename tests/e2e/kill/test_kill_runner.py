"""SIGKILL of the runner at a hundred random points: the journal is that of a run that was not killed."""

import random
import time

import killing
import support


class KillRunner(killing.KillTest):
    def test_a_hundred_random_points(self):
        seed = killing.seed_of("runner")
        kills = []
        wanted = {}

        def round_(place, number):
            if place not in wanted:
                wanted[place], code, out = place.baseline()
                self.assertEqual(code, 0, out)
            rng = random.Random(seed * 1000 + number)
            run = place.start()
            shim = place.running().shim
            for _ in range(5):
                time.sleep(rng.uniform(0, 0.12))
                for runner in killing.children(shim, "hitchrail-runner"):
                    kills.append(killing.kill(runner))
            out = run.communicate(timeout=60)[0]
            place.wait_terminal()
            self.assertEqual(run.returncode, 0, out)
            self.same_journal(place, wanted[place], "round %d" % number)

        self.rounds(30, round_, enough=lambda: sum(kills) >= 100)
        self.assertGreaterEqual(sum(kills), 100)
        print("runner: %d kills" % sum(kills))


if __name__ == "__main__":
    support.main()
