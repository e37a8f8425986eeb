"""The shell functions of ./quickstart and ./test, with faked package tools, and the plan of ./quickstart itself."""

import os
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ.get("HITCHRAIL_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMON = os.path.join(SOURCE, "tests", "tools", "common.sh")


class Scripts(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="hitchrail-scripts-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)

    def fake(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)

    def put(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def bash(self, text):
        return subprocess.run(["bash", "-c", "set -eu; . '%s'; %s" % (COMMON, text)], cwd=self.dir, text=True,
                              capture_output=True, timeout=60, check=False,
                              env={"PATH": self.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME": self.dir})

    def test_only_packages_that_are_not_wholly_installed_are_missing(self):
        self.fake("dpkg-query", """for last; do :; done
case "$last" in
  there) printf installed ;;
  removed) printf config-files ;;
  half) printf half-installed ;;
  *) exit 1 ;;
esac
""")
        self.assertEqual(self.bash("missing_packages there removed half unknown").stdout, "removed half unknown ")
        self.assertEqual(self.bash("missing_packages there").stdout, "")

    def test_an_ordinary_user_gets_the_one_line_and_nothing_is_run(self):
        self.fake("id", "echo 1000\n")
        self.fake("apt-get", "touch ran\n")
        done = self.bash("install_packages one two")
        self.assertEqual(done.returncode, 4)
        self.assertIn("\n  apt-get update && apt-get install --no-install-recommends --no-remove one two\n", done.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "ran")))

    def test_nothing_is_asked_for_when_nothing_is_missing(self):
        self.fake("id", "echo 1000\n")
        self.assertEqual(self.bash("install_packages").returncode, 0)

    def test_root_installs_without_ever_removing(self):
        self.fake("id", "echo 0\n")
        self.fake("apt-get", 'echo "$@" >>calls\n')
        self.assertEqual(self.bash("install_packages one two").returncode, 0)
        with open(os.path.join(self.dir, "calls"), encoding="utf-8") as file:
            calls = file.read().splitlines()
        self.assertEqual(calls[0], "update")
        self.assertIn("--no-remove", calls[1])
        self.assertIn("--no-install-recommends", calls[1])
        self.assertTrue(calls[1].endswith("one two"))

    def test_a_failing_installation_stops_with_the_log(self):
        self.fake("id", "echo 0\n")
        self.fake("apt-get", 'echo "E: no such package" >&2; [ "$1" = update ]\n')
        done = self.bash("install_packages one")
        self.assertEqual(done.returncode, 4)
        self.assertIn("E: no such package", done.stdout)
        self.assertIn("remedy:", done.stderr)

    def test_boost_is_unpacked_only_beside_an_older_one(self):
        self.fake("dpkg-query", '[ -e "$HOME/old-boost" ] && printf installed\n')
        self.fake("sed", 'case "$*" in *" /usr/include/boost"*) [ -e "$HOME/header" ] && cat "$HOME/header" ;; '
                         '*) exec /bin/sed "$@" ;; esac\n')
        self.assertEqual(self.bash("boost_plan").stdout, "package\n")
        self.put("old-boost", "")
        self.assertEqual(self.bash("boost_plan").stdout, "unpack\n")
        self.put("header", "107400\n")
        self.assertEqual(self.bash("boost_plan").stdout, "unpack\n")
        self.put(".deps/boost/usr/include/boost/version.hpp", "#define BOOST_VERSION 108100\n")
        self.assertEqual(self.bash("boost_plan").stdout, "installed\n")

    def test_a_long_step_keeps_the_status_and_shows_the_end_of_its_log(self):
        done = self.bash("with_progress title log true sh -c 'echo words; exit 7' || echo status $?")
        self.assertIn("title: FAILED", done.stdout)
        self.assertIn("    words", done.stdout)
        self.assertIn("status 7", done.stdout)
        self.assertIn("title: done", self.bash("with_progress title log true true").stdout)

    def test_a_harness_counts_only_in_the_exact_version(self):
        self.put(".deps/codex/node_modules/.bin/codex", "#!/bin/sh\n")
        os.chmod(os.path.join(self.dir, ".deps/codex/node_modules/.bin/codex"), 0o755)
        package = ".deps/codex/node_modules/@openai/codex/package.json"
        self.put(package, '{\n  "name": "@openai/codex",\n  "version": "0.145.0",\n}\n')
        self.assertEqual(self.bash("harness_is_installed codex").returncode, 0)
        for version in ("0.144.0", "0.145.0-alpha", "10.145.0", "0.145.00"):
            self.put(package, '{\n  "name": "@openai/codex",\n  "version": "%s",\n}\n' % version)
            self.assertNotEqual(self.bash("harness_is_installed codex").returncode, 0, version)

    def test_an_interrupted_installation_of_codex_leaves_nothing(self):
        self.fake("npm", 'mkdir -p .deps/codex.new/node_modules; exit 7\n')
        self.assertEqual(self.bash("npm_install_harness codex").returncode, 7)
        self.assertFalse(os.path.exists(os.path.join(self.dir, ".deps/codex")))


class Plan(unittest.TestCase):
    def test_the_plan_is_printed_without_changing_anything(self):
        before = sorted(os.listdir(SOURCE))
        done = subprocess.run([os.path.join(SOURCE, "quickstart"), "--plan"], text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertIn("This machine\n", done.stdout)
        if done.returncode == 0:
            self.assertIn("The plan\n", done.stdout)
            self.assertIn("0.145.0", done.stdout)
        else:
            # A machine that cannot run the demo is told why, before anything is built.
            self.assertEqual(done.returncode, 4)
            self.assertIn("quickstart: ", done.stderr)
        self.assertEqual(sorted(os.listdir(SOURCE)), before)

    def test_an_unknown_option_is_refused(self):
        for script in ("quickstart", "test"):
            done = subprocess.run([os.path.join(SOURCE, script), "--no-such-thing"], text=True, capture_output=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, script)
            self.assertIn("usage:", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
