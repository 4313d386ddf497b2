"""The package as a guest in a process: what importing does and leaves alone, the end of the process, fork, threads,
memory over many ops, and torch beside it. Each test starts processes of its own.

CAIRN_LONG=1 runs ten times as many ops, and looks at the end of the process with valgrind where that is installed.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LONG = os.environ.get("CAIRN_LONG") == "1"
MATHS = re.compile(r"/[^\s]*lib(openblas|blas|lapack|mkl|dnnl|blis|gomp|omp|iomp|cuda|cublas|nvrtc)[\w.-]*\.so[\w.]*")

WORK = """
import cairn
x = cairn.randn(64, 64, requires_grad=True)
w = cairn.randn(64, 64)
y = (x @ w).relu().sum()
y.backward()
assert tuple(x.grad.shape) == (64, 64)
"""
# Large enough for several threads and for a maths library where one is used.
BIG_WORK = WORK + """
big = cairn.ones(1024, 1024)
assert (big @ big).sum().item() == 1024.0 ** 3
"""


def python(code, *flags, env=None, timeout=600):
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False,
                          timeout=timeout, env={**os.environ, **(env or {})})


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


class Case(unittest.TestCase):
    def succeeds(self, code, *flags, **options):
        done = python(code, *flags, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done


class Import(Case):
    def test_starts_no_thread_and_loads_no_maths(self):
        done = self.succeeds("import os, cairn\n"
                             "print(len(os.listdir('/proc/self/task')))\nprint(open('/proc/self/maps').read())")
        threads, _, maps = done.stdout.partition("\n")
        self.assertEqual(threads, "1")
        self.assertIn("libcairn.so", maps)
        self.assertEqual(sorted(set(m.group(0) for m in MATHS.finditer(maps))), [])

    def test_brings_no_other_package(self):
        done = self.succeeds("import sys, cairn\n"
                             "print([n for n in ('numpy', 'torch', 'ml_dtypes') if n in sys.modules])")
        self.assertEqual(done.stdout.strip(), "[]")

    def test_time(self):
        """Printed, not judged: a timing decides no test. What decides it is how much is imported."""
        code = "import time\nt = time.perf_counter()\nimport cairn\nprint(time.perf_counter() - t)"
        with tempfile.TemporaryDirectory() as folder:  # for compiled files: the first try writes them
            env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}
            took = min(float(self.succeeds(code, env=env).stdout) for _ in range(7))
        print(f"import cairn: {1000 * took:.1f} ms", file=sys.stderr)
        done = self.succeeds("import sys\nbefore = set(sys.modules)\nimport cairn\n"
                             "print(*sorted({n.partition('.')[0] for n in set(sys.modules) - before}))")
        self.assertLess(len(done.stdout.split()), 60, done.stdout)

    def test_prints_nothing(self):
        done = self.succeeds("import cairn", "-W", "error", "-X", "dev")
        self.assertEqual(done.stdout + done.stderr, "")

    def test_isolated_from_the_environment(self):
        done = self.succeeds("import cairn; print(cairn.__version__)", env={"LD_LIBRARY_PATH": "/nowhere"})
        self.assertRegex(done.stdout, r"^\d+\.\d+\.\d+")

    def test_names(self):
        """What `from cairn import *` brings exists, and nothing private is in it."""
        self.succeeds("import cairn\n"
                      "for name in getattr(cairn, '__all__', []):\n"
                      "    assert hasattr(cairn, name) and not name.startswith('_'), name")

    def test_submodules(self):
        self.succeeds("import cairn\n"
                      "cairn.autograd.grad, cairn.testing.assert_close, cairn.cuda.is_available\n"
                      "cairn.nn.functional.relu, cairn.linalg, cairn.special")


class Exit(Case):
    def test_after_use(self):
        done = self.succeeds(BIG_WORK)
        self.assertEqual(done.stderr, "")

    def test_with_tensors_in_cycles_and_globals(self):
        code = BIG_WORK + """
class Node: pass
node = Node(); node.self, node.t = node, y
import sys; sys.modules['kept'] = y
def hook(g): return g
x.register_hook(hook)
"""
        self.assertEqual(self.succeeds(code).stderr, "")

    def test_with_a_thread_that_still_computes(self):
        code = BIG_WORK + """
import threading, time
def forever():
    while True: big @ big
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
"""
        for _ in range(5):
            self.assertEqual(self.succeeds(code).stderr, "")

    def test_by_sys_exit_inside_no_grad(self):
        done = python(WORK + "import sys\nwith cairn.no_grad(): sys.exit(3)")
        self.assertEqual((done.returncode, done.stderr), (3, ""))

    @unittest.skipUnless(LONG and shutil.which("valgrind"), "takes a minute: CAIRN_LONG=1, with valgrind installed")
    def test_valgrind_has_nothing_to_say_about_cairn(self):
        """Errors and lost blocks with a frame of cairn in them; CPython's own are not ours to judge."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            code = WORK + "del x, w, y"
            done = subprocess.run(
                ["valgrind", "--leak-check=full", "--show-leak-kinds=definite,possible", "--num-callers=40",
                 f"--log-file={log}", sys.executable, "-c", code],
                capture_output=True, text=True, check=False, timeout=800,
                env={**os.environ, "PYTHONMALLOC": "malloc", "CAIRN_NUM_THREADS": "1", "CAIRN_ISA": "avx2"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            text = re.sub(r"(?m)^==\d+== ?", "", log.read_text(encoding="utf-8", errors="replace"))
        reports = [r for r in text.split("\n\n") if re.search(r"\bby 0x|\bat 0x", r)]
        ours = [r for r in reports if re.search(r"libcairn|_C\.abi3|\bcn(i|py)?_\w+ \(", r)]
        self.assertEqual(ours, [], "\n\n".join(ours))


class Fork(Case):
    def test_after_parallel_work(self):
        self.succeeds(BIG_WORK + """
import os
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        z = (x.detach() @ w).sum()
        ok = (big @ big).sum().item() == 1024.0 ** 3
        u = cairn.ones(3, requires_grad=True); (u * u).sum().backward()
        os._exit(0 if ok and u.grad.tolist() == [2, 2, 2] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (big @ big).sum().item() == 1024.0 ** 3
""")

    def test_multiprocessing(self):
        self.succeeds(BIG_WORK + """
import multiprocessing
def task(n):
    return (cairn.ones(n, n) @ cairn.ones(n, n)).sum().item()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(task, [16, 256, 512]) == [16.0 ** 3, 256.0 ** 3, 512.0 ** 3]
""")


class Threads(Case):
    def test_several_at_once(self):
        """Each thread trains on its own; the results are those of one thread alone, and errors stay in theirs."""
        self.succeeds("""
import threading, cairn
def train(seed):
    x = cairn.linspace(-1, 1, 200).reshape(50, 4) * seed
    w = cairn.full((4, 3), 0.1, requires_grad=True)
    for _ in range(60):
        loss = ((x @ w).tanh() - x[:, :3]).square().mean()
        loss.backward()
        with cairn.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        try:
            cairn.ones(2, 3) @ cairn.ones(2, 3)
            raise AssertionError("no error")
        except RuntimeError:
            pass
    return w.tolist()
want = [train(s) for s in range(1, 9)]
got, threads = [None] * 8, []
def work(i): got[i] = train(i + 1)
for i in range(8): threads.append(threading.Thread(target=work, args=(i,)))
for t in threads: t.start()
for t in threads: t.join()
assert got == want
""")

    def test_shared_tensors(self):
        self.succeeds("""
import threading, cairn
shared = cairn.randn(100, 100)
want = (shared @ shared).sum().item()
wrong = []
def work():
    for _ in range(200):
        view = shared[10:20].T
        if (shared @ shared).sum().item() != want or tuple(view.shape) != (100, 10): wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong
""")

    def test_modes_belong_to_a_thread(self):
        self.succeeds("""
import threading, cairn
inside, leave, said = threading.Event(), threading.Event(), []
def other():
    with cairn.no_grad():
        inside.set(); leave.wait(10); said.append(cairn.is_grad_enabled())
t = threading.Thread(target=other); t.start()
inside.wait(10); said.append(cairn.is_grad_enabled()); leave.set(); t.join()
assert said == [True, False], said
""")

    def test_the_interpreter_runs_on_during_a_long_call(self):
        """A large product releases the GIL: with switching turned off, another thread gets its turn only by that."""
        self.succeeds("""
import sys, threading, cairn
a = cairn.ones(1200, 1200)
go, ran = threading.Event(), []
def other():
    go.wait(); ran.append(1)
t = threading.Thread(target=other); t.start()
sys.setswitchinterval(1000)
go.set()
for _ in range(100):
    a @ a
    if ran: break
said = list(ran)
t.join()
assert said, "the GIL was held"
""")

    def test_and_during_backward(self):
        self.succeeds("""
import sys, threading, cairn
a = cairn.ones(800, 800, requires_grad=True)
go, ran = threading.Event(), []
def other():
    go.wait(); ran.append(1)
t = threading.Thread(target=other); t.start()
losses = [(a @ a).sum() for _ in range(20)]
sys.setswitchinterval(1000)
go.set()
for loss in losses:
    loss.backward()
    if ran: break
said = list(ran)
t.join()
assert said, "the GIL was held"
""")


class Memory(Case):
    def test_many_ops(self):
        """The process does not grow over 10^5 (10^6) ops, gradients and errors included."""
        rounds = 10 ** 6 if LONG else 10 ** 5
        self.succeeds(f"""
import gc, cairn
def resident():
    gc.collect()
    with open('/proc/self/statm') as f:
        return int(f.read().split()[1]) * 4096
a, b = cairn.ones(16), cairn.ones(16)
w = cairn.ones(16, requires_grad=True)
def work(n):
    for i in range(n // 10):
        c = a + b          # 1
        c.add_(1)          # 2
        d = c[2:5]         # 3
        e = (w * c).sum()  # 4, 5
        e.backward()       # 6
        w.grad = None
        f = c.reshape(4, 4).T @ c.reshape(4, 4)  # 7, 8, 9
        f.tolist()
        c.max(0).values.item()  # 10
        if i % 50 == 0:
            try: a + cairn.ones(3)
            except RuntimeError: pass
            cairn.tensor([[1.0, 2.0]]).shape, repr(c), c.dtype, c.device
work({rounds} // 5)
before = resident()
work({rounds})
grown = resident() - before
print('grown by', grown, 'bytes')
assert grown < 1 << 20, grown
""", timeout=800)

    def test_graphs_and_functions(self):
        """Custom functions, hooks and graphs that were never walked go away too."""
        rounds = 20000 if LONG else 4000
        self.succeeds(f"""
import gc, cairn
class Twice(cairn.autograd.Function):
    @staticmethod
    def forward(ctx, x): ctx.save_for_backward(x); return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
def resident():
    gc.collect()
    with open('/proc/self/statm') as f:
        return int(f.read().split()[1]) * 4096
def work(n):
    for _ in range(n):
        x = cairn.ones(1000, requires_grad=True)
        y = Twice.apply(x)
        y.register_hook(lambda g: g * 1)
        z = (y * y).sum()
        if _ % 2: z.backward()
work({rounds})
before = resident()
work({rounds})
grown = resident() - before
assert grown < 2 << 20, grown
""")


class BesideTorch(Case):
    def setUp(self):
        if not has("torch"):
            self.skipTest("PyTorch is not installed")

    USE = """
for lib in (cairn, torch):
    x = lib.randn(200, 200, requires_grad=True)
    ((x @ x).relu() + x.exp()).sum().backward()
    assert tuple(x.grad.shape) == (200, 200)
    u, s, v = torch.linalg.svd(torch.randn(50, 50))
a = cairn.arange(12, dtype=cairn.float64).reshape(3, 4)
assert (a @ a.T).tolist() == (torch.tensor(a.tolist(), dtype=torch.float64) @
                              torch.tensor(a.tolist(), dtype=torch.float64).T).tolist()
import os
pid = os.fork()
if pid == 0:
    os._exit(0 if (cairn.ones(600, 600) @ cairn.ones(600, 600)).sum().item() == 600.0 ** 3 else 1)
assert os.waitpid(pid, 0)[1] == 0
"""

    def test_torch_first(self):
        self.succeeds("import torch, cairn\n" + self.USE)

    def test_cairn_first(self):
        self.succeeds("import cairn, torch\n" + self.USE)

    def test_torch_in_use_first(self):
        self.succeeds("import torch\ntorch.ones(900, 900) @ torch.ones(900, 900)\nimport cairn\n" + self.USE)


class Cuda(Case):
    def test_questions_without_a_device(self):
        self.succeeds("""
import cairn
n = cairn.cuda.device_count()
assert isinstance(n, int) and cairn.cuda.is_available() == (n > 0)
if n == 0:
    assert cairn.cuda.memory_allocated() == cairn.cuda.max_memory_allocated() == 0
    cairn.cuda.empty_cache()
    for ask in (cairn.cuda.get_device_name, cairn.cuda.get_device_properties, cairn.cuda.synchronize,
                cairn.cuda.current_device):
        try:
            ask()
            raise AssertionError(ask)
        except RuntimeError as error:
            assert "CUDA" in str(error)
else:
    assert cairn.cuda.get_device_name() and cairn.cuda.get_device_properties(0).total_memory > 0
    assert cairn.cuda.get_device_capability()[0] >= 3 and cairn.cuda.current_device() == 0
    free, total = cairn.cuda.mem_get_info()
    assert 0 < free <= total
    cairn.cuda.synchronize()
try:
    cairn.cuda.get_device_name("cpu")
    raise AssertionError("cpu is not a CUDA device")
except ValueError:
    pass
cairn.cuda.manual_seed_all(4)
a = cairn.rand(3).tolist()
cairn.cuda.manual_seed(4)
assert cairn.rand(3).tolist() == a
""")


if __name__ == "__main__":
    unittest.main()
