"""CUDA and processes: what a child of fork is told, where the vendor's libraries are found, what a driver may lack,
what the command lists."""
import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import emulated

FORKED = """
    import multiprocessing, cairn
    from cairn.utils.data import DataLoader, TensorDataset

    def child(queue, tensor, device):
        try:
            queue.put(float((tensor.to(device) + 1).sum()))
        except RuntimeError as error:
            queue.put(str(error))

    def ask(tensor, device, method="fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue, tensor, device))
        process.start()
        told = queue.get(timeout=300)
        process.join()
        assert process.exitcode == 0, process.exitcode
        return told

    if __name__ == "__main__":
        print(ask(cairn.ones(3), "cuda"))          # nobody has used the device yet
        x = cairn.ones(4).to("cuda")
        print(ask(cairn.ones(3), "cuda"))
        print(ask(cairn.ones(3), "cpu"))           # holds x, and does not touch the device
        rows = TensorDataset(cairn.arange(12.0))
        print([float(b.sum()) for b, in DataLoader(rows, 4, num_workers=2)], float(x.sum()))
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestFork(unittest.TestCase):
    def test_a_child_is_told_to_be_spawned(self):
        before, after, host, rest = emulated.run(FORKED).splitlines()
        self.assertEqual(before, "6.0")
        self.assertRegex(after, "cuda: the device was used before fork.*: start processes by spawn")
        self.assertEqual((host, rest), ("6.0", "[6.0, 22.0, 38.0] 4.0"))


OPENED = """
    import cairn
    x = cairn.ones(7).to("cuda")
    print(float((x * 3).sum()))
    print(*{line.split()[-1] for line in open("/proc/self/maps") if "libnvrtc.so" in line})
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestLibraries(unittest.TestCase):
    """The driver is found by the loader; NVRTC lies where only a package of Python, or a variable, has it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.driver = os.path.join(self.folder, "driver")
        os.mkdir(self.driver)
        shutil.copy(os.path.join(emulated.SIMT, "libcuda.so.1"), self.driver)

    def check(self, place, **more):
        folder = os.path.join(self.folder, place)
        os.makedirs(folder)
        shutil.copy(os.path.join(emulated.SIMT, "libnvrtc.so.13"), folder)
        total, opened = emulated.run(OPENED, LD_LIBRARY_PATH=self.driver, CAIRN_CACHE=self.folder + "/cache", **more)\
            .splitlines()
        self.assertEqual((total, opened), ("21.0", os.path.join(os.path.realpath(folder), "libnvrtc.so.13")))

    def test_packages_of_python(self):
        site = os.path.join(self.folder, "site")
        path = site + ":" + os.environ.get("PYTHONPATH", "")
        if ctypes.util.find_library("nvrtc"):  # the system's own goes before packages
            os.makedirs(site + "/nvidia/cu13/lib")
            told = emulated.run("import cairn\nprint(cairn._C._library_folders())", PYTHONPATH=path)
            self.assertIn(site + "/nvidia", told.strip().split(":"))
        else:
            self.check("site/nvidia/cu13/lib", PYTHONPATH=path)

    def test_folders_of_the_variable(self):
        self.check("here", CAIRN_CUDA_LIBRARIES=self.folder + "/none:" + self.folder + "/here")

    def test_the_variable_may_name_what_holds_packages(self):
        self.check("packages/cuda_nvrtc/lib", CAIRN_CUDA_LIBRARIES=self.folder + "/packages")


WITHOUT = """
    import cairn
    from cairn import nn
    print(cairn.cuda.device_count())
    if cairn.cuda.is_available():
        x = cairn.randn(2, 40000)
        mean = nn.functional.layer_norm(x.to("cuda"), (40000,)).cpu() - nn.functional.layer_norm(x, (40000,))
        assert float(mean.abs().max()) < 1e-5
        s = cairn.cuda.Stream(priority=-1)
        with cairn.cuda.stream(s):
            y = (x.to("cuda") * 2).sum()
        s.synchronize()
        assert abs(float(y) - float((x * 2).sum())) < 0.1

        @cairn.compile
        def step(v):
            return (v * 3 + 1).relu()
        for _ in range(4):
            assert bool((step(x.to("cuda")).cpu() == (x * 3 + 1).relu()).all())
        begin, end = (cairn.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        end.record()
        end.synchronize()
        try:
            print(begin.elapsed_time(end) >= 0)
        except RuntimeError as error:
            print(error)
    print(float((cairn.ones(3) + 1).sum()))
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestDriver(unittest.TestCase):
    """A driver that lacks a function: what needs that one is left out; without one that all need there is no device."""

    def told(self, *missing):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(emulated.SIMT, "libcuda.so.1"), "rb") as file:
            image = file.read()
        for name in missing:
            self.assertIn(b"\0%s\0" % name, image)
            image = image.replace(b"\0%s\0" % name, b"\0_%s\0" % name[1:])  # whose hash is that of the old name
        with open(os.path.join(folder, "libcuda.so.1"), "wb") as file:
            file.write(image)
        return emulated.run(WITHOUT, LD_LIBRARY_PATH=folder + ":" + emulated.SIMT).splitlines()

    def test_nothing_missing(self):
        self.assertEqual(self.told(), ["1", "True", "6.0"])

    def test_functions_of_newer_drivers(self):
        self.assertEqual(self.told(b"cuLaunchKernelEx", b"cuStreamCreateWithPriority", b"cuDriverGetVersion"),
                         ["1", "True", "6.0"])

    def test_time_of_events(self):
        _, said, _ = self.told(b"cuEventElapsedTime")
        self.assertIn("no time between events", said)

    def test_graphs(self):
        self.assertEqual(self.told(b"cuGraphInstantiateWithFlags"), ["1", "True", "6.0"])

    def test_what_all_needs(self):
        self.assertEqual(self.told(b"cuMemAlloc_v2"), ["0", "6.0"])


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestExamples(unittest.TestCase):
    """The examples of streams, in C and in Python, on a device."""

    def test_streams(self):
        expected = ["batch %d: %d" % (i, (1 + i) * 64 * 256 * 256) for i in range(6)]
        programs = [[os.path.join(emulated.BUILD, "examples", "streams")],
                    [sys.executable, os.path.join(os.path.dirname(__file__), "../../examples/python/streams.py")]]
        for program in programs:
            if not os.path.exists(program[-1]):
                continue  # the examples are not built here
            for device in ("cuda", "mirror", "cpu"):
                done = subprocess.run([*program, device], env=emulated.environment(), text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stdout.splitlines()[:6]), (0, expected), done.stderr)


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestOps(unittest.TestCase):
    """What `cairn ops --device cuda` says of the op table; gpu-check's samples hold it against what runs there."""

    def test_the_host_computes_only_what_is_listed(self):
        program = os.path.join(emulated.BUILD, "cairn")
        done = subprocess.run([program, "ops", "--device", "cuda"], env=emulated.environment(), text=True, check=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        _, *lines, total = done.stdout.splitlines()
        self.assertEqual(total, "%d ops" % len(lines))
        ways = {line.split()[0]: line.split(None, 3)[3].strip() for line in lines}
        # text; what only stores numbers; FFTs without cuFFT; more index tensors than the kernel takes; factors of
        # matrices and regions of images, which have no kernel there yet
        host = {name: way for name, way in ways.items() if "host" in way}
        self.assertEqual(host, {"string_format": "host", "string_parse": "host", "fft_c2c": "cufft, host",
                                "arange": "create.cu, host", "linspace": "create.cu, host", "eye": "create.cu, host",
                                "index": "index.cu, host", "index_put": "index.cu, host", "geqrf": "host",
                                "linalg_eig": "host", "linalg_eigvals": "host", "linalg_ldl_factor_ex": "host",
                                "linalg_ldl_solve": "host", "kept_boxes": "host", "region_max": "host",
                                "region_means": "host", "region_means_grad": "host"})
        self.assertNotIn("does not run there", ways.values())
        self.assertEqual((ways["add"], ways["select"], ways["roll"], ways["sort"]),
                         ("nvrtc", "needs none", "by its decomposition", "sort.cu"))


if __name__ == "__main__":
    unittest.main()
