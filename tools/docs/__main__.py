"""Builds the documentation site: pages of docs/, a reference generated from the op table, sources that pages link to.

usage: python3 tools/docs [--json OPS.JSON] [--site DIR] [--no-install] [--links DIR]

The site is build/site; open build/site/index.html, no server needed. Steps: find mkdocs or install it into
build/docs-env; put all pages together in build/docs (pages.py); mkdocs build --strict; follow every link (links.py).
Without mkdocs and without a network it says so and ends with status 1; 2 with --no-install, which never installs.
--links DIR only follows the links of a built site.
"""
import argparse
import os
import pathlib
import subprocess
import sys

import links
import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENV = ROOT / "build" / "docs-env"
WANTED = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10"]


def works(python):
    """Does this Python have mkdocs and the theme?"""
    if not os.access(python, os.X_OK):
        return False
    return subprocess.run([python, "-c", "import mkdocs, material"], check=False, capture_output=True).returncode == 0


def find():
    """A Python that can build the site; None where there is none."""
    return next((p for p in (str(ENV / "bin" / "python"), sys.executable) if works(p)), None)


def install():
    print(f"docs: installing {' and '.join(WANTED)} into {ENV.relative_to(ROOT)}", flush=True)
    log = ROOT / "build" / "docs-env.log"
    log.parent.mkdir(exist_ok=True)
    python = str(ENV / "bin" / "python")
    with open(log, "w", encoding="utf-8") as out:
        for command in ([sys.executable, "-m", "venv", str(ENV)], [python, "-m", "pip", "install", "-q", *WANTED]):
            if subprocess.run(command, check=False, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
                return None
    return find()


def table(asked):
    """ops.json, with classes.json beside it."""
    build = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
    path = pathlib.Path(asked) if asked else build / "ops.json"
    if not path.is_file() or not (path.parent / "classes.json").is_file():
        sys.exit(f"docs: no {path}: the reference is made from it; build cairn first (make)")
    return path


def build(python, source, site):
    """Runs mkdocs; returns its exit status. What it says is shown only when it fails."""
    env = dict(os.environ, CAIRN_DOCS_PAGES=str(source), NO_MKDOCS_2_WARNING="1", PYTHONDONTWRITEBYTECODE="1")
    command = [python, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(site)]
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    if done.returncode:
        print(done.stdout)
    return done.returncode


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    args.add_argument("--json", help="what `cairn ops --json` prints (default: build/default/ops.json)")
    args.add_argument("--site", default=str(ROOT / "build" / "site"), help="folder of the site (default: build/site)")
    args.add_argument("--no-install", action="store_true", help="use what is there, or end with status 2")
    args.add_argument("--links", metavar="DIR", help="only follow the links of this site")
    asked = args.parse_args()
    if asked.links:
        return links.report(pathlib.Path(asked.links))
    python = find()
    if not python and asked.no_install:
        print("docs: mkdocs and mkdocs-material are not installed (make docs installs them)")
        return 2
    python = python or install()
    if not python:
        print("docs: mkdocs and mkdocs-material are missing and could not be installed (build/docs-env.log says why).\n"
              f"docs: with a network: python3 -m pip install {' '.join(repr(w) for w in WANTED)}", file=sys.stderr)
        return 1
    site = pathlib.Path(asked.site).resolve()
    source = site.parent / (site.name + "-pages")
    pages.assemble(ROOT, source, table(asked.json))
    if build(python, source, site):
        return 1
    status = links.report(site)
    if not status:
        print(f"docs: {site / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
