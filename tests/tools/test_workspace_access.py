"""Nothing of the host opens, walks or renames inside a workspace but host/pathfs.

Reads every source of host/ outside host/pathfs and finds the calls that take a path: of the kernel, of the standard
libraries, and of core/file.hpp. Each file and call that may stay is in workspace_access.allow, with the reason why
it never meets a workspace. Fails for a call that is not listed and for a line of the list that nothing needs any
more. Proves itself by planting each call.
"""
import fnmatch
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ.get("HITCHRAIL_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
ALLOW = pathlib.Path(__file__).with_name("workspace_access.allow")

OPEN = "open open64 openat openat64 openat2 creat fopen freopen".split()
LOOK = "stat lstat fstatat statx access faccessat faccessat2 euidaccess readlink readlinkat realpath".split()
WALK = "opendir fdopendir scandir scandirat readdir getdents64 nftw ftw fts_open glob".split()
NAME = "rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat rmdir remove".split()
MAKE = "mkdir mkdirat mkfifo mkfifoat mknod mknodat mkstemp mkostemp mkdtemp".split()
CHANGE = ("chmod fchmodat fchmodat2 chown lchown fchownat truncate utimensat utimes chdir chroot "
          "setxattr lsetxattr removexattr lremovexattr getxattr lgetxattr listxattr llistxattr").split()
OURS = "open_at open_no_symlinks read_file_at write_file_atomic list_directory remove_tree_at".split()
CALLS = OPEN + LOOK + WALK + NAME + MAKE + CHANGE + OURS

# A call: not a member, not of a class or of another namespace. "pathfs::list_directory" is what is wanted.
CALL = re.compile(r"(?<![\w.>:])(?:::|std::|hitchrail::|kernel::)?(" + "|".join(CALLS) + r")\s*\(")
MEMBER = re.compile(r"(?:\.|->)\s*$")
SYSTEM = re.compile(r"\b(?:SYS|__NR)_(" + "|".join(OPEN + LOOK + WALK + NAME + MAKE + CHANGE) + r")\b")
LIBRARY = re.compile(r"\bstd::(filesystem|ifstream|ofstream|fstream|basic_ifstream|basic_ofstream)\b")
WORD_BEFORE = re.compile(r"(\w+|[>&*])\s*$")


def code_of(text):
    """The text without comments, with empty strings, lines kept."""
    out = []
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'', re.S)
    at = 0
    for match in token.finditer(text):
        start = match.start()
        out.append(text[at:start])
        out.append('""' if match.group()[0] in "\"R" else " ")
        out.append("\n" * match.group().count("\n"))
        at = match.end()
    out.append(text[at:])
    return "".join(out)


def is_declaration(before):
    """`Result<Fd> open(`, `void link(`: a name that is being declared, not called."""
    word = WORD_BEFORE.search(before[-80:])
    return (word is not None and not before.rstrip().endswith("&&")
            and word.group(1) not in ("return", "co_return", "else", "do", "case"))


def calls_in(text):
    """(line, call) of every access by path."""
    found = []
    code = code_of(text)
    for match in CALL.finditer(code):
        before = code[:match.start()]
        qualified = "::" in match.group()
        if (qualified or not is_declaration(before)) and not MEMBER.search(before):
            found.append((code.count("\n", 0, match.start()) + 1, match.group(1)))
    for pattern in (SYSTEM, LIBRARY):
        for match in pattern.finditer(code):
            name = match.group(1) if pattern is SYSTEM else "std::" + match.group(1)
            found.append((code.count("\n", 0, match.start()) + 1, name))
    return sorted(found)


def read_allow(text):
    """`path: call call` lines below a `# reason` each; "*" is any call of a program that has no workspace."""
    allowed = []
    reason = ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line:
            path, _, calls = line.partition(":")
            assert reason and calls.split(), f"line {number}: a reason above and calls behind each path"
            allowed.append((path.strip(), set(calls.split()), number))
    return allowed


def sources(root):
    for path in sorted((root / "host").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in (".cpp", ".hpp", ".c", ".h") and not name.startswith("host/pathfs/"):
            yield name, path.read_text(encoding="utf-8")


def check(files, allowed):
    """What is wrong, as lines for people."""
    wrong = []
    used = {number: set() for _, _, number in allowed}
    for name, text in files:
        for line, call in calls_in(text):
            fits = [entry for entry in allowed
                    if fnmatch.fnmatchcase(name, entry[0]) and ("*" in entry[1] or call in entry[1])]
            for _, _, number in fits:
                used[number].add(call)
            if not fits:
                wrong.append(f"{name}:{line}: {call}: use host/pathfs, or say in {ALLOW.name} why it is no workspace")
    for path, calls, number in allowed:
        for call in sorted(calls - used[number] - {"*"}):
            wrong.append(f"{ALLOW.name}:{number}: {path} does not call {call} any more")
        if "*" in calls and not used[number]:
            wrong.append(f"{ALLOW.name}:{number}: {path} has no such call any more")
    return wrong


class WorkspaceAccess(unittest.TestCase):
    def test_only_pathfs_touches_a_workspace(self):
        wrong = check(sources(SOURCE), read_allow(ALLOW.read_text()))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_each_planted_call_is_found(self):
        allowed = read_allow(ALLOW.read_text())
        for name in ("host/workspace/status.cpp", "host/finish/cleanup.cpp", "host/boundary/roots.cpp",
                     "host/cli/planted.cpp", "host/workspace/planted.hpp"):
            path = SOURCE / name
            text = path.read_text() if path.exists() else ""
            here = set().union(*(calls for glob, calls, _ in allowed if fnmatch.fnmatchcase(name, glob)), set())
            self.assertNotIn("*", here, name)
            for call in CALLS:
                if call in here:
                    continue
                for form in (f"int x = ::{call}(a);", f"if ({call} (a) != 0) {{", f"if (x &&\n ::{call}(a) < 0) {{", f"x = a && {call}(a);", f"return {call}(a);",
                             f"std::{call}(a);"):
                    found = check([(name, text + "\n" + form + "\n")], [])
                    self.assertTrue(any(f": {call}: " in line for line in found), (name, form))
            for form, call in (("std::ifstream in(p);", "std::ifstream"), ("namespace fs = std::filesystem;", "std::filesystem"),
                               ("syscall(SYS_openat2, d, p);", "openat2"), ("syscall(SYS_renameat2, d);", "renameat2")):
                found = check([(name, form)], [])
                self.assertTrue(any(f": {call}: " in line for line in found), (name, form))

    def test_a_planted_call_fails_beside_the_real_list(self):
        allowed = read_allow(ALLOW.read_text())
        before = check(sources(SOURCE), allowed)
        planted = list(sources(SOURCE)) + [("host/workspace/planted.cpp", "void f() { ::openat(d, name, 0); }")]
        after = check(planted, allowed)
        self.assertEqual([line for line in after if line not in before],
                         [f"host/workspace/planted.cpp:1: openat: use host/pathfs, or say in {ALLOW.name} why it is no workspace"])

    def test_what_only_looks_like_a_call_is_none(self):
        for text in ("// ::open(path)", "/* rename(a, b) */", 'say("open(it)");', "writer.open(x);", "it->link(a);",
                     "static Result<Fd> open(int dirfd);", "void link(const std::string& path);",
                     "journal::Writer::open(dirfd);", "pathfs::list_directory(fd);", "pathfs::open_absolute(p, 0);",
                     "reopen(fd);", "fstat(fd, &st);", "int n = 250'000; auto c = 'x'; // open('y')"):
            self.assertEqual(calls_in(text), [], text)

    def test_a_line_that_nothing_needs_fails(self):
        allowed = read_allow("# why\nhost/x.cpp: open rename\n")
        self.assertEqual(check([("host/x.cpp", "::open(a);")], allowed),
                         [f"{ALLOW.name}:2: host/x.cpp does not call rename any more"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
