"""What tests with real harnesses share: the scripted model server as a child, and a network and a process namespace of
their own, so that what a harness cannot reach it cannot depend on, and what is left of a run is visible as a process."""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import support

SERVER = os.path.join(support.SOURCE, "tests", "peers", "model-server", "model_server.py")
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
KEY = "dummy-key-4b1f0c9d7e"  # in no file of a run, whatever happens
INSIDE = "HITCHRAIL_E2E_INSIDE"


class ModelServer:
    def __init__(self, world, scenario):
        folder = tempfile.mkdtemp(prefix="server-", dir=world.root)
        self.log_path = os.path.join(folder, "log")
        path = os.path.join(folder, "scenario.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(scenario, file)
        self.process = subprocess.Popen(
            [PYTHON, "-B", SERVER, "--scenario", path, "--log", self.log_path, "--watch-stdin",
             "--expect-key-env", "MODEL_KEY"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"MODEL_KEY": KEY})
        self.base_url = json.loads(self.process.stdout.readline())["base_url"]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=10)

    def requests(self):
        if not os.path.exists(self.log_path):
            return []
        with open(self.log_path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def users():
    """(name, uid) of everyone the tests run as."""
    if os.geteuid() == 0:
        return [("AsRoot", 0), ("AsOrdinaryUser", support.ORDINARY_UID)]
    return [("AsThisUser", os.geteuid())]


def drop_ambient_capabilities():
    """Those that an ordinary user got for the loopback interface: no test shall have them."""
    if ctypes.CDLL(None, use_errno=True).prctl(47, 4, 0, 0, 0) != 0:  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
        sys.exit("cannot drop the ambient capabilities")


def bring_loopback_up():
    request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS
    with open("/proc/net/route", encoding="utf-8") as file:
        if len(file.readlines()) > 1:
            sys.exit("this network namespace has a route to somewhere")


def enter_namespaces(program):
    """Runs that test program again in namespaces of its own; its exit code is ours."""
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # The shell is the namespace's first process: it reaps what a run leaves behind.
    inner = unshare + ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-B", os.path.abspath(program)] + sys.argv[1:]
    return subprocess.run(inner, env=dict(os.environ, **{INSIDE: "1"}), check=False).returncode


def main(program):
    support.require_build()
    if os.geteuid() != 0:
        # A user namespace would show root's directories as nobody's, and nothing is loaded from below those.
        print("started by an ordinary user: runs as that user only, in the network it was started in", file=sys.stderr)
    elif not os.environ.get(INSIDE):
        sys.exit(enter_namespaces(program))
    else:
        bring_loopback_up()
        drop_ambient_capabilities()
    unittest.main(module="__main__", verbosity=2)
