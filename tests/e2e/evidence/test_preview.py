"""A preview says what would run and changes nothing but the cache; readiness and budget are judged in it as in the run."""

import hashlib
import json
import os

import launches
import support


class Changes(launches.Launches):
    """Every preview between two prints of everything it could have touched."""

    def setUp(self):
        super().setUp()
        self.world.write(os.path.join(self.world.home, ".profile"), b"mine\n")
        self.world.write(os.path.join(self.repo, "AGENTS.md"), b"be kind\n")
        self.world.write(os.path.join(self.repo, "src", "main.txt"), b"dirty\n")
        self.assertEqual(self.call("preview").code, 0)

    def print_all(self):
        cache = [os.path.join(self.world.state, "cache"), os.path.join(self.world.home, ".cache")]
        return [launches.tree_print(path, cache) for path in
                (self.world.state, self.repo, self.world.home, self.world.config)]

    def unchanged(self, code, *args, **kwargs):
        before = self.print_all()
        result = self.call("preview", *args, **kwargs)
        self.assertEqual(result.code, code, result)
        self.assertEqual(self.print_all(), before)
        return result

    def test_the_print_sees_a_changed_byte_and_a_changed_time(self):
        before = self.print_all()
        os.utime(os.path.join(self.repo, ".git", "HEAD"), (1, 1))
        self.assertNotEqual(self.print_all(), before)
        before = self.print_all()
        self.world.write(os.path.join(self.world.home, "new"), b"")
        self.assertNotEqual(self.print_all(), before)

    def test_a_preview_changes_nothing(self):
        self.assertTrue(self.unchanged(0).json["manifest"]["enforcement"]["enforceable"])

    def test_a_preview_with_an_empty_cache_changes_nothing_else(self):
        self.world.run("cache", "clear")
        self.unchanged(0)

    def test_a_refused_preview_changes_nothing(self):
        self.unchanged(2, "--budget", "moons=1")
        self.unchanged(2, agent=["--agent", "nobody", "--worktree", self.repo])

    def test_a_blocked_preview_changes_nothing(self):
        blocked = self.unchanged(3, "--task", self.task_file({"message": "x", "readiness": ["clean-worktree"]}))
        self.assertEqual(self.codes(blocked), ["readiness-not-met"])

    def test_only_the_output_is_new(self):
        self.unchanged(0, "--output", self.plan)
        self.assertEqual(os.stat(self.plan).st_mode & 0o7777, 0o600)


class Output(launches.Launches):
    def test_the_kept_manifest_is_the_printed_one(self):
        shown = self.keep()["manifest"]
        with open(self.plan) as file:
            self.assertEqual(json.load(file), shown)

    def test_nothing_is_overwritten(self):
        self.world.write(self.plan, b"mine")
        self.assert_refused(self.call("preview", "--output", self.plan), "manifest-output-exists", 2)
        os.unlink(self.plan)
        os.symlink("elsewhere", self.plan)
        self.assert_refused(self.call("preview", "--output", self.plan), "manifest-output-exists", 2)
        self.assertFalse(os.path.exists(os.path.join(self.world.root, "elsewhere")))

    def test_not_in_the_work_tree_it_describes(self):
        link = os.path.join(self.world.root, "link")
        os.symlink(self.repo, link)
        for folder in (self.repo, os.path.join(self.repo, "src"), link):
            self.assert_refused(self.call("preview", "--output", os.path.join(folder, "p.json")),
                                "manifest-output-in-worktree", 2)

    def test_a_blocked_launch_is_kept_with_its_blockers(self):
        task = self.task_file({"message": "x", "readiness": ["verification-gates"]})
        self.assertEqual(self.call("preview", "--task", task, "--output", self.plan).code, 3)
        with open(self.plan) as file:
            self.assertFalse(json.load(file)["enforcement"]["enforceable"])


class Readiness(launches.Launches):
    REASON = "the gates come tomorrow, says Margaret"

    def setUp(self):
        super().setUp()
        self.task = self.task_file({"message": launches.DONE, "readiness": ["verification-gates", "objective"]})

    def test_a_required_check_that_fails_blocks_run_and_preview(self):
        self.assertEqual(self.codes(self.call("preview", "--task", self.task)), ["readiness-not-met"])
        self.assert_refused(self.call("run", "--task", self.task), "readiness-not-met", 3)
        self.assert_nothing_started()

    def test_an_unknown_check_is_refused(self):
        task = self.task_file({"message": "x", "readiness": ["full-moon"]})
        result = self.call("preview", "--task", task)
        self.assertEqual(result.code, 2, result)

    def test_a_short_reason_is_refused(self):
        for reason in ("", "because", "  a b c  ", "ÄÖÜäöüß"):
            self.assert_refused(self.call("run", "--task", self.task, "--override-readiness", reason),
                                "override-reason-short", 2)
        self.assert_nothing_started()

    def test_only_the_digest_of_the_reason_is_kept(self):
        done = self.call("run", "--task", self.task, "--override-readiness", self.REASON)
        self.assertEqual(done.code, 0, done)
        readiness = self.document()["readiness"]
        self.assertTrue(readiness["overridden"])
        self.assertEqual(readiness["overrideReasonDigest"], "sha256:" + hashlib.sha256(self.REASON.encode()).hexdigest())
        self.assertIn("readiness-overridden", [one["code"] for one in self.document()["enforcement"]["warnings"]])
        shown = self.call("preview", "--task", self.task, "--override-readiness", self.REASON)
        for text in (done.out, done.err, shown.out, shown.err):
            self.assertNotIn(b"Margaret", text)
        files = 0
        for folder, _, names in os.walk(self.world.state):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    files += 1
                    with open(path, "rb") as file:
                        self.assertNotIn(b"Margaret", file.read(), path)
        self.assertGreater(files, 5)

    def test_a_reason_overrides_readiness_alone(self):
        result = self.call("preview", "--task", self.task, "--override-readiness", self.REASON, "--budget", "fanOut=1",
                           "--budget", "hardAction=cancel")
        self.assertEqual(self.codes(result), ["budget-exceeded"])

    def test_a_reason_without_need_is_a_warning(self):
        result = self.call("preview", "--override-readiness", self.REASON)
        self.assertIn("readiness-override-unused", [w["code"] for w in result.json["manifest"]["enforcement"]["warnings"]])


class Budget(launches.Launches):
    def blocked(self, *budget):
        return self.call("preview", *[word for one in budget for word in ("--budget", one)])

    def test_without_one_it_is_disabled(self):
        self.assertEqual(self.call("preview").json["manifest"]["budget"], {"enabled": False, "scope": "run"})

    def test_a_limit_nobody_can_hold_blocks_when_required(self):
        self.assertEqual(self.codes(self.blocked("inputTokens=10", "enforcement=required")),
                         ["budget-unenforceable", "provider-capability-unavailable"])
        advisory = self.blocked("inputTokens=10", "enforcement=advisory")
        self.assertEqual(self.codes(advisory), [])
        self.assertIn("budget-unenforceable", [w["code"] for w in advisory.json["manifest"]["enforcement"]["warnings"]])

    def test_a_limit_the_launch_itself_uses_up_blocks(self):
        self.assertEqual(self.codes(self.blocked("fanOut=1")), ["budget-exceeded"])
        self.assert_refused(self.call("run", "--budget", "fanOut=1"), "budget-exceeded", 3)
        self.assert_nothing_started()

    def test_a_limit_that_is_near_is_a_warning(self):
        near = self.blocked("fanOut=2", "softThresholdPercent=50")
        self.assertIn("budget-near-limit", [w["code"] for w in near.json["manifest"]["enforcement"]["warnings"]])

    def test_file_and_option_together_narrow(self):
        task = self.task_file({"message": "x", "budget": {"limits": {"runtimeSeconds": 50}}})
        for option, left in (("20", 20), ("90", 50)):
            manifest = self.call("preview", "--task", task, "--budget", "runtimeSeconds=" + option).json["manifest"]
            self.assertEqual(manifest["budget"]["limits"], {"runtimeSeconds": left})
            self.assertEqual(manifest["runtime"]["timeLimitSeconds"], left)

    def test_what_is_no_budget_is_refused(self):
        for bad in ("moons=1", "fanOut", "fanOut=", "fanOut=two", "hardAction=explode", "softThresholdPercent=100"):
            self.assert_refused(self.call("preview", "--budget", bad), "budget-invalid", 2)
        self.assert_refused(self.call("preview", "--budget", "fanOut=2", "--budget", "fanOut=3"), "budget-invalid", 2)


if __name__ == "__main__":
    support.main()
