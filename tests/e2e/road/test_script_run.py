"""The whole road with the scripted harness: what a run leaves behind, and that it leaves nothing else."""

import json
import os
import signal
import subprocess
import time

import support

SCRIPT = """message working
write src/made.txt made by the run
err some talk
done success all done
exit 0
end
"""


class ScriptRun(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()

    def go(self, script, *more, **kwargs):
        return self.world.run("run", *self.world.script_args(self.repo), "-m", script, *more, **kwargs)

    def test_a_run_ends_with_its_journal_and_completion(self):
        done = self.go(SCRIPT)
        self.assertEqual(done.code, 0, done)
        self.assertIn(b"all done", done.out)
        events = self.world.journal()
        kinds = [event["kind"] for event in events]
        self.assertEqual(kinds[0], "run.started")
        self.assertEqual(kinds[-1], "run.completed")
        self.assertIn("message.assistant", kinds)
        self.assertEqual([event["sequence"] for event in events], list(range(1, len(events) + 1)))
        with open(os.path.join(self.world.attempt_dir(), "completion.json")) as file:
            completion = json.load(file)
        self.assertEqual(completion["status"], "success")
        self.assertEqual(completion["terminal"]["sequence"], len(events))
        with open(os.path.join(self.repo, "src", "made.txt")) as file:
            self.assertIn("made by the run", file.read())

    def test_the_completion_digest_is_what_jq_and_sha256sum_say(self):
        self.assertEqual(self.go(SCRIPT).code, 0)
        folder = self.world.attempt_dir()
        for name in ["completion.json", "manifests/launch-manifest.json", "manifests/task-envelope.json",
                     "manifests/runtime-manifest.json"]:
            path = os.path.join(folder, name)
            text = subprocess.run("jq -cSj 'del(.digest)' '%s' | sha256sum" % path, shell=True, check=True,
                                  capture_output=True).stdout.decode().split()[0]
            with open(path) as file:
                self.assertEqual(json.load(file)["digest"], "sha256:" + text, name)

    def test_json_prints_the_journal_lines_and_then_the_completion(self):
        done = self.go(SCRIPT, "--json")
        self.assertEqual(done.code, 0, done)
        lines = [json.loads(line) for line in done.out.splitlines()]
        self.assertEqual(lines[-1]["schemaVersion"], "completion-result/v1")
        self.assertEqual([line["sequence"] for line in lines[:-1]], [e["sequence"] for e in self.world.journal()])

    def test_the_repository_is_as_before_but_for_what_the_run_made(self):
        before = sorted(os.listdir(self.repo))
        self.assertEqual(self.go(SCRIPT).code, 0)
        self.assertEqual(sorted(os.listdir(self.repo)), before)
        status = self.world.git(self.repo, "status", "--porcelain")
        self.assertEqual(status, "?? src/made.txt\n")

    def test_a_message_arrives_byte_for_byte(self):
        for text in ["/etc/passwd is not a path here\nend\n", "-m --version\nend\n", "täxt \u2028 end\nend\n"]:
            done = self.world.run("preview", *self.world.script_args(self.repo), "--json", "-m", text)
            self.assertEqual(done.code, 0, done)
            self.assertEqual(done.json["taskEnvelope"]["subject"]["message"], text)

    def test_preview_changes_nothing(self):
        before = support.fingerprint(self.repo), support.state_print(self.world)
        done = self.world.run("preview", *self.world.script_args(self.repo), "-m", SCRIPT)
        self.assertEqual(done.code, 0, done)
        self.assertEqual((support.fingerprint(self.repo), support.state_print(self.world)), before)

    def test_the_environment_inside_is_what_the_manifest_says(self):
        done = self.go("env\ndone success x\nexit 0\nend\n", env={"SECRET_OF_THE_HOST": "do not pass me on"})
        self.assertEqual(done.code, 0, done)
        with open(os.path.join(self.world.attempt_dir(), "manifests", "launch-manifest.json")) as file:
            names = json.load(file)["runtime"]["environmentKeys"]
        text = json.dumps(self.world.journal())
        self.assertNotIn("SECRET_OF_THE_HOST", text)
        texts = [event["payload"].get("text", "") for event in self.world.journal()]
        seen = [text[4:] for text in texts if text.startswith("env ")]
        self.assertEqual(sorted(seen), sorted(names))

    def test_detached_holds_nothing_of_the_caller(self):
        done = self.go("sleep 1500\ndone success x\nexit 0\nend\n",
                       "--detach")
        self.assertEqual(done.code, 0, done)
        attempt = done.out.decode().strip()
        status = self.world.run("runs", "show", attempt, "--json").json
        self.assertIn(status["state"], ("running", "starting"))
        followed = self.world.run("runs", "events", attempt, "--follow", "--json")
        self.assertEqual(followed.code, 0, followed)
        self.assertEqual(json.loads(followed.out.splitlines()[-1])["kind"], "run.completed")

    def test_ctrl_c_stops_and_is_journaled_as_interrupted(self):
        run = self.world.start("run", *self.world.script_args(self.repo), "-m",
                               "message up\nsleep 30000\nexit 0\nend\n",
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(lambda: self.world.attempts() and any(
            event["kind"] == "message.assistant" for event in self.world.journal()))
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
        self.assertEqual(run.returncode, 1, (out, err))
        self.assertEqual(self.world.journal()[-1]["kind"], "run.interrupted")

    def test_ctrl_c_as_soon_as_there_is_an_attempt_stops_it_too(self):
        run = self.world.start("run", *self.world.script_args(self.repo), "-m", "message up\nsleep 30000\nexit 0\nend\n",
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        support.wait_until(self.world.attempts, interval=0.0005)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 1, (out, err))
        self.assertEqual(self.world.journal()[-1]["kind"], "run.interrupted")

    def test_a_killed_watcher_leaves_the_run_alive(self):
        run = self.world.start("run", *self.world.script_args(self.repo), "-m",
                               "sleep 1500\ndone success x\nexit 0\nend\n",
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        support.wait_until(lambda: self.world.attempts())
        time.sleep(0.3)
        run.kill()
        run.wait()
        support.wait_until(lambda: self.world.journal()[-1]["kind"] == "run.completed")

    def test_no_secret_is_on_disk_or_in_the_output(self):
        secret = "s3cr3t-value-of-the-test-0123456789"
        done = self.go("env-value SCRIPT_SECRET\ndone success x\nexit 0\nend\n",
                       env={"SCRIPT_SECRET": secret})
        self.assertEqual(done.code, 0, done)
        self.assertIn("[REDACTED", json.dumps(self.world.journal()))
        for folder, _, files in os.walk(self.world.state):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(secret.encode(), file.read(), name)
        self.assertNotIn(secret.encode(), done.out + done.err)


class ScriptRunAsOrdinaryUser(ScriptRun):
    uid = support.ORDINARY_UID

    def test_the_uid_is_real(self):
        self.assertEqual(self.world.shell("id", "-u").decode().strip(), str(support.ORDINARY_UID))


if __name__ == "__main__":
    support.main()
