"""Compiles what cairn gives a TPU by libtpu's own compiler, without a TPU.

    python tests/pjrt/tpu_compile.py samples [FAMILY...]     op samples, forward and gradient: what is refused, and why
    python tests/pjrt/tpu_compile.py steps [NAME...]         whole training steps, on one device and split over four
    python tests/pjrt/tpu_compile.py table                   the same, put into the table of docs/TPU.md

libtpu comes from PyPI (`pip install libtpu`), or from TPU_LIBRARY_PATH. The TPU is a v5e with four chips; TPU_TOPOLOGY
names another. Of samples a hundred are one text; of a text that is refused the halves are compiled.
tests/pjrt/test_tpu.py runs both in `make check`.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
TOPOLOGY = os.environ.get("TPU_TOPOLOGY", "v5e:2x2")
TOGETHER = 100  # samples in one text
LARGE = ("GPT-2", "ResNet-50")  # the compiler took more than 14 GB for GPT-2's step
ROOM = 32 << 30                 # memory of a machine that they are compiled on
FIGURES = ("seconds", "code", "arguments", "results", "shared", "temporary", "operations", "bytes")


def find_library():
    asked = os.environ.get("TPU_LIBRARY_PATH")
    spec = None if asked else importlib.util.find_spec("libtpu")
    return asked or (spec and os.path.join(os.path.dirname(spec.origin), "libtpu.so"))


def has_room():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= ROOM


class Compiler:
    """A process with libtpu, which compiles one text after the other. One that ends is started anew."""

    def __init__(self, library, folder):
        self.folder, self.library, self.process = folder, library, None
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-o", str(folder / "compile"),
                        str(HERE / "tpu" / "compile.c"), "-ldl"], check=True)

    def start(self):
        # Another process may have libtpu open: nothing of a TPU is used here.
        env = dict(os.environ, TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", TPU_LOG_DIR=str(self.folder))
        self.process = subprocess.Popen([str(self.folder / "compile"), self.library, TOPOLOGY], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def compile(self, path, partitions=1):
        """Figures by their name; or a text, which says why not."""
        if not self.process:
            self.start()
        try:
            self.process.stdin.write("%d %s\n" % (partitions, path))
            self.process.stdin.flush()
            words = self.process.stdout.readline().rstrip("\n").split("\t")
        except BrokenPipeError:
            words = [""]
        if words[0] == "ok":
            return dict(zip(FIGURES, map(float, words[2:])))
        if words[0] == "bad":
            return words[-1]
        status, self.process = self.process.wait(), None
        return "the compiler ended its process (status %s)" % status

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


# ---- op samples ----

def sample_cases(folder, families=()):
    """All samples that have a form, as tests/stablehlo/cases.py reads them."""
    sys.path.insert(0, str(ROOT / "tests" / "stablehlo"))
    import cases
    subprocess.run([str(BUILD / "tests" / "ops" / "test_ops"), "stablehlo"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, CAIRN_STABLEHLO_OUT=str(folder), CAIRN_PLUGIN_PATH=str(BUILD)))
    for path in sorted(folder.glob("*.cases")):
        if not families or path.stem in families:
            found = cases.read(path)
            for i in range(0, len(found), TOGETHER):
                yield path.stem, found[i:i + TOGETHER]


def refused(compiler, cases):
    """(sample, why) of those that the compiler does not take."""
    from cases import join
    path = compiler.folder / "samples.mlir"
    path.write_text(join(cases), encoding="utf-8")
    made = compiler.compile(path)
    if isinstance(made, dict):
        return []
    if len(cases) == 1:
        return [(cases[0].sample, made)]
    half = len(cases) // 2
    return refused(compiler, cases[:half]) + refused(compiler, cases[half:])


def samples(library, families=(), tell=print):
    """How many samples were compiled, and those that were refused."""
    count, wrong = 0, []
    with tempfile.TemporaryDirectory() as name:
        compiler = Compiler(library, pathlib.Path(name))
        for family, cases in sample_cases(pathlib.Path(name), families):
            found = refused(compiler, cases)
            count, wrong = count + len(cases), wrong + found
            tell("%s: %d of %d compiled" % (family, len(cases) - len(found), len(cases)))
        compiler.close()
    return count, wrong


# ---- whole training steps ----

def steps(library, names=(), tell=print):
    """Rows: name, parameters, one batch; per number of devices the figures, or why not."""
    rows = []
    env = dict(os.environ, PYTHONPATH=str(BUILD / "python"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = subprocess.run([sys.executable, str(HERE / "tpu" / "steps.py"), name, *names], env=env, check=True,
                             stdout=subprocess.PIPE, text=True)
        compiler = Compiler(library, folder)
        for line in run.stdout.splitlines():
            network, parameters, batch, _ = line.split("\t")
            made = {count: compiler.compile(folder / f"{network}.{count}.mlir", count) for count in (1, 4)}
            rows.append((network, int(parameters), batch, made))
            tell(row_text(rows[-1]))
        compiler.close()
    return rows


def row_text(row):
    """A line of the table for each number of devices."""
    network, parameters, batch, made = row
    lines = []
    for count, figures in made.items():
        if isinstance(figures, str):
            lines.append(f"| {network} | {batch} | {count} | {figures} |")
            continue
        held = figures["arguments"] + figures["results"] - figures["shared"]
        lines.append("| %s | %.2f M | %s | %d | %.0f | %.0f | %.1f | %.2f | %.1f |" % (
            network, parameters / 1e6, batch, count, held / 1e6, figures["temporary"] / 1e6, figures["code"] / 1e6,
            figures["operations"] / 1e9, figures["bytes"] / 1e6))
    return "\n".join(lines)


HEAD = ("| step | parameters | batch | devices | held, MB | while it runs, MB | code, MB | Gflop | moved, MB |\n"
        "|---|---|---|---|---|---|---|---|---|\n")


def write_table(rows):
    page = ROOT / "docs" / "TPU.md"
    text = page.read_text(encoding="utf-8")
    begin = text.index(HEAD.split("\n", maxsplit=1)[0])
    end = text.index("\n\n", begin)
    page.write_text(text[:begin] + HEAD + "\n".join(map(row_text, rows)) + text[end:], encoding="utf-8")


def main():
    library, what, names = find_library(), sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    if not library or what not in ("samples", "steps", "table"):
        print("libtpu is not installed: pip install libtpu, or set TPU_LIBRARY_PATH" if not library else __doc__)
        return 2
    if what == "samples":
        count, wrong = samples(library, names)
        print("\n".join("%s: %s" % one for one in wrong))
        print("%d of %d samples compiled for %s" % (count - len(wrong), count, TOPOLOGY))
        return len(wrong) > 0
    rows = steps(library, names)
    if what == "table":
        write_table(rows)
    return any(isinstance(figures, str) for row in rows for figures in row[3].values())


if __name__ == "__main__":
    sys.exit(main())
