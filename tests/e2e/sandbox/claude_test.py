#!/usr/bin/env python3
"""The real Claude Code does a task by `sandbox exec`, under the presets a run has, against the project's own model server, without any
network but loopback. As root and as an ordinary user."""

import glob
import json
import os
import socket
import sys
import threading

import real_harness
import support
from real_harness import KEY, ModelServer, users

# The program of the platform package: what lies in .bin is put there by a script of the package, which is not run.
CLAUDE = os.environ.get("HITCHRAIL_CLAUDE") or next(iter(glob.glob(os.path.join(
    support.SOURCE, ".deps", "claude", "node_modules", "@anthropic-ai", "claude-code-linux-*", "claude"))), "")
ARGUMENTS = ["--bare", "--print", "--output-format", "stream-json", "--verbose", "--permission-mode", "dontAsk", "--setting-sources", "",
             "--strict-mcp-config", "--tools", "Bash,Read,Write", "--allowedTools", "Bash,Read,Write"]
TASK = {"responses": [
    {"output": [{"message": "I write the file."}, {"command": "printf 'by a confined agent\\n' > made.txt && git add made.txt && git commit -q -m made"}]},
    {"output": [{"command": "cat README made.txt; cat %(secret)s || echo hidden; ls -d .git/hooks/x 2>&1; git log --format=%%s | head -n 1"}]},
    {"output": [{"command": "%(reach)s"}]},
    {"output": [{"message": "Done."}]}]}

# Tries to reach the given loopback port without asking any proxy.
IGNORES_PROXIES = ("python3 -c 'import socket,sys; s=socket.socket(); s.settimeout(3); "
                   "print(\"reach\"+\"ed\", s.connect_ex((\"127.0.0.1\", int(sys.argv[1]))))' %d")


class Listener:
    """Counts who comes to a loopback port."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.visits = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.visits += 1
            connection.close()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


class Claude(support.TestCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(CLAUDE):
            self.fail("claude is missing below .deps; ./test installs it")
        self.repo = self.world.repository()
        self.secret = self.world.write(os.path.join(self.world.home, "secret"), b"not-for-agents\n")
        self.listener = Listener()
        self.addCleanup(self.listener.close)
        scenario = json.loads(json.dumps(TASK).replace("%(secret)s", self.secret).replace("%%", "%"))
        scenario["responses"][2]["output"][0]["command"] = IGNORES_PROXIES % self.listener.port
        self.server = ModelServer(self.world, scenario)
        self.addCleanup(self.server.close)

    def base(self):
        return self.server.base_url[:-len("/v1")]

    def start(self, preset, *more, options=()):
        variables = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL=" + self.base(), "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
                     "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", *more]
        environment = [part for variable in variables for part in ("--env", variable)]
        return self.world.run("sandbox", "exec", "--preset", preset, "--worktree", self.repo, "--import", *options, *environment, "--", CLAUDE,
                              *ARGUMENTS, stdin=b"Write the file.\n", timeout=120, env={"ANTHROPIC_API_KEY": KEY})

    def work(self, preset, *options):
        before = sorted(os.listdir(self.repo))
        result = self.start(preset, options=options)
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
        told = self.work("workspace").out.decode()
        self.assertIn("reached 0", told)
        self.assertEqual(self.listener.visits, 1)  # the host's network, as the preset says

    def test_it_works_in_repo_contained_and_reaches_nothing_but_the_relay(self):
        told = self.work("repo-contained", "--relay", self.base().split("//")[1]).out.decode()
        self.assertIn("reached 111", told)  # refused: nobody listens in there
        self.assertEqual(self.listener.visits, 0)

    def test_without_the_relay_it_does_not_reach_the_model_from_repo_contained(self):
        result = self.start("repo-contained", "CLAUDE_CODE_MAX_RETRIES=1")
        self.assertEqual(result.code, 1, result)
        self.assertEqual([request for request in self.server.requests() if request["method"] == "POST"], [])
        self.assertFalse(os.path.exists(os.path.join(self.repo, "made.txt")))


for name, uid in users():
    globals()["Claude" + name] = type("Claude" + name, (Presets, Claude), {"uid": uid})


if __name__ == "__main__":
    real_harness.main(sys.argv[0])
