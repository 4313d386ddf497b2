"""cairn.nn.utils.prune: masks on parameters, one after the other, over several modules, and their removal."""
import copy
import unittest

import cairn
from cairn import nn
from cairn.nn.utils import prune


def filled(module, start=0.0):
    with cairn.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_((cairn.arange(p.numel()).float() * (0.37 + i) + start).sin().reshape(p.shape))
    return module


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


class Prune(unittest.TestCase):
    def test_names_values_and_gradients(self):
        layer = filled(nn.Linear(4, 3))
        weight = layer.weight.detach().clone()
        self.assertIs(prune.l1_unstructured(layer, "weight", amount=5), layer)
        self.assertEqual([n for n, _ in layer.named_parameters()], ["bias", "weight_orig"])
        self.assertEqual([n for n, _ in layer.named_buffers()], ["weight_mask"])
        self.assertNotIsInstance(layer.weight, nn.Parameter)
        kept = layer.weight_mask.bool()
        self.assertEqual(int(kept.sum()), 7)
        self.assertGreaterEqual(float(weight[kept].abs().min()), float(weight[~kept].abs().max()))
        x = cairn.ones(2, 4)
        self.assertTrue(cairn.equal(layer(x), x @ (weight * kept).t() + layer.bias))
        layer(x).sum().backward()
        self.assertTrue(bool((layer.weight_orig.grad[~kept] == 0).all()))
        optimizer = cairn.optim.SGD(layer.parameters(), lr=0.1)
        optimizer.step()
        layer(x)
        self.assertTrue(bool((layer.weight[~kept] == 0).all()))

    def test_several_on_one(self):
        conv = filled(nn.Conv2d(2, 6, 3))
        prune.random_unstructured(conv, "weight", amount=0.3)
        prune.ln_structured(conv, "weight", amount=0.5, n=2, dim=0)
        hook = next(iter(conv._forward_pre_hooks.values()))
        self.assertIsInstance(hook, prune.PruningContainer)
        self.assertEqual([type(h).__name__ for h in hook], ["RandomUnstructured", "LnStructured"])
        self.assertEqual(int((conv.weight_mask.flatten(1).sum(1) == 0).sum()), 3)
        prune.random_structured(conv, "weight", amount=1, dim=1)
        self.assertEqual(len(hook), 3)
        self.assertEqual(len(conv._forward_pre_hooks), 1)
        self.assertTrue(prune.is_pruned(nn.Sequential(conv)))
        pruned = conv.weight.detach().clone()
        prune.remove(conv, "weight")
        self.assertTrue(cairn.equal(conv.weight, pruned))
        self.assertEqual([n for n, _ in conv.named_parameters()], ["bias", "weight"])
        self.assertEqual(list(conv.named_buffers()), [])
        self.assertFalse(prune.is_pruned(conv))

    def test_over_modules(self):
        net = filled(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
        pairs = [(net[0], "weight"), (net[2], "weight")]
        together = cairn.cat([m.weight.detach().abs().flatten() for m, _ in pairs])
        prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=12)
        masks = cairn.cat([m.weight_mask.flatten() for m, _ in pairs])
        self.assertEqual(int((masks == 0).sum()), 12)
        self.assertLessEqual(float(together[masks == 0].max()), float(together[masks == 1].min()))
        state = net.state_dict()
        self.assertEqual(list(state), ["0.bias", "0.weight_orig", "0.weight_mask", "2.bias", "2.weight_orig",
                                       "2.weight_mask"])
        other = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        for i in (0, 2):
            prune.identity(other[i], "weight")
        other.load_state_dict(state)
        x = cairn.ones(1, 4)
        self.assertTrue(cairn.equal(other(x), net(x)))

    def test_own_methods_masks_and_copies(self):
        layer = filled(nn.Linear(4, 5))
        EveryOther.apply(layer, "bias")
        self.assertEqual(layer.bias_mask.tolist(), [0, 1, 0, 1, 0])
        prune.custom_from_mask(layer, "bias", cairn.tensor([1, 1, 1, 0, 0]))
        self.assertEqual(layer.bias_mask.tolist(), [0, 1, 0, 0, 0])
        with cairn.no_grad():
            layer(cairn.ones(1, 4))
            twin = copy.deepcopy(layer)
            self.assertTrue(cairn.equal(twin(cairn.ones(1, 4)), layer(cairn.ones(1, 4))))
        self.assertEqual(prune.L1Unstructured(amount=2).prune(cairn.tensor([1.0, -2.0, 3.0, -0.5])).tolist(),
                         [0, -2, 3, 0])
        prune.l1_unstructured(layer, "weight", 3, importance_scores=cairn.arange(20.0).reshape(5, 4))
        self.assertEqual(layer.weight_mask.flatten()[:4].tolist(), [0, 0, 0, 1])

    def test_errors(self):
        layer = nn.Linear(4, 3)
        for error, call in ((ValueError, lambda: prune.l1_unstructured(layer, "weight", amount=1.5)),
                            (ValueError, lambda: prune.l1_unstructured(layer, "weight", amount=100)),
                            (TypeError, lambda: prune.l1_unstructured(layer, "weight", amount="many")),
                            (ValueError, lambda: prune.random_structured(layer, "bias", amount=1, dim=0)),
                            (ValueError, lambda: prune.remove(layer, "weight")),
                            (TypeError, lambda: prune.global_unstructured([(layer, "weight")], prune.LnStructured,
                                                                          amount=1, n=2))):
            with self.assertRaises(error):
                call()
        self.assertEqual([n for n, _ in layer.named_parameters()], ["weight", "bias"])


if __name__ == "__main__":
    unittest.main()
