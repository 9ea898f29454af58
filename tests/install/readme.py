#!/usr/bin/env python3
"""The README's code is code that the tests compile.

Every ```cpp, ```c, ```cmake and ```python block of README.md follows a line `<!-- path -->` and must be that file, to the byte.

    readme.py REPOSITORY
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"(?:<!-- (?P<path>\S+) -->\n)?```(?P<language>cpp|c|cmake|python)\n(?P<code>.*?)```", re.S)


def complaints(root: pathlib.Path, readme: str) -> list[str]:
    found = []
    languages = set()
    for block in BLOCK.finditer(readme):
        languages.add(block["language"])
        if block["path"] is None:
            found.append(f"a {block['language']} block of README.md does not say which file it is: <!-- path -->")
        elif (root / block["path"]).read_text() != block["code"]:
            found.append(f"README.md shows {block['path']} differently from what the tests compile")
    header = (root / "include/tutti/tutti.h").read_text()
    variables = (root / "src/base/env_table.def").read_text()
    for name in sorted(set(re.findall(r"`(tutti[A-Z]\w*|TUTTI_[A-Z_]+)", readme))):
        if not re.search(rf"\b{name}\b", header + variables):
            found.append(f"README.md names {name}, which neither tutti.h nor env_table.def has")
    for language in sorted({"cpp", "c", "cmake", "python"} - languages):
        found.append(f"README.md has no {language} example")
    return found


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    text = (root / "README.md").read_text()
    problems = complaints(root, text)
    # Once more with a README gone stale, so that this test is known to be able to fail.
    if not complaints(root, text.replace("main(", "start(")):
        problems.append("readme.py does not notice a stale example")
    if not complaints(root, text.replace("`tuttiAllReduce`", "`tuttiAllReduced`")):
        problems.append("readme.py does not notice a name that does not exist")
    sys.exit("\n".join(problems) or 0)
