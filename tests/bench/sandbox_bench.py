"""What `true` in a sandbox costs as a whole command: `hitchrail sandbox exec` beside plain true, bubblewrap, `codex sandbox`
and npm's sandbox-runtime, taken in turn in one run. Prints medians, 99th percentiles and ratios; decides nothing. (The launch
alone, without the command around it: boundary_bench.)

    HITCHRAIL_BUILD=build/bench PYTHONPATH=tests/e2e python3 tests/bench/sandbox_bench.py [RUNS]

Peers are taken where they are found and named where they are not: bwrap on PATH; codex in .deps (./test puts it there);
sandbox-runtime in .deps/sandbox-runtime (npm install --prefix .deps/sandbox-runtime @anthropic-ai/sandbox-runtime; it needs
the packages bubblewrap, socat and ripgrep).
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import time

import support

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
CODEX = next(iter(glob.glob(os.path.join(support.SOURCE or ".", ".deps/codex/node_modules/@openai/codex-linux-*/vendor/*/bin/codex"))), None)
RUNTIME = os.path.join(support.SOURCE or ".", ".deps/sandbox-runtime/node_modules/.bin/srt")


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def bubblewrap(worktree):
    # The same namespaces and roots as preset workspace, without Landlock, filter and protected names.
    return ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session",
            "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink",
            "usr/lib64", "/lib64", "--symlink", "usr/sbin", "/sbin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
            "--bind", worktree, worktree, "--chdir", worktree, "true"]


def codex_sandbox(world, worktree):
    package = os.path.dirname(os.path.dirname(CODEX))
    entries = [({"type": "special", "value": {"kind": "minimal"}}, "read"),
               ({"type": "path", "path": package}, "read"),
               ({"type": "path", "path": os.path.join(world.home, "tmp", "arg0")}, "read"),
               ({"type": "path", "path": worktree}, "write")]
    state = {"permissionProfile": {"type": "managed", "network": "enabled", "file_system": {
        "type": "restricted", "entries": [{"path": path, "access": access} for path, access in entries]}},
        "sandboxCwd": "file://" + worktree}
    return [CODEX, "sandbox", "--sandbox-state-json", json.dumps(state), "--", "true"]


def sandbox_runtime(world, worktree):
    settings = world.write(os.path.join(world.root, "srt.json"), json.dumps({
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": [worktree], "denyWrite": []}}).encode())
    return ["node", RUNTIME, "-s", settings, "true"]


def main():
    support.require_build()
    world = support.World()
    try:
        repo = world.repository()
        ours = [support.BIN, "sandbox", "exec", "--preset", "workspace", "--worktree", repo, "--", "true"]
        commands = {"plain true": ["true"], "hitchrail sandbox exec": ours}
        if shutil.which("bwrap"):
            commands["bubblewrap"] = bubblewrap(repo)
        if CODEX:
            commands["codex sandbox"] = codex_sandbox(world, repo)
        if os.path.exists(RUNTIME):
            commands["sandbox-runtime"] = sandbox_runtime(world, repo)
        times = {name: [] for name in commands}
        for turn in range(RUNS + 1):
            for name, argv in commands.items():
                begin = time.perf_counter()
                done = subprocess.run(argv, env=dict(world.env(), CODEX_HOME=world.home), cwd=repo, capture_output=True, check=False)
                spent = (time.perf_counter() - begin) * 1000
                if done.returncode != 0:
                    sys.exit(f"{name}: exit {done.returncode}: {done.stderr.decode()[-400:]}")
                if turn > 0:  # the first one warms caches
                    times[name].append(spent)
        mine = quantile(times["hitchrail sandbox exec"], 0.5)
        for name, values in times.items():
            print("%-24s p50 %8.2f ms  p99 %8.2f ms  takes %.2f of ours" % (
                name, quantile(values, 0.5), quantile(values, 0.99), quantile(values, 0.5) / mine))
        for name in ("bubblewrap", "codex sandbox", "sandbox-runtime"):
            if name not in commands:
                print("%-24s not found, not measured" % name)
    finally:
        world.close()


if __name__ == "__main__":
    main()
