#!/usr/bin/env python3
"""The code that docs/programs.md and README.md show is code that the tests compile.

Every ```cpp, ```c, ```cmake and ```python block there follows a line `<!-- path -->` and must be that file, to the byte.

    pages.py REPOSITORY
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"(?:<!-- (?P<path>\S+) -->\n)?```(?P<language>cpp|c|cmake|python)\n(?P<code>.*?)```", re.S)


def complaints(root: pathlib.Path, page: str, text: str) -> list[str]:
    found = []
    for block in BLOCK.finditer(text):
        if block["path"] is None:
            found.append(f"a {block['language']} block of {page} does not say which file it is: <!-- path -->")
        elif (root / block["path"]).read_text() != block["code"]:
            found.append(f"{page} shows {block['path']} differently from what the tests compile")
    header = (root / "include/tutti/tutti.h").read_text()
    variables = (root / "src/base/env_table.def").read_text()
    for name in sorted(set(re.findall(r"`(tutti[A-Z]\w*|TUTTI_[A-Z_]+)", text))):
        if not re.search(rf"\b{name}\b", header + variables):
            found.append(f"{page} names {name}, which neither tutti.h nor env_table.def has")
    return found


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    pages = {page: (root / page).read_text() for page in ("README.md", "docs/programs.md")}
    problems = [problem for page, text in pages.items() for problem in complaints(root, page, text)]
    text = pages["docs/programs.md"]
    for language in sorted({"cpp", "c", "cmake", "python"} - {block["language"] for block in BLOCK.finditer(text)}):
        problems.append(f"docs/programs.md has no {language} example")
    # Once more with a page gone stale, so that this test is known to be able to fail.
    if not complaints(root, "it", text.replace("main(", "start(")):
        problems.append("pages.py does not notice a stale example")
    if not complaints(root, "it", text.replace("`tuttiCommInitEnv`", "`tuttiCommInitEnvs`")):
        problems.append("pages.py does not notice a name that does not exist")
    sys.exit("\n".join(problems) or 0)
