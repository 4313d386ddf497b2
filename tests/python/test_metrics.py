"""cairn.metrics against scikit-learn."""
import math
import unittest

import cairn
from cairn import metrics

try:
    import numpy
    import sklearn.metrics as theirs
except ImportError:
    theirs = None

needs_sklearn = unittest.skipUnless(theirs, "scikit-learn is not installed")


@needs_sklearn
class TestAgainstSklearn(unittest.TestCase):
    def setUp(self):
        random = numpy.random.RandomState(0)
        self.scores = random.randn(60, 4).astype("float32")
        self.truth = random.randint(0, 4, 60)
        self.said = self.scores.argmax(1)

    def fed(self, metric, output=None, target=None):
        output = self.scores if output is None else output
        target = self.truth if target is None else target
        for i in range(0, len(target), 7):  # in batches
            metric.update(cairn.tensor(output[i:i + 7]), cairn.tensor(target[i:i + 7]))
        return metric

    def test_accuracy(self):
        self.assertAlmostEqual(self.fed(metrics.Accuracy()).compute(), theirs.accuracy_score(self.truth, self.said))
        self.assertAlmostEqual(self.fed(metrics.TopK(2)).compute(),
                               theirs.top_k_accuracy_score(self.truth, self.scores, k=2))
        self.assertAlmostEqual(self.fed(metrics.Accuracy(), self.said).compute(),
                               theirs.accuracy_score(self.truth, self.said))

    def test_averages(self):
        for kind, function in ((metrics.Precision, theirs.precision_score), (metrics.Recall, theirs.recall_score),
                               (metrics.F1, theirs.f1_score)):
            for average in ("macro", "micro", "weighted"):
                metric = self.fed(kind(4, average))
                self.assertAlmostEqual(metric.compute(), function(self.truth, self.said, average=average), 6)
            for each in (None, "none"):
                want = function(self.truth, self.said, average=None)
                self.assertTrue(numpy.allclose(self.fed(kind(4, each)).compute().tolist(), want))

    def test_confusion(self):
        matrix = self.fed(metrics.ConfusionMatrix(4))
        self.assertEqual(matrix.compute().tolist(), theirs.confusion_matrix(self.truth, self.said).tolist())
        self.assertAlmostEqual(matrix.accuracy(), theirs.accuracy_score(self.truth, self.said))
        self.assertAlmostEqual(self.fed(metrics.MeanIoU(4)).compute(),
                               theirs.jaccard_score(self.truth, self.said, average="macro"), 6)

    def test_auc(self):
        truth = (self.truth > 1).astype("int64")
        scores = 1 / (1 + numpy.exp(-self.scores[:, 0]))
        self.assertAlmostEqual(self.fed(metrics.AUC(), scores, truth).compute(), theirs.roc_auc_score(truth, scores), 6)

    def test_perplexity(self):
        odds = numpy.exp(self.scores) / numpy.exp(self.scores).sum(1, keepdims=True)
        want = math.exp(theirs.log_loss(self.truth, odds, labels=range(4)))
        self.assertAlmostEqual(self.fed(metrics.Perplexity()).compute(), want, 4)


class TestMetrics(unittest.TestCase):
    def test_life(self):
        accuracy = metrics.Accuracy()
        self.assertTrue(math.isnan(accuracy.compute()))
        x, y = cairn.tensor([[0.9, 0.1], [0.2, 0.8]]), cairn.tensor([0, 0])
        self.assertEqual(accuracy(x, y), 0.5)
        self.assertEqual(accuracy(x[:1], y[:1]), 1.0)  # of this batch alone
        self.assertAlmostEqual(accuracy.compute(), 2 / 3)
        accuracy.reset()
        accuracy.update(x[1:], y[1:])
        self.assertEqual(accuracy.compute(), 0)
        self.assertEqual((accuracy.name, accuracy.higher_is_better), ("accuracy", True))

    def test_mean(self):
        mean = metrics.Mean("loss")
        mean.update(cairn.tensor(2.0), 3)
        mean.update(4.0)
        self.assertAlmostEqual(mean.compute(), 2.5)
        self.assertEqual((mean.name, mean.higher_is_better), ("loss", False))

    def test_binary_floats(self):
        accuracy = metrics.Accuracy()
        accuracy.update(cairn.tensor([0.9, 0.4]), cairn.tensor([1.0, 1.0]))
        self.assertEqual(accuracy.compute(), 0.5)

    def test_faults(self):
        accuracy = metrics.Accuracy()
        accuracy.update(cairn.eye(2), cairn.tensor([0, 1]))
        with self.assertRaisesRegex(RuntimeError, "do not fit"):
            accuracy.update(cairn.ones(2, 3), cairn.ones(4))
        self.assertEqual(accuracy.compute(), 1)
        with self.assertRaisesRegex(ValueError, "average"):
            metrics.F1(3, "median")
        with self.assertRaises(ValueError):
            metrics.TopK(0)

    def test_by_name(self):
        self.assertIsInstance(metrics.get("accuracy"), metrics.Accuracy)
        self.assertIsInstance(metrics.get("f1", num_classes=3), metrics.F1)
        mine = metrics.AUC()
        self.assertIs(metrics.get(mine), mine)
        with self.assertRaisesRegex(ValueError, "accuracy"):
            metrics.get("no such")

    def test_gradients_are_left_alone(self):
        x = cairn.randn(3, 2, requires_grad=True)
        metrics.Accuracy().update(x, cairn.tensor([0, 1, 0]))
        self.assertIsNone(x.grad)


if __name__ == "__main__":
    unittest.main()
