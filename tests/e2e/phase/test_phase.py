"""Phase authority through the command line: what a phase takes away is really gone, and a descendant never gets it back."""

import hashlib
import json
import os
import subprocess

import support

DONE = "done success x\nexit 0\nend\n"
PRESET = """schemaVersion: sandbox-preset/v1
id: readers
name: Readers
enforcement: required
requiredCapabilities: [filesystem.protected-names, filesystem.read, filesystem.set-id, filesystem.write, sockets.outside]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: []
  deniedPaths: []
network: host
environment: [LANG, SCRIPT_SECRET]
credentials: login
limits:
  maxProcesses: 4096
"""


class Phase(support.TestCase):
    profiles = None

    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()

    def preview(self, *more):
        args = self.world.script_args(self.repo)
        if self.profiles:
            args[args.index("--profile-dir") + 1] = self.profiles
        done = self.world.run("preview", *args, "--json", "-m", DONE, *more)
        self.assertIsNone(done.error_code, done)
        return done.json["manifest"]

    def run_script(self, script, *more):
        return self.world.run("run", *self.world.script_args(self.repo), "-m", script, "--json", *more)

    def texts(self):
        return [event["payload"].get("text", "") for event in self.world.journal()]

    def manifest(self, attempt=None):
        with open(os.path.join(self.world.attempt_dir(attempt), "manifests", "launch-manifest.json")) as file:
            return json.load(file)

    def blockers(self, manifest):
        return [(each["code"], each["field"]) for each in manifest["enforcement"]["blockers"]]

    def effective(self, manifest):
        return manifest["phase"]["evidence"]["effectiveAuthority"]

    def assert_blocked(self, code, field, *more):
        """In the preview as data, in a run as the refusal, and nothing was started."""
        self.assertIn((code, field), self.blockers(self.preview(*more)))
        refused = self.run_script(DONE, *more)
        self.assertEqual((refused.error_code, refused.code), (code, 3), refused)

    def test_explore_and_plan_cannot_write_the_worktree(self):
        for phase in ["explore", "plan"]:
            with self.subTest(phase):
                before = support.fingerprint(self.repo)
                done = self.run_script("write src/made.txt by the run\nwrite top.txt x\n" + DONE, "--phase", phase)
                self.assertEqual(done.code, 0, done)
                self.assertEqual([text for text in self.texts() if "write failed" in text], ["write failed errno=30"] * 2)
                self.assertEqual(support.fingerprint(self.repo), before)
        # The control: the same script writes when the phase lets it.
        self.assertEqual(self.run_script("write src/made.txt by the run\n" + DONE, "--phase", "implement").code, 0)
        self.assertTrue(os.path.exists(os.path.join(self.repo, "src", "made.txt")))

    def test_a_phase_without_egress_has_the_gate_and_nothing_else(self):
        manifest = self.preview("--phase", "explore")
        self.assertEqual(manifest["sandbox"]["effective"]["network"], "gate")
        self.assertEqual(manifest["sandbox"]["egress"]["allowedHostCount"], 0)
        self.assertEqual(self.effective(manifest)["network.egress"], [])
        self.assertEqual(self.preview("--phase", "implement")["sandbox"]["effective"]["network"], "host")
        allowed = self.preview("--phase", "explore", "--sandbox", "network-allowlist")
        self.assertEqual(allowed["sandbox"]["egress"]["allowedHostCount"], 0)
        relayed = self.preview("--phase", "explore", "--sandbox", "repo-contained", "--relay", "127.0.0.1:9")
        self.assertEqual(relayed["sandbox"]["egress"]["relays"], [])
        self.assertIn("relay 127.0.0.1:9", json.dumps(relayed["enforcement"]["warnings"]))

    def test_a_phase_that_writes_nothing_commits_nothing(self):
        for phase, policy in [("explore", "forbidden"), ("plan", "forbidden"), ("implement", "allowed")]:
            done = self.world.run("preview", *self.world.script_args(self.repo), "--json", "-m", DONE, "--phase", phase)
            envelope = done.json["taskEnvelope"]
            self.assertEqual(envelope["commitPolicy"], policy)
            writes = {effect["kind"] for effect in envelope["allowedSideEffects"]} & {"filesystem-write", "git-commit", "network-egress"}
            self.assertEqual(bool(writes), policy == "allowed", envelope["allowedSideEffects"])

    def test_no_phase_is_as_it_was(self):
        self.assertNotIn("phase", self.preview())

    def test_the_evidence_has_its_digest_and_five_sources(self):
        manifest = self.preview("--phase", "verify")
        section = manifest["phase"]
        text = json.dumps({key: value for key, value in section["evidence"].items() if key != "digest"}, sort_keys=True,
                          ensure_ascii=False, separators=(",", ":")).encode()
        self.assertEqual(section["evidence"]["digest"], "sha256:" + hashlib.sha256(text).hexdigest())
        self.assertEqual([each["kind"] for each in section["sourceReferences"]],
                         ["parent", "agent-profile", "sandbox", "tool-catalog", "launch-policy"])
        self.assertFalse([each for each in section["sourceReferences"] if "parentAttemptId" in each])
        self.assertEqual(len(section["evidence"]["evaluations"]), 7)

    def test_an_unknown_phase_is_a_mistake(self):
        done = self.run_script(DONE, "--phase", "wander")
        self.assertEqual((done.error_code, done.code), ("phase-unknown", 2), done)

    def test_an_advisory_preset_enforces_nothing(self):
        self.assert_blocked("phase-required-authority-unenforceable", "phase.filesystem.read", "--phase", "explore",
                            "--sandbox", "permissive")

    def test_a_backend_without_a_network_of_its_own_cannot_hold_it(self):
        self.assert_blocked("phase-required-authority-unsupported", "phase.network.egress", "--phase", "explore",
                            "--backend", "landlock")

    def test_a_preset_that_leaves_nothing_to_write_denies_implement(self):
        path = self.world.write(os.path.join(self.world.root, "readers.yaml"), PRESET.encode())
        self.assertEqual(self.world.run("sandbox", "presets", "add", path).code, 0)
        self.assert_blocked("phase-required-authority-denied", "phase.filesystem.write", "--phase", "implement",
                            "--sandbox", "readers")

    def test_a_task_credential_is_narrowed_away_where_the_phase_has_none(self):
        path = self.world.write(os.path.join(self.world.root, "readers.yaml"),
                                PRESET.replace("writePaths: []", 'writePaths: ["<workspace>"]').encode())
        self.assertEqual(self.world.run("sandbox", "presets", "add", path).code, 0)
        # A profile for which the variable is no way to the provider, but the operator's own.
        profiles = self.world.folder("profiles", 0o755)
        os.makedirs(os.path.join(profiles, "harness"))
        with open(os.path.join(support.BUILD, "test-profiles", "harness", "script.yaml")) as file:
            text = file.read().replace("credentialAllowlist: [SCRIPT_SECRET]", "credentialAllowlist: []")
        text = text.replace("environmentAllowlist: [PATH, LANG]", "environmentAllowlist: [PATH, LANG, SCRIPT_SECRET]")
        self.world.write(os.path.join(profiles, "harness", "script.yaml"), text.encode())
        self.profiles = profiles
        self.world.extra_env["SCRIPT_SECRET"] = "operators-own"
        kept = self.preview("--phase", "implement", "--sandbox", "readers")
        self.assertIn("SCRIPT_SECRET", kept["runtime"]["environmentKeys"])
        self.assertEqual(self.effective(kept)["credential.access"], ["env:SCRIPT_SECRET"])
        gone = self.preview("--phase", "verify", "--sandbox", "readers")
        self.assertNotIn("SCRIPT_SECRET", gone["runtime"]["environmentKeys"])
        self.assertEqual(self.effective(gone)["credential.access"], [])

    def test_plan_artifacts(self):
        self.assert_blocked("phase-plan-artifact-not-allowed", "phase.planArtifact", "--phase", "verify",
                            "--plan-artifact", "docs/plan.md")
        for path in ["../plan.md", "/etc/plan.md", "a//b", "a b.md", "$(id).md", "a\\b", ".git/config", "docs/\x1b.md"]:
            with self.subTest(path):
                self.assert_blocked("phase-plan-artifact-path-invalid", "phase.planArtifact", "--phase", "plan",
                                    "--plan-artifact", path)
        evidence = self.preview("--phase", "plan", "--plan-artifact", "docs/plan.md")["phase"]["evidence"]
        self.assertEqual(evidence["planArtifact"]["path"], "docs/plan.md")
        self.assertEqual(evidence["effectiveAuthority"]["artifact.plan.write"], [])  # nobody can write it here, and it is said

    def test_a_descendant_inherits_and_never_widens(self):
        first = self.run_script(DONE, "--phase", "explore")
        self.assertEqual(first.code, 0, first)
        parent = self.world.attempts()[0]
        inherited = self.preview("--parent", parent)
        section = inherited["phase"]
        self.assertEqual(section["evidence"]["identity"]["phase"], "explore")
        self.assertEqual(self.effective(inherited)["filesystem.write"], [])
        reference = section["sourceReferences"][0]
        self.assertEqual((reference["originScope"], reference["parentAttemptId"], reference["parentManifestDigest"],
                          reference["parentEvidenceDigest"]),
                         ("parent", parent, self.manifest(parent)["digest"],
                          self.manifest(parent)["phase"]["evidence"]["digest"]))
        wider = self.preview("--parent", parent, "--phase", "implement")
        self.assertIn(("phase-required-authority-denied", "phase.filesystem.write"), self.blockers(wider))
        self.assertEqual(self.effective(wider)["network.egress"], [])

    def test_a_parent_whose_manifest_was_edited_gives_nothing(self):
        self.assertEqual(self.run_script(DONE, "--phase", "explore").code, 0)
        path = os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json")
        with open(path) as file:
            text = file.read()
        self.world.write(path, text.replace('"filesystem.write":[]', '"filesystem.write":["<workspace>"]').encode(), 0o600)
        done = self.world.run("preview", *self.world.script_args(self.repo), "--json", "-m", DONE, "--parent", self.world.attempts()[0])
        self.assertEqual((done.error_code, done.code), ("parent-manifest-unreadable", 3), done)

    def test_controls_are_the_attempts_own(self):
        self.assertEqual(self.run_script(DONE).code, 0)
        attempt = self.world.attempts()[0]
        shown = self.world.run("runs", "show", attempt, "--json").json["controls"]
        self.assertEqual(len(shown["controls"]), 20)
        by_action = {control["action"]: control for control in shown["controls"]}
        self.assertEqual(by_action["message"]["capabilityId"], "run.steer")
        self.assertTrue(by_action["stop"]["available"])
        path = os.path.join(self.world.attempt_dir(), "manifests", "runtime-manifest.json")
        with open(path) as file:
            self.assertEqual(shown["manifestDigest"], json.load(file)["digest"])
        os.unlink(path)
        lost = self.world.run("runs", "show", attempt, "--json").json["controls"]
        self.assertEqual({(each["state"], each["available"]) for each in lost["controls"]}, {("unknown", False)})


class PhaseAsOrdinaryUser(Phase):
    uid = support.ORDINARY_UID


if __name__ == "__main__":
    support.main()
