"""What every whole-program test needs: a throw-away world (home, state, configuration, repository), the program with a clean
environment, and ways to see that nothing changed. Python's standard library only."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ.get("HITCHRAIL_BUILD", "")
SOURCE = os.environ.get("HITCHRAIL_SOURCE", "")
BIN = os.path.join(BUILD, "bin", "hitchrail")

ORDINARY_UID = 65534 if os.geteuid() == 0 else os.geteuid()


def require_build():
    if not BUILD or not os.path.exists(BIN):
        sys.exit("HITCHRAIL_BUILD does not name a build tree with bin/hitchrail")


class Result:
    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error_code(self):
        """The code of a refusal printed with --json."""
        for line in self.out.decode("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if "error" in value:
                    return value["error"]["code"]
        return None

    def __repr__(self):
        return "exit %d\n--- out\n%s\n--- err\n%s" % (
            self.code, self.out.decode("utf-8", "replace")[-4000:], self.err.decode("utf-8", "replace")[-4000:])


def proof_cache(uid):
    """One for all worlds of a user: what the boundary holds on this machine is proved once, not in every test."""
    path = os.path.join(BUILD, "test-proofs-%d" % uid)
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o700)
    if uid != os.geteuid():
        os.chown(path, uid, uid)
    return path


def page_commands(page):
    """The commands of a page's console blocks."""
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"^```console\n(.*?)^```", file.read(), re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


class World:
    """Owned by `uid`; everything below one directory that close() removes."""

    def __init__(self, uid=None):
        self.uid = os.geteuid() if uid is None else uid
        self.root = tempfile.mkdtemp(prefix="hitchrail-e2e-", dir=os.environ.get("HITCHRAIL_TEST_DIR", "/var/tmp"))
        os.chmod(self.root, 0o755)
        self.home = self.folder("home")
        self.state = os.path.join(self.root, "state")
        self.config = self.folder("config")
        self.proofs = proof_cache(self.uid)
        self.extra_env = {}
        if self.uid != os.geteuid():
            os.chown(self.root, self.uid, self.uid)

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def folder(self, name, mode=0o700):
        path = os.path.join(self.root, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.uid)
        return path

    def env(self):
        env = {"PATH": os.path.join(BUILD, "peers") + ":/usr/local/bin:/usr/bin:/bin", "HOME": self.home, "HITCHRAIL_HOME": self.state,
               "HITCHRAIL_CONFIG": self.config, "HITCHRAIL_PROOF_CACHE": self.proofs, "LANG": "C.UTF-8"}
        env.update(self.extra_env)
        return env

    def command(self, argv):
        if self.uid == os.geteuid():
            return argv
        return ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups"] + argv

    def run(self, *args, stdin=b"", timeout=60, env=None, cwd=None):
        full = self.env()
        full.update(env or {})
        done = subprocess.run(self.command([BIN] + [os.fsencode(a) if isinstance(a, str) else a for a in args]),
                              input=stdin, capture_output=True, timeout=timeout, env=full, cwd=cwd or self.root)
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args, env=None, **kwargs):
        full = self.env()
        full.update(env or {})
        return subprocess.Popen(self.command([BIN, *args]), env=full, cwd=self.root, **kwargs)

    def shell(self, *argv, cwd=None, check=True):
        done = subprocess.run(self.command(list(argv)), capture_output=True, env=self.env(), cwd=cwd or self.root)
        if check and done.returncode != 0:
            raise AssertionError("%r: %s" % (argv, done.stderr))
        return done.stdout

    def git(self, repo, *args):
        return self.shell("git", "-c", "user.name=Operator", "-c", "user.email=operator@example.org",
                          "-c", "init.defaultBranch=main", "-C", repo, *args).decode()

    def repository(self, name="repo"):
        """A repository with one commit, a folder and two files."""
        repo = self.folder(name, 0o755)
        self.git(repo, "init", "-q")
        self.git(repo, "config", "user.name", "Operator")
        self.git(repo, "config", "user.email", "operator@example.org")
        self.write(os.path.join(repo, "README"), b"hello\n")
        os.makedirs(os.path.join(repo, "src"), exist_ok=True)
        self.own(os.path.join(repo, "src"))
        self.write(os.path.join(repo, "src", "main.txt"), b"one\n")
        self.git(repo, "add", ".")
        self.git(repo, "commit", "-q", "-m", "first")
        return repo

    def write(self, path, data, mode=0o644):
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, mode)
        self.own(path)
        return path

    def own(self, path):
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    # ---- runs of the scripted harness ----------------------------------------------------------------------------------
    def script_args(self, worktree):
        """Arguments of `run` for the scripted harness."""
        return ["--agent", "script", "--plugin-dir", os.path.join(BUILD, "test-plugins"), "--profile-dir",
                os.path.join(BUILD, "test-profiles"), "--worktree", worktree]

    def enable_script(self):
        done = self.run("plugins", "enable", "script", "--plugin-dir", os.path.join(BUILD, "test-plugins"))
        if done.code != 0:
            raise AssertionError("plugins enable script: %r" % done)

    def attempts(self):
        folder = os.path.join(self.state, "attempts")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return sorted(name for name in names if not name.startswith("."))

    def attempt_dir(self, attempt=None):
        return os.path.join(self.state, "attempts", attempt or self.attempts()[-1])

    def journal(self, attempt=None):
        with open(os.path.join(self.attempt_dir(attempt), "journal.jsonl"), "rb") as file:
            return [json.loads(line) for line in file.read().split(b"\n") if line][1:]


def fingerprint(path):
    """Names, types, modes, sizes and content of a whole tree: equal before and after means nothing was changed."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files) + ["."]:
            full = os.path.join(folder, name)
            status = os.lstat(full)
            digest.update(os.fsencode(full) + b"\0%o %d\n" % (status.st_mode, status.st_size if name != "." else 0))
            if stat.S_ISREG(status.st_mode):
                with open(full, "rb") as file:
                    digest.update(file.read())
            elif stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(os.readlink(full)))
    return digest.hexdigest()


def state_print(world):
    """What a command that changes nothing must leave as it was: the state directory without the probe cache; one that holds
    nothing else is as good as none."""
    found = []
    for name in sorted(set(os.listdir(world.state)) - {"cache"}) if os.path.isdir(world.state) else []:
        path = os.path.join(world.state, name)
        if os.path.isdir(path):
            found.append((name, fingerprint(path)))
        else:
            with open(path, "rb") as file:
                found.append((name, hashlib.sha256(file.read()).hexdigest()))
    return found


def wait_until(what, seconds=20, interval=0.01):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(interval)
    raise AssertionError("not within %s s" % seconds)


class TestCase(unittest.TestCase):
    uid = None

    def setUp(self):
        require_build()
        self.world = World(self.uid)
        self.addCleanup(self.world.close)

    def assert_refused(self, result, code, exit_code):
        self.assertEqual((result.error_code, result.code), (code, exit_code), result)


def main():
    require_build()
    unittest.main(verbosity=2)
