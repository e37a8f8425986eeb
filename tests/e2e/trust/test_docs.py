"""The commands of docs/operators/trust.md are executed as they stand."""

import os
import subprocess

import support

PAGE = os.path.join(support.SOURCE, "docs", "operators", "trust.md")


class Page(support.TestCase):
    def test_every_command_works_as_written(self):
        found = support.page_commands(PAGE)
        self.assertGreater(len(found), 7)
        repo = self.world.repository()
        env = dict(self.world.env(), PATH=os.path.dirname(support.BIN) + ":/usr/bin:/bin")
        for command in found:
            with self.subTest(command):
                done = subprocess.run(self.world.command(["bash", "-c", command]), cwd=repo, env=env, capture_output=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))


class PageAsUser(Page):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
