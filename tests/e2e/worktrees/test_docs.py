"""The commands of docs/operators/worktrees.md are executed as they stand, and every code and reason is in the operators' pages."""

import os
import re
import subprocess

import support
import trees

DOCS = os.path.join(support.SOURCE, "docs", "operators")


def page(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


class Page(trees.Trees):
    def test_every_command_works_as_written(self):
        blocks = re.findall(r"^```console\n(.*?)^```", page("worktrees.md"), re.M | re.S)
        found = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
        self.assertGreater(len(found), 10)
        env = dict(self.world.env(), PATH=os.path.dirname(support.BIN) + ":/usr/bin:/bin")
        for number, command in enumerate(found):
            if "--accept-stale-base" in command:
                self.origin()
            with self.subTest(command):
                done = subprocess.run(self.world.command(["sh", "-c", command]), cwd=self.repo, env=env, capture_output=True, timeout=60, check=False,
                                      stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0, (number, done.stdout, done.stderr))
        self.assertEqual([name for name in self.leftovers() if "hitchrail" in name], [])

    def test_every_code_is_documented(self):
        documented = page("errors.md") + page("worktrees.md")
        codes = set()
        for name in ("worktree_base", "worktree_cleanup", "worktree_create", "worktree_document", "worktree_lease", "worktree_manifest", "worktree_parts"):
            with open(os.path.join(support.SOURCE, "host", "workspace", name + ".cpp"), encoding="utf-8") as file:
                codes |= set(re.findall(r"ErrorClass::\w+,\s*\"([a-z]+(?:-[a-z]+)+)\"", file.read()))
        self.assertGreater(len(codes), 15)
        self.assertEqual({code for code in codes if "`%s`" % code not in documented}, set())


class PageAsUser(Page):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
