#!/usr/bin/env python3
"""The real Claude Code does a task by `sandbox exec`, under the presets a run has, against the project's own model server, without any
network but loopback. As root and as an ordinary user."""

import json
import os
import sys

import real_harness
import support
from real_harness import KEY, ModelServer, users

CLAUDE = os.environ.get("HITCHRAIL_CLAUDE") or os.path.join(support.SOURCE, ".deps", "claude", "node_modules", ".bin", "claude")
ARGUMENTS = ["--bare", "--print", "--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk", "--setting-sources", "",
             "--strict-mcp-config", "--tools", "Bash,Read,Write", "--allowedTools", "Bash,Read,Write"]
TASK = {"responses": [
    {"output": [{"message": "I write the file."}, {"command": "printf 'by a confined agent\\n' > made.txt && git add made.txt && git commit -q -m made"}]},
    {"output": [{"command": "cat README made.txt; cat %(secret)s || echo hidden; ls -d .git/hooks/x 2>&1; git log --format=%%s | head -n 1"}]},
    {"output": [{"message": "Done."}]}]}


class Claude(support.TestCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(CLAUDE):
            self.fail(f"{CLAUDE} is missing; ./test installs it")
        self.repo = self.world.repository()
        self.secret = self.world.write(os.path.join(self.world.home, "secret"), b"not-for-agents\n")
        scenario = json.loads(json.dumps(TASK).replace("%(secret)s", self.secret).replace("%%", "%"))
        self.server = ModelServer(self.world, scenario)
        self.addCleanup(self.server.close)

    def work(self, preset, *options):
        base = self.server.base_url[:-len("/v1")] if self.server.base_url.endswith("/v1") else self.server.base_url
        environment = ["--env", "ANTHROPIC_API_KEY", "--env", "ANTHROPIC_BASE_URL=" + base, "--env", "DISABLE_AUTOUPDATER=1", "--env",
                       "DISABLE_TELEMETRY=1", "--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"]
        before = sorted(os.listdir(self.repo))
        result = self.world.run("sandbox", "exec", "--preset", preset, "--worktree", self.repo, "--import", *options, *environment, "--", CLAUDE,
                                *ARGUMENTS, stdin=b"Write the file.\n", timeout=120, env={"ANTHROPIC_API_KEY": KEY})
        self.assertEqual(result.code, 0, result)
        records = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual((records[-1]["type"], records[-1]["subtype"], records[-1]["result"]), ("result", "success", "Done."), result)
        self.assertEqual(len(self.server.requests()), len(TASK["responses"]), self.server.requests())
        told = json.dumps([record for record in records if record["type"] == "user"])
        for text in ("hello", "by a confined agent", "hidden", "made"):
            self.assertIn(text, told)
        self.assertNotIn("not-for-agents", told)
        self.assertEqual(sorted(os.listdir(self.repo)), sorted(before + ["made.txt"]))
        self.assertEqual(self.world.git(self.repo, "log", "--format=%s").split(), ["made", "first"])
        self.assertEqual(self.world.git(self.repo, "status", "--short"), "")
        self.assertEqual(os.listdir(os.path.join(self.world.state, "exec")), [])
        return result


class Presets:
    def test_it_works_in_workspace(self):
        self.work("workspace")


for name, uid in users():
    globals()["Claude" + name] = type("Claude" + name, (Presets, Claude), {"uid": uid})


if __name__ == "__main__":
    real_harness.main(sys.argv[0])
