"""The plan: what `preview` shows and keeps is what `run` does, or refuses with each difference; and nothing is changed by looking."""

import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import time

import support

MESSAGE = "message hello-from-the-operator\ndone success x\nexit 0\nend\n"
REASON = "the pager is ringing, ticket 4711"


def exact_print(*roots):
    """Names, modes, owners, change of content and modification times of whole trees."""
    found = {}
    for root in roots:
        for folder, folders, files in os.walk(root):
            for name in [*files, *folders, "."]:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                content = b""
                if stat.S_ISREG(status.st_mode):
                    with open(path, "rb") as file:
                        content = file.read()
                elif stat.S_ISLNK(status.st_mode):
                    content = os.fsencode(os.readlink(path))
                found[path] = (status.st_mode, status.st_uid, status.st_mtime_ns, hashlib.sha256(content).hexdigest())
    return found


class Plan(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        # The one folder that looking may write, outside everything that is compared.
        self.cache = self.world.folder("cache")
        self.world.extra_env["XDG_CACHE_HOME"] = self.cache

    def arguments(self, *more, message=MESSAGE):
        return [*self.world.script_args(self.repo), "-m", message, *more]

    def preview(self, *more, **kwargs):
        return self.world.run("preview", "--json", *self.arguments(*more, **kwargs))

    def go(self, *more, **kwargs):
        return self.world.run("run", "--json", *self.arguments(*more, **kwargs))

    def task(self, **members):
        path = os.path.join(self.world.root, "task.json")
        self.world.write(path, json.dumps({"message": MESSAGE, **members}).encode())
        return [*self.world.script_args(self.repo), "--task", path]

    def kept(self, *more):
        path = os.path.join(self.world.root, "plan-%d.json" % random.randrange(1 << 30))
        done = self.preview("--output", path, *more)
        self.assertEqual(done.code, 0, done)
        return path

    def manifest(self, attempt=None):
        with open(os.path.join(self.world.attempt_dir(attempt), "manifests", "launch-manifest.json")) as file:
            return json.load(file)

    def codes(self, done, kind="blockers"):
        return [one["code"] for one in done.json["manifest"]["enforcement"][kind]]


class Looking(Plan):
    def unchanged(self, call):
        roots = [root for root in (self.world.state, self.repo, self.world.home, self.world.config) if os.path.isdir(root)]
        before = exact_print(*roots)
        call()
        after = exact_print(*roots)
        for path in set(before) | set(after):
            # The database is opened for reading: SQLite keeps its own index of the log beside it.
            if not os.path.basename(path).startswith("hitchrail.db-") and path != os.path.join(self.world.state, "cache") and \
                    not path.startswith(os.path.join(self.world.state, "cache") + "/") and path != os.path.join(self.world.state, "."):
                self.assertEqual(before.get(path), after.get(path), path)

    def test_a_preview_changes_nothing_whatever_it_comes_to(self):
        self.unchanged(lambda: self.assertEqual(self.preview().code, 0))
        self.unchanged(lambda: self.assertIn("budget-unenforceable", self.codes(self.preview("--budget", "toolCalls=3"))))
        self.unchanged(lambda: self.assert_refused(self.preview(message=" \n"), "task-empty", 2))
        self.unchanged(lambda: self.assert_refused(self.preview("--model", "x" * 100_000), "manifest-invalid", 2))

    def test_nor_one_that_is_killed(self):
        def kill():
            for wait in (0.0, 0.005, 0.01, 0.02, 0.03):
                process = self.world.start("preview", *self.arguments(), stdout=subprocess.DEVNULL)
                time.sleep(wait)
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.unchanged(kill)

    def test_all_blockers_are_shown_and_a_run_names_them_all(self):
        options = ["--budget", "toolCalls=3", "--budget", "fanOut=1"]
        arguments = [*self.task(readiness=["acceptance-criteria"]), *options]
        shown = self.world.run("preview", "--json", *arguments)
        self.assertEqual(shown.code, 3, shown)
        expected = ["budget-exceeded", "budget-unenforceable", "provider-capability-unavailable", "readiness-not-met"]
        self.assertEqual(self.codes(shown), expected)
        text = self.world.run("preview", *arguments)
        for code in expected:
            self.assertIn(("BLOCKED     " + code).encode(), text.out)
        before = self.world.attempts()
        done = self.world.run("run", "--json", *arguments)
        self.assert_refused(done, "budget-exceeded", 3)
        self.assertEqual([one["code"] for one in done.json["error"]["blockers"]], expected)
        self.assertEqual(self.world.attempts(), before)


class Kept(Plan):
    def test_what_was_kept_is_what_runs(self):
        path = self.kept()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        done = self.go("--manifest", path)
        self.assertEqual(done.code, 0, done)
        with open(path) as file:
            planned = json.load(file)
        with open(os.path.join(self.world.attempt_dir(), "header.json")) as file:
            self.assertEqual(json.load(file)["plannedManifestDigest"], planned["digest"])
        with_material = self.world.run("preview", "--json", *self.arguments("--manifest", path)).json
        self.assertEqual((with_material["plannedManifestDigest"], with_material["differences"]), (planned["digest"], []))

    def drifts(self, path, expected, *more, **kwargs):
        before = self.world.attempts()
        done = self.go("--manifest", path, *more, **kwargs)
        self.assert_refused(done, "manifest-drift", 3)
        found = {member["path"]: (member["before"], member["after"])
                 for section in done.json["error"]["differences"] for member in section["members"]}
        for member, values in expected.items():
            self.assertEqual(found.get(member), values, found)
            self.assertIn(member, done.json["error"]["detail"])
        self.assertEqual(self.world.attempts(), before)
        self.assertEqual(self.world.run("preview", "--json", *self.arguments("--manifest", path, *more, **kwargs)).code, 3)
        return found

    def test_each_difference_is_named_and_nothing_starts(self):
        path = self.kept()
        self.drifts(path, {"runtime.timeLimitSeconds": ("absent", "7")}, "--time-limit", "7")
        self.drifts(path, {"runtime.model": ("absent", '"large"')}, "--model", "large")
        self.assertIn("taskEnvelope.materialDigest", self.drifts(path, {}, message=MESSAGE + "\n"))
        self.drifts(path, {"sandbox.presetId": ('"workspace"', '"repo-contained"')}, "--sandbox", "repo-contained")
        self.world.write(os.path.join(self.repo, "README"), b"changed\n")
        self.assertIn("taskEnvelope.materialDigest", self.drifts(path, {}))

    def test_one_byte_is_enough(self):
        path = self.kept()
        with open(path, "rb") as file:
            good = file.read()
        number = random.Random(1)
        edited = os.path.join(self.world.root, "edited.json")
        codes = set()
        for at in [good.index(b'"presetId":"') + 12, good.index(b'"enforceable":true') + 3,
                   *(number.randrange(len(good) - 1) for _ in range(20))]:
            byte = bytes([good[at] ^ 1])
            if good[at:at + 1].isspace():
                continue
            self.world.write(edited, good[:at] + byte + good[at + 1:])
            done = self.go("--manifest", edited)
            self.assertEqual(done.code, 2, (at, done))
            codes.add(done.error_code)
        self.assertLessEqual(codes, {"manifest-digest-mismatch", "manifest-file-invalid"})
        self.assertIn("manifest-digest-mismatch", codes)
        self.assertEqual(self.world.attempts(), [])

    def test_files_that_are_no_manifest(self):
        path = self.kept()
        link = os.path.join(self.world.root, "link")
        os.symlink(path, link)
        fifo = os.path.join(self.world.root, "fifo")
        os.mkfifo(fifo)
        for name in (link, fifo):
            self.world.own(name)
            self.assert_refused(self.go("--manifest", name), "manifest-file-unsafe", 2)
        self.assert_refused(self.go("--manifest", os.path.join(self.world.root, "absent")), "manifest-file-unreadable", 2)
        large = self.world.write(os.path.join(self.world.root, "large"), b" " * (5 << 20))
        self.assert_refused(self.go("--manifest", large), "manifest-too-large", 2)
        for text in [b"{}", b"[" * 10_000, b'{"a": 1, "a": 2}', b"\xff", b"null"]:
            name = self.world.write(os.path.join(self.world.root, "bad"), text)
            self.assertIn(self.go("--manifest", name).error_code, ("manifest-file-invalid", "manifest-digest-mismatch"), text)

    def test_where_it_may_be_kept(self):
        inside = os.path.join(self.repo, "plan.json")
        before = support.fingerprint(self.repo)
        self.assert_refused(self.preview("--output", inside), "manifest-output-in-worktree", 2)
        self.assertEqual(support.fingerprint(self.repo), before)
        there = self.world.write(os.path.join(self.world.root, "there"), b"mine\n")
        self.assert_refused(self.preview("--output", there), "manifest-output-exists", 2)
        with open(there, "rb") as file:
            self.assertEqual(file.read(), b"mine\n")


class Parents(Plan):
    def test_what_differs_from_the_parent_is_recorded_and_refused_when_asked(self):
        self.assertEqual(self.go().code, 0)
        parent = self.world.attempts()[0]
        same = self.preview("--parent", parent, "--refuse-drift").json["manifest"]["parent"]
        self.assertEqual((same["attemptId"], same["manifestDigest"], same["material"], same["changes"]),
                         (parent, self.manifest(parent)["digest"], False, []))
        other = self.preview("--parent", parent, "--time-limit", "9")
        self.assertEqual(other.code, 0, other)
        changes = other.json["manifest"]["parent"]["changes"]
        self.assertEqual(sorted(change["field"] for change in changes), ["origins", "runtime"])
        done = self.go("--parent", parent, "--time-limit", "9", "--refuse-drift")
        self.assert_refused(done, "parent-drift", 3)
        self.assertEqual(self.go("--parent", parent, "--time-limit", "9").code, 0)
        newest = [name for name in self.world.attempts() if name != parent][0]
        self.assertTrue(self.manifest(newest)["parent"]["material"])

    def test_a_parent_that_was_edited(self):
        self.assertEqual(self.go().code, 0)
        path = os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json")
        with open(path) as file:
            text = file.read()
        self.world.write(path, text.replace('"networkAccessEnabled":true', '"networkAccessEnabled":false').encode(), 0o600)
        self.assert_refused(self.go("--parent", self.world.attempts()[0]), "parent-manifest-unreadable", 3)


class Readiness(Plan):
    def test_the_gate_and_its_override(self):
        arguments = self.task(readiness=["acceptance-criteria", "clean-worktree"])
        done = self.world.run("run", "--json", *arguments)
        self.assert_refused(done, "readiness-not-met", 3)
        self.assert_refused(self.world.run("run", "--json", *arguments, "--override-readiness", "  short  "),
                            "override-reason-short", 2)
        self.assert_refused(self.world.run("run", "--json", *arguments, "--override-readiness", ""), "override-reason-short", 2)
        over = self.world.run("run", "--json", *arguments, "--override-readiness", "  " + REASON + "\n")
        self.assertEqual(over.code, 0, over)
        manifest = self.manifest()
        readiness = manifest["readiness"]
        self.assertEqual((readiness["ready"], readiness["overridden"], readiness["missingRequired"]),
                         (False, True, ["acceptance-criteria"]))
        self.assertEqual(readiness["overrideReasonDigest"], "sha256:" + hashlib.sha256(REASON.encode()).hexdigest())
        # Only the readiness gate is touched.
        blocked = self.world.run("run", "--json", *arguments, "--override-readiness", REASON, "--budget", "costUsd=3")
        self.assert_refused(blocked, "budget-unenforceable", 3)
        for folder, _, files in os.walk(self.world.root):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(REASON.encode(), file.read(), os.path.join(folder, name))
        for text in (over.out, over.err, blocked.out, blocked.err):
            self.assertNotIn(REASON.encode(), text)

    def test_an_unknown_check(self):
        done = self.world.run("preview", "--json", *self.task(readiness=["good-weather"]))
        self.assertEqual(done.code, 2, done)


class Names(Plan):
    def test_no_prompt_and_no_value_is_in_a_launch_manifest(self):
        secret = "s3cr3t-value-of-the-operator"
        self.world.extra_env.update({"SCRIPT_SECRET": secret})
        path = self.kept()
        shown = self.world.run("preview", *self.arguments())
        self.assertEqual(self.go().code, 0)
        with open(path, "rb") as file:
            texts = [file.read(), shown.out, shown.err]
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json"), "rb") as file:
            texts.append(file.read())
        for text in texts:
            self.assertNotIn(b"hello-from-the-operator", text)
            self.assertNotIn(secret.encode(), text)
            self.assertNotIn(os.fsencode(self.world.attempts()[0]) + b"/home", text)

    def test_a_harness_that_can_read_its_key_is_not_isolated_from_it(self):
        self.assertEqual(self.preview().json["manifest"]["credentials"]["credentialIsolation"], "not-required")
        self.world.extra_env.update({"SCRIPT_SECRET": "s3cr3t-value"})
        plan = self.preview().json["manifest"]["credentials"]
        if plan["references"]:
            self.assertEqual(plan["credentialIsolation"], "none")
            self.assertEqual(plan["references"][0]["classification"], "harness-boot-authentication")
        self.assertEqual(plan["brokerState"], "not-required")


class Budgets(Plan):
    def test_a_limit_is_held_recorded_or_refused_never_silently_accepted(self):
        manifest = self.preview("--budget", "runtimeSeconds=30", "--time-limit", "90").json["manifest"]
        self.assertEqual(manifest["runtime"]["timeLimitSeconds"], 30)
        self.assertEqual(manifest["budget"]["limits"], {"runtimeSeconds": 30})
        advisory = self.preview("--budget", "toolCalls=5", "--budget", "enforcement=advisory")
        self.assertEqual((advisory.code, self.codes(advisory)), (0, []))
        self.assertIn("budget-unenforceable", self.codes(advisory, "warnings"))
        self.assertEqual(self.preview("--budget", "toolCalls=0").json["manifest"]["budget"], {"enabled": False, "scope": "run"})
        for bad in ("toolCalls", "toolCalls=", "toolCalls=1.5", "wishes=3", "softThresholdPercent=100", "hardAction=shout"):
            self.assert_refused(self.preview("--budget", bad), "budget-invalid", 2)

    def test_the_smallest_limit_counts(self):
        shown = self.world.run("preview", "--json", *self.task(budget={"limits": {"runtimeSeconds": 20}}), "--budget",
                               "runtimeSeconds=40")
        self.assertEqual(shown.json["manifest"]["budget"]["limits"], {"runtimeSeconds": 20})

    def test_a_run_ends_at_its_budget(self):
        done = self.go("--budget", "runtimeSeconds=1", message="sleep 60000\ndone success x\nexit 0\nend\n")
        self.assertEqual(done.code, 1, done)
        self.assertNotEqual(self.world.journal()[-1]["kind"], "run.completed")


class PlanAsOrdinaryUser(Kept):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
