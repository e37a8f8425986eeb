"""A kept launch manifest: run exactly, or refused with each difference; and what it never holds."""

import json
import os

import launches
import support

SECRET = "sk-" + "abcdefghijklmnop" * 2


class Kept(launches.Launches):
    def test_a_kept_manifest_is_run(self):
        kept = self.keep()["manifest"]
        done = self.run_kept()
        self.assertEqual(done.code, 0, done)
        ran = self.document()
        self.assertEqual(ran["taskEnvelope"]["materialDigest"], kept["taskEnvelope"]["materialDigest"])
        for section in ("runtime", "workspace", "sandbox", "instructions", "enforcement", "routing", "origins"):
            mine, theirs = json.loads(json.dumps(kept[section])), json.loads(json.dumps(ran[section]))
            for one in (mine, theirs):
                for item in one if section == "instructions" else []:
                    item.pop("digest"), item.pop("byteLength")
                if section == "sandbox":
                    one["filesystem"].pop("providerRuntimeManifestDigest")
            self.assertEqual(theirs, mine, section)

    def drifted(self, sections, members, *args, **kwargs):
        """Refused by run with each difference, shown by preview, nothing started."""
        done = self.run_kept(*args, **kwargs)
        self.assert_refused(done, "manifest-drift", 3)
        differences = json.loads(done.out.decode().splitlines()[-1])["error"]["differences"]
        self.assertLessEqual(set(sections), {one["section"] for one in differences}, differences)
        paths = [member["path"] for one in differences for member in one["members"]]
        for member in members:
            self.assertTrue([path for path in paths if path.startswith(member)], (member, paths))
        shown = self.call("preview", "--manifest", self.plan, *args, **kwargs)
        self.assertEqual(shown.code, 3, shown)
        self.assertEqual({one["section"] for one in shown.json["differences"]}, {one["section"] for one in differences})
        self.assert_nothing_started()

    def test_the_text_of_the_task(self):
        self.keep()
        self.drifted({"taskEnvelope", "instructions"}, ["taskEnvelope.materialDigest"], task=launches.DONE + "more\n")

    def test_a_file_that_was_dirtied(self):
        self.keep()
        self.world.write(os.path.join(self.repo, "src", "main.txt"), b"two\n")
        self.drifted({"taskEnvelope"}, ["taskEnvelope.materialDigest"])

    def test_a_new_commit(self):
        self.keep()
        self.world.git(self.repo, "commit", "-q", "--allow-empty", "-m", "second")
        self.drifted({"workspace"}, ["workspace.resolvedBaseCommit"])

    def test_another_branch(self):
        self.keep()
        self.world.git(self.repo, "checkout", "-q", "-b", "other")
        self.drifted({"workspace"}, ["workspace.branch"])

    def test_instructions_of_the_repository(self):
        self.world.write(os.path.join(self.repo, "AGENTS.md"), b"be kind\n")
        self.keep()
        self.world.write(os.path.join(self.repo, "AGENTS.md"), b"be KIND\n")
        self.drifted({"workspaceTrust"}, ["workspaceTrust."])

    def test_another_preset(self):
        self.keep()
        self.drifted({"sandbox"}, ["sandbox.presetId"], "--sandbox", "permissive")

    def test_another_model(self):
        self.keep()
        self.drifted({"runtime"}, ["runtime.model"], "--model", "other")

    def test_another_time_limit(self):
        self.keep("--time-limit", "50")
        self.drifted({"runtime"}, ["runtime.timeLimitSeconds"], "--time-limit", "51")

    def test_another_budget(self):
        self.keep()
        self.drifted({"budget"}, ["budget.enabled"], "--budget", "fanOut=9")

    def test_another_environment(self):
        self.keep()
        self.drifted({"runtime", "credentials"}, ["runtime.environmentKeys", "runtime.credentialReferences", "credentials."],
                     env={"SCRIPT_SECRET": "value-of-it"})

    def test_another_value_in_the_environment(self):
        self.keep()
        self.world.git(self.repo, "config", "user.name", "Somebody Else")
        self.drifted({"runtime"}, ["runtime.environmentDigest"])

    def test_another_value_of_an_option(self):
        self.keep("--provider-option", "k=one")
        self.drifted({"runtime"}, ["runtime.providerOptionsDigest"], "--provider-option", "k=two")

    def test_differences_are_told_in_words(self):
        self.keep()
        words = self.world.run("run", *self.world.script_args(self.repo), "-m", launches.DONE, "--manifest", self.plan,
                               "--model", "other")
        self.assertEqual(words.code, 3, words)
        self.assertIn(b"runtime.model: absent -> \"other\"", words.err)


class Owned(launches.Launches):
    def test_a_worktree_of_hitchrails_is_recorded_with_its_owner_and_a_kept_plan_of_it_runs(self):
        path = os.path.join(self.world.root, "tree")
        made = self.world.run("worktrees", "create", "--json", "--repository", self.repo, "--branch", "mine", path)
        self.assertEqual(made.code, 0, made)
        agent = self.world.script_args(path)
        kept = self.keep(agent=agent)["manifest"]["workspace"]
        self.assertEqual(kept["baseResolutionSource"], "local")
        done = self.run_kept(agent=agent)
        self.assertEqual(done.code, 0, done)
        ran = self.document()
        self.assertEqual(ran["workspace"]["ownershipAttemptId"], self.world.attempts()[0])
        self.assertEqual(ran["workspace"]["ownershipLeaseId"], kept["ownershipLeaseId"])


class BadFiles(launches.Launches):
    """What is given to --manifest is a claim: each way to be wrong has its code, and nothing starts."""

    def refuse(self, code, data=None):
        if data is not None:
            self.world.write(self.plan, data, 0o600)
        self.assert_refused(self.run_kept(), code, 2)
        self.assertEqual(self.call("preview", "--manifest", self.plan).error_code, code)
        self.assert_nothing_started()

    def kept_bytes(self):
        self.keep()
        with open(self.plan, "rb") as file:
            return file.read()

    def test_one_edited_byte(self):
        text = self.kept_bytes()
        place = text.index(b'"command":"') + len(b'"command":"') + 3
        self.refuse("manifest-digest-mismatch", text[:place] + b"X" + text[place + 1:])

    def test_a_member_that_is_unknown_missing_or_twice(self):
        text = self.kept_bytes()
        self.refuse("manifest-digest-mismatch", text.replace(b"{", b'{"surprise":1,', 1))
        self.refuse("manifest-file-invalid", text.replace(b"{", b'{"attemptId":"a",', 1))
        document = json.loads(text)
        del document["digest"]
        self.refuse("manifest-file-invalid", json.dumps(document).encode())

    def test_what_is_no_manifest(self):
        for data in (b"", b"garbage", b"[]", b"null", b"\xff\xfe", b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000):
            with self.subTest(data[:20]):
                self.refuse("manifest-file-invalid", data)

    def test_another_document_with_a_good_digest(self):
        self.assertEqual(self.call("run").code, 0)
        other = os.path.join(self.world.attempt_dir(), "manifests", "runtime-manifest.json")
        self.assert_refused(self.run_kept(path=other), "manifest-file-invalid", 2)
        self.assertEqual(len(self.world.attempts()), 1)

    def test_what_is_no_plain_file(self):
        real = os.path.join(self.world.root, "real.json")
        self.keep(path=real)
        os.symlink(real, self.plan)
        self.refuse("manifest-file-unsafe")
        os.unlink(self.plan)
        os.mkfifo(self.plan)
        self.world.own(self.plan)
        self.refuse("manifest-file-unsafe")
        os.unlink(self.plan)
        os.mkdir(self.plan)
        self.refuse("manifest-file-unsafe")
        os.rmdir(self.plan)
        self.refuse("manifest-file-unreadable")

    def test_too_large(self):
        self.refuse("manifest-too-large", b" " * ((4 << 20) + 1))


class Parent(launches.Launches):
    def setUp(self):
        super().setUp()
        self.assertEqual(self.call("run").code, 0)
        self.parent = self.world.attempts()[0]

    def test_the_same_launch_is_recorded_as_such(self):
        done = self.call("run", "--parent", self.parent, "--refuse-drift")
        self.assertEqual(done.code, 0, done)
        new = [one for one in self.world.attempts() if one != self.parent][0]
        lineage = self.document(attempt=new)["parent"]
        self.assertEqual((lineage["attemptId"], lineage["material"], lineage["changes"]), (self.parent, False, []))
        self.assertEqual(lineage["manifestDigest"], self.document(attempt=self.parent)["digest"])

    def test_a_difference_is_recorded_and_refused_only_when_asked(self):
        shown = self.call("preview", "--parent", self.parent, "--time-limit", "99")
        self.assertEqual(shown.code, 0, shown)
        changes = {one["field"] for one in shown.json["manifest"]["parent"]["changes"]}
        self.assertIn("runtime", changes)
        refused = self.call("run", "--parent", self.parent, "--time-limit", "99", "--refuse-drift")
        self.assert_refused(refused, "parent-drift", 3)
        self.assertEqual(self.world.attempts(), [self.parent])

    def test_a_parent_that_is_not_there_or_was_changed(self):
        self.assert_refused(self.call("preview", "--parent", "nobody"), "attempt-not-found", 2)
        path = os.path.join(self.world.attempt_dir(self.parent), "manifests", "launch-manifest.json")
        with open(path, "rb") as file:
            text = file.read()
        os.chmod(path, 0o600)
        self.world.write(path, text.replace(b'"routing"', b'"Routing"', 1), 0o600)
        self.assert_refused(self.call("preview", "--parent", self.parent), "parent-manifest-unreadable", 3)


class Secrets(launches.Launches):
    def test_a_secret_in_a_title_or_an_option_is_refused(self):
        task = self.task_file({"message": "x", "title": "use " + SECRET})
        for args in (["--task", task], ["--model", SECRET]):
            for command in ("preview", "run"):
                done = self.call(command, *args)
                self.assert_refused(done, "manifest-secret", 3)
                self.assertNotIn(SECRET.encode(), done.out + done.err)
        self.assert_nothing_started()

    def test_the_text_of_the_task_is_in_no_manifest(self):
        marker = "message Rumpelstiltskin spins\n"
        done = self.call("run", task="script\n" + marker + "done success x\nexit 0\nend\n")
        self.assertEqual(done.code, 0, done)
        folder = self.world.attempt_dir()
        for name in ("manifests/launch-manifest.json", "manifests/runtime-manifest.json", "header.json"):
            with open(os.path.join(folder, name), "rb") as file:
                self.assertNotIn(b"Rumpelstiltskin", file.read(), name)
        with open(os.path.join(folder, "manifests", "task-envelope.json"), "rb") as file:
            self.assertIn(b"Rumpelstiltskin", file.read())


if __name__ == "__main__":
    support.main()
