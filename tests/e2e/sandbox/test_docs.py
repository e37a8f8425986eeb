"""The commands of docs/operators/sandbox.md are executed as they stand, and every refusal code the page or the program names is documented."""

import os
import re
import subprocess

import support

PAGE = os.path.join(support.SOURCE, "docs", "operators", "sandbox.md")


class Page(support.TestCase):
    def test_every_command_works_as_written(self):
        found = support.page_commands(PAGE)
        self.assertGreater(len(found), 10)
        repo = self.world.repository()
        env = dict(self.world.env(), PATH=os.path.dirname(support.BIN) + ":/usr/bin:/bin")
        for command in found:
            with self.subTest(command):
                done = subprocess.run(self.world.command(["sh", "-c", command]), cwd=repo, env=env, capture_output=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))
        self.assertEqual(self.world.git(repo, "log", "--format=%s").splitlines(), ["A new file", "first"])

    def test_every_code_of_presets_and_commands_is_in_the_operators_pages(self):
        documented = ""
        for name in ("boundary.md", "errors.md", "network.md"):
            path = os.path.join(support.SOURCE, "docs", "operators", name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    documented += file.read()
        missing = set()
        for name in ("boundary/preset.cpp", "boundary/paths.cpp", "launch/presets.cpp", "launch/exec.cpp"):
            with open(os.path.join(support.SOURCE, "host", name), encoding="utf-8") as file:
                source = file.read()
            codes = re.findall(r"(?:refuse\(out, |preset_error\(|path_error\(|usage\(|ErrorClass::\w+, ?)\s*\"([a-z]+(?:-[a-z]+)+)\"", source)
            codes += re.findall(r"reader\.fail\([^\"]*(?:\"[A-Za-z]+\"\))?,\s*\"([a-z]+(?:-[a-z]+)+)\"", source)
            self.assertTrue(codes, name)
            missing |= {code for code in codes if "`%s`" % code not in documented}
        self.assertEqual(missing, set())


class PageAsUser(Page):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
