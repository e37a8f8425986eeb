"""What starting costs. Prints medians, 99th percentiles and ratios to peers measured in the same run; decides nothing.

    HITCHRAIL_BUILD=build/bench PYTHONPATH=tests/e2e python3 tests/bench/road_bench.py [RUNS]
"""

import os
import re
import shutil
import subprocess
import sys
import time

import support

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 30


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def timed(argv, env, runs=RUNS):
    out = []
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        out.append((time.perf_counter() - begin) * 1000)
    return out


def row(name, values, peer_name=None, peer=None, target=None):
    text = "%-34s p50 %8.2f ms  p99 %8.2f ms" % (name, quantile(values, 0.5), quantile(values, 0.99))
    if peer:
        text += "  ratio %.2f to %s" % (quantile(values, 0.5) / quantile(peer, 0.5), peer_name)
    if target:
        text += "  (target %s)" % target
    print(text)


def private_kib(pid):
    with open("/proc/%d/smaps_rollup" % pid) as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Private_Dirty")))


def processes_below(state):
    """(name, pid) of the run's own programs: those whose descriptors lead into the state directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                name = file.read().strip()
            if not name.startswith("hitchrail-"):
                continue
            fds = [os.readlink("/proc/%s/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%s/fd" % pid)]
            found.append((name, int(pid), any(fd.startswith(state) for fd in fds)))
        except OSError:
            continue
    return found


def bench_commands(world):
    env = world.env()
    true = timed(["/bin/true"], env)
    row("/bin/true", true)
    row("hitchrail version", timed([support.BIN, "version"], env), "/bin/true", true, "<= 3 x")
    folder = world.folder("six", 0o755)
    source = os.path.join(support.BUILD, "plugins", "codex-cli.so")
    for number in range(5):
        shutil.copyfile(source, os.path.join(folder, "copy%d.so" % number))
    row("plugins list, 6 plugins", timed([support.BIN, "plugins", "list", "--plugin-dir", folder], env), "/bin/true", true,
        "<= 20 ms")


def bench_road(world):
    repo = world.repository()
    world.enable_script()
    args = ["run", "--timings", *world.script_args(repo), "-m", "done success ok\nexit 0\n"]
    world.run(*args)  # fills the probe cache
    preview = [support.BIN, "preview", "--json", *world.script_args(repo), "-m", "done success ok\nexit 0\n"]
    row("preview, whole, probe cached", timed(preview, world.env()), target="<= 60 ms")
    stages = {}
    for _ in range(RUNS):
        done = world.run(*args)
        for name, value in re.findall(r"stage (\S+)\s+([0-9.]+) ms", done.err.decode()):
            stages.setdefault(name, []).append(float(value))
    total = stages.pop("total")
    for name, values in stages.items():
        row("road: " + name, values)
    row("road: main to the harness's exec", total, target="<= 40 ms")
    if shutil.which("bwrap"):
        peer = timed(["bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "/bin/true"],
                     world.env())
        row("bwrap --unshare-all true", peer)
        print("%-34s ratio %.2f to bwrap" % ("road: spawn alone", quantile(stages["spawn"], 0.5) / quantile(peer, 0.5)))


def bench_memory(world):
    repo = os.path.join(world.root, "repo")
    started = world.run("run", "--detach", *world.script_args(repo), "-m", "sleep 20000\nexit 0\n")
    attempt = started.out.decode().strip()
    time.sleep(1)
    sizes = {}
    for name, pid, ours in processes_below(world.state):
        if ours or name == "hitchrail-init":
            sizes[name] = sizes.get(name, 0) + private_kib(pid)
    world.run("runs", "stop", "--kill", attempt)
    for name, kib in sorted(sizes.items()):
        print("%-34s %6d KiB private" % (name, kib))
    print("%-34s %6d KiB private  (target <= 2048 KiB)" % (
        "shim + init", sizes.get("hitchrail-shim", 0) + sizes.get("hitchrail-init", 0)))
    print("%-34s %6d KiB private  (target <= 6144 KiB)" % ("runner, idle", sizes.get("hitchrail-runne", 0)))


def main():
    support.require_build()
    world = support.World()
    try:
        bench_commands(world)
        bench_road(world)
        bench_memory(world)
    finally:
        world.close()


if __name__ == "__main__":
    main()
