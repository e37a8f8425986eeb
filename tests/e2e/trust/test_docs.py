"""The commands of docs/operators/trust.md are executed as they stand."""

import os
import re
import subprocess

import support

PAGE = os.path.join(support.SOURCE, "docs", "operators", "trust.md")


def commands():
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


class Page(support.TestCase):
    def test_every_command_works_as_written(self):
        found = commands()
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
