"""cairn in torch's place: cairn.as_torch() and `python -m cairn.as_torch program.py`. Each test starts processes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = """import json, sys
import helper
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
x = torch.ones(2, requires_grad=True)
F.relu(x).sum().backward()
print(json.dumps({"argv": sys.argv, "name": __name__, "file": __file__, "first": sys.path[0], "helper": helper.__file__,
                  "main": sys.modules["__main__"].__dict__ is globals(), "torch": torch.__name__,
                  "grad": x.grad.tolist(), "spec": __spec__ is None}))
"""
PLAIN = """import json, sys
import helper
print(json.dumps({"argv": sys.argv, "name": __name__, "file": __file__, "first": sys.path[0], "helper": helper.__file__,
                  "main": sys.modules["__main__"].__dict__ is globals(), "spec": __spec__ is None,
                  "names": sorted(n for n in globals() if n != "__annotations__")}))
"""


def python(*arguments, cwd=None):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd)


class Function(unittest.TestCase):
    def succeeds(self, *lines):
        done = python("-c", "\n".join(lines))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_parts_of_torch(self):
        self.succeeds("import cairn", "cairn.as_torch()",
                      "import torch, torch.nn as nn, torch.nn.functional as F",
                      "from torch.utils.data import DataLoader", "import torch.utils.data.sampler",
                      "from torch.optim.lr_scheduler import StepLR", "import torch.cuda.amp",
                      "assert nn is cairn.nn and F is cairn.nn.functional and torch.nn is nn and torch is cairn",
                      "assert DataLoader is cairn.utils.data.DataLoader and StepLR is cairn.optim.lr_scheduler.StepLR",
                      "assert cairn.nn.__spec__.name == cairn.nn.__name__ == 'cairn.nn' and torch.__name__ == 'torch'",
                      "cairn.as_torch()",  # a second time changes nothing
                      "import sys", "assert sum('_Finder' in repr(f) for f in sys.meta_path) == 1")

    def test_types_say_torch(self):
        """Libraries find their branch for torch by type(x).__module__, and programs by the texts of types."""
        self.succeeds(
            "import cairn", "before = repr(cairn.float32), repr(cairn.Size([2])), cairn.nn.Linear.__module__",
            "assert before == ('cairn.float32', 'cairn.Size([2])', 'cairn.nn.modules.linear'), before",
            "cairn.as_torch()",
            "import torch, torch.nn as nn, torch.optim, pickle, io, inspect", "from torch.utils.data import DataLoader",
            "layer = nn.Linear(2, 2)",
            "for thing in (torch.ones(1), layer.weight, layer, torch.float32, torch.device('cpu'), torch.Size([1]),",
            "              nn.LSTM(1, 1), nn.Sequential(), torch.Generator(), torch.optim.SGD([layer.weight], 0.1),",
            "              torch.distributions.Normal(0.0, 1.0)):",
            "    assert type(thing).__module__.partition('.')[0] == 'torch', type(thing)",
            "assert nn.Linear.__module__ == 'torch.nn.modules.linear'",
            "assert DataLoader.__module__.startswith('torch.utils')",
            "assert torch.Tensor.__module__ == 'torch' and repr(torch.float32) == 'torch.float32'",
            "assert repr(torch.Size([2])) == 'torch.Size([2])' and torch.ones(1).type() == 'torch.FloatTensor'",
            "assert repr(torch.max(torch.ones(1, 1), 1)).startswith('torch.return_types.max(')",
            "net = pickle.loads(pickle.dumps(nn.Sequential(layer, nn.GRU(2, 2))))", "assert type(net[0]) is nn.Linear",
            "file = io.BytesIO()", "torch.save(net, file)", "file.seek(0)",
            "assert type(torch.load(file, weights_only=False)[1]) is nn.GRU",
            "x = pickle.loads(pickle.dumps((torch.ones(2), torch.int64, torch.Size([3]))))",
            "assert x[0].tolist() == [1, 1] and x[1] is torch.int64 and x[2] == (3,)",
            "assert 'class Linear(' in inspect.getsource(nn.Linear)",
            "class Own(nn.Conv2d): pass", "Own(1, 1, 1).reset_parameters()",
            "class Kind(torch.Tensor): pass", "assert type(torch.ones(2).as_subclass(Kind) + 1) is Kind")

    def test_the_package_knows_its_own(self):
        """Parts that ask whether a class is the package's are not misled by what it says under the alias."""
        self.succeeds(
            "import cairn", "cairn.as_torch()", "import torch, torch.nn as nn, torch.fx, torchvision.transforms",
            "graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2))).graph",
            "assert [n.op for n in graph.nodes] == ['placeholder', 'call_module', 'call_module', 'output'], graph",
            "assert torch.distributions.Normal(torch.zeros(2), 1.0).expand((3, 2)).batch_shape == (3, 2)",
            "from torch.utils import _pytree",
            "made = _pytree.tree_map(lambda t: t + 1, torch.max(torch.ones(2, 2), 1))",
            "assert made.indices.tolist() == [1, 1]",
            "assert type(torchvision.transforms.ToTensor()).__module__.startswith('cairn.transforms')",
            "assert torch.compile(nn.Linear(2, 2))(torch.ones(1, 2)).shape == (1, 2)")

    def test_parts_of_torchvision(self):
        self.succeeds("import cairn", "cairn.as_torch()", "import torchvision",
                      "import torchvision.transforms as T", "from torchvision import datasets, models",
                      "from torchvision.transforms import v2", "import torchvision.transforms.functional as F",
                      "from torchvision.utils import make_grid", "from torchvision.ops import nms",
                      "assert T is cairn.transforms is torchvision.transforms and v2 is cairn.transforms.v2",
                      "assert datasets is cairn.datasets and models is cairn.zoo and F is T.functional",
                      "import torchvision.ops.stochastic_depth, torchvision.ops.misc",
                      "from torchvision.ops.roi_align import roi_align",
                      "assert roi_align is torchvision.ops.roi_align is cairn.ops.roi_align",
                      "assert torchvision.ops.stochastic_depth is cairn.ops.misc.stochastic_depth",
                      "try:", "    torchvision.no_such_part", "except AttributeError: pass",
                      "else: raise AssertionError")

    def test_what_is_not_there(self):
        self.succeeds("import cairn", "cairn.as_torch()", "try:", "    import torch.no_such_part",
                      "except ModuleNotFoundError as e:", "    assert e.name == 'torch.no_such_part', e",
                      "    assert 'cairn' in str(e)", "else:", "    raise AssertionError")

    def test_nobody_else_is_touched(self):
        """Importing cairn alone installs nothing."""
        self.succeeds("import sys", "before = list(sys.meta_path)", "import cairn, cairn.nn, cairn.keras",
                      "assert sys.meta_path == before and 'torch' not in sys.modules",
                      "import cairn.as_torch", "assert sys.meta_path == before and callable(cairn.as_torch)",
                      "cairn.as_torch()", "assert len(sys.meta_path) == len(before) + 1")

    def test_after_torch(self):
        self.succeeds("import sys, types", "sys.modules['torch'] = types.ModuleType('torch')", "import cairn", "try:",
                      "    cairn.as_torch()", "except RuntimeError as e:", "    assert 'imported already' in str(e)",
                      "else:", "    raise AssertionError")


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "inner").mkdir()
        for name, text in (("program.py", PROGRAM), ("plain.py", PLAIN), ("helper.py", "")):
            (self.folder / "inner" / name).write_text(text)

    def said(self, *arguments):
        done = python(*arguments, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_as_a_program_of_its_own(self):
        """What a program sees is what `python program.py` shows it."""
        for program in ("inner/plain.py", str(self.folder / "inner" / "plain.py")):
            want = self.said(program, "-x", "--lr=1", "file")
            self.assertEqual(self.said("-m", "cairn.as_torch", program, "-x", "--lr=1", "file"), want)
        os.symlink(self.folder / "inner" / "plain.py", self.folder / "link.py")
        self.assertEqual(self.said("-m", "cairn.as_torch", "link.py"), self.said("link.py"))

    def test_torch(self):
        found = self.said("-m", "cairn.as_torch", "inner/program.py", "a", "b")
        self.assertEqual(found["argv"], ["inner/program.py", "a", "b"])
        self.assertEqual((found["torch"], found["grad"], found["name"]), ("torch", [1.0, 1.0], "__main__"))

    def test_ends(self):
        (self.folder / "ends.py").write_text("import sys\nsys.exit(7)\n")
        (self.folder / "fails.py").write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
        self.assertEqual(python("-m", "cairn.as_torch", "ends.py", cwd=self.folder).returncode, 7)
        done = python("-m", "cairn.as_torch", "fails.py", cwd=self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("fails.py\", line 2", done.stderr)
        missing = python("-m", "cairn.as_torch", "missing.py", cwd=self.folder)
        self.assertIn("missing.py", missing.stderr)
        self.assertEqual(missing.returncode, 1)
        self.assertEqual(python("-m", "cairn.as_torch", cwd=self.folder).returncode, 2)
        self.assertIn("program.py", python("-m", "cairn.as_torch", "--help", cwd=self.folder).stdout)


if __name__ == "__main__":
    unittest.main()
