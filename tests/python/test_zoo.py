"""cairn.zoo: networks by name as modules, torchvision's weights, generation, embeddings, tables."""
import copy
import os
import pickle
import tempfile
import unittest
import warnings

import cairn
from cairn import nn, zoo

import hand

try:
    import torch
except ImportError:
    torch = None
try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import transformers
except ImportError:
    transformers = None

needs_torchvision = unittest.skipUnless(torchvision, "torchvision is not installed")
needs_transformers = unittest.skipUnless(transformers and torch, "transformers is not installed")
GPT = dict(n_layer=2, n_head=2, n_embd=16, vocab_size=40, n_positions=64)


def small_gpt():
    cairn.manual_seed(0)
    net = zoo.gpt2(config=GPT)
    for p in net.parameters():
        p.data.mul_(3)  # so that tokens differ
    return net


class TestNetworks(unittest.TestCase):
    def test_names(self):
        names = zoo.list()
        self.assertTrue({"resnet18", "lenet", "gpt2", "bert", "vit_b_16", "tinyllama-1.1b"} <= set(names))
        self.assertTrue({"resnet18", "gpt2_medium", "tinyllama_1_1b", "create"} <= set(dir(zoo)))
        self.assertIn("ResNet", zoo.describe("resnet18"))
        self.assertIs(zoo.resnet18, zoo.resnet18)
        self.assertIn("classes", zoo.resnet18.__doc__)
        with self.assertRaises(AttributeError):
            zoo.no_such_network
        with self.assertRaisesRegex(ValueError, "resnet18"):
            zoo.create("no_such_network")
        with self.assertRaisesRegex(ValueError, "vocab"):
            zoo.resnet18(vocab=3)

    def test_is_a_module(self):
        net = zoo.lenet(num_classes=7)
        self.assertIsInstance(net, nn.Module)
        self.assertIsInstance(net.conv1, nn.Conv2d)
        self.assertEqual(net(cairn.ones(2, 1, 28, 28)).shape, (2, 7))
        optimizer = cairn.optim.SGD(net.parameters(), lr=0.1)
        x, y = cairn.randn(4, 1, 28, 28), cairn.tensor([0, 1, 2, 3])
        weights = hand.copies(net.parameters())
        again = copy.deepcopy(net)
        names = [name for name, _ in net.named_parameters()]
        want = hand.losses(lambda t: cairn.func.functional_call(again, dict(zip(names, weights)), (t,)), weights,
                           (x, y), nn.functional.cross_entropy, hand.sgd(weights, 0.1), 5)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        for have, exact in zip(losses, want):
            self.assertAlmostEqual(have, exact, places=5)
        self.assertLess(losses[-1], losses[0])

    def test_shared_parameters(self):
        net = zoo.gpt2(config=GPT)
        names = [name for name, _ in net.named_parameters()]
        self.assertNotIn("lm_head.weight", names)
        self.assertEqual(len(names), 2 * 12 + 4)
        self.assertEqual(len([*net.named_parameters(remove_duplicate=False)]), len(names) + 1)
        self.assertIn("lm_head.weight", net.state_dict())
        for moved in (net, net.to(cairn.bfloat16), net.to("cpu").float(), copy.deepcopy(net)):
            self.assertIs(moved.lm_head.weight, moved.transformer.wte.weight)
            self.assertEqual(sum(p.numel() for p in moved.parameters()), sum(p.numel() for p in net.parameters()))
        tokens = cairn.tensor([[1, 2, 3]])
        before, rate = net.lm_head.weight.detach().clone(), 0.5
        nn.functional.cross_entropy(net.eval()(tokens)[0, :-1], tokens[0, 1:]).backward()
        cairn.optim.SGD(net.parameters(), lr=rate).step()  # once, not once for each name
        self.assertTrue(cairn.equal(net.lm_head.weight.detach(), before - rate * net.transformer.wte.weight.grad))
        self.assertEqual(len(cairn.optim.SGD(net.parameters(), lr=rate).param_groups[0]["params"]), len(names))

    def test_another_head(self):
        net = zoo.resnet18()
        net.fc = nn.Linear(net.fc.in_features, 10)
        self.assertEqual(net(cairn.ones(2, 3, 32, 32)).shape, (2, 10))
        for p in net.layer1.parameters():
            p.requires_grad = False
        net(cairn.ones(2, 3, 32, 32)).sum().backward()
        self.assertIsNone(net.layer1[0].conv1.weight.grad)
        self.assertIsNotNone(net.fc.weight.grad)

    def test_pickles(self):
        net = zoo.resnet18(num_classes=4)
        net.fc = nn.Sequential(nn.Dropout(0.1), nn.Linear(512, 3))
        net.eval()
        x = cairn.randn(2, 3, 32, 32)
        want = net(x)
        body = nn.Sequential(*list(net.children())[:-2])
        copied = copy.deepcopy(net)
        for made in (pickle.loads(pickle.dumps(net)), copied, pickle.loads(pickle.dumps(copied))):
            self.assertEqual((type(made), str(made), made.training), (type(net), str(net), False))
            self.assertTrue(cairn.equal(made(x), want))
        self.assertTrue(cairn.equal(pickle.loads(pickle.dumps(body))(x), body(x)))
        with tempfile.TemporaryDirectory() as folder:
            cairn.save(net, folder + "/net.pt")
            self.assertTrue(cairn.equal(cairn.load(folder + "/net.pt", weights_only=False)(x), want))
        gpt, tokens = small_gpt().eval(), cairn.tensor([[1, 2, 3]])
        self.assertTrue(cairn.equal(pickle.loads(pickle.dumps(gpt))(tokens), gpt(tokens)))
        small = zoo.mobilenet_v2(num_classes=2).eval()
        self.assertTrue(cairn.equal(pickle.loads(pickle.dumps(small))(x), small(x)))

    def test_children(self):
        net = zoo.resnet18()
        self.assertEqual([name for name, _ in net.named_children()],
                         ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"])
        self.assertEqual(nn.Sequential(*list(net.children())[:-2])(cairn.ones(1, 3, 64, 64)).shape, (1, 512, 2, 2))
        self.assertEqual(nn.Sequential(*list(net.children())[:-1])(cairn.ones(1, 3, 64, 64)).shape, (1, 512, 1, 1))
        net.extra = nn.Linear(3, 3)  # is not run
        net.fc = nn.Identity()
        self.assertEqual(net(cairn.ones(1, 3, 64, 64)).shape, (1, 512))
        self.assertEqual([n for n, _ in zoo.mobilenet_v2().named_children()], ["features", "classifier"])

    def test_weights(self):
        kind = zoo.ResNet50_Weights
        self.assertIs(kind.DEFAULT, kind.IMAGENET1K_V2)
        self.assertEqual((str(kind.DEFAULT), [w.name for w in kind]),
                         ("ResNet50_Weights.IMAGENET1K_V2", ["IMAGENET1K_V1", "IMAGENET1K_V2"]))
        self.assertIs(zoo.get_weight("ResNet50_Weights.IMAGENET1K_V1"), kind.IMAGENET1K_V1)
        self.assertIs(zoo.get_model_weights("resnet50"), zoo.get_model_weights(zoo.resnet50))
        change = kind.DEFAULT.transforms()
        self.assertEqual((change(cairn.zeros(3, 300, 260, dtype=cairn.uint8)).shape, change.resize_size),
                         ((3, 224, 224), [232]))
        self.assertEqual(zoo.resnet18(weights=None, progress=False, num_classes=3).fc.out_features, 3)
        with self.assertRaisesRegex(ValueError, "IMAGENET1K_V1"):
            zoo.resnet18(weights="no such")
        with self.assertRaises(TypeError):
            zoo.resnet18(weights=kind.DEFAULT)
        net = zoo.squeezenet1_1(num_classes=1000)
        home = os.environ.get("TORCH_HOME")
        with tempfile.TemporaryDirectory() as folder:  # as torchvision keeps what it has fetched
            os.makedirs(folder + "/hub/checkpoints")
            cairn.save(net.state_dict(), folder + "/hub/checkpoints/squeezenet1_1-b8a52dc0.pth")
            os.environ["TORCH_HOME"] = folder
            try:
                for weights in ("DEFAULT", zoo.SqueezeNet1_1_Weights.IMAGENET1K_V1):
                    made = zoo.squeezenet1_1(weights=weights)
                    self.assertTrue(cairn.equal(made.features[0].weight, net.features[0].weight))
                self.assertEqual(len(zoo.SqueezeNet1_1_Weights.DEFAULT.get_state_dict()), 52)
            finally:
                os.environ.pop("TORCH_HOME")
                if home is not None:
                    os.environ["TORCH_HOME"] = home

    def test_torchvision_arguments(self):
        self.assertEqual(zoo.mobilenet_v2(dropout=0.4, num_classes=2).classifier[0].p, 0.4)
        self.assertEqual(zoo.resnet18(zero_init_residual=True).layer1[0].bn2.weight.sum().item(), 0)
        self.assertEqual(zoo.get_model("resnet18", num_classes=2)(cairn.ones(2, 3, 32, 32)).shape, (2, 2))
        self.assertIn("resnet34", zoo.list_models(include="resnet*", exclude="resnet1*"))
        self.assertIs(cairn.models, zoo)
        import cairn.models as models
        self.assertIs(models.resnet18, zoo.resnet18)

    def test_all_come_from_c(self):
        x = cairn.randn(2, 3, 48, 48)
        for name, count in (("squeezenet1_0", 736963), ("mobilenet_v3_small", 1520931),
                            ("efficientnet_b0", 4011391)):
            net = getattr(zoo, name)(num_classes=3)
            self.assertEqual((sum(p.numel() for p in net.parameters()), net(x).shape), (count, (2, 3)), name)
        self.assertIn("SqueezeNet", zoo.describe("squeezenet1_0"))
        self.assertEqual(zoo.create("densenet121", channels=1).features.conv0.in_channels, 1)
        self.assertEqual(set(zoo.list_models()) - set(zoo.list()), set())

    def test_googlenet(self):
        x = cairn.randn(2, 3, 48, 48)
        net = zoo.googlenet(num_classes=3)
        made = net(x)
        self.assertEqual((made._fields, [y.shape for y in made]),
                         (("logits", "aux_logits2", "aux_logits1"), [(2, 3)] * 3))
        self.assertEqual(net.eval()(x).shape, (2, 3))
        plain = net(x)
        net.transform_input = True  # C computes with it
        self.assertFalse(cairn.equal(net(x), plain))
        again = pickle.loads(pickle.dumps(net))
        self.assertTrue(again.transform_input and cairn.equal(again(x), net(x)))
        net.aux1 = net.aux2 = None
        net.aux_logits = False
        self.assertEqual(net.train()(x).shape, (2, 3))
        self.assertNotIn("aux1.fc1.weight", net.state_dict())
        without = zoo.googlenet(aux_logits=False, num_classes=3)
        self.assertIsNone(without.aux1)
        self.assertEqual((without(x).shape, without.aux_logits), ((2, 3), False))

    def test_parts(self):
        net = zoo.efficientnet_b0(num_classes=3, stochastic_depth_prob=0.4)
        stem = net.features[0]
        self.assertIsInstance(stem, cairn.ops.Conv2dNormActivation)
        self.assertEqual((len(stem), stem.out_channels), (3, 32))
        stem[0] = nn.Conv2d(1, 32, 3, 2, 1, bias=False)  # grey images
        net.classifier[1] = nn.Linear(1280, 5)
        self.assertEqual(net(cairn.randn(2, 1, 48, 48)).shape, (2, 5))
        block = net.features[2][1]
        self.assertTrue(block.use_res_connect)
        self.assertIsInstance(block.stochastic_depth, cairn.ops.StochasticDepth)
        self.assertEqual(block.stochastic_depth.p, 0.4 * 2 / 16)
        self.assertIsInstance(block.block[2], cairn.ops.SqueezeExcitation)
        block.stochastic_depth.p = 1.0
        y = block(x := cairn.randn(2, 24, 4, 4))
        self.assertTrue(cairn.equal(y, x))  # nothing but the input stays
        next_net = zoo.convnext_tiny(num_classes=2)
        self.assertIsInstance(next_net.classifier[0], nn.LayerNorm)
        next_net.classifier[0].weight.data.fill_(3)
        next_net.classifier[0].reset_parameters()
        self.assertEqual(next_net.classifier[0].weight.sum().item(), 768)
        dense = zoo.densenet121(num_classes=2, drop_rate=0.5)
        self.assertEqual([*dense.features.denseblock1][:2], ["denselayer1", "denselayer2"])
        self.assertEqual(dense.features.denseblock1["denselayer1"].drop_rate, 0.5)
        dense.classifier = nn.Identity()
        self.assertEqual(dense.eval()(cairn.randn(1, 3, 32, 32)).shape, (1, 1024))

    def test_settings(self):
        with self.assertRaisesRegex(TypeError, "densenet121.*memory_efficient"):
            zoo.densenet121(memory_efficient=True)
        with self.assertRaisesRegex(TypeError, "aux_logits"):
            zoo.resnet18(aux_logits=False)
        with self.assertRaisesRegex(ValueError, "dropouts"):
            zoo.create("alexnet", config={"dropouts": 0.1})
        with self.assertRaisesRegex(TypeError, "dropout"):
            zoo.alexnet(dropout="much")
        self.assertEqual(zoo.vit_b_32(image_size=64, dropout=0.25).encoder.dropout.p, 0.25)

    def test_files_of_weights(self):
        net = zoo.lenet()
        with tempfile.TemporaryDirectory() as folder:
            for name in ("/w.safetensors", "/w.pt"):
                cairn.save(net.state_dict(), folder + name)
                other = zoo.lenet(pretrained=folder + name)
                x = cairn.randn(1, 1, 28, 28)
                self.assertEqual(other(x).tolist(), net(x).tolist())

    @needs_torchvision
    def test_torchvision(self):
        for name in ("resnet18", "mobilenet_v2", "squeezenet1_0", "squeezenet1_1", "mobilenet_v3_small", "densenet121",
                     "mobilenet_v3_large", "efficientnet_b0", "googlenet", "convnext_tiny"):
            side = 64
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = getattr(torchvision.models, name)().eval()
            ours = getattr(zoo, name)().eval()
            state = {k: cairn.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()}
            self.assertEqual(list(ours.state_dict()), list(state))
            self.assertEqual(str(ours), str(theirs))
            ours.load_state_dict(state)
            x = torch.randn(2, 3, side, side)
            with torch.no_grad():
                want = theirs(x)
            with cairn.no_grad():
                got = ours(cairn.from_numpy(x.numpy()))
            self.assertLess((torch.from_numpy(got.numpy()) - want).abs().max().item(), 1e-3 * want.abs().max().item())

    def test_summary(self):
        text = cairn.summary(zoo.lenet(), (1, 1, 28, 28))
        self.assertIn("conv1: Conv2d", text)
        self.assertIn("61,706", text)
        self.assertEqual(text, cairn.summary(zoo.lenet(), input_data=cairn.zeros(1, 1, 28, 28)))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 2)

            def forward(self, x):
                return self.fc(x)

        self.assertIn("fc: Linear", cairn.summary(Net(), (1, 3)))
        with self.assertRaises(TypeError):
            cairn.summary(Net())


class TestGeneration(unittest.TestCase):
    def test_greedy(self):
        net = small_gpt()
        seen = []
        tokens = zoo.generate(net, [[1, 2, 3]], max_new_tokens=10, temperature=0, streamer=seen.append)
        self.assertEqual(tokens.shape, (1, 13))
        self.assertEqual(tokens[0, 3:].tolist(), seen)
        self.assertEqual(zoo.generate(net, cairn.tensor([1, 2, 3]), 10, do_sample=False, use_cache=False).tolist(),
                         tokens.tolist())
        net.eval()
        row = [1, 2, 3]
        for _ in range(10):
            row.append(int(net(cairn.tensor([row]))[0, -1].argmax().item()))
        self.assertEqual(tokens[0].tolist(), row)

    def test_sampling(self):
        net = small_gpt()
        runs = []
        for seed in (1, 1, 2):
            cairn.manual_seed(seed)
            runs.append(zoo.generate(net, [[1]], 12, temperature=2.0, top_k=20, top_p=0.95).tolist())
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])
        self.assertEqual(zoo.generate(net, [[1]], 5, top_k=1).tolist(), zoo.generate(net, [[1]], 5, 0.0).tolist())

    def test_ends(self):
        net = small_gpt()
        first = zoo.generate(net, [[1]], 1, temperature=0)[0, 1].item()
        stopped = zoo.generate(net, [[1]], 8, temperature=0, stop=first)
        self.assertEqual(stopped[0, -1].item(), first)
        self.assertLess(stopped.shape[1], 9)
        seen = []
        zoo.generate(net, [[1]], 8, streamer=lambda token: seen.append(token) or len(seen) < 3)
        self.assertEqual(len(seen), 3)

        def fails(token):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            zoo.generate(net, [[1]], streamer=fails)
        with self.assertRaises(ValueError):
            zoo.generate(net, [[1]], max_new_tokens=100)
        with self.assertRaises(TypeError):
            zoo.generate(lambda x: x, [[1]])

    def test_own_module(self):
        class Next(nn.Module):
            """Says the number behind the last one."""

            def forward(self, tokens):
                return nn.functional.one_hot((tokens + 1) % 10, 10).float() * 9

        made = zoo.generate(Next(), [[1], [7]], 4, temperature=0)
        self.assertEqual(made.tolist(), [[1, 2, 3, 4, 5], [7, 8, 9, 0, 1]])

    def test_cache(self):
        net = small_gpt().eval()
        cache = zoo.KVCache(net, batch=1, length=16)
        whole = net(cairn.tensor([[1, 2, 3, 4]]))
        first = cache.step(cairn.tensor([[1, 2]]))
        self.assertEqual((first.shape, len(cache)), ((1, 2, 40), 2))
        rest = cache.step(cairn.tensor([[3, 4]]))
        self.assertTrue(cairn.allclose(cairn.cat([first, rest], 1), whole, atol=1e-5))
        cache.truncate(2)
        self.assertEqual(len(cache), 2)
        self.assertTrue(cairn.allclose(cache.step(cairn.tensor([[3]]))[0, 0], whole[0, 2], atol=1e-5))
        self.assertEqual(repr(cache), "KVCache(batch=1, length=16, seen=3)")

    @needs_transformers
    def test_transformers(self):
        torch.manual_seed(0)
        theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT, bos_token_id=0, eos_token_id=0)).eval()
        with tempfile.TemporaryDirectory() as folder:
            theirs.save_pretrained(folder)
            ours = zoo.gpt2(pretrained=folder).eval()
        tokens = torch.randint(0, 40, (2, 9))
        with torch.no_grad():
            want = theirs(tokens).logits
        got = ours(cairn.from_numpy(tokens.numpy()))
        self.assertLess((torch.from_numpy(got.detach().numpy()) - want).abs().max().item(), 1e-4)


class TestEmbedding(unittest.TestCase):
    def test_embed(self):
        cairn.manual_seed(0)
        net = zoo.bert(config=dict(num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=32,
                                   vocab_size=300, max_position_embeddings=32))
        tokenizer = cairn.tokenizers.bytes()
        made = zoo.embed(net, tokenizer, ["one text", "another one, which is longer than the first one is"])
        self.assertEqual(made.shape, (2, 16))
        self.assertTrue(cairn.allclose(made.norm(dim=1), cairn.ones(2), atol=1e-5))
        self.assertTrue(cairn.allclose(zoo.embed(net, tokenizer, "one text"), made[:1], atol=1e-5))

        def other(texts, padding, truncation):  # as those of transformers answer
            rows = [list(text.encode())[:32] for text in texts]
            longest = max(map(len, rows))
            return {"input_ids": [row + [0] * (longest - len(row)) for row in rows],
                    "attention_mask": [[1] * len(row) + [0] * (longest - len(row)) for row in rows]}

        self.assertTrue(cairn.allclose(zoo.embed(net, other, ["one text"]), made[:1], atol=1e-5))
        self.assertTrue(net.training)
        tokens = cairn.tensor([list(b"one text")])
        zoo.embed_tokens(net, tokens, cairn.ones_like(tokens)).sum().backward()
        self.assertTrue(any(p.grad is not None for p in net.parameters()))


if __name__ == "__main__":
    unittest.main()
