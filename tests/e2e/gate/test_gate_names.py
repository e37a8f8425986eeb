"""Names behind the gate: resolved once, all addresses judged, the judged address dialled. A small name server and an upstream at an
invented public address stand in a second network namespace; what a name answers changes from question to question."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import support

INSIDE = "HITCHRAIL_GATE_NAMES_INSIDE"
PUBLIC = "93.184.216.34"
PUBLIC6 = "2606:2800:220:1::34"
HERE = "93.184.216.1"
PORT = 8443


def shell(text):
    subprocess.run(text, shell=True, check=True)


class NameServer:
    """Answers from a table: a name has a list of answers, one a question (A and AAAA together), the last one for ever."""

    def __init__(self):
        self.table = {}
        self.asked = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            query, client = self.socket.recvfrom(1500)
            name, at = [], 12
            while query[at]:
                name.append(query[at + 1:at + 1 + query[at]].decode())
                at += query[at] + 1
            kind = struct.unpack(">H", query[at + 1:at + 3])[0]
            text = ".".join(name).lower()
            self.asked.append((text, kind))
            answers = self.table.get(text, [[]])
            turn = min(sum(1 for one in self.asked if one == (text, kind)), len(answers)) - 1
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            found = [a for a in answers[turn] if (":" in a) == (kind == 28)] if kind in (1, 28) else []
            body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(packed)) + packed
                            for packed in (socket.inet_pton(family, a) for a in found))
            code = 0 if text in self.table else 3
            header = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0)
            self.socket.sendto(header + query[12:at + 5] + body, client)


class Names(support.TestCase):
    server = None

    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.world.write(os.path.join(self.world.root, "gate.yaml"), b"")
        self.server.table.clear()
        self.server.asked.clear()

    def go(self, hosts, *requests):
        preset = """schemaVersion: sandbox-preset/v1
id: names
name: Names
enforcement: required
requiredCapabilities: [filesystem.read, filesystem.write, network.gate]
filesystem: {readPaths: ["<workspace>"], writePaths: ["<workspace>"]}
network: {mode: gate, allowedHosts: [%s]}
environment: []
""" % ", ".join('"%s"' % host for host in hosts)
        path = self.world.write(os.path.join(self.world.folder("presets"), "names.yaml"), preset.encode())
        added = self.world.run("sandbox", "presets", "add", path)
        self.assertEqual(added.code, 0, added)
        script = "\n".join("connect 127.0.0.1 61080 CONNECT %s HTTP/1.1" % request for request in requests)
        done = self.world.run("run", *self.world.script_args(self.repo), "-m", script + "\ndone success ok\nexit 0\nend\n",
                              "--sandbox", "names")
        self.assertEqual(done.code, 0, done)
        journal = self.world.journal()
        said = [event["payload"]["text"] for event in journal if event["kind"] == "message.assistant"][:-1]
        return ([re.sub(r"connect 0 HTTP/1.1 (\d+).*", r"\1", text) for text in said],
                [event["payload"] for event in journal if event["kind"] == "egress.decision"])

    def test_an_allowed_name_at_a_public_address_is_reached(self):
        self.server.table["api.example.com"] = [[PUBLIC]]
        said, decisions = self.go([f"api.example.com:{PORT}"], f"api.example.com:{PORT}", f"API.Example.COM.:{PORT}")
        self.assertEqual(said, ["200", "200"])
        self.assertEqual({(one["reason"], one["matchedRule"]) for one in decisions},
                         {("allowed-by-host-rule", f"exact:api.example.com:{PORT}")})

    def test_a_dead_first_address_does_not_keep_the_second_from_being_tried(self):
        self.server.table["api.example.com"] = [["93.184.216.99", PUBLIC]]
        self.server.table["both.example.com"] = [[PUBLIC6, PUBLIC]]
        said, _ = self.go([f"*.example.com:{PORT}"], f"api.example.com:{PORT}", f"both.example.com:{PORT}")
        self.assertEqual(said, ["200", "200"])

    def test_a_private_address_beside_a_public_one_refuses_the_name(self):
        for number, denied in enumerate(["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
                                         "fd00::1", "0.0.0.0"]):
            self.server.table[f"n{number}.example.com"] = [[PUBLIC, denied]]
        count = len(self.server.table)
        said, decisions = self.go([f"*.example.com:{PORT}"], *[f"n{i}.example.com:{PORT}" for i in range(count)])
        self.assertEqual(said, ["403"] * count)
        self.assertEqual([one["reason"] for one in decisions],
                         ["loopback-blocked", "private-network-blocked", "metadata-endpoint-blocked", "loopback-blocked",
                          "loopback-blocked", "loopback-blocked", "private-network-blocked", "loopback-blocked"])

    def test_a_name_that_turns_private_after_it_was_public_is_refused_each_time_it_is_private(self):
        self.server.table["turn.example.com"] = [[PUBLIC], ["127.0.0.1"], [PUBLIC], [HERE]]
        said, decisions = self.go([f"turn.example.com:{PORT}"], *[f"turn.example.com:{PORT}"] * 4)
        self.assertEqual(said, ["200", "403", "200", "403"])
        self.assertEqual(decisions[3]["blockedAddressClass"], "loopback")  # this machine's own public address
        # One question a connection: what was judged is what was dialled.
        self.assertEqual(self.server.asked.count(("turn.example.com", 1)), 4)

    def test_a_name_that_is_not_allowed_is_never_asked_for(self):
        said, decisions = self.go([f"api.example.com:{PORT}"], "c2VjcmV0.evil.example:443", f"x.api.example.com:{PORT}")
        self.assertEqual(said, ["403", "403"])
        self.assertEqual([one["reason"] for one in decisions], ["default-deny", "default-deny"])
        self.assertEqual(self.server.asked, [])

    def test_a_name_that_nobody_has_is_told_so(self):
        said, decisions = self.go([f"*.example.com:{PORT}"], f"nobody.example.com:{PORT}")
        self.assertEqual(said, ["502"])
        self.assertEqual(decisions[0]["reason"], "name-unresolved")


def build_networks():
    """Two namespaces: this one, with our name server and one end of a cable; one with the upstream at the other end."""
    shell("ip link set lo up")
    # Its parent's end is the only thing that keeps the holder: it goes when we go.
    holder = subprocess.Popen(["unshare", "--net", sys.executable, "-c", UPSTREAM], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    time.sleep(0.5)
    shell(f"ip link add cable0 type veth peer name cable1 netns {holder.pid}")
    shell(f"ip addr add {HERE}/24 dev cable0 && ip link set cable0 up")
    shell("ip -6 addr add 2606:2800:220:1::1/64 dev cable0 nodad")
    holder.stdin.write(b"go\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == b"ready\n"
    # In a mount namespace of our own: what the machine has stays as it is.
    shell(f"mount -t tmpfs tmpfs /mnt && echo 'nameserver 127.0.0.1' > /mnt/resolv.conf && "
          f"mount --bind /mnt/resolv.conf {os.path.realpath('/etc/resolv.conf')}")
    return holder


UPSTREAM = f"""
import socket, subprocess, sys, threading
sys.stdin.readline()
subprocess.run("ip link set lo up; ip addr add {PUBLIC}/24 dev cable1; ip -6 addr add {PUBLIC6}/64 dev cable1 nodad;"
               "ip link set cable1 up", shell=True, check=True)
listener = socket.create_server(("{PUBLIC}", {PORT}))
def serve():
    while True:
        listener.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for name, uid in (("AsRoot", 0), ("AsOrdinaryUser", support.ORDINARY_UID)):
        suite.addTests(loader.loadTestsFromTestCase(type("Names" + name, (Names,), {"uid": uid})))
    return suite


if __name__ == "__main__":
    support.require_build()
    if os.geteuid() != 0:
        print("started by an ordinary user: who may not make a cable between two networks runs none of this", file=sys.stderr)
        sys.exit(77)
    if not os.environ.get(INSIDE):
        inner = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B",
                 os.path.abspath(__file__)] + sys.argv[1:]
        sys.exit(subprocess.run(inner, env=dict(os.environ, **{INSIDE: "1"}), check=False).returncode)
    upstream = build_networks()
    Names.server = NameServer()
    try:
        support.main()
    finally:
        upstream.send_signal(signal.SIGKILL)
