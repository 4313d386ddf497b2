#!/usr/bin/env python3
"""Judges the Python package by PyTorch's own OpInfo samples, for every op that exists in it.

usage: build/peers/bin/python tests/conformance/opinfo.py [options]

  --ops NAME...       these names alone (OpInfo's; default: those of names.txt)
  --dtypes NAME...    these dtypes alone (float32 float64 float16 bfloat16 int64 bool, the other integers, float8_...,
                      complex64 complex128)
  --checks NAME...    these checks alone (forward noncontiguous method inplace operator out errors second
                      distribution compiled vmap tangent)
  --sample N          at most N samples per op, dtype and check, chosen by a fixed seed; fewer dtypes
  --reference         OpInfo's larger sets of samples (extremal and large values, odd strides)
  --jobs N            worker processes (default 2)
  --device NAME       where the package computes (cuda, mirror; default: on the CPU, as torch)
  --module NAME       the package to judge (default cairn; torch judges the harness itself)
  --report FILE       write the page that lists each name
  --json FILE         write the results for machines (default build/conformance.json; of a full run)
  --first-reason      print one line per op that failed, not one per failed check

Ops run in worker processes: a crash or a hang is a failure of the op and sample at hand, and the run goes on. The
last line is `N passed, N failed, N skipped`, counted by op, dtype and check; a name that is missing is skipped.
"""
import argparse
import contextlib
import json
import mmap
import os
import pathlib
import select
import signal
import sys
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MAIN_DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "bool"]
MORE_DTYPES = ["int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2",
               "float8_e4m3fnuz", "float8_e5m2fnuz", "complex64", "complex128"]
SIDE_DTYPES = ["float32", "bfloat16", "int64", "bool", "complex64"]
COMPILED_DTYPES = ["float32", "bfloat16", "int64"]
QUIET_SECONDS = 240     # a worker that says nothing for so long hangs
CHECKS = ["forward", "noncontiguous", "method", "inplace", "operator", "out", "errors", "second", "distribution",
          "compiled", "vmap", "tangent"]


def wanted_names():
    lines = (HERE / "names.txt").read_text(encoding="utf-8").splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


# ---- in a worker ----
def checks_of(judge, dtype, options):
    """The checks of one entry and dtype, in order: functions that give outcomes."""
    import compiled  # pylint: disable=import-outside-toplevel
    import functions  # pylint: disable=import-outside-toplevel
    import variants  # pylint: disable=import-outside-toplevel
    wide = {"forward": judge.forward}
    if dtype in MAIN_DTYPES:
        wide["noncontiguous"] = judge.noncontiguous
    if dtype in SIDE_DTYPES:
        wide["method"] = lambda: variants.method(judge)
        wide["inplace"] = lambda: variants.inplace(judge)
        wide["operator"] = lambda: variants.operator(judge)
        wide["out"] = lambda: variants.out(judge)
    if dtype == options.first_dtype.get(judge.op.full_name):
        wide["errors"] = judge.errors
    wide["second"] = judge.second
    wide["distribution"] = judge.distribution
    if dtype in COMPILED_DTYPES and options.module == "cairn":
        wide["compiled"] = lambda: compiled.compiled(judge)
    wide["vmap"] = lambda: functions.vmap(judge)
    wide["tangent"] = lambda: functions.tangent(judge)
    return [run for name, run in wide.items() if not options.checks or name in options.checks]


def judge_entry(module, op, dtype, options, place):
    """All outcomes of one entry and dtype, as plain dictionaries."""
    import checks  # pylint: disable=import-outside-toplevel
    import names  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    place("samples")
    try:
        judge = checks.Judge(module, op, getattr(torch, dtype), options.sample, place, options.reference)
    except names.Missing as missing:
        return {"missing": str(missing)}
    found = []
    for run in checks_of(judge, dtype, options):
        found += [vars(outcome) for outcome in run()]
    return {"outcomes": found}


def worker(options, entries, tasks, answers, place_at):
    """Reads task numbers from a pipe, writes one line of JSON per task."""
    import checks  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    import translate  # pylint: disable=import-outside-toplevel
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    checks.quiet()
    translate.Translator.device = options.device
    torch.cuda.is_available = lambda: False     # samples that ask for a GPU of torch's own would leave the oracle's CPU
    torch.set_num_threads(1)
    module = load(options.module)

    def place(text):
        raw = text.encode("utf-8", "replace")[:4000]
        place_at[:len(raw) + 1] = raw + b"\0"

    with os.fdopen(tasks, "r", encoding="utf-8") as lines:
        for line in lines:
            if line == "end\n":     # the pipe itself does not close: later workers hold copies of its other end
                break
            name, dtype = options.tasks[int(line)]
            began = time.monotonic()
            try:
                answer = judge_entry(module, entries[name], dtype, options, place)
            except Exception as error:  # pylint: disable=broad-exception-caught
                answer = {"outcomes": [{"check": "harness", "samples": 1, "failed": 1, "skipped": "", "sample": "",
                                        "reason": f"{type(error).__name__}: {error}"}]}
            answer["seconds"] = time.monotonic() - began
            os.write(answers, (json.dumps(answer) + "\n").encode())
    os._exit(0)     # no teardown of a forked copy of the parent


def load(name):
    """Imports the package with its parts."""
    import importlib  # pylint: disable=import-outside-toplevel
    module = importlib.import_module(name)
    for part in ("nn.functional", "linalg", "special", "fft", "autograd", "func"):
        try:
            importlib.import_module(f"{name}.{part}")
        except ImportError:
            pass
    return module


# ---- in the parent ----
class Worker:
    """One worker process, what it is at, and the pipes to it."""

    def __init__(self, options, entries):
        self.options, self.entries = options, entries
        self.task, self.since, self.buffer = None, 0.0, b""
        self.place = mmap.mmap(-1, 4096)
        task_out, self.tasks = os.pipe()
        self.answers, answer_in = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.tasks)
            os.close(self.answers)
            try:
                worker(options, entries, task_out, answer_in, self.place)
            finally:
                os._exit(1)
        os.close(task_out)
        os.close(answer_in)

    def give(self, task):
        self.task, self.since = task, time.monotonic()
        self.place[:1] = b"\0"
        os.write(self.tasks, f"{task}\n".encode())

    def at(self):
        raw = self.place[:]
        return raw[:raw.index(b"\0")].decode("utf-8", "replace")

    def read(self):
        """An answer; a failed one when the process died; None while there is no whole line."""
        data = os.read(self.answers, 1 << 20)
        if not data:
            _, status = os.waitpid(self.pid, 0)
            how = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "worker ended"
            return self.dead(how)
        self.buffer += data
        if not self.buffer.endswith(b"\n"):
            return None
        answer, self.buffer = json.loads(self.buffer), b""
        return answer

    def dead(self, how):
        check, _, sample = self.at().partition(" ")
        return {"outcomes": [{"check": check or "start", "samples": 1, "failed": 1, "skipped": "", "sample": sample,
                              "reason": how}], "dead": True}

    def hangs(self):
        """Kills a worker that has not answered; the answer to report, or None."""
        if self.task is None or time.monotonic() - self.since < QUIET_SECONDS:
            return None
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return self.dead(f"no answer after {QUIET_SECONDS} s")

    def close(self):
        os.write(self.tasks, b"end\n")
        os.close(self.tasks)
        os.close(self.answers)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass


def importable(options):
    """Whether the package can be imported at all, tried in a child so that this process stays without it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            load(options.module)
            status = 0
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"{options.module} cannot be imported: {error}", flush=True)
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


def run_all(options, entries, each):
    """Hands the tasks to the workers; each(name, dtype, answer) as they come."""
    waiting = list(range(len(options.tasks)))[::-1]
    idle = [Worker(options, entries) for _ in range(min(options.jobs, len(waiting)))]
    busy = []
    while waiting or busy:
        while idle and waiting:
            one = idle.pop()
            one.give(waiting.pop())
            busy.append(one)
        ready, _, _ = select.select([w.answers for w in busy], [], [], 5.0)
        for one in list(busy):
            answer = one.read() if one.answers in ready else one.hangs()
            if answer is None:
                continue
            each(*options.tasks[one.task], answer)
            busy.remove(one)
            if answer.get("dead"):
                os.close(one.tasks)
                os.close(one.answers)
                one = Worker(options, entries)
            one.task = None
            idle.append(one)
    for one in idle:
        one.close()


def import_expecttest():
    """PyTorch's samples come with its tests, which derive a class from this package's; where it is not installed, the
    standard library's class does, since none of their tests runs."""
    try:
        import expecttest  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase


@contextlib.contextmanager
def devices_hidden():
    """Here PyTorch finds no GPU, without asking the driver: that would not work in the workers, which are forked."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    yield
    del os.environ["CUDA_VISIBLE_DEVICES"]
    if before is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = before


def plan(options, entries):
    """[(entry, dtype)]: the main dtypes an entry lists; with --sample, float32 and one more."""
    import torch  # pylint: disable=import-outside-toplevel
    tasks, options.first_dtype = [], {}
    for i, (name, op) in enumerate(entries.items()):
        listed = [d for d in (options.dtypes or MAIN_DTYPES + MORE_DTYPES) if getattr(torch, d) in op.dtypes]
        if options.sample and not options.dtypes and len(listed) > 2:
            rest = [d for d in MAIN_DTYPES[1:] if d in listed] or listed[1:]
            listed = [listed[0], rest[i % len(rest)]]
        if listed:
            options.first_dtype[name] = listed[0]
        tasks += [(name, d) for d in listed]
    return tasks


def main():
    options = arguments()
    sys.path.insert(0, str(HERE))
    sys.path.append(str(pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "python"))
    if not options.device:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    try:
        import torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        import_expecttest()
        with devices_hidden():
            # pylint: disable-next=import-outside-toplevel
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        missing = (error.name or "torch").partition(".")[0]
        print(f"skipped: {'PyTorch' if missing == 'torch' else 'the package ' + missing} is not installed")
        return 77
    if not importable(options):
        print("0 passed, 1 failed, 0 skipped")
        return 1
    import report  # pylint: disable=import-outside-toplevel
    wanted = options.ops or wanted_names()
    chosen = set(wanted)
    entries = {op.full_name: op for op in op_db if op.name in chosen}
    options.tasks = plan(options, entries)
    results = report.Results(wanted, {name: op.name for name, op in entries.items()}, options,
                             [op.name for op in op_db])
    run_all(options, entries, results.add)
    return results.finish()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ops", nargs="+")
    parser.add_argument("--dtypes", nargs="+")
    parser.add_argument("--checks", nargs="+", choices=CHECKS)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device")
    parser.add_argument("--module", default="cairn")
    parser.add_argument("--report")
    parser.add_argument("--json")
    parser.add_argument("--first-reason", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
