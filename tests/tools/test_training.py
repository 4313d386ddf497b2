#!/usr/bin/env python3
"""What the `cairn` command trains and does with what it trained: train, eval, predict, summary, convert, generate, embed,
on small real data; wrong usage; Ctrl-C and resume; the example files and those of the documentation.

usage: tests/tools/test_training.py      (CAIRN_BUILD_DIR: where the command was built; default build/default)
"""
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve()
CAIRN = BUILD / "cairn"
IMAGES = (BUILD / "libcairn_image.so").exists()
SMALL = """[net]
input = 1, 8, 8
[data]
set = digits
batch = 64
[solver]
epochs = 2
lr = 0.01
[Conv2d] out_channels = 8 kernel_size = 3
[BatchNorm2d]
[ReLU]
[Flatten]
[Dropout] p = 0.1
[Linear] out_features = 10
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-tools-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.write("small.cfg", SMALL)

    def path(self, name):
        return pathlib.Path(self.folder) / name

    def write(self, name, text):
        self.path(name).write_text(text, encoding="utf-8")
        return name

    def run_cairn(self, *args):
        return subprocess.run([str(CAIRN), *args], check=False, capture_output=True, text=True, encoding="utf-8",
                              cwd=self.folder, timeout=600, env={**os.environ, "CAIRN_PLUGIN_PATH": str(BUILD)})

    def good(self, *args):
        done = self.run_cairn(*args)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        self.assertEqual(done.stderr, "")
        return done.stdout

    def bad(self, *args, status=1, says=""):
        done = self.run_cairn(*args)
        self.assertEqual(done.returncode, status, f"{args}: {done.stdout}{done.stderr}")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(says, done.stderr)

    def losses(self, folder):
        with open(self.path(folder) / "log.csv", encoding="utf-8") as f:
            return [row["loss"] for row in csv.DictReader(f)]


class Usage(Case):
    def test_help_explains_each(self):
        text = self.good("help")
        for name in ("train", "eval", "predict", "summary", "generate", "embed", "convert", "demo"):
            self.assertRegex(text, rf"(?m)^  {name} ")
            one = self.good("help", name)
            self.assertTrue(one.startswith(f"usage: cairn {name} "), one)
            self.assertGreater(len(one.splitlines()), 5)
            self.assertEqual(self.good(name, "--help"), one)
        self.bad("help", "nonsense", status=2, says="nonsense")

    def test_wrong_use(self):
        for args, says in ((["train"], "nothing to train"), (["train", "--data", "digits"], "nothing to train"),
                           (["train", "small.cfg", "other"], "other"), (["train", "small.cfg", "--nonsense"], "--nonsense"),
                           (["train", "small.cfg", "--epochs"], "--epochs"), (["eval"], "checkpoint"),
                           (["eval", "a", "b"], "'b'"), (["predict"], "model"), (["predict", "a"], "input"),
                           (["predict", "a", "b", "--top", "x"], "'x'"), (["summary", "a", "--input", "3,x"], "3,x"),
                           (["generate"], "model"), (["generate", "a"], "--prompt"), (["embed", "a"], "text"),
                           (["generate", "a", "--prompt", "b", "--tokens", "0"], "'0'"), (["convert", "a"], "write"),
                           (["convert", "a", "b", "--dtype", "int8"], "int8"), (["convert", "a", "b", "--list"], "--list")):
            with self.subTest(args=args):
                self.bad(*args, status=2, says=says)

    def test_failures(self):
        for args, says in ((["train", "none.cfg"], "none.cfg"), (["train", "--data", "digits", "--model", "resnet"], "resnet18"),
                           (["train", "--data", "nowhere", "--model", "lenet"], "nowhere"),
                           (["train", "--resume", "nowhere"], "nowhere"), (["train", "small.cfg", "--device", "moon"], "moon"),
                           (["train", "small.cfg", "--optimizer", "Adm"], "AdamW"),
                           (["train", "small.cfg", "--epochs", "many"], "epochs must be a whole number"),
                           (["eval", "nowhere"], "nowhere"), (["eval", "small.cfg"], "no weights"),
                           (["predict", "small.cfg", "x.png"], "no weights"), (["summary", "nowhere"], "nowhere"),
                           (["convert", "nowhere", "x.npz"], "nowhere"), (["convert", "small.cfg", "x.npz"], "small.cfg"),
                           (["generate", "nowhere", "--prompt", "a"], "nowhere"), (["embed", ".", "a"], "config.json")):
            with self.subTest(args=args):
                self.bad(*args, says=says)

    def test_description_errors(self):
        self.write("wrong.cfg", SMALL.replace("[Linear]", "[Linaer]"))
        self.bad("train", "wrong.cfg", says="wrong.cfg:14: there is no layer 'Linaer'; the nearest are Linear")
        self.write("wrong.cfg", SMALL.replace("kernel_size = 3", "kernel_size = 30"))
        self.bad("summary", "wrong.cfg", says="wrong.cfg:9: Conv2d: ")


class Train(Case):
    def test_file(self):
        out = self.good("train", "small.cfg", "--epochs", "3")
        self.assertEqual(len(re.findall(r"(?m)^epoch ", out)), 3)
        self.assertIn("runs/small", out)
        made = {p.name for p in self.path("runs/small").iterdir()}
        self.assertLessEqual({"best.safetensors", "last.safetensors", "log.csv", "net.cfg"}, made)
        self.assertTrue(any(name.startswith("events.out.tfevents.") for name in made))
        self.assertEqual(len(self.losses("runs/small")), 3)
        config = (self.path("runs/small") / "net.cfg").read_text(encoding="utf-8")
        self.assertIn('labels = "0", "1"', config)
        self.assertIn("epochs = 3", config)

    def test_options(self):
        self.write("plain.cfg", SMALL.replace("lr = 0.01\n", ""))
        self.good("train", "plain.cfg", "--epochs=1", "--batch=100", "--lr", "0.1", "--optimizer", "SGD", "--schedule",
                  "OneCycleLR", "--weight-decay", "0.01", "--clip", "1", "--precision", "bfloat16", "--seed", "4",
                  "--workers", "2", "--out", "elsewhere")
        config = (self.path("elsewhere") / "net.cfg").read_text(encoding="utf-8")
        for line in ("batch = 100", "lr = 0.1", "optimizer = SGD", "weight_decay = 0.01", "precision = bfloat16"):
            self.assertIn(line, config)

    def test_zoo(self):
        out = self.good("train", "--data", "digits", "--model", "lenet", "--input", "1,16,16", "--epochs", "1", "--out", "z")
        self.assertIn("test loss", out)
        self.assertIn("accuracy", self.good("eval", "z"))

    def test_eval(self):
        self.good("train", "small.cfg", "--out", "run")
        text = self.good("eval", "run")
        self.assertIn("360 samples", text)
        accuracy = float(re.search(r"accuracy +([\d.]+) %", text).group(1))
        self.assertGreater(accuracy, 70)
        rows = re.findall(r"(?m)^ +(\d) ((?: +(?:\d+|\.)){10}) ", text)
        self.assertEqual([r[0] for r in rows], [str(i) for i in range(10)])
        right = sum(int(r[1].split()[i]) for i, r in enumerate(rows) if r[1].split()[i] != ".")
        self.assertAlmostEqual(100 * right / 360, accuracy, places=1)
        self.assertEqual(self.good("eval", "run/best.safetensors", "--batch", "7"), text)

    def test_average(self):
        self.write("average.cfg", SMALL.replace("[solver]", "[solver]\naverage = 0.9"))
        out = self.good("train", "average.cfg", "--out", "run")
        self.assertIn(re.search("accuracy +([0-9.]+ %)", self.good("eval", "run/last.safetensors")).group(1), out)
        self.good("convert", "run/last.safetensors", "run/plain.safetensors", "--weights")
        self.good("eval", "run/plain.safetensors")

    def test_other_devices(self):
        self.good("train", "small.cfg", "--epochs", "1", "--device", "mirror", "--out", "run")
        self.assertIn("accuracy", self.good("eval", "run", "--device", "mirror"))

    def test_other_data(self):
        self.good("train", "small.cfg", "--epochs", "1", "--out", "run")
        self.assertIn("360 samples", self.good("eval", "run", "--data", "digits"))
        self.bad("eval", "run", "--data", "nowhere", says="nowhere")

    def test_resume_is_exact(self):
        self.good("train", "small.cfg", "--epochs", "4", "--out", "whole")
        self.good("train", "small.cfg", "--epochs", "2", "--out", "parts")
        self.good("train", "--resume", "parts", "--epochs", "4")
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        a, b = ((self.path(p) / "last.safetensors").read_bytes() for p in ("whole", "parts"))
        self.assertEqual(weights(a), weights(b))

    def test_interrupt_leaves_a_checkpoint(self):
        with subprocess.Popen([str(CAIRN), "train", "small.cfg", "--epochs", "100000", "--out", "run"], cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            p.stdout.readline()  # an epoch is done
            time.sleep(0.2)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=120)
        self.assertEqual(p.returncode, 130, err)
        self.assertEqual(err, "")
        self.assertIn("train --resume run", out)
        self.assertIn("accuracy", self.good("eval", "run/last.safetensors"))
        done = len(self.losses("run"))
        self.good("train", "--resume", "run", "--epochs", str(done + 2))
        self.assertEqual(len(self.losses("run")), done + 2)

    def test_table_of_numbers(self):
        random.seed(1)
        with open(self.path("flowers.csv"), "w", encoding="utf-8") as f:
            f.write("a,b,kind\n")
            for i in range(300):
                f.write(f"{random.gauss(i % 3, .2):.3f},{random.gauss(-(i % 3), .2):.3f},{('red', 'green', 'blue')[i % 3]}\n")
        self.write("flowers.cfg", "[data]\nset = flowers.csv\nheader = true\nbatch = 16\n[solver]\nepochs = 15\nlr = 0.02\n"
                                  "[Linear] out_features = 16\n[ReLU]\n[Linear] out_features = 3\n")
        self.good("train", "flowers.cfg")
        text = self.good("predict", "runs/flowers/last.safetensors", "0.0, 0.1", "2 -2")
        self.assertRegex(text, r"0\.0, 0\.1\n +[\d.]+ %  red\n")
        self.assertRegex(text, r"2 -2\n +[\d.]+ %  blue\n")

    def test_text(self):
        self.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 60)
        self.write("text.cfg", "[net]\nzoo = char_rnn\n[data]\nset = text.txt\nlength = 16\nbatch = 8\n"
                               "[solver]\nepochs = 8\nlr = 0.005\nclip_norm = 1\n")
        self.assertIn("perplexity", self.good("train", "text.cfg"))
        shutil.move(self.path("runs/text"), self.path("moved"))
        self.path("text.txt").unlink()
        text = self.good("generate", "moved", "--prompt", "the quick", "--tokens", "20", "--temperature", "0")
        self.assertEqual(len(text), len("the quick") + 20 + 1)
        self.assertTrue(text.startswith("the quick brown"), text)
        self.assertRegex(self.good("predict", "moved", "the quic"), r"the quic\n +[\d.]+ %  'k'\n")

    def test_small_gpt(self):
        self.write("text.txt", "abcdefgh" * 300)
        self.write("gpt.json", json.dumps({"n_layer": 1, "n_head": 2, "n_embd": 32, "n_positions": 32}))
        self.write("gpt.cfg", "[net]\nzoo = gpt2\nconfig = gpt.json\n[data]\nset = text.txt\nlength = 16\nbatch = 16\n"
                              "[solver]\nepochs = 4\nlr = 0.01\n")
        self.good("train", "gpt.cfg")
        for name in ("gpt.json", "text.txt"):
            self.path(name).unlink()
        text = self.good("generate", "runs/gpt", "--prompt", "abc", "--tokens", "8", "--temperature", "0")
        self.assertEqual(text, "abcdefghabc\n")

    @unittest.skipUnless(IMAGES, "built without libpng and libjpeg")
    def test_folder_of_images(self):
        for part, n in (("train", 8), ("val", 2)):
            for name, shade in (("dark", 30), ("light", 220)):
                (self.path("photos") / part / name).mkdir(parents=True)
                for i in range(n):
                    grey_png(self.path("photos") / part / name / f"{i}.png", 20 + i, 24, shade + i)
        self.write("photos.cfg", "[net]\ninput = 1, 16, 16\n[data]\nset = photos\nbatch = 4\n[augment]\n"
                                 "RandomHorizontalFlip = 0.5\n[solver]\nepochs = 10\nlr = 0.01\n[Flatten]\n"
                                 "[Linear] out_features = 2\n")
        self.good("train", "photos.cfg")
        text = self.good("predict", "runs/photos", "photos/val/dark/0.png", "photos/val/light/1.png", "--top", "1")
        self.assertEqual(re.findall(r"%  (\w+)", text), ["dark", "light"])
        done = self.run_cairn("predict", "runs/photos", "none.png", "photos/val/dark/0.png")
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.png", done.stderr)
        self.assertIn("dark", done.stdout)  # the others are still looked at

    @unittest.skipUnless(IMAGES, "built without libpng and libjpeg")
    def test_settings_that_weights_imply(self):
        """With its published weights GoogLeNet is another network: what was trained from them can be made again."""
        for name, shade in (("dark", 30), ("light", 220)):
            (self.path("photos") / name).mkdir(parents=True)
            for i in range(3):
                grey_png(self.path("photos") / name / f"{i}.png", 20, 24, shade + i)
        net = "[net]\nzoo = googlenet\nclasses = 2\ninput = 3, 16, 16\n%s[data]\nset = photos\n[solver]\nepochs = 1\n"
        self.write("first.cfg", net % "")
        self.good("train", "first.cfg")
        found = weights(self.path("runs/first/last.safetensors").read_bytes())
        self.path("w.safetensors").write_bytes(written({n.removeprefix("net."): t for n, t in found.items()}))
        self.good("convert", "w.safetensors", "googlenet-1378be20.pth")
        self.write("second.cfg", net % "pretrained = googlenet-1378be20.pth\n")
        self.good("train", "second.cfg")
        settings = json.loads(self.path("runs/second/settings.json").read_text())
        self.assertEqual(settings, {"aux_logits": False, "transform_input": True})
        self.assertFalse(self.path("runs/first/settings.json").exists())
        self.good("predict", "runs/second", "photos/dark/0.png")


class Weights(Case):
    def test_convert_round_trip(self):
        self.good("train", "small.cfg", "--epochs", "1", "--out", "run")
        listing = self.good("convert", "run/last.safetensors", "--list")
        self.assertRegex(listing, r"(?m)^net\.0\.weight +float32 +\[8, 1, 3, 3\]$")
        self.good("convert", "run/last.safetensors", "w.safetensors", "--weights")
        first = self.good("convert", "w.safetensors", "--list").splitlines()
        self.assertRegex(first[-1], r"^\d+ tensors, ")
        chain = ["w.safetensors", "w.pth", "w.npz", "again.safetensors"]
        for a, b in zip(chain, chain[1:]):
            self.assertIn(f"wrote {b}", self.good("convert", a, b))
        self.assertEqual(tensors(self.path("again.safetensors").read_bytes()),
                         tensors(self.path("w.safetensors").read_bytes()))
        text = self.good("eval", "run/last.safetensors")
        shutil.copy(self.path("w.pth"), self.path("run/w.pth"))
        self.assertEqual(self.good("eval", "run/w.pth"), text)

    def test_convert_types(self):
        self.good("train", "small.cfg", "--epochs", "1", "--out", "run")
        self.good("convert", "run/last.safetensors", "half.safetensors", "--weights", "--dtype", "float16")
        listing = self.good("convert", "half.safetensors", "--list")
        self.assertRegex(listing, r"(?m)^0\.weight +float16 ")
        self.assertRegex(listing, r"(?m)^1\.num_batches_tracked +int64 ")
        self.good("convert", "half.safetensors", "one.npz", "--prefix", "0.weight")
        self.bad("convert", "half.safetensors", "one.npy", says="holds one array")
        self.bad("convert", "half.safetensors", "x.npz", "--prefix", "none.", says="no tensors")

    def test_summary(self):
        text = self.good("summary", "small.cfg")
        self.assertRegex(text, r"0: Conv2d +\[1, 8, 6, 6\] +80 ")
        self.assertIn("Parameters: 2,986", text)
        self.assertIn("11,689,512", self.good("summary", "resnet18"))
        self.assertIn("124,439,808", self.good("summary", "gpt2", "--input", "8"))
        self.assertIn("[2, 1000]", self.good("summary", "mobilenet_v2", "--input", "3,64,64", "--batch", "2"))
        self.assertIn("(0): Conv2d(1, 8, kernel_size=(3, 3)", self.good("summary", "small.cfg", "--print"))
        self.assertRegex(self.good("summary"), r"(?m)^vgg16_bn ")


class Language(Case):
    """A tiny GPT-2 and a tiny BERT in the layout of transformers, with weights that `cairn convert` wrote."""

    def model(self, name, config, shapes):
        folder = self.path(name)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        random.seed(2)
        header, data = {}, b""
        for key, shape in shapes.items():
            n = 1
            for size in shape:
                n *= size
            values = [1.0 if "ln" in key or "LayerNorm.weight" in key else random.gauss(0, 0.3) for _ in range(n)]
            header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
            data += struct.pack(f"<{n}f", *values)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder

    def test_generate(self):
        size, shapes = 8, {}
        letters = [chr(c) for c in range(33, 127)] + ["Ġ"]
        shapes["wte.weight"], shapes["wpe.weight"] = [len(letters), size], [32, size]
        for name, shape in (("ln_1.weight", [size]), ("ln_1.bias", [size]), ("attn.c_attn.weight", [size, 3 * size]),
                            ("attn.c_attn.bias", [3 * size]), ("attn.c_proj.weight", [size, size]),
                            ("attn.c_proj.bias", [size]), ("ln_2.weight", [size]), ("ln_2.bias", [size]),
                            ("mlp.c_fc.weight", [size, 4 * size]), ("mlp.c_fc.bias", [4 * size]),
                            ("mlp.c_proj.weight", [4 * size, size]), ("mlp.c_proj.bias", [size])):
            shapes[f"h.0.{name}"] = shape
        shapes["ln_f.weight"], shapes["ln_f.bias"] = [size], [size]
        folder = self.model("gpt", {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": size, "n_positions": 32,
                                    "n_ctx": 32, "vocab_size": len(letters)}, shapes)
        self.bad("generate", "gpt", "--prompt", "ab", says="no tokenizer")
        (folder / "vocab.json").write_text(json.dumps({c: i for i, c in enumerate(letters)}), encoding="utf-8")
        (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
        text = self.good("generate", "gpt", "--prompt", "ab", "--tokens", "10", "--seed", "3")
        self.assertEqual(len(text), 13)
        self.assertTrue(text.startswith("ab"))
        self.assertEqual(self.good("generate", "gpt", "--prompt", "ab", "--tokens", "10", "--seed", "3"), text)
        likeliest = self.good("generate", "gpt", "--prompt", "ab", "--tokens", "10", "--temperature", "0")
        self.assertEqual(self.good("generate", "gpt/model.safetensors", "--prompt", "ab", "--tokens", "10", "--top-k", "1"),
                         likeliest)

    def test_embed(self):
        size, shapes = 8, {}
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "sat"]
        shapes["embeddings.word_embeddings.weight"] = [len(words), size]
        shapes["embeddings.position_embeddings.weight"] = [32, size]
        shapes["embeddings.token_type_embeddings.weight"] = [2, size]
        shapes["embeddings.LayerNorm.weight"] = shapes["embeddings.LayerNorm.bias"] = [size]
        layer = "encoder.layer.0."
        for name in ("query", "key", "value"):
            shapes[f"{layer}attention.self.{name}.weight"], shapes[f"{layer}attention.self.{name}.bias"] = [size, size], [size]
        for name, out, into in (("attention.output.dense", size, size), ("intermediate.dense", 2 * size, size),
                                ("output.dense", size, 2 * size)):
            shapes[f"{layer}{name}.weight"], shapes[f"{layer}{name}.bias"] = [out, into], [out]
        for name in ("attention.output", "output"):
            shapes[f"{layer}{name}.LayerNorm.weight"] = shapes[f"{layer}{name}.LayerNorm.bias"] = [size]
        shapes["pooler.dense.weight"], shapes["pooler.dense.bias"] = [size, size], [size]
        folder = self.model("bert", {"model_type": "bert", "hidden_size": size, "num_hidden_layers": 1,
                                     "num_attention_heads": 2, "intermediate_size": 2 * size, "vocab_size": len(words),
                                     "max_position_embeddings": 32, "type_vocab_size": 2}, shapes)
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        text = self.good("embed", "bert", "a cat sat", "a dog sat", "a cat sat", "--out", "v.npy")
        table = [[float(x) for x in line.split()[1:]] for line in text.splitlines()[-3:]]
        self.assertEqual([table[i][i] for i in range(3)], [1, 1, 1])
        self.assertAlmostEqual(table[0][2], 1, places=3)
        self.assertEqual(table[0][1], table[1][0])
        self.assertIn("[3, 8]", self.good("convert", "v.npy", "--list"))


class Demo(Case):
    def test_says_what_to_try(self):
        out = self.good("demo", "--epochs", "2", "--out", "run")
        commands = re.findall(r"(?m)^  (\S+ (?:predict|train) .*?)    #", out)
        self.assertEqual(len(commands), 2, out)
        self.assertIn("tensorboard --logdir run", out)
        predict = commands[0].split()
        self.assertRegex(self.good(*predict[1:]), r"(?m)^ +[\d.]+ %  \d$")

    def test_net_is_that_of_the_example(self):
        lines = [re.sub(r"(^|\s)#.*", "", line).rstrip()
                 for line in (ROOT / "examples" / "digits.cfg").read_text(encoding="utf-8").splitlines()]
        source = (ROOT / "tools" / "cairn" / "demo.c").read_text(encoding="utf-8")
        begin = source.index("description[] =")
        text = source[begin:source.index('\\n";', begin)] + '\\n"'
        self.assertEqual(re.findall(r'(?m)^ +"(.*)\\n"$', text), [line for line in lines if line])


class Examples(Case):
    def test_files_are_understood(self):
        for path in (ROOT / "examples").glob("*.cfg"):
            text = path.read_text(encoding="utf-8")
            if path.name == "shakespeare.cfg":  # its data are the user's
                self.write("shakespeare.txt", "To be, or not to be. " * 100)
                text = text.replace("examples/", f"{ROOT}/examples/")
            if path.name == "photos.cfg":
                text = text.replace("zoo = resnet18\n", "zoo = resnet18\nclasses = 5\n")
            self.write(path.name, text)
            self.assertIn("Parameters", self.good("summary", path.name), path.name)

    def test_blocks_of_the_documentation(self):
        page = (ROOT / "docs" / "DESCRIPTION_FILES.md").read_text(encoding="utf-8")
        blocks = re.findall(r"(?ms)^```ini\n(.*?)^```", page)
        self.assertGreaterEqual(len(blocks), 2)
        for block in blocks:
            self.write("block.cfg", block)
            self.assertIn("Parameters", self.good("summary", "block.cfg"))
        example = [line for line in (ROOT / "examples" / "digits.cfg").read_text(encoding="utf-8").splitlines()
                   if line and not line.startswith("#")]
        self.assertEqual([line for line in blocks[0].splitlines() if line], example)


def tensors(data):
    """Names, types, shapes and bytes of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items()}


def weights(data):
    return {name: t for name, t in tensors(data).items() if name.startswith("net.")}


def written(found):
    """The safetensors file of what tensors() gives."""
    header, body = {}, b""
    for name, (dtype, shape, data) in found.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def grey_png(path, width, height, shade):
    """A plain PNG of one shade, written by hand: tests need no image library."""
    import zlib

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = (b"\0" + bytes([shade]) * width) * height
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    unittest.main()
