"""Reads the code blocks of the documentation. Not a test itself.

A block opens with three backquotes, a language, and perhaps where its text belongs:

    c                          a program (with main), or declarations and functions that must compile
    c FILE                     the whole of a file
    c FILE after TEXT          behind the last line of FILE that contains TEXT; likewise `before TEXT`, `end`
"""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Block:
    page: str
    line: int       # of the first line of code
    language: str
    file: str       # "" where the block belongs to no file
    where: str      # "", after, before or end
    anchor: str
    text: str

    def name(self):
        return f"{self.page}:{self.line}"


def read(path):
    """The fenced blocks of one page, in order."""
    blocks, inside, lines = [], None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if inside is None and line.startswith("```"):
            m = re.match(r"```(\w*)(?: (\S+)(?: (after|before|end)(?: (.*))?)?)?$", line)
            if not m:
                raise SystemExit(f"{path}:{number}: cannot read the head of this block: {line}")
            inside = Block(str(path.relative_to(ROOT)), number + 1, *(g or "" for g in m.groups()), "")
            lines = []
        elif inside is not None and line.startswith("```"):
            inside.text = "".join(x + "\n" for x in lines)
            blocks.append(inside)
            inside = None
        elif inside is not None:
            lines.append(line)
    if inside is not None:
        raise SystemExit(f"{path}: the block at line {inside.line} has no end")
    return blocks


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def apply(block, root):
    """Puts a block's text where it belongs in the tree at `root`."""
    path = root / block.file
    if not block.where:
        if path.exists():
            raise SystemExit(f"{block.name()}: {block.file} is there already")
        path.write_text(block.text, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    at = len(lines)
    if block.where != "end":
        hits = [i for i, line in enumerate(lines) if block.anchor in line]
        if not hits:
            raise SystemExit(f"{block.name()}: {block.file} has no line with {block.anchor!r}")
        at = hits[-1] + (block.where == "after")
    path.write_text("".join(lines[:at]) + block.text + "".join(lines[at:]), encoding="utf-8")
