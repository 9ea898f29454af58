"""What is one commit, and one program, to tools/release."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
WRITTEN = ("docs/release.md", "bench/results/")  # by tools/release and by the benchmarks
BESIDE = ("tests/", "docs/", ".github/", "tools/release")  # no part of the program; nor are *.md

# Of C++: numbers (1'000 has no character), strings and characters, which may have // or /* in them; then comments.
TOKENS = re.compile(r"""(?P<code>\b[0-9](?:'?[0-9A-Za-z_.])*|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')"""
                    r"|//(?:\\\n|[^\n])*|/\*.*?\*/", re.S)
CXX = (".cpp", ".hpp", ".c", ".h", ".cu", ".def")

FIGURES = re.compile(r"(?<=<!-- release: written by tools/release -->\n).*?(?=<!-- end of release -->)", re.S)  # in README.md


class Refused(Exception):
    """Why there is no commit whose results could be kept."""


def git(*arguments):
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise Refused(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def read_at(commit, path):
    """The file's text at a commit, or in the working tree if `commit` is empty."""
    if not commit:
        return (ROOT / path).read_text() if (ROOT / path).exists() else ""
    return subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, cwd=ROOT).stdout


def changed(old, new):
    """Files that differ in more than what tools/release writes. `new` may be empty: the working tree."""
    files = git("diff", "--name-only", "--no-renames", old, *([new] if new else [])).splitlines()
    if not new:
        files += git("ls-files", "--others", "--exclude-standard").splitlines()
    files = [path for path in files if not path.startswith(WRITTEN)]
    if "README.md" in files:
        before, after = (FIGURES.sub("", read_at(commit, "README.md")) for commit in (old, new))
        if before == after:
            files.remove("README.md")
    return files


def kept(token):
    """Code, with its line ends as another character; of comments those that clang-tidy reads."""
    return token["code"].replace("\n", "\0") if token["code"] else token[0] if "NOLINT" in token[0] else " "


def without_comments(text):
    """The lines of C++ that are not empty without their comments; an empty one that ends a macro counts."""
    lines = [line.rstrip() for line in TOKENS.sub(kept, text).splitlines()]
    return [line for before, line in zip(["", *lines], lines) if line or before.endswith("\\")]


def is_beside(path, old, new):
    """Whether what differs in this file is no part of the program."""
    if path.startswith(BESIDE) or path.endswith(".md"):
        return True
    before, after = read_at(old, path), read_at(new, path)
    return path.endswith(CXX) and bool(before and after) and without_comments(before) == without_comments(after)


def same_program(old, new):
    """Whether the two commits differ at most in tests, documentation, comments of C++ and tools/release. A commit that is not
    here is another."""
    if old == new:
        return True
    try:
        files = changed(old, new)
    except Refused:
        return False
    return all(is_beside(path, old, new) for path in files)


def commit_to_check():
    """The last commit that changed more than results. Refused if there are other changes that are not committed."""
    files = changed("HEAD", "")
    if files:
        raise Refused("results are of one commit, and these files have changes that are not committed:\n  " + "\n  ".join(files))
    commit, *parents = git("log", "-1", "--format=%H %P").split()
    while parents and not changed(parents[0], commit):
        commit, *parents = git("log", "-1", "--format=%H %P", parents[0]).split()
    return commit
