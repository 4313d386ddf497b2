"""Puts the pages of the site together in one folder: docs/, other pages of the tree, the generated reference, and a
page for each source file that one of them links to.

Pages stay readable where they lie, on paper and in the repository; what mkdocs wants otherwise is changed on the way:
links are pointed to where things are in the site, and the heads of code blocks that say where a text belongs
(`c FILE after TEXT`, see tests/docs/blocks.py) become titles.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Pages outside docs/ -> their place in the site.
OTHERS = {"CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md", "examples/README.md": "examples.md",
          "bench/README.md": "bench.md", "README.md": "project.md"}
INSTEAD = {"OPS.md": "reference/ops/index.md"}  # where the site has something better to link to
ASSETS = ("site.css", "iframe-worker.js")
HOME = "---\nhide: [navigation]\n---\n"  # the first page stands alone: no list of pages beside it
LEXERS = {".c": "c", ".h": "c", ".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".json": "json", ".cfg": "ini"}
LINK = re.compile(r"(?<!\\)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
HEAD = re.compile(r"^```(\w+)(?: (\S+)(?: (after|before|end)(?: (.*))?)?)?$", re.M)


def fenced(text, lexer):
    ticks = "`" * max(3, 1 + max((len(m) for m in re.findall(r"`+", text)), default=0))
    return f"{ticks}{lexer}\n{text.rstrip()}\n{ticks}\n"


def head(m):
    """`c src/a.c after b` as mkdocs has titles."""
    language = {"pytorch": "python"}.get(m.group(1), m.group(1))
    if not m.group(2):
        return "```" + language
    where = {None: "", "end": ", at the end"}.get(m.group(3), f", {m.group(3)}: {m.group(4)}")
    title = (m.group(2) + where).replace('"', "'")
    return f'```{language} title="{title}"'


def cells(text):
    """In tables a stroke within code is written with a backslash, which mkdocs would show."""
    return re.sub(r"^\|.*$", lambda row: re.sub(r"`[^`]*`", lambda m: m.group().replace("\\|", "|"), row.group()), text,
                  flags=re.M)


class Tree:
    """The pages on their way from the repository into the folder."""

    def __init__(self, root, out):
        self.root, self.out = root, out
        self.place = {f"docs/{p.name}": p.name for p in (root / "docs").glob("*.md")}
        self.place.update(OTHERS)
        self.waiting = []  # source files that pages link to

    def target(self, source, link):
        """Where a link on the page `source` leads, as the site has it; the file becomes a page where it was none."""
        path = os.path.normpath(os.path.join(os.path.dirname(source), link))
        full = self.root / path
        if path.startswith("docs/images/"):
            return path[len("docs/"):]
        if path not in self.place and full.exists() and not path.startswith(".."):
            self.place[path] = f"files/{path.rstrip('/')}.md"
            self.waiting.append(path)
        to = self.place.get(path)
        return INSTEAD.get(to, to)

    def text(self, source, text):
        """The page's text as the site has it. Code blocks keep their text."""
        here = os.path.dirname(self.place[source])

        def link(m):
            to = self.target(source, m.group(1))
            return m.group(0) if to is None else f"]({os.path.relpath(to, here or '.')}{m.group(2) or ''})"

        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        return "".join(HEAD.sub(head, p, count=1) if p.startswith("```") else cells(LINK.sub(link, p)) for p in parts)

    def write(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def source_page(self, path):
        """A file of the tree, or the files of a folder, as a page."""
        full = self.root / path
        lines = [f"# {path}\n"]
        files = sorted(p for p in full.iterdir() if p.is_file() and p.suffix in LEXERS) if full.is_dir() else [full]
        for file in files:
            if full.is_dir():
                lines.append(f"## {file.name}\n")
            lines.append(fenced(file.read_text(encoding="utf-8"), LEXERS.get(file.suffix, "text")))
        if full.is_dir():
            for folder in sorted(p for p in full.iterdir() if p.is_dir() and p.name != "__pycache__"):
                relative = f"{path}/{folder.name}"
                to = os.path.relpath(self.target("x", relative), os.path.dirname(self.place[path]))
                lines.append(f"Below: [{folder.name}/]({to})\n")
        self.write(self.place[path], "\n".join(lines))


def assemble(root, out, table):
    """Makes `out` anew. table: ops.json."""
    shutil.rmtree(out, ignore_errors=True)
    tree = Tree(root, pathlib.Path(out))
    subprocess.run([sys.executable, "-B", str(root / "tools" / "bindgen"), "reference", "--json", str(table), "--out",
                    str(out)], check=True)
    shutil.copytree(root / "docs" / "images", tree.out / "images")
    for name in ASSETS:
        shutil.copy2(root / "docs" / name, tree.out / name)
    for source in list(tree.place):
        text = tree.text(source, (root / source).read_text(encoding="utf-8"))
        tree.write(tree.place[source], (HOME if source == "docs/README.md" else "") + text)
    while tree.waiting:
        tree.source_page(tree.waiting.pop())
