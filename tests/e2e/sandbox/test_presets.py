"""`sandbox presets`: built-ins are what they are, an operator's preset is used only as it was added, and who decided what is kept."""

import json
import os
import pwd
import subprocess

import support

DONE = "done success x\nexit 0\nend\n"

MINE = """schemaVersion: sandbox-preset/v1
id: %s
name: Mine
enforcement: %s
requiredCapabilities: [filesystem.read, filesystem.write]
filesystem:
  readPaths: ["<workspace>"]
  writePaths: ["<workspace>"]
network: none
environment: [LANG]
"""


class Presets(support.TestCase):
    def presets(self, *args):
        return self.world.run("sandbox", "presets", *args, "--json")

    def file(self, name="mine", enforcement="required", text=None, mode=0o644):
        folder = self.world.folder("files", 0o755)
        return self.world.write(os.path.join(folder, name + ".yaml"), (text or MINE % (name, enforcement)).encode(), mode)

    def added(self, name="mine", enforcement="required"):
        result = self.presets("add", self.file(name, enforcement))
        self.assertEqual(result.code, 0, result)
        return os.path.join(self.world.config, "profiles", "sandbox", name + ".yaml")

    def decisions(self, name):
        result = self.presets("show", name)
        self.assertEqual(result.code, 0, result)
        return result.json["decisions"]

    def exec(self, preset, repo, command="true"):
        return self.world.run("sandbox", "exec", "--json", "--preset", preset, "--worktree", repo, "--", "sh", "-c", command)

    def user(self):
        try:
            return pwd.getpwuid(self.world.uid).pw_name
        except KeyError:
            return ""


class BuiltIns(Presets):
    def test_the_four_are_listed_and_nothing_is_made(self):
        result = self.presets("list")
        self.assertEqual(result.code, 0, result)
        found = {preset["id"]: preset for preset in result.json["presets"]}
        self.assertEqual(sorted(found), ["network-allowlist", "permissive", "repo-contained", "workspace"])
        for preset in found.values():
            self.assertEqual((preset["state"], preset["builtIn"]), ("built-in", True))
            self.assertEqual(preset["enforcement"], "advisory" if preset["id"] == "permissive" else "required")
        self.assertEqual(found["workspace"]["network"], "host")
        self.assertEqual(found["repo-contained"]["network"], "gate")
        self.assertEqual(found["network-allowlist"]["allowedHosts"], ["api.github.com", "api.openai.com", "github.com"])
        self.assertTrue(found["network-allowlist"]["filesystem"]["dotfileMasking"])
        self.assertFalse(os.path.exists(self.world.state))
        human = self.world.run("sandbox", "presets", "list")
        self.assertIn(b"repo-contained", human.out)

    def test_an_operators_preset_does_not_take_a_built_ins_id(self):
        self.assert_refused(self.presets("add", self.file("workspace")), "preset-builtin", 3)
        self.assertFalse(os.path.exists(self.world.state))
        folder = os.path.join(self.world.config, "profiles", "sandbox")
        os.makedirs(folder, mode=0o755)
        for path in (os.path.dirname(folder), folder):
            self.world.own(path)
        self.world.write(os.path.join(folder, "workspace.yaml"), (MINE % ("workspace", "advisory")).encode())
        self.assert_refused(self.exec("workspace", self.world.repository()), "preset-builtin", 125)

    def test_permissive_is_taken_by_name_alone_allows_a_sandbox_inside_and_says_what_it_is(self):
        repo = self.world.repository()
        secret = self.world.write(os.path.join(self.world.home, "secret"), b"secret\n", 0o644)
        script = "unshare -Ur true 2>/dev/null && echo nested; cat %s 2>/dev/null || echo hidden; mkdir .claude 2>/dev/null || echo held" % secret
        before = sorted(os.listdir(repo))
        self.assertEqual(self.exec("workspace", repo, script).out, b"hidden\nheld\n")
        self.assertEqual(self.decisions("permissive"), [])
        self.assertEqual(self.exec("permissive", repo, script).out, b"nested\nhidden\nheld\n")
        last, = self.decisions("permissive")
        self.assertEqual((last["action"], last["run"], last["uid"], last["enforcement"]), ("selected", "exec", self.world.uid, "advisory"))
        self.assertEqual(sorted(os.listdir(repo)), before)
        explained = self.world.run("sandbox", "explain", "--json", "--preset", "permissive", "--worktree", repo).json
        self.assertIn("advisory-preset", [warning["code"] for warning in explained["warnings"]])
        self.assertEqual((explained["evidence"]["state"], explained["evidence"]["nestedAllowed"]), ("advisory", True))

    def test_a_built_in_is_disabled_and_enabled_by_name(self):
        repo = self.world.repository()
        self.assertEqual(self.presets("disable", "permissive").json["state"], "disabled")
        self.assert_refused(self.exec("permissive", repo), "preset-disabled", 125)
        self.assertEqual(self.presets("enable", "permissive").json["state"], "built-in")
        self.assertEqual([d["action"] for d in self.decisions("permissive")], ["disabled", "enabled"])


class Own(Presets):
    def test_adding_keeps_it_and_says_who(self):
        kept = self.added()
        with open(kept, "rb") as file:
            self.assertEqual(file.read(), (MINE % ("mine", "required")).encode())
        decision, = self.decisions("mine")
        self.assertEqual((decision["action"], decision["uid"], decision["user"]), ("added", self.world.uid, self.user()))
        self.assertEqual(decision["digest"], self.presets("show", "mine").json["digest"])
        self.assertEqual(self.exec("mine", self.world.repository(), "exit 5").code, 5)

    def test_what_nobody_added_is_refused(self):
        repo = self.world.repository()
        self.assert_refused(self.exec(self.file(), repo), "preset-unrecorded", 125)
        kept = self.added()
        os.rename(kept, os.path.join(os.path.dirname(kept), "other.yaml"))
        self.assert_refused(self.exec("other", repo), "preset-name", 125)
        self.assert_refused(self.exec("mine", repo), "preset-not-found", 125)

    def test_a_changed_file_is_refused_until_it_is_added_again(self):
        repo = self.world.repository()
        kept = self.added()
        self.world.write(kept, (MINE % ("mine", "required")).replace("network: none", "network: host").encode())
        self.assert_refused(self.exec("mine", repo), "preset-changed", 125)
        listed = {preset["id"]: preset for preset in self.presets("list").json["presets"]}
        self.assertEqual(listed["mine"]["state"], "changed")
        self.assertNotEqual(listed["mine"]["digest"], listed["mine"]["recordedDigest"])
        self.assertEqual(self.presets("add", kept).code, 0)
        self.assertEqual(self.exec("mine", repo).code, 0)
        self.assertEqual([d["action"] for d in self.decisions("mine")], ["added", "changed", "selected"])

    def test_doctor_names_presets_that_would_refuse(self):
        kept = self.added()
        self.world.write(kept, (MINE % ("mine", "advisory")).encode())
        self.presets("disable", "permissive")
        found = [check for check in self.world.run("doctor", "--json").json["findings"] if check["id"].startswith("preset")]
        self.assertEqual([(check["id"], check["level"]) for check in found], [("preset.mine", "warning")])
        self.assertTrue(found[0]["what"].startswith("preset-changed"))

    def absent_names(self, **env):
        found = [check for check in self.world.run("doctor", "--json", env=env).json["findings"] if check["id"] == "protected-names"]
        self.assertEqual([check["level"] for check in found], ["ok"])
        return found[0]

    def test_doctor_says_what_a_run_does_with_protected_names_that_do_not_exist(self):
        repo = self.world.repository()
        said = self.absent_names()
        result = self.world.run("sandbox", "explain", "--json", "--worktree", repo)
        self.assertEqual(result.code, 0, result)
        self.assertIn("held by an overlay" if '"absentNames": "overlay"' in json.dumps(result.json) else "held by placeholders: ", said["what"])
        self.assertTrue(said["why"])
        asked = self.absent_names(HITCHRAIL_PROTECTED_NAMES="placeholders")
        self.assertIn("placeholders: HITCHRAIL_PROTECTED_NAMES asks for them", asked["what"])

    def test_an_overlay_holds_them_where_this_user_can_mount_one(self):
        repo = self.world.repository()
        options = "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr"
        script = "mount -t tmpfs t /tmp && cd /tmp && mkdir l u w m && mount -t overlay o -o %s m && mkdir m/x" % options
        can = self.world.uid != 0 and subprocess.run(
            self.world.command(["unshare", "-Urm", "sh", "-c", script]), capture_output=True, check=False, cwd="/").returncode == 0
        system = subprocess.run(["stat", "-f", "-c", "%T", repo], capture_output=True, check=True).stdout.decode().strip()
        explained = self.world.run("sandbox", "explain", "--json", "--worktree", repo).json["evidence"]["absentNames"]
        if can and system in ("ext2/ext3", "xfs", "btrfs", "tmpfs"):
            self.assertEqual(explained, "overlay")
        else:
            self.assertIn(explained, ("overlay", "placeholder"))

    def test_a_disabled_one_is_refused(self):
        repo = self.world.repository()
        self.added()
        self.assertEqual(self.presets("disable", "mine").code, 0)
        self.assert_refused(self.exec("mine", repo), "preset-disabled", 125)
        self.assertEqual(self.presets("enable", "mine").code, 0)
        self.assertEqual(self.exec("mine", repo).code, 0)

    def test_files_that_others_may_write_or_that_are_wrong_are_refused(self):
        self.assert_refused(self.presets("add", self.file(mode=0o666)), "preset-unsafe", 3)
        link = os.path.join(self.world.root, "mine.yaml")
        os.symlink(self.file(), link)
        self.world.own(link)
        self.assert_refused(self.presets("add", link), "preset-unsafe", 3)
        self.assert_refused(self.presets("add", self.file(text=MINE % ("mine", "required") + "more: 1\n")), "yaml-unknown-field", 2)
        self.assert_refused(self.presets("show", "nothing"), "preset-not-found", 2)
        self.assert_refused(self.presets("disable", "nothing"), "preset-not-found", 2)
        self.assertFalse(os.path.exists(self.world.state))


class Use(Presets):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()

    def run_with(self, preset):
        return self.world.run("run", "--json", "--sandbox", preset, *self.world.script_args(self.repo), "-m", DONE)

    def test_a_run_with_an_advisory_preset_is_attributed(self):
        self.added("loose", "advisory")
        result = self.run_with("loose")
        self.assertEqual(result.code, 0, result)
        attempt = self.world.attempts()[-1]
        last = self.decisions("loose")[-1]
        self.assertEqual((last["action"], last["run"], last["uid"], last["user"]), ("selected", attempt, self.world.uid, self.user()))
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json"), encoding="utf-8") as file:
            sandbox = json.load(file)["sandbox"]
        self.assertEqual(sandbox["attribution"]["source"], "operator")
        self.assertEqual(sandbox["attribution"]["selectedBy"], {"uid": self.world.uid, "user": self.user()})
        self.assertEqual(sandbox["attribution"]["presetDigest"], last["digest"])
        self.assertEqual(sandbox["filesystem"]["state"], "advisory")
        with open(os.path.join(self.world.attempt_dir(), "header.json"), encoding="utf-8") as file:
            header = json.load(file)
        self.assertEqual((header["presetId"], header["presetEnforcement"]), ("loose", "advisory"))

    def test_evidence_of_a_run_has_digests_and_no_path(self):
        self.assertEqual(self.run_with("workspace").code, 0)
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        evidence = manifest["sandbox"]["filesystem"]
        self.assertEqual(evidence["providerRuntimeManifestDigest"], manifest["providerRuntime"]["digest"])
        self.assertEqual(evidence["state"], "enforced")
        text = json.dumps(evidence)
        for path in (self.repo, self.world.root, "/usr", self.world.state):
            self.assertNotIn(path, text)

    def test_a_preview_with_an_operators_preset_records_nothing(self):
        self.added()
        before = support.state_print(self.world)
        result = self.world.run("preview", "--json", "--sandbox", "mine", *self.world.script_args(self.repo), "-m", DONE)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.json["manifest"]["sandbox"]["presetId"], "mine")
        self.assertEqual(len(self.decisions("mine")), 1)
        self.assertEqual(support.state_print(self.world), before)

    def test_a_preset_that_may_not_be_used_refuses_the_run_before_anything_is_made(self):
        self.assert_refused(self.run_with(self.file()), "preset-unrecorded", 3)
        self.assert_refused(self.run_with("nothing"), "preset-not-found", 2)
        self.assertEqual(self.world.attempts(), [])


class Rules(Presets):
    """What a preset of one's own says is what holds inside."""

    def own(self, filesystem, more=""):
        self.assertEqual(self.presets("add", self.file(text="schemaVersion: sandbox-preset/v1\nid: mine\nname: Mine\nenforcement: required\n"
                                                       "requiredCapabilities: [filesystem.read, filesystem.write]\nfilesystem: %s\n"
                                                       "network: none\n%s" % (json.dumps(filesystem), more))).code, 0)

    def test_denied_paths_are_not_there_to_be_read_or_made(self):
        repo = self.world.repository()
        for name in ("secrets", "keys"):
            os.makedirs(os.path.join(repo, name))
            self.world.own(os.path.join(repo, name))
            self.world.write(os.path.join(repo, name, "key"), b"secret\n")
        before = sorted(os.listdir(repo))
        self.own({"readPaths": ["<workspace>"], "writePaths": ["<workspace>"], "deniedPaths": ["<workspace>/secrets", "<workspace>/.env", "~/none"]})
        result = self.exec("mine", repo, "cat secrets/key || echo denied; echo x > .env || echo held; mkdir .env/x || echo held; cat keys/key")
        self.assertEqual(result.out, b"denied\nheld\nheld\nsecret\n", result)
        self.assertEqual(sorted(os.listdir(repo)), before)

    def test_dotfiles_are_masked(self):
        repo = self.world.repository()
        self.world.write(os.path.join(repo, ".env"), b"secret\n")
        self.world.write(os.path.join(repo, "src", ".hidden"), b"secret\n")
        self.own({"readPaths": ["<workspace>"], "writePaths": ["<workspace>"], "dotfileMasking": True})
        result = self.exec("mine", repo, "cat .env || echo masked; cat src/.hidden || echo masked; cat README; git status --short")
        self.assertEqual(result.out, b"masked\nmasked\nhello\n", result)

    def test_a_worktree_that_may_only_be_read(self):
        repo = self.world.repository()
        before = support.fingerprint(repo)
        self.own({"readPaths": ["<workspace>"], "writePaths": []})
        result = self.exec("mine", repo, "cat README; echo x > made || echo held; echo y > $TMPDIR/y && cat $TMPDIR/y")
        self.assertEqual(result.out, b"hello\nheld\ny\n", result)
        self.assertEqual(support.fingerprint(repo), before)

    def test_a_deeper_path_decides(self):
        repo = self.world.repository()
        data = self.world.folder("data", 0o755)
        self.world.write(os.path.join(data, "file"), b"data\n")
        inner = self.world.folder("data/inner", 0o755)
        self.own({"readPaths": ["<workspace>", data, "<workspace>/src"], "writePaths": ["<workspace>", inner]})
        result = self.exec("mine", repo, "cat %s/file; echo x > %s/x || echo held; echo y > %s/y; echo z > src/z || echo held" % (data, data, inner))
        self.assertEqual(result.out, b"data\nheld\nheld\n", result)
        self.assertEqual(sorted(os.listdir(inner)), ["y"])

    def test_environment_and_limits(self):
        repo = self.world.repository()
        self.own({"readPaths": ["<workspace>"], "writePaths": ["<workspace>"]}, "environment: [GIVEN]\nlimits: {maxProcesses: 8}\n")
        result = self.world.run("sandbox", "exec", "--preset", "mine", "--worktree", repo, "--", "sh", "-c", "echo $GIVEN $OTHER",
                                env={"GIVEN": "value", "OTHER": "secret"})
        self.assertEqual(result.out, b"value\n", result)


class AsUser:
    uid = support.ORDINARY_UID


class BuiltInsAsUser(AsUser, BuiltIns):
    pass


class OwnAsUser(AsUser, Own):
    pass


class UseAsUser(AsUser, Use):
    pass


class RulesAsUser(AsUser, Rules):
    pass


if __name__ == "__main__":
    support.main()
