"""What the public headers promise by names and marks, for tools/lint.

A function that ends in _free ends the thing it is given; one that ends in _release drops one reference of a thing that
is counted. Which things are counted stands here, as include/cairn/base.h says it in words. A function that returns
something to give back bears CN_MUST_USE.
"""
import re

COUNTED = {"cn_tensor", "cn_module", "cn_dataset", "cn_stream", "cn_node", "cn_onnx_value"}

# A declaration with the comment in front of it and the one behind it on its line.
DECLARATION = re.compile(r"(?:/\*(?P<above>(?:(?!\*/).)*)\*/\s*)?\bCN_API\s+(?P<must>CN_MUST_USE\s+)?"
                         r"(?P<type>[^;(]*?[\s*])(?P<name>cn_\w+)\((?P<params>(?:[^;()]|\([^;()]*\))*)\)"
                         r"[^;]*;[ \t]*(?:/\*(?P<behind>(?:(?!\*/).)*)\*/)?", re.S)
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


def owned_types(lint):
    """Types of which there is a function that ends one; tensors apart, which belong to the scope unless kept."""
    for _, m in declarations(lint):
        ends = re.match(r"(\w+) \*\w+$", m["params"])
        if ends and m["type"].strip() == "void" and re.search(r"_(free|release|close|abandon|end)$", m["name"]):
            yield ends[1]


def owning_structs(lint):
    """Structs returned by value that hold something to be freed: they have a member of that name."""
    for path, lines in lint.code.items():
        if path.startswith("include/"):
            for m in re.finditer(r"typedef struct (\w+) \{([^}]*)\}", "\n".join(lines)):
                if re.search(r"\(\*free\)\(void \*\w*\)", m[2]):
                    yield m[1]


def check_must_use(lint):
    types, structs = set(owned_types(lint)) - {"cn_tensor"}, set(owning_structs(lint))
    for where, m in declarations(lint):
        said = (m["above"] or "") + (m["behind"] or "")
        result = re.match(r"(\w+)( \*)?$", m["type"].strip())
        if m["must"] or not result or re.search(r"\bborrowed\b", said, re.I):
            continue
        if result[1] in (types if result[2] else structs) or (result[2] and re.search(r"\bowned\b", said, re.I)):
            yield f"{where}: {m['name']}: CN_MUST_USE, or its comment says that the result is borrowed"
