"""What the public headers promise by names and marks, for tools/lint.

A function that ends in _free ends the thing it is given; one that ends in _release drops one reference of a thing that
is counted. Which things are counted stands here, as include/cairn/base.h says it in words.
"""
import re

COUNTED = {"cn_tensor", "cn_module", "cn_dataset", "cn_stream", "cn_node"}

# A declaration with the comment in front of it and the one behind it on its line.
DECLARATION = re.compile(r"(?:/\*(?P<above>(?:(?!\*/).)*)\*/\s*)?\bCN_API\s+(?P<type>[^;(]*?[\s*])(?P<name>cn_\w+)\("
                         r"(?P<params>[^;]*?)\)[^;()]*(?:\([^;]*\))?;[ \t]*(?:/\*(?P<behind>(?:(?!\*/).)*)\*/)?", re.S)
DROPS = re.compile(r"fetch_sub(?:_explicit)?\(&[^,;]*\brefs\b|--[\w>.-]*\brefs\b|\brefs--")


def declarations(lint):
    """(where, match of DECLARATION) of each function that a public header declares."""
    for path, lines in lint.text.items():
        if path.startswith("include/") and path.endswith(".h"):
            text = "\n".join(lines)
            for m in DECLARATION.finditer(text):
                yield f"{path}:{text.count(chr(10), 0, m.start('name')) + 1}", m


def check_endings(lint, functions):
    """functions: tools/lint's, which finds the functions of a file."""
    for where, m in declarations(lint):
        ending = re.search(r"(?:^cn|_)_?(free|release)$", m["name"])
        given = re.match(r"(?:struct )?(\w+) \*\w+$", m["params"])
        if not ending or not given:
            continue
        counted = given[1] in COUNTED
        if counted != (ending[1] == "release"):
            yield f"{where}: {m['name']}: {given[1]} is {'counted: release' if counted else 'not counted: free'}"
    for path, lines in lint.code.items():
        for first, name, length in functions(lines):
            if "free" in name and DROPS.search("\n".join(lines[first - 1:first - 1 + length])):
                yield f"{path}:{first}: {name} drops a reference, so it is a release"
