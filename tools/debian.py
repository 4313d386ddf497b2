"""Debian packages of an installed tree, made with dpkg-deb alone.

Place in the flow: tools/dist installs a build into a folder and gives it here. Invariant: every installed file goes
into exactly one package, and the same tree gives the same packages, byte for byte.

    libcairn0         the library                 libcairn0-image   the plugin of PNG and JPEG
    libcairn-dev      headers, archive, pkg-config, CMake       libcairn0-cuda    the plugin of CUDA
    cairn             the command
"""
import dataclasses
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import time

import elf

MAINTAINER = "The cairn developers <cairn@cairn.invalid>"
LONG = """ cairn is a deep-learning framework in C: tensors, automatic differentiation,
 modules, optimisers, data loading, file formats and pretrained networks in one
 library. Its ops, layers and optimisers have PyTorch's names and results."""


@dataclasses.dataclass
class Package:
    name: str
    files: str               # pattern of the paths it takes; the first package that fits has a file
    section: str
    summary: str
    says: str                # ends the description
    depends: tuple = ()      # beside what its files need
    suggests: tuple = ()


PACKAGES = [
    Package("libcairn0-image", r"/libcairn_image\.so$", "libs", "deep-learning framework in C (PNG and JPEG)",
            "This package has the plugin that reads and writes PNG and JPEG images.", ("libcairn0",)),
    Package("libcairn0-cuda", r"/libcairn_cuda\.so$", "contrib/libs", "deep-learning framework in C (CUDA)",
            "This package has the plugin for NVIDIA's devices; it loads CUDA's own\n libraries when it is used.",
            ("libcairn0",)),
    Package("cairn", r"^usr/bin/|/man1/", "science", "deep-learning framework in C (command)",
            "This package has the cairn command, which trains, evaluates and converts\n networks and lists ops.",
            ("libcairn0",)),
    Package("libcairn0", r"/libcairn\.so\.|/libcairn_pjrt\.so$", "libs", "deep-learning framework in C (library)",
            "This package has the shared library, and the plugin for TPUs.", (),
            ("libcairn0-image", "libopenblas0", "libdnnl2", "libcurl4")),
    Package("libcairn-dev", r"", "libdevel", "deep-learning framework in C (development files)",
            "This package has the headers of C and C++, the archive, and what pkg-config\n and CMake read.",
            ("libcairn0", "libc6-dev")),
]


def owner(library):
    """The installed package that a library of the system is from, or None."""
    given = elf.system(library)
    for path in (given, given.resolve(), pathlib.Path(f"/usr{given}")) if given else ():
        said = subprocess.run(["dpkg", "-S", str(path)], capture_output=True, text=True, check=False).stdout
        if ":" in said:
            return said.split(":")[0]
    return None


def needed(paths):
    """Packages that compiled files need beside cairn's own: glibc by its version, others by who owns the library."""
    major, minor = elf.glibc(paths)
    wanted = [f"libc6 (>= {major}.{minor})"]
    for library in sorted(elf.missing({p.name: p for p in paths}) - {"libcairn.so.0"}):
        package = owner(library)
        if package is None:
            raise SystemExit(f"no installed Debian package has {library}")
        wanted.append(package)
    return wanted


def man_page(tree, version):
    """The command's own help as a manual page."""
    library = next(tree.rglob("libcairn.so.0")).parent
    text = subprocess.run([str(tree / "usr/bin/cairn"), "help"], capture_output=True, text=True, check=True,
                          env={**os.environ, "LD_LIBRARY_PATH": str(library)}).stdout
    body = text.replace("\\", "\\e").replace("-", "\\-")
    body = "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in body.splitlines())
    return (f'.TH CAIRN 1 "" "cairn {version}" "User Commands"\n.SH NAME\ncairn \\- train, run and convert networks\n'
            f".SH SYNOPSIS\n.B cairn\n.I subcommand\n[arguments]\n.SH DESCRIPTION\n.nf\n{body}\n.fi\n")


def packed(text):
    return gzip.compress(text.encode(), 9, mtime=0)


class Maker:
    def __init__(self, root, version, epoch, work):
        self.root, self.version, self.epoch, self.work = root, version, epoch, work
        self.arch = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True,
                                   text=True).stdout.strip()

    def split(self, tree):
        """package -> its files, relative to the tree."""
        found = {p.name: [] for p in PACKAGES}
        for path in sorted(p for p in tree.rglob("*") if not p.is_dir()):
            name = path.relative_to(tree).as_posix()
            found[next(p.name for p in PACKAGES if re.search(p.files, name))].append(name)
        return found

    def documents(self, package, folder):
        """What policy wants in /usr/share/doc."""
        doc = folder / "usr/share/doc" / package.name
        doc.mkdir(parents=True)
        terms = ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: cairn\n\n"
                 f"Files: *\nCopyright: {time.gmtime(self.epoch).tm_year} The cairn developers\nLicense: Apache-2.0\n"
                 " On Debian systems the full text is\n in /usr/share/common-licenses/Apache-2.0.\n")
        (doc / "copyright").write_text(terms, encoding="utf-8")
        (doc / "changelog.gz").write_bytes(packed((self.root / "CHANGELOG.md").read_text(encoding="utf-8")))
        date = subprocess.run(["date", "-u", "-R", "-d", f"@{self.epoch}"], check=True, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout.strip()
        entry = f"cairn ({self.version}-1) unstable; urgency=medium\n\n  * As released.\n\n -- {MAINTAINER}  {date}\n"
        (doc / "changelog.Debian.gz").write_bytes(packed(entry))
        overrides = folder / "usr/share/lintian/overrides" / package.name
        overrides.parent.mkdir(parents=True)
        overrides.write_text("# Debian has no wish for this package that a first upload would fulfil.\n"
                             f"{package.name}: initial-upload-closes-no-bugs\n", encoding="utf-8")

    def control(self, package, folder, compiled):
        depends = [f"{d} (= {self.version}-1)" if d.startswith("libcairn") else d for d in package.depends]
        depends += needed(compiled) if compiled else []
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
        lines = [f"Package: {package.name}"] + ["Source: cairn"] * (package.name != "cairn")
        lines += [f"Version: {self.version}-1", f"Architecture: {self.arch}", f"Maintainer: {MAINTAINER}",
                  f"Installed-Size: {(size + 1023) // 1024}", f"Depends: {', '.join(depends)}"]
        lines += [f"Suggests: {', '.join(package.suggests)}"] if package.suggests else []
        lines += [f"Section: {package.section}", "Priority: optional", f"Description: {package.summary}", LONG, " .",
                  f" {package.says}"]
        return "\n".join(lines) + "\n"

    def make(self, package, names, tree, out):
        """Writes one .deb and returns its path."""
        folder = self.work / package.name
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, folder / name, follow_symlinks=False)
        self.documents(package, folder)
        files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink()]
        for path in files:
            runs = path.parent.name == "bin"
            path.chmod(0o755 if runs else 0o644)
        compiled = [p for p in files if elf.is_elf(p)]
        control = self.control(package, folder, compiled)
        (folder / "DEBIAN").mkdir()
        (folder / "DEBIAN/control").write_text(control, encoding="utf-8")
        sums = "".join(f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(folder)}\n" for p in files)
        (folder / "DEBIAN/md5sums").write_text(sums, encoding="utf-8")
        if package.name == "libcairn0":
            (folder / "DEBIAN/shlibs").write_text(f"libcairn 0 libcairn0 (>= {self.version})\n", encoding="utf-8")
            (folder / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n", encoding="utf-8")
        for path in [folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())]:
            path.chmod(0o755)
        target = out / f"{package.name}_{self.version}-1_{self.arch}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(folder), str(target)], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch)})
        return target


def packages(root, tree, version, epoch, work, out):
    """The packages of an installed tree (tree/usr/...), written into out; returns their paths."""
    maker = Maker(root, version, epoch, pathlib.Path(work))
    page = tree / "usr/share/man/man1/cairn.1.gz"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_bytes(packed(man_page(tree, version)))
    split = maker.split(tree)
    return [maker.make(p, split[p.name], tree, out) for p in PACKAGES if split[p.name]]
