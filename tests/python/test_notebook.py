"""What a notebook shows: the bar of a fit, updated in place; modules, tensors and histories as HTML.

The notebook is a stand-in for IPython that keeps what it is given; where nbclient and a kernel are installed, a real
one runs the same cells."""
import importlib.util
import os
import sys
import types
import unittest

import cairn
from cairn import nn

CELLS = ["import cairn\nfrom cairn import nn\ncairn.manual_seed(0)\nx = cairn.randn(64, 8)\ny = (x.sum(1) > 0).long()\n"
         "model = cairn.Model(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))\n"
         "model.compile('adam', 'cross_entropy', ['accuracy'])\n"
         "history = model.fit(x, y, epochs=2, batch_size=16, validation_split=0.25)",
         "history", "nn.Sequential(nn.Linear(2, 3), nn.ReLU())", "cairn.arange(6.0).view(2, 3)"]


class ZMQInteractiveShell:
    """Known by its name, as the one of notebooks is."""


class Page:
    """IPython.display, which writes down what it shows: one list for each display, its updates behind one another."""

    def __init__(self):
        self.shown = []

    class HTML:
        def __init__(self, data):
            self.data = data

    def display(self, thing, display_id=None):
        updates = [thing.data]
        self.shown.append(updates)
        return types.SimpleNamespace(update=lambda other: updates.append(other.data))


class StandIn(unittest.TestCase):
    def setUp(self):
        self.page = Page()
        shell = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=self.page)
        self.saved = {name: sys.modules.get(name) for name in ("IPython", "IPython.display")}
        sys.modules["IPython"], sys.modules["IPython.display"] = shell, self.page

    def tearDown(self):
        for name, module in self.saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module

    def test_fit_shows_one_line_an_epoch(self):
        exec(CELLS[0], {})
        self.assertEqual(len(self.page.shown), 2)
        for epoch, updates in enumerate(self.page.shown):
            last = updates[-1]
            self.assertTrue(last.startswith("<pre"), last)
            self.assertIn("Epoch %d/2" % (epoch + 1), last)
            for word in ("3/3", "loss: ", "accuracy: ", "val_loss: ", "val_accuracy: "):
                self.assertIn(word, last)


class Html(unittest.TestCase):
    def test_module(self):
        text = nn.Sequential(nn.Linear(2, 3), nn.ReLU())._repr_html_()
        for word in ("<table", "Sequential", "Linear", "ReLU", "9"):
            self.assertIn(word, text)

    def test_tensor(self):
        text = cairn.arange(6.0).view(2, 3)._repr_html_()
        self.assertIn("<table", text)
        self.assertIn("5", text)

    def test_text_is_escaped(self):
        class Odd(nn.Module):
            def extra_repr(self):
                return "<script>"

        self.assertNotIn("<script>", nn.Sequential(Odd())._repr_html_())


@unittest.skipUnless(all(importlib.util.find_spec(m) for m in ("nbclient", "nbformat", "ipykernel")),
                     "nbclient or ipykernel is not installed")
class Real(unittest.TestCase):
    def test_cells(self):
        import nbformat
        from nbclient import NotebookClient
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        NotebookClient(book, timeout=120, kernel_name="python3").execute()
        fit, *others = ([output["data"]["text/html"] for output in cell.outputs] for cell in book.cells)
        self.assertEqual(len(fit), 2)
        self.assertIn("Epoch 2/2", fit[1])
        self.assertEqual([html.count("<svg") + html.count("<table") for (html,) in others], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
