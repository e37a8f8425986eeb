"""`sandbox exec` and `sandbox explain`: the command's streams, code and signals, what it sees, and that nothing is left."""

import json
import os
import pty
import signal
import subprocess
import time

import support


def listing(path):
    return sorted(os.listdir(path))


class Exec(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()

    def options(self, *args, worktree=None):
        return ["sandbox", "exec", "--worktree", worktree or self.repo, *args]

    def sh(self, script, *args, worktree=None, **kwargs):
        return self.world.run(*self.options(*args, worktree=worktree), "--", "sh", "-c", script, **kwargs)

    def assert_ran(self, result, out=None):
        self.assertEqual(result.code, 0, result)
        if out is not None:
            self.assertEqual(result.out, out, result)

    def assert_wrapper_error(self, code, *args):
        """Code 125, and neither state nor worktree was touched."""
        before = support.fingerprint(self.repo), support.state_print(self.world)
        result = self.world.run("sandbox", "exec", "--json", "--worktree", self.repo, *args)
        self.assertEqual((result.error_code, result.code), (code, 125), result)
        self.assertEqual(before, (support.fingerprint(self.repo), support.state_print(self.world)))

    def leftovers(self):
        folder = os.path.join(self.world.state, "exec")
        return listing(folder) if os.path.isdir(folder) else []

    def start(self, script, *args, **kwargs):
        return self.world.start(*self.options(*args), "--", "sh", "-c", script, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

    def started(self, script, *args, **kwargs):
        """A running command that has printed its first line; its wrapper's own pid is that of the process."""
        process = self.start("echo ready; " + script, *args, **kwargs)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process


class Command(Exec):
    def test_the_commands_own_code_is_the_code(self):
        for code in (0, 1, 7, 124, 125, 126, 255):
            self.assertEqual(self.sh("exit %d" % code).code, code)

    def test_a_signal_is_128_and_its_number(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            self.assertEqual(self.sh("kill -%d $$" % number).code, 128 + number)

    def test_streams_are_passed_through(self):
        data = bytes(range(256)) * 400
        result = self.sh("cat; echo told >&2", stdin=data)
        self.assert_ran(result, data)
        self.assertEqual(result.err, b"told\n")

    def test_arguments_are_passed_as_they_are(self):
        words = ["[a,b]", "--json", "", "x y", "--", "-h", "%s", "sandbox"]
        result = self.world.run(*self.options(), "--", "printf", "%s\\n", *words)
        self.assert_ran(result, "".join(word + "\n" for word in words).encode())

    def test_a_terminal_stays_one_and_is_nobodys_controlling_terminal(self):
        master, slave = pty.openpty()
        script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; (: </dev/tty) 2>/dev/null || echo uncontrolled"
        process = subprocess.Popen(self.world.command([support.BIN, *self.options(), "--", "sh", "-c", script]), env=self.world.env(),
                                   stdin=slave, stdout=slave, stderr=slave, cwd=self.world.root)
        os.close(slave)
        out = b""
        while b"uncontrolled" not in out:
            out += os.read(master, 4096)
        self.assertEqual(process.wait(), 0)
        os.close(master)
        self.assertIn(b"terminal", out.splitlines())

    def test_signals_of_the_caller_reach_the_command(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            process = self.started("trap 'exit 42' %d; while :; do sleep 0.05; done" % number)
            time.sleep(0.1)
            process.send_signal(number)
            self.assertEqual(process.wait(20), 42)

    def test_a_second_interrupt_ends_a_command_that_ignores_the_first(self):
        process = self.started("trap '' INT; while :; do sleep 0.05; done")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)

    def test_what_it_started_ends_with_it(self):
        token = "support-%d" % os.getpid()
        self.assert_ran(self.sh("(setsid sh -c 'exec sleep 1000' %s &) ; (setsid sleep 999.%d &)" % (token, os.getpid())))
        out = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout.decode()
        self.assertNotIn("sleep 999.%d" % os.getpid(), out)

    def test_errors_of_the_wrapper_are_125_and_leave_nothing(self):
        self.assert_wrapper_error("preset-not-found", "--preset", "nothing", "--", "true")
        self.assert_wrapper_error("command-missing")
        self.assert_wrapper_error("command-missing", "--")
        self.assert_wrapper_error("executable-missing", "--", "no-such-program")
        self.assert_wrapper_error("executable-missing", "--", "./src")
        self.assert_wrapper_error("executable-not-executable", "--", "./README")
        self.assert_wrapper_error("backend-unknown", "--backend", "other", "--", "true")
        self.assert_wrapper_error("environment-unset", "--env", "NOT_SET_ANYWHERE", "--", "true")
        self.assert_wrapper_error("environment-name", "--env", "=x", "--", "true")
        self.assert_wrapper_error("environment-reserved", "--env", "HOME=/x", "--", "true")
        self.assert_wrapper_error("preset-path-form", "--read", "relative", "--", "true")
        self.assert_wrapper_error("root-too-wide", "--read", "/etc", "--", "true")
        self.assert_wrapper_error("relay-without-gate", "--relay", "127.0.0.1:1", "--", "true")
        self.assertEqual(self.world.run("sandbox", "exec", "--no-such-option", "--", "true").code, 125)
        link = os.path.join(self.world.root, "link")
        os.symlink(self.repo, link)
        self.world.own(link)
        self.assertEqual(self.sh("true", worktree=link).code, 125)


class Closed(Exec):
    """A caller that closed its own streams: what is opened next would have their numbers."""

    def test_nothing_of_ours_is_a_stream_of_the_command(self):
        for closed in ([0], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
            shut = " ".join("%d%s&-" % (fd, "<" if fd == 0 else ">") for fd in closed)
            command = self.world.command([support.BIN, *self.options(), "--", "sh", "-c", "ls -l /proc/self/fd > fds"])
            subprocess.run(["sh", "-c", 'exec "$@" ' + shut, "sh", *command], env=self.world.env(), cwd=self.world.root,
                           timeout=60, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(os.path.join(self.repo, "fds"), encoding="utf-8") as file:
                seen = file.read()
            self.assertNotIn(self.world.state, seen, closed)
            self.assertIn("/dev/null" if 0 in closed else " 0 -> ", seen)
            os.unlink(os.path.join(self.repo, "fds"))

    def test_a_mistake_in_the_command_line_is_an_error_like_any_other(self):
        done = self.world.run("sandbox", "exec", "--b\x1b[31m")
        self.assertEqual(done.code, 125, done)
        self.assertNotIn(b"\x1b", done.out + done.err)
        done = self.world.run("run", "--nonsense", "--json")
        self.assertEqual((done.error_code, done.code), ("usage", 2), done)
        done = self.world.run("sandbox", "exec", "--json", "--nonsense")
        self.assertEqual((done.error_code, done.code), ("usage", 125), done)

    def test_too_many_arguments_are_refused_by_name(self):
        done = self.world.run(*self.options("--json"), "--", "true", *["x"] * 66000)
        self.assertEqual((done.error_code, done.code, self.leftovers()), ("too-many-arguments", 125, []), done)


class View(Exec):
    def test_it_works_in_the_worktree_and_sees_nothing_else(self):
        secret = self.world.write(os.path.join(self.world.home, "secret"), b"secret\n", 0o644)
        result = self.sh("pwd; cat README; echo new > made; cat %s 2>/dev/null || echo hidden; ls /root /home 2>/dev/null; id -u" % secret)
        self.assert_ran(result)
        lines = result.out.decode().splitlines()
        self.assertEqual(lines[:3], [self.repo, "hello", "hidden"])
        with open(os.path.join(self.repo, "made"), "rb") as file:
            self.assertEqual(file.read(), b"new\n")
        self.assertEqual(os.lstat(os.path.join(self.repo, "made")).st_uid, os.lstat(self.repo).st_uid)

    def test_a_path_is_granted_by_an_option_read_only(self):
        folder = self.world.folder("data", 0o755)
        self.world.write(os.path.join(folder, "file"), b"data\n")
        self.assertEqual(self.sh("cat %s/file" % folder).code, 1)
        self.assert_ran(self.sh("cat %s/file; echo x > %s/other || echo held" % (folder, folder), "--read", folder), b"data\nheld\n")
        self.assertEqual(listing(folder), ["file"])

    def test_the_environment_is_built_from_empty(self):
        result = self.sh("env", "--env", "GIVEN=value", "--env", "TAKEN", env={"TAKEN": "over", "OTHER": "secret", "TERM": "dumb"})
        self.assert_ran(result)
        names = dict(line.split("=", 1) for line in result.out.decode().splitlines() if "=" in line)
        self.assertEqual((names["GIVEN"], names["TAKEN"], names["TERM"]), ("value", "over", "dumb"))
        self.assertNotIn("OTHER", names)
        self.assertNotIn("HITCHRAIL_HOME", names)
        self.assertNotEqual(names["HOME"], self.world.home)

    def test_a_value_taken_over_is_in_no_argument_list(self):
        process = self.started("test ${#KEY} = 17 && sleep 30", "--env", "KEY", env={"KEY": "hidden-value-4711"})
        out = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        self.assertNotIn(b"hidden-value-4711", out)

    def test_tools_of_the_path_run(self):
        folder = self.world.folder("tools", 0o755)
        self.world.write(os.path.join(folder, "own-tool"), b"#!/bin/sh\necho from the path\n", 0o755)
        path = folder + ":/usr/bin:/bin"
        self.assert_ran(self.sh("own-tool", env={"PATH": path}), b"from the path\n")
        self.assert_ran(self.world.run(*self.options(), "--", "own-tool", env={"PATH": path}), b"from the path\n")


class Git(Exec):
    def test_git_works_and_its_metadata_is_the_commands_own(self):
        head = self.world.git(self.repo, "rev-parse", "HEAD")
        result = self.sh("echo x > new && git add new && git commit -q -m second && git log --format=%s && git status --short")
        self.assert_ran(result, b"second\nfirst\n")
        self.assertIn(b"--import", result.err)
        self.assertEqual(self.world.git(self.repo, "rev-parse", "HEAD"), head)

    def test_commits_are_imported_when_asked(self):
        result = self.sh("echo x > new && git add new && git commit -q -m second", "--import")
        self.assert_ran(result)
        self.assertEqual(self.world.git(self.repo, "log", "--format=%s").split(), ["second", "first"])
        self.assertEqual(self.world.git(self.repo, "status", "--short"), "")
        self.assertEqual(self.leftovers(), [])

    def test_protected_names_are_not_imported_and_said(self):
        head = self.world.git(self.repo, "rev-parse", "HEAD")
        result = self.sh("b=$(echo '{}' | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$b,.claude/settings.json && "
                         "git commit -q -m settings", "--import")
        self.assert_ran(result)
        self.assertEqual(self.world.git(self.repo, "rev-parse", "HEAD"), head)
        self.assertIn(b"not imported: refs/heads/main at ", result.err)
        self.assertIn(b"(protected-name-committed)", result.err)
        self.assertIn(b"not imported: index (protected-name-committed)", result.err)
        self.assertEqual(len(self.leftovers()), 1)

    def test_an_index_that_is_not_imported_is_said(self):
        result = self.sh("echo x > new && git add new && git commit -q -m second && rm .git/index && mkfifo .git/index", "--import")
        self.assert_ran(result)
        self.assertIn(b"imported refs/heads/main at ", result.err)
        self.assertIn(b"not imported: index (index-unreadable)", result.err)
        self.assertNotIn(b"imported index", result.err)

    def test_the_common_directory_of_a_linked_worktree_is_held(self):
        """The operator's git in the linked worktree reads the configuration of the bare repository beside it."""
        mark = os.path.join(self.world.root, "mark")
        top = self.world.folder("t1", 0o755)
        bare, linked = os.path.join(top, "bare"), os.path.join(top, "lw")
        self.world.git(self.world.root, "clone", "-q", "--bare", self.repo, bare)
        self.world.git(bare, "worktree", "add", "-q", linked)
        monitor = '[core]\\n fsmonitor = "touch %s; false"\\n' % mark
        attack = ("printf '%s' >> bare/config && exit 9; git config -f bare/worktrees/lw/config.worktree a.b c && exit 8; "
                  "mv bare away && exit 7; echo x > bare/hooks/post-checkout && exit 6; echo fine > lw/file" % monitor)
        before = support.fingerprint(bare)
        self.assert_ran(self.sh(attack, worktree=top))
        self.assertEqual(support.fingerprint(bare), before)
        self.assertIn("file", self.world.git(linked, "status", "--short"))
        self.assertFalse(os.path.exists(mark))
        control = self.world.command(["sh", "-c", "printf '%s' >> %s/config" % (monitor, bare)])
        subprocess.run(control, check=True)
        self.world.git(linked, "status", "--short")
        self.assertTrue(os.path.exists(mark), "the attack would not have worked anyway")

    # PB-12
    def test_top_level_inside_equals_outside(self):
        nested = os.path.join(self.repo, "apps", "x")
        os.makedirs(nested)
        for path in (os.path.dirname(nested), nested):
            self.world.own(path)
        plain = self.world.folder("plain", 0o755)
        for name in ("one", "two"):
            self.world.repository("plain/" + name)
        for where in (self.repo, nested, plain, os.path.join(plain, "one"), os.path.join(plain, "two")):
            with self.subTest(where):
                before = listing(where)
                outside = subprocess.run(self.world.command(["git", "-C", where, "rev-parse", "--show-toplevel"]), capture_output=True,
                                         env=self.world.env(), check=False)
                inside = self.sh("git rev-parse --show-toplevel", worktree=where)
                self.assertEqual((inside.code, inside.out), (outside.returncode, outside.stdout), inside)
                self.assertEqual(listing(where), before)
        for name in ("one", "two"):
            inside = self.sh("git -C %s rev-parse --show-toplevel" % name, worktree=plain)
            self.assert_ran(inside, os.path.join(plain, name).encode() + b"\n")

    def test_a_directory_that_is_no_repository(self):
        plain = self.world.folder("plain", 0o755)
        self.assert_ran(self.sh("pwd; echo x > made", worktree=plain), plain.encode() + b"\n")
        self.assertEqual(listing(plain), ["made"])
        self.assertNotEqual(self.sh("mkdir .git/hooks || mkdir .claude/x", worktree=plain).code, 0)
        self.assertEqual(listing(plain), ["made"])


class End(Exec):
    def test_nothing_is_left(self):
        before = listing(self.repo)
        self.assert_ran(self.sh("touch $HOME/a $TMPDIR/b; mkdir $HOME/c; chmod 0 $HOME/c"))
        self.assertEqual(listing(self.repo), before)
        self.assertEqual(self.leftovers(), [])

    def test_a_killed_wrapper_takes_the_command_along_and_its_janitor_cleans_up(self):
        before = listing(self.repo)
        for _ in range(5):
            process = self.started("while :; do sleep 0.05; touch $HOME/x; done")
            self.assertEqual(len(self.leftovers()), 1)
            process.kill()
            process.wait()
            support.wait_until(lambda: self.leftovers() == [])
            self.assertEqual(listing(self.repo), before)

    def kill_wrapper_and_janitor(self):
        before = listing(self.repo)
        process = self.started("sleep 1000")
        children = support.wait_until(lambda: subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(process.pid)], capture_output=True,
                                                             check=False).stdout.decode().splitlines())
        janitors = [int(line.split()[0]) for line in children if line.split()[1] == "hitchrail"]
        self.assertEqual(len(janitors), 1, children)
        os.kill(janitors[0], signal.SIGKILL)
        process.kill()
        process.wait()
        time.sleep(0.3)
        self.assertEqual(len(self.leftovers()), 1)
        return before

    def test_when_the_janitor_is_killed_too_the_next_command_cleans_up(self):
        before = self.kill_wrapper_and_janitor()
        self.assert_ran(self.sh("true"))
        self.assertEqual((self.leftovers(), listing(self.repo)), ([], before))

    def test_or_the_next_run_does(self):
        before = self.kill_wrapper_and_janitor()
        self.world.enable_script()
        run = self.world.run("run", "--json", *self.world.script_args(self.repo), "-m", "done success x\nexit 0\nend\n")
        self.assertEqual(run.code, 0, run)
        self.assertEqual((self.leftovers(), listing(self.repo)), ([], before))

    def test_or_recover_does(self):
        before = self.kill_wrapper_and_janitor()
        recovered = self.world.run("runs", "recover")
        self.assertEqual((recovered.code, recovered.out), (0, b"removed what 1 killed sandbox exec left\n"), recovered)
        self.assertEqual((self.leftovers(), listing(self.repo)), ([], before))

    def test_one_command_at_a_time_holds_a_worktree(self):
        process = self.started("sleep 1000")
        second = self.world.run("sandbox", "exec", "--json", "--worktree", self.repo, "--", "true")
        self.assertEqual((second.error_code, second.code), ("worktree-busy", 125), second)
        self.world.enable_script()
        run = self.world.run("run", "--json", *self.world.script_args(self.repo), "-m", "done success x\nexit 0\nend\n")
        self.assertEqual((run.error_code, run.code), ("worktree-busy", 3), run)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        self.assert_ran(self.sh("true"))


class Proof(Exec):
    def proofs(self, cache):
        self.assert_ran(self.sh("echo ran", env={"HITCHRAIL_PROOF_CACHE": cache}), b"ran\n")
        return {name: os.stat(os.path.join(cache, name)).st_mtime_ns for name in listing(cache)}

    def test_a_proof_is_remembered_where_it_is_asked_for_and_made_once(self):
        cache = self.world.folder("proofs")
        first = self.proofs(cache)
        self.assertEqual(len(first), 1)
        self.assertEqual(self.proofs(cache), first)
        own = os.path.join(self.world.state, "cache")
        self.assertFalse([name for name in (listing(own) if os.path.isdir(own) else []) if name.startswith("proof-")])

    def test_a_folder_that_others_may_enter_is_not_believed(self):
        self.assertEqual(self.proofs(self.world.folder("proofs", 0o755)), {})

    def test_an_edited_proof_is_made_anew(self):
        cache = self.world.folder("proofs")
        (name,) = self.proofs(cache)
        path = os.path.join(cache, name)
        with open(path, "rb") as file:
            text = file.read()
        self.world.write(path, text.replace(b'"digest":"sha256:', b'"digest":"sha256:0', 1), 0o600)
        self.proofs(cache)
        with open(path, "rb") as file:
            self.assertNotIn(b'"digest":"sha256:0' + text.split(b'"digest":"sha256:', 1)[1][:20], file.read())


class Network(Exec):
    """Under network gate: the relay is there at its own address, nothing else is, whatever a program does about proxies."""

    SERVER = ("import http.server, sys\n"
              "class Handler(http.server.BaseHTTPRequestHandler):\n"
              "    def do_GET(self):\n"
              "        self.send_response(200); self.end_headers(); self.wfile.write(b'from the host')\n"
              "    def log_message(self, *args): pass\n"
              "server = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
              "print(server.server_address[1], flush=True); server.serve_forever()\n")
    ASK = ("import urllib.request, sys\n"
           "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
           "try: print(opener.open('http://127.0.0.1:%s/', timeout=5).read().decode())\n"
           "except OSError as error: print('unreachable')\n")

    def setUp(self):
        super().setUp()
        self.server = subprocess.Popen(["/usr/bin/python3", "-c", self.SERVER], stdout=subprocess.PIPE)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.addCleanup(self.server.stdout.close)
        self.port = self.server.stdout.readline().strip().decode()

    def ask(self, *args):
        return self.world.run(*self.options(*args), "--", "/usr/bin/python3", "-c", self.ASK % self.port)

    def test_only_a_relay_leads_out(self):
        self.assert_ran(self.ask("--preset", "workspace"), b"from the host\n")
        self.assert_ran(self.ask("--preset", "repo-contained"), b"unreachable\n")
        self.assert_ran(self.ask("--preset", "repo-contained", "--relay", "127.0.0.1:" + self.port), b"from the host\n")

    def test_the_gate_refuses_what_nobody_allowed(self):
        result = self.sh("env | grep -i ^https_proxy=; python3 -c \"import urllib.request as r; r.urlopen('https://not-allowed.example.org/', timeout=5)\"",
                         "--preset", "repo-contained")
        self.assertEqual(result.code, 1, result)
        self.assertIn(b"https_proxy=http://127.0.0.1:", result.out.lower())
        self.assertIn(b"403", result.err)

    def test_a_relay_is_a_literal_address(self):
        self.assert_wrapper_error("relay-invalid", "--preset", "repo-contained", "--relay", "example.org:80", "--", "true")

    def test_the_network_allow_list_masks_and_contains(self):
        self.world.write(os.path.join(self.repo, ".env"), b"secret\n")
        result = self.sh("cat .env || echo masked; cat README; git status --short", "--preset", "network-allowlist")
        self.assert_ran(result, b"masked\nhello\n")
        self.assert_ran(self.ask("--preset", "network-allowlist"), b"unreachable\n")


class Hostile(Exec):
    def test_a_workspace_of_fifos_sockets_loops_and_odd_names(self):
        os.mkfifo(os.path.join(self.repo, "fifo"))
        os.symlink("loop", os.path.join(self.repo, "loop"))
        os.symlink("/etc/shadow", os.path.join(self.repo, "out"))
        for name in ("a\nb", "\x1b[31mred", "-rf", " "):
            self.world.write(os.path.join(self.repo, name), b"x")
        os.makedirs(os.path.join(self.repo, "closed"))
        os.chmod(os.path.join(self.repo, "closed"), 0)
        for name in ("fifo", "loop", "out", "closed"):
            self.world.own(os.path.join(self.repo, name))
        before = listing(self.repo)
        result = self.sh("cat out || echo nothing; ls | wc -l")
        if self.world.uid == 0:
            self.assert_ran(result)
        else:  # a folder that the run could open and this user cannot look into
            self.assertIn(result.code, (0, 125), result)
        self.assertNotIn(b"root:", result.out)
        self.assertNotIn(b"\x1b[31m", result.err)
        self.assertEqual(listing(self.repo), before)
        os.chmod(os.path.join(self.repo, "closed"), 0o755)

    def test_a_link_to_a_file_outside_that_was_there_before_is_refused(self):
        outside = self.world.write(os.path.join(self.world.root, "outside"), b"mine\n")
        os.link(outside, os.path.join(self.repo, "linked"))
        self.assert_wrapper_error("hard-link-outside", "--", "true")

    def test_protected_names_that_are_links_are_refused(self):
        os.symlink("src", os.path.join(self.repo, ".claude"))
        self.world.own(os.path.join(self.repo, ".claude"))
        self.assert_wrapper_error("protected-name-symlink", "--", "true")


class Explain(Exec):
    def explain(self, *args, command=()):
        return self.world.run("sandbox", "explain", "--worktree", self.repo, *args, *(["--", *command] if command else []))

    def test_each_path_has_its_access_and_why(self):
        result = self.explain("--json", "--read", "/usr/share", command=["sh"])
        self.assertEqual(result.code, 0, result)
        paths = {(path["path"], path["access"]): path for path in result.json["paths"] if isinstance(path["path"], str)}
        self.assertEqual(paths[(self.repo, "write")]["role"], "worktree")
        self.assertIn(("/usr", "read"), paths)
        for name in (".agents", ".codex", ".claude", ".hitchrail"):
            self.assertIn((os.path.join(self.repo, name), "read"), paths)
        self.assertIn((os.path.join(self.repo, ".git"), "write"), paths)
        for path in result.json["paths"]:
            self.assertTrue(path["why"], path)
        self.assertFalse(support.state_print(self.world))
        human = self.explain()
        self.assertEqual(human.code, 0, human)
        self.assertIn(self.repo.encode(), human.out)

    def test_evidence_has_digests_and_no_path(self):
        evidence = self.explain("--json").json["evidence"]
        text = json.dumps(evidence)
        for path in (self.repo, self.world.home, self.world.root, "/usr"):
            self.assertNotIn(path, text)
        self.assertEqual(evidence["schemaVersion"], "filesystem-sandbox-evidence/v1")

    def test_a_policy_that_would_be_refused_says_all_of_it(self):
        result = self.explain("--json", "--read", "/etc", "--read", "/home")
        self.assertEqual(result.code, 3, result)
        self.assertEqual({blocker["code"] for blocker in result.json["blockers"]}, {"root-too-wide"})
        human = self.explain("--read", "/etc")
        self.assertIn(b"BLOCKED", human.out)

    def test_links_in_the_workspace_are_no_grants(self):
        target = self.world.write(os.path.join(self.world.root, "target"), b"secret\n")
        os.symlink(target, os.path.join(self.repo, "evil"))
        self.world.own(os.path.join(self.repo, "evil"))
        for path in ("<workspace>/evil", os.path.join(self.repo, "evil")):
            self.assert_refused(self.explain("--json", "--read", path), "root-alias", 3)


class AsUser:
    uid = support.ORDINARY_UID


class CommandAsUser(AsUser, Command):
    pass


class ClosedAsUser(AsUser, Closed):
    pass


class ViewAsUser(AsUser, View):
    pass


class GitAsUser(AsUser, Git):
    pass


class EndAsUser(AsUser, End):
    pass


class ProofAsUser(AsUser, Proof):
    pass


class NetworkAsUser(AsUser, Network):
    pass


class HostileAsUser(AsUser, Hostile):
    pass


class ExplainAsUser(AsUser, Explain):
    pass


if __name__ == "__main__":
    support.main()
