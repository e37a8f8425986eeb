"""Task files through the CLI: the page's examples, what reaches envelope and launch manifest, and each refusal with
its code, its place and a remedy, nothing written."""

import hashlib
import json
import os
import re
import socket
import threading

import support

DONE = "done success x\nexit 0\nend\n"
PAGE = os.path.join(os.environ["HITCHRAIL_SOURCE"], "docs", "operators", "tasks.md")


class Tasks(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()

    def file(self, name, data):
        return self.world.write(os.path.join(self.world.folder("tasks", 0o755), name),
                                data if isinstance(data, bytes) else data.encode())

    def run_with(self, command, *args, **kwargs):
        kwargs.setdefault("timeout", 60)
        return self.world.run(command, "--json", *self.world.script_args(self.repo), *args, **kwargs)

    def preview(self, *args, **kwargs):
        result = self.run_with("preview", *args, **kwargs)
        self.assertEqual(result.code, 0, result)
        return result.json

    def envelope(self, *args, **kwargs):
        return self.preview(*args, **kwargs)["taskEnvelope"]

    def refuse(self, code, where, *args, exit_code=2, command="run", **kwargs):
        before = support.fingerprint(self.repo), support.state_print(self.world)
        result = self.run_with(command, *args, **kwargs)
        self.assert_refused(result, code, exit_code)
        error = result.json["error"]
        self.assertTrue(error["remedy"], error)
        if where is not None:
            self.assertEqual(error["object"], where, error)
        self.assertEqual(before, (support.fingerprint(self.repo), support.state_print(self.world)))
        return error

    def refuse_text(self, code, place, name, data):
        path = self.file(name, data)
        return self.refuse(code, path + place, "--task", path)


class Page(Tasks):
    def examples(self):
        with open(PAGE, encoding="utf-8") as page:
            return re.findall(r"^```(yaml|json|markdown)\n(.*?)^```$", page.read(), re.M | re.S)

    def test_the_examples_of_the_page_are_tasks(self):
        examples = self.examples()
        self.assertEqual([form for form, _ in examples], ["yaml", "json", "markdown"])
        for form, text in examples:
            with self.subTest(form):
                path = self.file("task." + {"markdown": "md"}.get(form, form), text)
                by_name = self.envelope("--task", path)
                by_form = self.envelope("--task", "-", "--task-form", form, stdin=text.encode())
                self.assertEqual(by_name["subject"]["message"], by_form["subject"]["message"])
                self.assertTrue(by_name["subject"]["title"].startswith("Mend the parser"))

    def test_the_yaml_example_is_the_envelope_it_says(self):
        result = self.preview("--task", self.file("task.yaml", self.examples()[0][1]))
        envelope = result["taskEnvelope"]
        self.assertEqual(envelope["commitPolicy"], "required")
        self.assertEqual([(e["kind"], e["scope"]) for e in envelope["allowedSideEffects"]],
                         [("filesystem-write", self.repo + "/src"), ("process-execute", self.repo),
                          ("git-commit", self.repo)])
        self.assertEqual([o["id"] for o in envelope["expectedOutputs"]], ["completion-summary", "report", "git-commit"])
        self.assertEqual(envelope["expectedOutputs"][1]["path"], "docs/report.txt")
        self.assertEqual(envelope["verificationGates"],
                         [{"id": "unit", "description": "The unit tests pass", "required": True, "evidenceRequired": True,
                           "command": {"argv": ["make", "check"], "timeoutMs": 600000}}])
        self.assertEqual([e["id"] for e in envelope["completionContract"]["evidenceRequirements"]],
                         ["terminal-state", "verification", "commit", "changed"])
        constraints = envelope["subject"]["constraints"]
        self.assertEqual(constraints[:2], ["Write plain English.\n", "Change nothing below vendor/."])
        self.assertEqual(len(constraints), 3)
        self.assertEqual(envelope["subject"]["memory"][0]["confidencePercent"], 90)
        told = {one["id"]: one for one in result["manifest"]["instructions"]}
        profile = told["instructions.profile-1"]
        self.assertEqual((profile["kind"], profile["precedence"]), ("profile", 200))
        self.assertEqual(profile["digest"], "sha256:" + hashlib.sha256(b"Write plain English.\n").hexdigest())
        self.assertEqual(told["instructions.effective-task-request"]["precedence"], 100)
        self.assertNotIn("Write plain English", json.dumps(result["manifest"]))

    def test_the_markdown_example_has_its_lists(self):
        subject = self.envelope("--task", self.file("task.md", self.examples()[2][1]))["subject"]
        self.assertEqual(subject["constraints"][:2], ["Change nothing below vendor/.", "Keep the interface\nof the reader."])
        self.assertIn("### How to see it\n\n    printf", subject["message"])


class Policy(Tasks):
    def test_the_end_of_the_files_name_is_read_without_case(self):
        task = self.file("TASK.YAML", "message: x\ncommitPolicy: forbidden\n")
        self.assertEqual(self.envelope("--task", task)["commitPolicy"], "forbidden")

    def test_the_command_line_beats_the_file_which_beats_allowed(self):
        plain = self.file("plain.yaml", "message: x\n")
        required = self.file("required.yaml", "message: x\ncommitPolicy: required\n")
        self.assertEqual(self.envelope("--task", plain)["commitPolicy"], "allowed")
        self.assertEqual(self.envelope("--task", required)["commitPolicy"], "required")
        self.assertEqual(self.envelope("--task", required, "--commits", "forbidden")["commitPolicy"], "forbidden")
        self.assertEqual(self.envelope("-m", "x", "--commits", "required")["commitPolicy"], "required")

    def test_what_is_taken_away_is_a_warning_of_the_manifest(self):
        task = self.file("t.yaml", "message: x\nsideEffects:\n  - {kind: filesystem-write, scope: /}\n"
                         "  - {kind: process-execute, scope: /usr}\n  - {kind: external-write, scope: the wiki}\n")
        result = self.preview("--task", task)
        self.assertEqual(result["taskEnvelope"]["allowedSideEffects"],
                         [{"kind": "filesystem-write", "scope": self.repo}])
        warnings = [(w["code"], w["detail"].split(":")[0]) for w in result["manifest"]["enforcement"]["warnings"]
                    if w["code"].startswith("side-effect-")]
        self.assertEqual(sorted(warnings), [("side-effect-clamped", "filesystem-write at /"),
                                            ("side-effect-dropped", "external-write at the wiki"),
                                            ("side-effect-dropped", "process-execute at /usr")])

    def test_a_required_commit_without_a_commit_effect(self):
        task = self.file("t.yaml", "message: x\ncommitPolicy: required\nsideEffects: []\n")
        self.refuse("task-commit-effect-missing", "sideEffects", "--task", task)
        self.assertEqual(self.envelope("--task", task, "--commits", "allowed")["allowedSideEffects"], [])

    def test_a_required_commit_output_that_is_forbidden(self):
        text = "message: x\nexpectedOutputs: [{id: c, kind: commit, description: d}]\n"
        self.refuse("task-commit-conflict", "expectedOutputs", "--task", self.file("a.yaml", text), "--commits", "forbidden")

    def test_the_run_is_held_to_the_policy_of_the_command_line(self):
        result = self.run_with("run", "-m", DONE, "--commits", "required")
        self.assertEqual(result.code, 1, result)
        with open(os.path.join(self.world.attempt_dir(), "completion.json"), encoding="utf-8") as file:
            completion = json.load(file)
        self.assertEqual(completion["status"], "partial")
        self.assertIn("required-commit-missing", [b["code"] for b in completion["blockers"]])


class Files(Tasks):
    def test_a_link(self):
        path = self.file("t.yaml", "message: x\n")
        os.symlink(path, path + ".link")
        self.refuse("task-file-unsafe", path + ".link", "--task", path + ".link")

    def test_a_folder_a_fifo_and_a_socket(self):
        folder = self.world.folder("tasks", 0o755)
        self.refuse("task-file-unsafe", folder, "--task", folder)
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo, 0o666)
        self.world.own(fifo)
        self.refuse("task-file-unsafe", fifo, "--task", fifo, timeout=20)
        self.refuse("instructions-file-unsafe", fifo, "-m", "x", "--instructions", fifo, timeout=20)
        listening = os.path.join(folder, "s")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(listening)
            self.world.own(listening)
            self.refuse("task-file-unsafe", listening, "--task", listening)

    def test_a_device(self):
        self.refuse("task-file-unsafe", "/dev/zero", "--task", "/dev/zero", timeout=20)

    def test_one_that_is_not_there(self):
        path = os.path.join(self.world.root, "absent")
        self.refuse("task-file-unreadable", path, "--task", path)

    def test_ten_mebibytes_are_refused_before_they_are_read(self):
        path = self.file("t.yaml", b"")
        os.truncate(path, 10 << 20)  # no block of it: only its size can have been looked at
        error = self.refuse("task-too-large", path, "--task", path)
        self.assertIn("10485760 bytes", error["detail"])
        self.refuse("task-too-large", "standard input", "--task", "-", stdin=b"x" * ((1 << 20) + 1))
        self.refuse("instructions-too-large", path, "-m", "x", "--instructions", path)

    def test_one_that_changes_while_it_is_read(self):
        path = self.file("t.txt", "a" * (1 << 20))
        stop = threading.Event()

        def change():
            with open(path, "r+b", buffering=0) as file:
                byte = b"b"
                while not stop.is_set():
                    file.seek(0)
                    file.write(byte * (1 << 20))
                    byte = b"a" if byte == b"b" else b"b"

        thread = threading.Thread(target=change)
        thread.start()
        try:
            def refused():
                result = self.run_with("preview", "--task", path)
                return result.code != 0 and result.error_code == "task-file-changed"
            self.assertTrue(support.wait_until(refused, seconds=60))
        finally:
            stop.set()
            thread.join()

    def test_a_name_that_is_no_text_is_shown_escaped(self):
        folder = os.fsencode(self.world.folder("tasks", 0o755))
        path = os.path.join(folder, b"a\xff\x7f\n.yaml")
        with open(path, "wb") as file:
            file.write(b"message: x\ninstructions: y\n")
        self.world.own(path)
        instructions = self.preview("--task", os.fsdecode(path), "--instructions", os.fsdecode(path))["manifest"]["instructions"]
        origins = [one["origin"] for one in instructions if one["kind"] == "profile"]
        self.assertEqual(len(origins), 2)
        for origin in origins:
            self.assertTrue(origin.endswith("a\\xff\\x7f\\n.yaml"), origin)

    def test_standard_input_is_read_once(self):
        self.refuse("instructions-standard-input", "--instructions", "--task", "-", "--instructions", "-", stdin=b"x")
        self.assertEqual(self.envelope("-m", "x", "--instructions", "-", stdin=b"rules")["subject"]["constraints"][0], "rules")


class Text(Tasks):
    def test_what_yaml_has_beyond_plain_data(self):
        for code, place, text in [("task-anchor", ":1:10", "message: &a x\n"),
                                  ("task-tag", ":1:10", "message: !!str x\n"),
                                  ("task-duplicate-key", ":2:1", "message: x\nmessage: y\n"),
                                  ("task-merge-key", ":2:1", "message: x\n<<: {title: y}\n"),
                                  ("task-unknown-field", ":2:1", "message: x\nconstraint: y\n"),
                                  ("task-missing-field", ":1:1", "title: x\n"),
                                  ("task-type", ":2:9", "message: x\nbudget: 5\n"),
                                  ("task-bounds", ":2:15", "message: x\ncommitPolicy: perhaps\n"),
                                  ("task-output-path", ":2:61", "message: x\nexpectedOutputs: [{id: a, kind: file, "
                                                                "description: d, path: \"../x\"}]\n"),
                                  ("task-duplicate-id", ":2:51", "message: x\nverificationGates: [{id: a, description: d}, "
                                                                 "{id: a, description: d}]\n")]:
            with self.subTest(code):
                self.refuse_text(code, place, "t.yaml", text)
        alias = self.file("t.yaml", "title: &a x\nmessage: *a\n")
        self.refuse("task-anchor", alias + ":1:8", "--task", alias)
        path = self.file("t.yaml", "message: x\n---\nmessage: y\n")
        self.refuse("task-documents", None, "--task", path)

    def test_ten_thousand_levels(self):
        levels = "[" * 10_000 + "]" * 10_000
        path = self.file("t.yaml", "message: x\nbudget: " + levels + "\n")
        self.assertTrue(self.refuse("task-depth", None, "--task", path)["object"].startswith(path + ":2:"))
        self.refuse_text("task-depth", "", "t.json", '{"message": "x", "budget": ' + levels + "}")

    def test_bytes_that_no_task_may_hold(self):
        for name in ["t.yaml", "t.json", "t.md", "t.txt"]:
            for code, byte in [("task-invalid-utf8", b"\xff"), ("task-has-del", b"\x7f"), ("task-has-nul", b"\0")]:
                with self.subTest(name=name, code=code):
                    self.refuse_text(code, ":2:3", name, b"one\ntw" + byte)
        self.refuse_text("task-has-del", ":1:10", "t.yaml", 'message: "a\\x7f"\n')
        self.refuse_text("task-has-nul", "", "t.json", '{"message": "a\\u0000"}')

    def test_markdown_that_is_nearly_a_task(self):
        self.refuse_text("task-front-matter", ":1:1", "t.md", "---\ncommitPolicy: allowed\n")
        self.refuse_text("task-section", ":4:1", "t.md", "---\n---\nx\n## Notes\n")
        self.refuse_text("task-duplicate-field", ":2:10", "t.md", "---\nmessage: x\n---\ny\n")
        self.refuse_text("task-empty", ":3:1", "t.md", "---\n---\n\n")

    def test_json_that_is_none(self):
        self.refuse_text("task-syntax", "", "t.json", '{"message": "x",}')
        self.refuse_text("task-duplicate-key", "", "t.json", '{"message": "x", "message": "y"}')

    def test_more_than_fits_is_refused_and_nothing_is_cut(self):
        text = "background:\n  - %s\nmessage: x\n"
        background = self.envelope("--task", self.file("t.yaml", text % ("\u00e4" * 9000)))["subject"]["background"]
        self.assertEqual([len(part) for part in background], [4000, 4000, 1000])
        self.refuse("task-bounds", None, "--task", self.file("t.yaml", text % ("x" * (64 * 4000 + 1))))
        rules = self.file("rules.md", "x" * (127 * 4000))
        self.assertEqual(len(self.envelope("-m", "x", "--instructions", rules)["subject"]["constraints"]), 128)
        more = self.file("more.md", "y")
        self.refuse("task-bounds", "constraints and instructions", "-m", "x", "--instructions", rules, "--instructions", more)

    def test_a_secret_in_a_gates_command(self):
        self.refuse("manifest-secret", "verificationGates.a.command", "--task", self.file(
            "t.yaml", "message: x\nverificationGates: [{id: a, description: d, command: [curl, "
            "\"--token=ghp_abcdefghijklmnopqrstuvwxyz012345\"]}]\n"), exit_code=3)


if __name__ == "__main__":
    support.main()
