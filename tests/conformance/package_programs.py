"""Programs of other people's packages, for packages.py: each takes torch, builds what the package is for, runs and
trains it, and gives numbers that do not depend on random ones.

A program is a function whose name says what it is of: PACKAGE or PACKAGE__what. It yields (name, tensor) pairs.
"""
import zlib

import numpy


def draw(torch, name, *shape, scale=1.0):
    """The same numbers in every process, from a name."""
    rng = numpy.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    return torch.tensor((rng.standard_normal(shape) * scale).astype("float32"))


def ints(torch, name, high, *shape):
    rng = numpy.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
    return torch.tensor(rng.randint(0, high, shape).astype("int64"))


def fill(torch, module):
    """Gives a module parameters that do not depend on the library's random numbers."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.ndim > 1:
                fan = max(1, int(numpy.prod(p.shape[1:])))
                p.copy_(draw(torch, name, *p.shape, scale=0.7 / fan ** 0.5).to(p.dtype))
            elif name.endswith("bias"):
                p.copy_(draw(torch, name, *p.shape, scale=0.02).to(p.dtype))
            elif p.numel() > 1 and bool((p != p.flatten()[0]).any()):  # at random
                p.copy_(draw(torch, name, *p.shape, scale=0.3).to(p.dtype))
            else:  # a factor, which begins as a constant
                p.add_(draw(torch, name, *p.shape, scale=0.02).to(p.dtype))
    return module


def train(torch, module, loss, steps=3, lr=0.05):
    """Losses of some steps, and what the first parameters then are."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    yield "losses", torch.stack(losses)
    for name, p in list(module.named_parameters())[:3]:
        yield "trained " + name, p.detach()


def no_dropout(torch, module):
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return module


# ---- shapes ----
def einops(torch):
    from einops import einsum, pack, rearrange, reduce, repeat, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce
    x = draw(torch, "x", 2, 4, 6, 3).requires_grad_()
    yield "rearrange", rearrange(x, "b (h p) w c -> b h w (p c)", p=2)
    yield "reduce", reduce(x, "b h w c -> b c", "max")
    yield "repeat", repeat(x, "b h w c -> (b k) h w c", k=2)
    yield "einsum", einsum(x, draw(torch, "w", 3, 5), "b h w c, c d -> b d h w")
    packed, shapes = pack([x[:, 0], x[:, 1]], "b * c")
    yield "pack", unpack(packed, shapes, "b * c")[1]
    net = fill(torch, torch.nn.Sequential(Rearrange("b h w c -> b c h w"), torch.nn.Conv2d(3, 4, 3),
                                          Reduce("b c h w -> b c", "mean"),
                                          EinMix("b c -> b d", weight_shape="c d", c=4, d=2)))
    net(x).sum().backward()
    yield "gradient", x.grad


def rotary_embedding_torch(torch):
    from rotary_embedding_torch import RotaryEmbedding
    emb = RotaryEmbedding(dim=8)
    yield "rotated", emb.rotate_queries_or_keys(draw(torch, "q", 1, 2, 6, 16))


# ---- images ----
def _timm_model(torch, name, size=64, **more):
    import timm
    model = no_dropout(torch, fill(torch, timm.create_model(name, num_classes=5, **more)))
    x = draw(torch, "image", 2, 3, size, size)
    yield "train", model(x)
    model.eval()
    yield "eval", model(x)
    yield from train(torch, model, lambda: torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 3])), 2, 0.01)


def timm__resnet(torch):
    yield from _timm_model(torch, "resnet10t")


def timm__vit(torch):
    yield from _timm_model(torch, "vit_tiny_patch16_224", 32, img_size=32, patch_size=8, depth=2)


def timm__mobilenet(torch):
    yield from _timm_model(torch, "mobilenetv3_small_050")


def timm__convnext(torch):
    yield from _timm_model(torch, "convnext_atto")


def timm__efficientnet(torch):
    yield from _timm_model(torch, "efficientnet_b0", drop_rate=0.0)


def timm__mixer(torch):
    yield from _timm_model(torch, "mixer_s32_224", 64, img_size=64)


def timm__swin(torch):
    yield from _timm_model(torch, "swin_tiny_patch4_window7_224", 56, img_size=56, embed_dim=24, depths=(1, 1),
                           drop_path_rate=0.0,
                           num_heads=(2, 2))


def timm__features(torch):
    import timm
    model = fill(torch, timm.create_model("resnet10t", features_only=True)).eval()
    for i, x in enumerate(model(draw(torch, "image", 1, 3, 64, 64))):
        yield "feature %d" % i, x


def timm__optimizers(torch):
    from timm.optim import create_optimizer_v2
    for name in ("adamw", "lamb", "lion", "adabelief", "rmsproptf", "nadam", "adafactor", "adopt"):
        net = fill(torch, torch.nn.Linear(4, 3))
        optimizer = create_optimizer_v2(net, opt=name, lr=0.01, weight_decay=0.05)
        for i in range(3):
            optimizer.zero_grad()
            (net(draw(torch, "x%d" % i, 5, 4)) ** 2).mean().backward()
            optimizer.step()
        yield name, net.weight.detach()


def vit_pytorch(torch):
    from vit_pytorch import SimpleViT, ViT
    from vit_pytorch.cait import CaiT
    from vit_pytorch.cct import CCT
    from vit_pytorch.deepvit import DeepViT
    x = draw(torch, "image", 2, 3, 32, 32)
    sizes = {"image_size": 32, "num_classes": 4}
    for model in (ViT(patch_size=8, dim=32, depth=2, heads=4, mlp_dim=48, **sizes),
                  SimpleViT(patch_size=8, dim=32, depth=2, heads=4, mlp_dim=48, **sizes),
                  DeepViT(patch_size=8, dim=32, depth=2, heads=4, mlp_dim=48, **sizes),
                  CaiT(patch_size=8, dim=32, depth=1, cls_depth=1, heads=4, mlp_dim=48, **sizes),
                  CCT(img_size=32, embedding_dim=32, n_conv_layers=1, kernel_size=3, stride=2, padding=1,
                      num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=4, positional_embedding="learnable",
                      stochastic_depth_rate=0.0)):
        no_dropout(torch, fill(torch, model))
        name = type(model).__name__
        yield name, model(x)
        for key, value in train(torch, model, lambda: model(x).square().mean(), 2):
            yield name + " " + key, value


def kornia(torch):
    import kornia as k
    x = draw(torch, "image", 1, 3, 16, 16).sigmoid().requires_grad_()
    yield "blur", k.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0))
    yield "sobel", k.filters.sobel(x)
    yield "gray", k.color.rgb_to_grayscale(x)
    yield "hsv", k.color.rgb_to_hsv(x)
    yield "lab", k.color.rgb_to_lab(x)
    yield "rotate", k.geometry.transform.rotate(x, torch.tensor([30.0]))
    yield "resize", k.geometry.transform.resize(x, (8, 12))
    yield "median", k.filters.median_blur(x, (3, 3))
    yield "ssim", k.metrics.ssim(x, x * 0.9, 5)
    yield "dilate", k.morphology.dilation(x, torch.ones(3, 3))
    yield "homography", k.geometry.transform.warp_perspective(x, torch.eye(3)[None], (16, 16))
    yield "total variation", k.losses.total_variation(x)
    k.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)).square().sum().backward()
    yield "gradient", x.grad


def pytorch_msssim(torch):
    from pytorch_msssim import ms_ssim, ssim
    x, y = draw(torch, "a", 1, 3, 176, 176).sigmoid(), draw(torch, "b", 1, 3, 176, 176).sigmoid()
    yield "ssim", ssim(x, y, data_range=1.0)
    yield "ms_ssim", ms_ssim(x, y, data_range=1.0)


def piqa(torch):
    import piqa as p
    x, y = draw(torch, "a", 1, 3, 32, 32).sigmoid(), draw(torch, "b", 1, 3, 32, 32).sigmoid()
    yield "psnr", p.PSNR()(x, y)
    yield "ssim", p.SSIM()(x, y)
    yield "tv", p.TV()(x)


def monai(torch):
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet
    net = fill(torch, UNet(2, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1))
    x, y = draw(torch, "image", 1, 1, 16, 16), ints(torch, "mask", 2, 1, 1, 16, 16)
    loss = DiceLoss(to_onehot_y=True, softmax=True)
    yield "output", net(x)
    yield from train(torch, net, lambda: loss(net(x), y))


def diffusers(torch):
    from diffusers import DDIMScheduler, UNet2DModel
    net = fill(torch, UNet2DModel(sample_size=16, in_channels=1, out_channels=1, layers_per_block=1,
                                  block_out_channels=(8, 16), norm_num_groups=4,
                                  down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                  up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4))
    x = draw(torch, "image", 2, 1, 16, 16)
    yield "output", net(x, torch.tensor([3, 500])).sample
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(3)
    for t in scheduler.timesteps:
        with torch.no_grad():
            x = scheduler.step(net(x, t).sample, t, x).prev_sample
    yield "sampled", x


def denoising_diffusion_pytorch(torch):
    from denoising_diffusion_pytorch import Unet
    net = fill(torch, Unet(dim=8, dim_mults=(1, 2), flash_attn=False))
    x, t = draw(torch, "image", 1, 3, 16, 16), torch.tensor([4])
    yield "output", net(x, t)
    yield from train(torch, net, lambda: net(x, t).square().mean(), 2)


# ---- sequences ----
def x_transformers(torch):
    from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper
    net = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4))
    fill(torch, net)
    tokens = ints(torch, "tokens", 20, 2, 10)
    yield "decoder", net(tokens)
    wrapped = AutoregressiveWrapper(net)
    yield from train(torch, wrapped, lambda: wrapped(tokens))
    wrapped.eval()
    yield "generated", wrapped.generate(tokens[:, :3], 5, temperature=0.0)
    both = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=Encoder(
        dim=32, depth=2, heads=4, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True))
    yield "encoder", fill(torch, both)(tokens, return_embeddings=True)


def _causal(torch, model, ids):
    model = no_dropout(torch, fill(torch, model))
    yield "logits", model(input_ids=ids).logits
    yield from train(torch, model, lambda: model(input_ids=ids, labels=ids).loss)
    model.eval()
    yield "generated", model.generate(ids[:, :3], max_new_tokens=6, do_sample=False, pad_token_id=0)


def transformers__gpt2(torch):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=30, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    yield from _causal(torch, GPT2LMHeadModel(config), ints(torch, "ids", 30, 2, 8))


def transformers__llama(torch):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=30, hidden_size=32, intermediate_size=48, num_hidden_layers=2, bos_token_id=1,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32, eos_token_id=2)
    yield from _causal(torch, LlamaForCausalLM(config), ints(torch, "ids", 30, 2, 8))


def transformers__bert(torch):
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(vocab_size=30, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=32)
    model = fill(torch, BertForSequenceClassification(config))
    ids, mask = ints(torch, "ids", 30, 2, 8), torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    yield "logits", model(input_ids=ids, attention_mask=mask).logits
    labels = torch.tensor([0, 1])
    yield from train(torch, model, lambda: model(input_ids=ids, attention_mask=mask, labels=labels).loss)


def transformers__t5(torch):
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(vocab_size=30, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    model = fill(torch, T5ForConditionalGeneration(config))
    ids, labels = ints(torch, "ids", 30, 2, 8), ints(torch, "labels", 30, 2, 5)
    yield "logits", model(input_ids=ids, labels=labels).logits
    yield from train(torch, model, lambda: model(input_ids=ids, labels=labels).loss)
    model.eval()
    yield "generated", model.generate(ids, max_new_tokens=5, do_sample=False)


def transformers__vit(torch):
    from transformers import ViTConfig, ViTForImageClassification
    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16,
                       patch_size=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3)
    model = fill(torch, ViTForImageClassification(config))
    x = draw(torch, "image", 2, 3, 16, 16)
    yield "logits", model(pixel_values=x).logits
    yield from train(torch, model, lambda: model(pixel_values=x, labels=torch.tensor([0, 2])).loss)


def peft(torch):
    from peft import LoraConfig, get_peft_model
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model = fill(torch, get_peft_model(net, LoraConfig(target_modules=["0", "2"], r=2, lora_alpha=4)))
    x = draw(torch, "x", 5, 4)
    yield "output", model(x)
    yield from train(torch, model, lambda: model(x).square().mean())
    yield "merged", model.merge_and_unload()(x)


def local_attention(torch):
    from local_attention import LocalAttention
    attend = LocalAttention(dim=16, window_size=4, causal=True, autopad=True)
    q, k, v = (draw(torch, n, 1, 2, 10, 16) for n in "qkv")
    yield "output", attend(q, k, v)


def linformer(torch):
    from linformer import Linformer
    net = no_dropout(torch, fill(torch, Linformer(dim=16, seq_len=8, depth=1, heads=2, k=4)))
    yield "output", net(draw(torch, "x", 2, 8, 16))


def nystrom_attention(torch):
    from nystrom_attention import Nystromformer
    net = no_dropout(torch, fill(torch, Nystromformer(dim=16, dim_head=8, heads=2, depth=1, num_landmarks=4)))
    yield "output", net(draw(torch, "x", 1, 8, 16))


def perceiver_pytorch(torch):
    from perceiver_pytorch import Perceiver
    net = no_dropout(torch, fill(torch, Perceiver(
        num_freq_bands=2, depth=1, max_freq=4.0, input_channels=3, num_latents=4, latent_dim=16, num_classes=3,
        cross_dim_head=8, latent_dim_head=8, latent_heads=2)))
    yield "output", net(draw(torch, "x", 1, 6, 6, 3))


def vector_quantize_pytorch(torch):
    from vector_quantize_pytorch import FSQ, LFQ
    x = draw(torch, "x", 1, 6, 3)
    net = fill(torch, FSQ([5, 5, 5]))
    quantised, indices = net(x)
    yield "quantised", quantised
    yield "indices", indices
    yield "lfq", LFQ(codebook_size=8, dim=3, entropy_loss_weight=0.0)(x)[0]


def entmax(torch):
    from entmax import entmax15, entmax_bisect, sparsemax
    x = draw(torch, "x", 3, 6).requires_grad_()
    for f in (sparsemax, entmax15, lambda t, dim: entmax_bisect(t, 1.3, dim)):
        y = f(x, dim=-1)
        yield "value", y
        yield "gradient", torch.autograd.grad((y * torch.arange(6.0)).sum(), x)[0]


# ---- measures, explanations ----
def torchmetrics(torch):
    import torchmetrics as tm
    scores, labels = draw(torch, "scores", 20, 4).softmax(-1), ints(torch, "labels", 4, 20)
    for metric in (tm.Accuracy(task="multiclass", num_classes=4), tm.F1Score(task="multiclass", num_classes=4,
                                                                             average="macro"),
                   tm.AUROC(task="multiclass", num_classes=4), tm.ConfusionMatrix(task="multiclass", num_classes=4),
                   tm.CalibrationError(task="multiclass", num_classes=4), tm.AveragePrecision(task="multiclass",
                                                                                              num_classes=4)):
        metric.update(scores[:10], labels[:10])
        metric.update(scores[10:], labels[10:])
        yield type(metric).__name__, metric.compute()
    a, b = draw(torch, "a", 30), draw(torch, "b", 30)
    for metric in (tm.MeanSquaredError(), tm.R2Score(), tm.PearsonCorrCoef(), tm.SpearmanCorrCoef(),
                   tm.CosineSimilarity()):
        yield type(metric).__name__, metric(*((a, b) if type(metric).__name__ != "CosineSimilarity" else
                                              (a[None], b[None])))
    from torchmetrics.functional.image import structural_similarity_index_measure as ssim
    yield "ssim", ssim(draw(torch, "i", 1, 1, 16, 16).sigmoid(), draw(torch, "j", 1, 1, 16, 16).sigmoid(),
                       data_range=1.0)


def captum(torch):
    from captum.attr import (DeepLift, FeatureAblation, GuidedBackprop, InputXGradient, IntegratedGradients,
                             LayerGradCam,
                             LRP, Occlusion, Saliency)
    net = fill(torch, torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                          torch.nn.Linear(108, 4)))
    x = draw(torch, "image", 2, 1, 8, 8).requires_grad_()
    for method in (Saliency(net), IntegratedGradients(net), InputXGradient(net), DeepLift(net), GuidedBackprop(net),
                   FeatureAblation(net)):
        yield type(method).__name__, method.attribute(x, target=1)
    yield "LRP", LRP(net[3]).attribute(draw(torch, "flat", 2, 108), target=1)
    yield "GradCam", LayerGradCam(net, net[0]).attribute(x, target=1)
    yield "Occlusion", Occlusion(net).attribute(x, sliding_window_shapes=(1, 4, 4), target=1)


def pytorch_metric_learning(torch):
    from pytorch_metric_learning import losses, miners
    x, y = draw(torch, "x", 12, 5).requires_grad_(), ints(torch, "y", 3, 12)
    for loss in (losses.TripletMarginLoss(), losses.ContrastiveLoss(), losses.NTXentLoss(), losses.SupConLoss()):
        value = loss(x, y)
        yield type(loss).__name__, value
        yield "gradient", torch.autograd.grad(value, x)[0]
    yield "mined", miners.MultiSimilarityMiner()(x, y)[0]


def torchinfo(torch):
    from torchinfo import summary
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(108, 4))
    told = summary(net, (1, 1, 8, 8), verbose=0)
    yield "parameters", torch.tensor([told.total_params, told.trainable_params, told.total_mult_adds])


def fvcore(torch):
    from fvcore.nn import giou_loss, parameter_count, sigmoid_focal_loss, smooth_l1_loss
    x = draw(torch, "x", 4, 3).requires_grad_()
    yield "focal", sigmoid_focal_loss(x, (draw(torch, "y", 4, 3) > 0).float(), reduction="mean")
    yield "smooth", smooth_l1_loss(x, x.detach() * 0.5, 0.3, reduction="sum")
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 4.0]])
    yield "giou", giou_loss(boxes, boxes + 0.5)
    yield "count", torch.tensor(parameter_count(torch.nn.Linear(3, 4))[""])


# ---- science ----
def torchdiffeq(torch):
    from torchdiffeq import odeint, odeint_adjoint
    net = fill(torch, torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)))

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y) * (1 + t)
    y0, t = draw(torch, "y", 3, 2), torch.linspace(0, 1, 4)
    for method in ("dopri5", "rk4", "euler", "midpoint"):
        yield method, odeint(Field(), y0, t, method=method)
    for name, solve in (("direct", odeint), ("adjoint", odeint_adjoint)):
        net.zero_grad()
        solve(Field(), y0, t, rtol=1e-6, atol=1e-6).square().sum().backward()
        yield name, net[0].weight.grad


def torchsde(torch):
    import torchsde as s

    class Still(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self):
            super().__init__()
            self.rate = torch.nn.Parameter(torch.tensor(0.5))

        def f(self, t, y):
            return -self.rate * y

        def g(self, t, y):
            return torch.zeros_like(y)
    net = Still()
    y = s.sdeint(net, draw(torch, "y", 3, 2), torch.linspace(0, 1, 3), dt=0.1, method="euler")
    yield "path", y
    y.sum().backward()
    yield "gradient", net.rate.grad


def linear_operator(torch):
    from linear_operator.operators import (AddedDiagLinearOperator, DenseLinearOperator, DiagLinearOperator,
                                           KroneckerProductLinearOperator)
    a = draw(torch, "a", 5, 5)
    a = (a @ a.T + 5 * torch.eye(5)).requires_grad_()
    op = AddedDiagLinearOperator(DenseLinearOperator(a), DiagLinearOperator(torch.ones(5)))
    b = draw(torch, "b", 5, 2)
    yield "matmul", op @ b
    yield "solve", op.solve(b)
    yield "logdet", op.logdet()
    quad, logdet = op.inv_quad_logdet(b, logdet=True)
    yield "quad", quad
    yield "gradient", torch.autograd.grad(quad + logdet, a)[0]
    yield "cholesky", op.cholesky().to_dense()
    yield "kronecker", KroneckerProductLinearOperator(DenseLinearOperator(a), DenseLinearOperator(a)).to_dense()


def gpytorch(torch):
    import gpytorch as g
    x = torch.linspace(0, 1, 12)
    y = (x * 6.28).sin()

    class Model(g.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = g.means.ConstantMean()
            self.covar_module = g.kernels.ScaleKernel(g.kernels.RBFKernel() + g.kernels.MaternKernel(nu=1.5))

        def forward(self, at):
            return g.distributions.MultivariateNormal(self.mean_module(at), self.covar_module(at))
    likelihood = g.likelihoods.GaussianLikelihood()
    model = Model(likelihood)
    model.train()
    likelihood.train()
    mll = g.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        optimizer.step()
        yield "loss", loss
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        told = likelihood(model(torch.linspace(0, 1, 5) + 0.03))
    yield "mean", told.mean
    yield "variance", told.variance


def pyro(torch):
    import pyro as p
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDelta
    data = draw(torch, "data", 20) + 2.0
    p.clear_param_store()

    def model(given):
        mean = p.sample("mean", dist.Normal(0.0, 5.0))
        scale = p.sample("scale", dist.LogNormal(0.0, 1.0))
        with p.plate("all", len(given)):
            p.sample("x", dist.Normal(mean, scale), obs=given)
    told = p.poutine.trace(p.poutine.condition(model, {"mean": torch.tensor(1.0), "scale": torch.tensor(2.0)})
                           ).get_trace(data)
    yield "log density", told.log_prob_sum()
    guide = AutoDelta(model, init_loc_fn=p.infer.autoguide.initialization.init_to_value(
        values={"mean": torch.tensor(0.0), "scale": torch.tensor(1.0)}))
    svi = SVI(model, guide, p.optim.Adam({"lr": 0.05}), Trace_ELBO())
    yield "losses", torch.tensor([svi.step(data) for _ in range(10)])
    yield "mean", guide.median()["mean"]


def torch_geometric(torch):
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
    edges = torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3]])
    x = draw(torch, "x", 4, 5)
    for layer in (GCNConv(5, 3), SAGEConv(5, 3), GATConv(5, 3, heads=2), GINConv(torch.nn.Linear(5, 3))):
        fill(torch, layer)
        yield type(layer).__name__, layer(x, edges)
        for name, value in train(torch, layer, lambda: layer(x, edges).square().mean(), 2):
            yield type(layer).__name__ + " " + name, value
    batch = Batch.from_data_list([Data(x=x, edge_index=edges), Data(x=x * 2, edge_index=edges)])
    yield "pool", global_mean_pool(batch.x, batch.batch)


def e3nn(torch):
    from e3nn import o3
    from e3nn.nn import BatchNorm, Gate
    v = torch.nn.functional.normalize(draw(torch, "v", 4, 3), dim=-1)
    yield "harmonics", o3.spherical_harmonics([0, 1, 2, 3], v, True)

    def flat(module):  # its one parameter is all weights in a row, at random
        with torch.no_grad():
            module.weight.copy_(draw(torch, "weight", *module.weight.shape))
        return module
    product = flat(o3.FullyConnectedTensorProduct("4x0e + 2x1o", "0e + 1o + 2e", "3x0e + 2x1o"))
    x, y = draw(torch, "x", 4, 10), draw(torch, "y", 4, 9)
    yield "product", product(x, y)
    yield from train(torch, product, lambda: product(x, y).square().mean())
    yield "linear", flat(o3.Linear("4x0e + 2x1o", "2x0e + 3x1o"))(x)
    gate = Gate("4x0e", [None], "2x0e", [None], "2x1o")  # functions would be scaled by what random numbers say
    yield "gate", gate(draw(torch, "g", 4, 12))
    yield "norm", BatchNorm("4x0e + 2x1o")(x)


def geoopt(torch):
    import geoopt as g
    ball = g.PoincareBall()
    x = g.ManifoldParameter(draw(torch, "x", 4, 2, scale=0.2), manifold=ball)
    target = draw(torch, "y", 4, 2, scale=0.2)
    optimizer = g.optim.RiemannianAdam([x], lr=0.05)
    for _ in range(5):
        optimizer.zero_grad()
        loss = ball.dist2(x, target).sum()
        loss.backward()
        optimizer.step()
        yield "loss", loss
    yield "point", x.detach()
    sphere = g.Sphere()
    yield "sphere", sphere.expmap(sphere.projx(draw(torch, "p", 3)), sphere.proju(
        sphere.projx(draw(torch, "p", 3)), draw(torch, "u", 3)))


def nflows(torch):
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms import CompositeTransform, MaskedAffineAutoregressiveTransform, ReversePermutation
    flow = fill(torch, Flow(CompositeTransform([ReversePermutation(2), MaskedAffineAutoregressiveTransform(2, 8)]),
                            StandardNormal([2])))
    x = draw(torch, "x", 6, 2)
    yield "density", flow.log_prob(x)
    yield from train(torch, flow, lambda: -flow.log_prob(x).mean())


def normflows(torch):
    import normflows as nf
    net = fill(torch, nf.NormalizingFlow(nf.distributions.DiagGaussian(2), [
        nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 8, 2])), nf.flows.Permute(2, mode="swap")]))
    x = draw(torch, "x", 6, 2)
    yield "density", net.log_prob(x)
    yield from train(torch, net, lambda: net.forward_kld(x))


def zuko(torch):
    import zuko as z
    flow = fill(torch, z.flows.NSF(3, 2, transforms=2, hidden_features=[8]))
    x, c = draw(torch, "x", 5, 3), draw(torch, "c", 5, 2)
    yield "density", flow(c).log_prob(x)
    yield from train(torch, flow, lambda: -flow(c).log_prob(x).mean())


# ---- training loops ----
def _net(torch):
    return fill(torch, torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)))


def _data(torch):
    return torch.utils.data.TensorDataset(draw(torch, "x", 24, 4), ints(torch, "y", 3, 24))


def skorch(torch):
    from skorch import NeuralNetClassifier
    net = NeuralNetClassifier(_net(torch), criterion=torch.nn.CrossEntropyLoss, lr=0.1, max_epochs=3, batch_size=8,
                              train_split=None, iterator_train__shuffle=False, verbose=0)
    data = _data(torch)
    net.fit(data.tensors[0].numpy(), data.tensors[1].numpy())
    yield "losses", torch.tensor(net.history[:, "train_loss"])
    yield "told", torch.tensor(net.predict_proba(data.tensors[0].numpy()))


def ignite(torch):
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss
    net, loss = _net(torch), torch.nn.CrossEntropyLoss()
    loader = torch.utils.data.DataLoader(_data(torch), batch_size=8)
    trainer = create_supervised_trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), loss)
    seen = []
    trainer.on(Events.ITERATION_COMPLETED)(lambda engine: seen.append(engine.state.output))
    trainer.run(loader, max_epochs=3)
    yield "losses", torch.tensor(seen)
    judge = create_supervised_evaluator(net, {"accuracy": Accuracy(), "loss": Loss(loss)})
    judge.run(loader)
    yield "measured", torch.tensor([judge.state.metrics["accuracy"], judge.state.metrics["loss"]])


def accelerate(torch):
    from accelerate import Accelerator
    run = Accelerator(cpu=True)
    net = _net(torch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    net, optimizer, loader = run.prepare(net, optimizer, torch.utils.data.DataLoader(_data(torch), batch_size=8))
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        run.backward(loss)
        run.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield "loss", loss.detach()


def _lightning(torch, pl):
    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = _net(torch)
            self.seen = []

        def training_step(self, batch, index):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.seen.append(loss.detach())
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    net = Net()
    trainer = pl.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(net, torch.utils.data.DataLoader(_data(torch), batch_size=8))
    yield "losses", torch.stack(net.seen)
    yield "logged", trainer.callback_metrics["loss"]


def lightning(torch):
    import lightning as pl
    yield from _lightning(torch, pl)


def pytorch_lightning(torch):
    import pytorch_lightning as pl
    yield from _lightning(torch, pl)


def _optimizers(torch, *made):
    for name, make in made:
        net = fill(torch, torch.nn.Linear(4, 3))
        optimizer = make(net.parameters())
        for i in range(4):
            optimizer.zero_grad()
            (net(draw(torch, "x%d" % i, 5, 4)) ** 2).mean().backward()
            optimizer.step()
        yield name, net.weight.detach()


def lion_pytorch(torch):
    from lion_pytorch import Lion
    yield from _optimizers(torch, ("Lion", lambda p: Lion(p, lr=1e-2, weight_decay=1e-2)))


def torch_optimizer(torch):
    import torch_optimizer as o
    names = ("AdaBound", "AdaMod", "DiffGrad", "Lamb", "RAdam", "Yogi", "NovoGrad", "AdaBelief", "PID", "QHM", "SWATS")
    more = {"QHM": {"momentum": 0.9}}
    yield from _optimizers(torch, *((n, lambda p, n=n: getattr(o, n)(p, lr=1e-2, **more.get(n, {}))) for n in names))


def ema_pytorch(torch):
    from ema_pytorch import EMA
    net = fill(torch, torch.nn.Linear(4, 3))
    ema = EMA(net, beta=0.9, update_after_step=0, update_every=1)
    for i in range(4):
        with torch.no_grad():
            net.weight.add_(draw(torch, "d%d" % i, 3, 4))
        ema.update()
    yield "averaged", ema.ema_model.weight.detach()


def torch_ema(torch):
    from torch_ema import ExponentialMovingAverage
    net = fill(torch, torch.nn.Linear(4, 3))
    ema = ExponentialMovingAverage(net.parameters(), decay=0.9)
    for i in range(4):
        with torch.no_grad():
            net.weight.add_(draw(torch, "d%d" % i, 3, 4))
        ema.update()
    with ema.average_parameters():
        yield "averaged", net.weight.detach().clone()


def backpack(torch):
    from backpack import backpack as inside, extend
    from backpack.extensions import BatchGrad, DiagHessian, Variance
    net = extend(fill(torch, torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Sigmoid(), torch.nn.Linear(5, 3))))
    loss = extend(torch.nn.CrossEntropyLoss())
    with inside(BatchGrad(), Variance(), DiagHessian()):
        loss(net(draw(torch, "x", 6, 4)), ints(torch, "y", 3, 6)).backward()
    for name, p in net.named_parameters():
        yield name, p.grad
        yield name + " each", p.grad_batch
        yield name + " hessian", p.diag_h
