"""What the tests of managed worktrees share: a repository with an origin, and what must be left when nothing may be."""

import json
import os
import subprocess

import support


class Trees(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.path = os.path.join(self.world.root, "tree")
        self.worktrees = os.path.join(self.world.state, "worktrees")

    def create(self, *args, **kwargs):
        return self.world.run("worktrees", "create", "--repository", self.repo, "--json", *args, **kwargs)

    def made(self, *args, **kwargs):
        done = self.create(*args, **kwargs)
        self.assertEqual(done.code, 0, done)
        return done.json

    def remove(self, name, *args):
        return self.world.run("worktrees", "remove", name, "--json", *args)

    def listed(self, *args):
        done = self.world.run("worktrees", "list", "--json", *args)
        self.assertEqual(done.code, 0, done)
        return done.json["worktrees"]

    def manifest(self, identity):
        with open(os.path.join(self.worktrees, identity + ".json"), encoding="utf-8") as file:
            return json.load(file)

    def origin(self, url="file://"):
        """A bare origin that is one commit ahead; returns its path and that commit."""
        origin = self.world.folder("origin.git", 0o755)
        self.world.git(origin, "init", "-q", "--bare")
        self.world.git(self.repo, "remote", "add", "origin", url + origin)
        self.world.git(self.repo, "push", "-q", "-u", "origin", "main")
        other = self.world.folder("other", 0o755)
        self.world.git(other, "init", "-q")
        self.world.git(other, "pull", "-q", origin, "main")
        self.world.write(os.path.join(other, "new"), b"new\n")
        self.world.git(other, "add", "new")
        self.world.git(other, "commit", "-q", "-m", "second")
        self.world.git(other, "push", "-q", origin, "HEAD:main")
        return origin, self.world.git(other, "rev-parse", "HEAD").strip()

    def assert_git_is_whole(self):
        self.world.git(self.repo, "fsck", "--strict")
        self.world.git(self.repo, "worktree", "list")

    def leftovers(self):
        """Everything of ours outside the state directory, by name."""
        found = []
        for folder in (self.world.root, os.path.join(self.repo, ".git", "worktrees"), os.path.join(self.repo, ".git")):
            if os.path.isdir(folder):
                found += [os.path.join(folder, name) for name in os.listdir(folder)
                          if name.startswith(".hitchrail") or name.endswith(".lock")]
        registered = os.path.join(self.repo, ".git", "worktrees")
        found += os.listdir(registered) if os.path.isdir(registered) else []
        scratch = os.listdir(self.worktrees) if os.path.isdir(self.worktrees) else []
        return found + [name for name in scratch if name.endswith(".scratch")]

    def branches(self):
        return self.world.git(self.repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def hostile(world, repo, marker):
    """Every program that a repository can name for a checkout or a fetch, each of which would write the marker."""
    program = world.write(os.path.join(world.root, "evil.sh"), ("#!/bin/sh\necho $0 $* >> %s\n[ $# -gt 0 ] && exit 1\nexec cat\n" % marker).encode(), 0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc", "fsmonitor-watchman"):
        world.write(os.path.join(repo, ".git", "hooks", hook), ("#!/bin/sh\necho hook >> %s\n" % marker).encode(), 0o755)
    world.write(os.path.join(repo, ".gitattributes"), b"*.txt filter=evil\n*.md filter=long diff=evil\n")
    world.write(os.path.join(repo, "a.txt"), b"a\n")
    world.write(os.path.join(repo, "b.md"), b"b\n")
    world.git(repo, "add", ".")
    world.git(repo, "commit", "-q", "-m", "with filters")
    included = world.write(os.path.join(world.root, "included"), ('[filter "long"]\n smudge = %s\n' % program).encode())
    for key, value in (("filter.evil.smudge", program), ("filter.evil.required", "true"), ("include.path", included),
                       ("core.fsmonitor", program), ("core.sshCommand", program), ("core.gitProxy", program),
                       ("core.alternateRefsCommand", program), ("credential.helper", "!" + program), ("core.askPass", program),
                       ("remote.origin.uploadpack", program), ("uploadpack.packObjectsHook", program),
                       ("core.editor", program), ("core.pager", program), ("diff.evil.textconv", program),
                       ("protocol.ext.allow", "always"), ("protocol.allow", "always"), ("submodule.recurse", "true")):
        world.git(repo, "config", key, value)
    return program


def run_git(world, repo, *args):
    return subprocess.run(world.command(["git", "-C", repo, *args]), env=world.env(), capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
