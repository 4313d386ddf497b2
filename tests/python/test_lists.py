"""cairn.lists and cairn.strings: lists of tensors and tensors of strings, as they are, compiled and in files."""
import os
import tempfile
import unittest

import numpy

import cairn
from cairn import compiler, lists, strings


class ListsTest(unittest.TestCase):
    def test_members(self):
        a, b = cairn.randn(2, 3), cairn.randn(4, 3)
        both = lists.make([a, b]).insert(1, a * 2).append(b * 3)
        self.assertEqual(int(both.length()), 4)
        for index, want in ((0, a), (1, a * 2), (-2, b), (3, b * 3)):
            self.assertEqual(both.at(index).tolist(), want.tolist())
        self.assertEqual(both.at(1, shape=(-1, 3)).tolist(), (a * 2).tolist())
        self.assertEqual(both.concat().tolist(), cairn.cat([a, a * 2, b, b * 3]).tolist())
        self.assertEqual(both.erase().erase(2).stack(1).tolist(), cairn.stack([a, a * 2], 1).tolist())
        self.assertEqual(both.take(cairn.tensor([3, 0])).at(0).tolist(), (b * 3).tolist())
        self.assertEqual(int(lists.empty(cairn.float32, 2).length()), 0)
        pieces = lists.split(b, [1, 3])
        self.assertEqual(pieces.at(1).tolist(), b[1:].tolist())
        self.assertEqual(lists.rows(b).at(2).tolist(), b[2].tolist())
        with self.assertRaisesRegex(ValueError, "not in the list"):
            both.at(9)
        with self.assertRaisesRegex(RuntimeError, "number of dimensions"):
            both.at(0, shape=(2,))

    def test_compiled(self):
        def reorder(x, sizes, index):
            pieces = lists.split(x, sizes)
            member = pieces.at(index, shape=(-1, 3))
            return pieces.append(member * 2).concat(shape=(-1, 3)), pieces.length(), pieces
        fast = compiler.compile(reorder, fullgraph=True)
        for turn in range(4):
            x = cairn.randn(6, 3, requires_grad=True)
            sizes, index = cairn.tensor([[1, 2, 3], [4, 1, 1]][turn % 2]), cairn.tensor(turn % 3)
            grads = []
            for fn in (fast, reorder):
                joined, length, pieces = fn(x, sizes, index)
                self.assertIsInstance(pieces, lists.TensorList)
                self.assertEqual(int(length), 3)
                grads.append((joined.tolist(), cairn.autograd.grad((joined ** 2).sum(), x)[0].tolist()))
            self.assertEqual(*grads)
        self.assertEqual(compiler.stats(fast)["executables"], 1)


class StringsTest(unittest.TestCase):
    words = [["cat", ""], ["käfer", "dog"]]

    def test_as_they_are(self):
        s = strings.array(self.words)
        self.assertEqual(s.tolist(), self.words)
        self.assertEqual(s.numpy().tolist(), self.words)
        self.assertEqual(strings.array(numpy.array(self.words)).tolist(), self.words)
        self.assertEqual(strings.array("one").tolist(), "one")
        self.assertEqual(s.equal("cat").tolist(), [[True, False], [False, False]])
        self.assertEqual(s.concat(["!", "?"]).tolist(), [["cat!", "?"], ["käfer!", "dog?"]])
        self.assertEqual(s.characters().tolist(), [[3, 0], [5, 3]])
        self.assertEqual(s.find(["dog", "cat"]).tolist(), [[1, -1], [-1, 0]])
        self.assertEqual(s.take(cairn.tensor([3, 0])).tolist(), ["dog", "cat"])
        self.assertEqual(strings.format(cairn.tensor([0.1, -2.0, 1e20])).tolist(), ["0.1", "-2", "1e+20"])
        self.assertEqual(strings.array(["1", "-7"]).parse(cairn.int32).tolist(), [1, -7])
        with self.assertRaisesRegex(ValueError, "'x' is no float32"):
            strings.array(["x"]).parse(cairn.float32)
        with self.assertRaises(ValueError):
            strings.array([["a"], ["b", "c"]])
        with self.assertRaises(TypeError):
            strings.array([1])

    def test_graphs(self):
        values, other = cairn.tensor([10, 20]), cairn.tensor(-1)

        def labels(words, x):
            found = words.lookup(["dog", "cat"], values, other)
            return found, words.concat("=").concat(strings.format(x))
        fast = compiler.compile(labels, fullgraph=True)
        for words in (["cat", "dog", "ant"], ["", "cat", "catcat"]):
            x = cairn.randn(3)
            have, want = fast(strings.array(words), x), labels(strings.array(words), x)
            self.assertEqual(have[0].tolist(), want[0].tolist())
            self.assertEqual(have[1].tolist(), want[1].tolist())
        self.assertEqual(compiler.stats(fast)["executables"], 1)

    def test_files(self):
        class Encoder(cairn.nn.Module):
            def forward(self, data, lengths):
                return strings.Strings(data, lengths).find(["b", "a"])
        words = strings.array(["a", "c", "b", "a"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "encoder.safetensors")
            cairn.jit.save(cairn.jit.trace(Encoder(), tuple(words)), path)
            loaded = cairn.jit.load(path)
        self.assertEqual(loaded(*words).tolist(), [1, -1, 0, 1])
        self.assertEqual(loaded(*strings.array(["b", "b", "", "aa"])).tolist(), [0, 0, -1, -1])


if __name__ == "__main__":
    unittest.main()
