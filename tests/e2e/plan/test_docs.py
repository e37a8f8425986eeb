"""docs/operators/evidence.md: its table of what is never compared is the program's, and is true of every member of a real manifest; its
blockers are provoked by tests."""

import copy
import hashlib
import json
import os
import re

import support

PAGE = os.path.join(support.SOURCE, "docs", "operators", "evidence.md")
SCRIPT = "message hi\ndone success x\nexit 0\nend\n"


def page():
    with open(PAGE) as file:
        return file.read()


def ignored_by_page():
    section = page().split("| member | why |")[1].split("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.M)


def sealed(document):
    body = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**body, "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    elif isinstance(value, list) and value:
        for number, member in enumerate(value):
            yield from leaves(member, (*path, number))
    else:
        yield path


def pattern(path):
    return ".".join("*" if isinstance(step, int) else step for step in path)


def other(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    return "something" if value is None else [*value, "something"] if isinstance(value, list) else {"something": 1}


def changed(document, path):
    out = copy.deepcopy(document)
    place = out
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = other(place[path[-1]])
    return out


class Compared(support.TestCase):
    def setUp(self):
        super().setUp()
        self.repo = self.world.repository()
        self.world.enable_script()
        self.world.extra_env["SCRIPT_SECRET"] = "s3cr3t-value"
        self.path = os.path.join(self.world.root, "plan.json")
        done = self.world.run("preview", "--json", *self.arguments("--output", self.path))
        self.assertEqual(done.code, 0, done)
        with open(self.path) as file:
            self.manifest = json.load(file)

    def arguments(self, *more):
        return [*self.world.script_args(self.repo), "-m", SCRIPT, "--budget", "runtimeSeconds=60", *more]

    def against(self, document):
        self.world.write(self.path, json.dumps(sealed(document), ensure_ascii=False).encode())
        return self.world.run("preview", "--json", *self.arguments("--manifest", self.path))

    def test_the_table_is_the_programs(self):
        with open(os.path.join(support.SOURCE, "host", "manifest", "drift.cpp")) as file:
            source = re.findall(r'Ignored\{"([^"]+)",\s*"([^"]+)"\}', file.read())
        self.assertGreater(len(source), 8)
        self.assertEqual(ignored_by_page(), source)

    def test_what_is_ignored_is_ignored(self):
        document = self.manifest
        names = {name for name, _ in ignored_by_page()}
        touched = set()
        for path in list(leaves(self.manifest)):
            if pattern(path) in names and path[0] != "digest" and path != ("credentials", "digest"):
                document = changed(document, path)
                touched.add(pattern(path))
        # These three name one document, and the checks between the sections hold them together.
        document["credentials"]["providerRuntimeManifestDigest"] = document["providerRuntime"]["digest"]
        document["sandbox"]["filesystem"]["providerRuntimeManifestDigest"] = document["providerRuntime"]["digest"]
        document["credentials"] = sealed(document["credentials"])
        done = self.against(document)
        self.assertEqual((done.code, done.json.get("differences")), (0, []), done)
        # A built-in preset was never recorded, and the tree is the operator's own: what this launch does not have.
        self.assertEqual(names - touched, {"digest", "credentials.digest", "sandbox.attribution.recordedAt",
                                           "workspace.ownershipAttemptId"})

    def test_every_other_member_is_compared(self):
        names = {name for name, _ in ignored_by_page()}
        seen = set()
        for path in leaves(self.manifest):
            if pattern(path) in names or pattern(path) in seen:
                continue
            seen.add(pattern(path))
            document = changed(self.manifest, path)
            if path[0] == "credentials":
                document["credentials"] = sealed(document["credentials"])
            done = self.against(document)
            if done.code == 3:
                sections = [change["section"] for change in done.json["differences"]]
                self.assertEqual(sections, [path[0]], path)
            else:  # what contradicts another member is refused as no manifest at all
                self.assertEqual((done.code, done.error_code), (2, "manifest-file-invalid"), (path, done))
        self.assertGreater(len(seen), 90)


class Blockers(support.TestCase):
    def test_each_that_is_built_is_provoked_by_a_test(self):
        built = re.findall(r"^\| `([a-z-]+)` \| built \|", page(), re.M)
        self.assertGreater(len(built), 10)
        texts = []
        for folder, _, files in os.walk(os.path.join(support.SOURCE, "tests", "e2e")):
            for name in files:
                if name.endswith(".py") and name != os.path.basename(__file__):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        texts.append(file.read())
        for code in built:
            short = code.removeprefix("phase-")
            self.assertTrue(any('"%s"' % code in text or '"%s"' % short in text or code in text for text in texts), code)


if __name__ == "__main__":
    support.main()
