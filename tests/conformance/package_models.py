"""More programs of other people's packages, for packages.py: one net or tool each, run and trained. See
package_programs.py, whose helpers they use and whose rules they follow.
"""
from package_programs import _data, _net, _optimizers, draw, fill, ints, no_dropout, train


def _run(torch, net, *inputs, steps=2):
    """A net's result in both modes, and two steps of training."""
    net = no_dropout(torch, fill(torch, net))

    def first(value):
        while isinstance(value, (tuple, list)):
            value = value[0]
        return value
    net.eval()
    yield "result", first(net(*inputs))
    yield from train(torch, net, lambda: first(net(*inputs)).square().mean(), steps, 0.01)


def performer_pytorch(torch):
    from performer_pytorch import SelfAttention
    net = SelfAttention(dim=16, heads=2, dim_head=8, causal=False, nb_features=8, generalized_attention=True)
    with torch.no_grad():
        net.fast_attention.projection_matrix.copy_(draw(torch, "p", *net.fast_attention.projection_matrix.shape))
    yield from _run(torch, net, draw(torch, "x", 1, 12, 16))


def reformer_pytorch(torch):
    from reformer_pytorch import ReformerLM
    net = ReformerLM(num_tokens=20, dim=16, depth=1, max_seq_len=16, heads=2, bucket_size=4, n_hashes=1,
                     use_full_attn=True)
    yield from _run(torch, net, ints(torch, "tokens", 20, 1, 16))


def linear_attention_transformer(torch):
    from linear_attention_transformer import LinearAttentionTransformerLM
    net = LinearAttentionTransformerLM(num_tokens=20, dim=16, heads=2, depth=1, max_seq_len=16, causal=True,
                                       blindspot_size=1)
    yield from _run(torch, net, ints(torch, "tokens", 20, 1, 16))


def axial_attention(torch):
    from axial_attention import AxialAttention
    yield from _run(torch, AxialAttention(dim=8, dim_index=1, heads=2, num_dimensions=2), draw(torch, "x", 1, 8, 5, 6))


def mlp_mixer_pytorch(torch):
    from mlp_mixer_pytorch import MLPMixer
    yield from _run(torch, MLPMixer(image_size=16, channels=3, patch_size=4, dim=16, depth=2, num_classes=5),
                    draw(torch, "x", 2, 3, 16, 16))


def res_mlp_pytorch(torch):
    from res_mlp_pytorch import ResMLP
    yield from _run(torch, ResMLP(image_size=16, patch_size=4, dim=16, depth=2, num_classes=5),
                    draw(torch, "x", 2, 3, 16, 16))


def g_mlp_pytorch(torch):
    from g_mlp_pytorch import gMLP
    yield from _run(torch, gMLP(num_tokens=20, dim=16, depth=2, seq_len=8), ints(torch, "t", 20, 2, 8))


def egnn_pytorch(torch):
    from egnn_pytorch import EGNN
    yield from _run(torch, EGNN(dim=8), draw(torch, "f", 1, 5, 8), draw(torch, "c", 1, 5, 3))


def conformer(torch):
    from conformer import ConformerBlock
    yield from _run(torch, ConformerBlock(dim=16, dim_head=8, heads=2, conv_kernel_size=3), draw(torch, "x", 2, 9, 16))


def uformer_pytorch(torch):
    from uformer_pytorch import Uformer
    yield from _run(torch, Uformer(dim=8, stages=2, num_blocks=1, window_size=4, dim_head=4, heads=2, ff_mult=2),
                    draw(torch, "x", 1, 3, 16, 16))


def segformer_pytorch(torch):
    from segformer_pytorch import Segformer
    net = Segformer(dims=(8, 8, 16, 16), heads=(1, 2, 2, 2), ff_expansion=(2, 2, 2, 2), reduction_ratio=(2, 2, 1, 1),
                    num_layers=1, decoder_dim=16, num_classes=3)
    yield from _run(torch, net, draw(torch, "x", 1, 3, 64, 64))


def halonet_pytorch(torch):
    from halonet_pytorch import HaloAttention
    yield from _run(torch, HaloAttention(dim=8, block_size=4, halo_size=2, dim_head=4, heads=2),
                    draw(torch, "x", 1, 8, 8, 8))


def soft_moe_pytorch(torch):
    from soft_moe_pytorch import SoftMoE
    yield from _run(torch, SoftMoE(dim=16, seq_len=8, num_experts=2), draw(torch, "x", 1, 8, 16))


def slot_attention(torch):
    from slot_attention import SlotAttention
    net = SlotAttention(num_slots=3, dim=8, iters=2)
    with torch.no_grad():
        net.slots_logsigma.fill_(-100.0)
    fill(torch, net.to_q)
    out = net(draw(torch, "x", 2, 6, 8))
    yield "shape", torch.tensor(out.shape)


def block_recurrent_transformer_pytorch(torch):
    from block_recurrent_transformer_pytorch import BlockRecurrentTransformer
    net = BlockRecurrentTransformer(num_tokens=20, dim=16, depth=1, dim_head=8, heads=2, max_seq_len=16,
                                    block_width=8, num_state_vectors=8, recurrent_layers=(1,))
    yield from _run(torch, net, ints(torch, "t", 20, 1, 16))


def nnAudio(torch):
    from nnAudio.features import CQT1992v2, MFCC, MelSpectrogram, STFT
    x = draw(torch, "x", 1, 4000)
    yield "stft", STFT(n_fft=256, hop_length=128, output_format="Magnitude", verbose=False)(x)
    yield "mel", MelSpectrogram(sr=8000, n_fft=256, n_mels=16, hop_length=128, verbose=False)(x)
    yield "mfcc", MFCC(sr=8000, n_mfcc=8, n_fft=256, n_mels=16, hop_length=128, verbose=False)(x)
    yield "cqt", CQT1992v2(sr=8000, hop_length=128, fmin=220, n_bins=12, verbose=False)(x)


def asteroid_filterbanks(torch):
    from asteroid_filterbanks import Decoder, Encoder, FreeFB, STFTFB
    encoder = Encoder(STFTFB(n_filters=16, kernel_size=16, stride=8))
    decoder = Decoder(STFTFB(n_filters=16, kernel_size=16, stride=8))
    x = draw(torch, "x", 1, 1, 64)
    yield "coded", encoder(x)
    yield "back", decoder(encoder(x))
    yield from _run(torch, Encoder(FreeFB(8, 8, stride=4)), x)


def torchcde(torch):
    import torchcde as c
    x = draw(torch, "x", 2, 6, 3)

    class Field(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = fill(torch, torch.nn.Linear(4, 12))

        def forward(self, t, z):
            return self.linear(z).tanh().view(*z.shape[:-1], 4, 3)
    field = Field()
    path = c.CubicSpline(c.hermite_cubic_coefficients_with_backward_differences(x))
    z = c.cdeint(X=path, func=field, z0=draw(torch, "z", 2, 4), t=path.interval, adjoint=False, method="rk4",
                 options={"step_size": 0.5})
    yield "result", z
    z.sum().backward()
    yield "gradient", field.linear.weight.grad


def torch_dct(torch):
    import torch_dct as d
    x = draw(torch, "x", 3, 8)
    yield "dct", d.dct(x)
    yield "back", d.idct(d.dct(x, norm="ortho"), norm="ortho")
    yield "image", d.dct_2d(x)


def geomloss(torch):
    from geomloss import SamplesLoss
    x, y = draw(torch, "x", 12, 2).requires_grad_(), draw(torch, "y", 10, 2)
    for kind in ("sinkhorn", "gaussian", "energy"):
        value = SamplesLoss(kind, p=2, blur=0.3, backend="tensorized")(x, y)
        yield kind, value
        yield kind + " gradient", torch.autograd.grad(value, x)[0]


def pytorch_tabnet(torch):
    from pytorch_tabnet.tab_network import TabNet
    net = fill(torch, TabNet(6, 3, n_d=4, n_a=4, n_steps=2, virtual_batch_size=4,
                             group_attention_matrix=torch.eye(6)))
    x = draw(torch, "x", 8, 6)
    out, sparsity = net(x)
    yield "result", out
    yield "sparsity", sparsity
    yield from train(torch, net, lambda: net(x)[0].square().mean(), 2)


def rtdl_revisiting_models(torch):
    from rtdl_revisiting_models import FTTransformer, MLP, ResNet
    x = draw(torch, "x", 5, 4)
    yield from _run(torch, MLP(d_in=4, d_out=2, n_blocks=2, d_block=8, dropout=0.0), x)
    yield from _run(torch, ResNet(d_in=4, d_out=2, n_blocks=2, d_block=8, d_hidden_multiplier=2.0, dropout1=0.0,
                                  dropout2=0.0), x)
    net = fill(torch, FTTransformer(n_cont_features=4, cat_cardinalities=[3], d_out=1, n_blocks=1, d_block=16,
                                    attention_n_heads=2, attention_dropout=0.0, ffn_d_hidden_multiplier=2,
                                    ffn_dropout=0.0, residual_dropout=0.0))
    yield "transformer", net(x, ints(torch, "c", 3, 5, 1))


def rtdl_num_embeddings(torch):
    from rtdl_num_embeddings import LinearReLUEmbeddings, PiecewiseLinearEncoding, compute_bins
    x = draw(torch, "x", 20, 3)
    yield "linear", fill(torch, LinearReLUEmbeddings(3, 4))(x)
    yield "pieces", PiecewiseLinearEncoding(compute_bins(x, n_bins=4))(x)


def madgrad(torch):
    from madgrad import MADGRAD, MirrorMADGRAD
    yield from _optimizers(torch, ("MADGRAD", lambda p: MADGRAD(p, lr=1e-2)),
                           ("Mirror", lambda p: MirrorMADGRAD(p, lr=1e-2)))


def torchmin(torch):
    from torchmin import minimize
    start = draw(torch, "start", 4)
    for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact"):
        yield method, minimize(lambda x: ((x - 1) ** 4).sum() + (x ** 2).sum(), start, method=method, max_iter=5).x


def pypose(torch):
    import pypose as p
    x = p.so3(draw(torch, "x", 3, 3, scale=0.3))
    yield "rotation", x.Exp().tensor()
    yield "matrix", x.Exp().matrix()
    yield "acted", x.Exp().Act(draw(torch, "points", 3, 3))
    yield "log", p.se3(draw(torch, "y", 2, 6, scale=0.3)).Exp().Log().tensor()


def roma(torch):
    import roma as r
    v = draw(torch, "v", 4, 3)
    m = r.rotvec_to_rotmat(v)
    yield "matrix", m
    yield "quaternion", r.rotmat_to_unitquat(m)
    yield "procrustes", r.special_procrustes(draw(torch, "m", 3, 3, 3))
    yield "distance", r.rotmat_geodesic_distance(m, m.flip(0))


def torchcrf(torch):
    from torchcrf import CRF
    net = fill(torch, CRF(4, batch_first=True))
    x, y = draw(torch, "x", 2, 6, 4), ints(torch, "y", 4, 2, 6)
    yield "likelihood", net(x, y)
    yield "best", torch.tensor(net.decode(x))
    yield from train(torch, net, lambda: -net(x, y))


def lpips(torch):
    from lpips import LPIPS
    net = fill(torch, LPIPS(pretrained=False, net="squeeze", pnet_rand=True, verbose=False)).eval()
    yield "distance", net(draw(torch, "a", 1, 3, 64, 64), draw(torch, "b", 1, 3, 64, 64))


def thop(torch):
    from thop import profile
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    yield "counted", torch.tensor(profile(net, inputs=(torch.zeros(1, 3, 8, 8),), verbose=False))


def torchsummary(torch):
    from torchsummary import summary
    summary(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU()), (1, 8, 8), device="cpu")
    yield "done", torch.tensor(1)


def torch_pruning(torch):
    import torch_pruning as tp
    net = fill(torch, torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                          torch.nn.Conv2d(8, 4, 3)))
    x = draw(torch, "x", 1, 3, 8, 8)
    pruner = tp.pruner.MagnitudePruner(net, x, importance=tp.importance.MagnitudeImportance(p=2), pruning_ratio=0.5,
                                       ignored_layers=[net[3]])
    pruner.step()
    yield "result", net.eval()(x)


def opacus(torch):
    from opacus import GradSampleModule
    net = GradSampleModule(fill(torch, torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(),
                                                           torch.nn.Linear(3, 2))))
    net(draw(torch, "x", 5, 4)).square().sum(1).mean().backward()
    for name, p in net.named_parameters():
        yield name, p.grad_sample


def stable_baselines3(torch):
    from stable_baselines3.common.distributions import DiagGaussianDistribution
    from stable_baselines3.common.policies import ActorCriticPolicy
    import gymnasium as gym
    policy = ActorCriticPolicy(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(3), lambda _: 1e-3)
    fill(torch, policy)
    x = draw(torch, "x", 5, 4)
    values, likely, entropy = policy.evaluate_actions(x, ints(torch, "a", 3, 5))
    yield "values", values
    yield "likely", likely
    yield "entropy", entropy
    gaussian = DiagGaussianDistribution(2)
    gaussian.proba_distribution(draw(torch, "m", 5, 2), torch.zeros(2))
    yield "density", gaussian.log_prob(draw(torch, "b", 5, 2))


def tensorly(torch):
    import tensorly as tl
    from tensorly.decomposition import parafac, tucker
    tl.set_backend("pytorch")
    x = draw(torch, "x", 4, 5, 6)
    core, factors = tucker(x, rank=[2, 2, 2])
    yield "tucker", tl.tucker_to_tensor((core, factors))
    yield "parafac", tl.cp_to_tensor(parafac(x, rank=2, init="svd", n_iter_max=5))
    yield "unfolded", tl.unfold(x, 1)


def neuralop(torch):
    from neuralop.models import FNO
    net = fill(torch, FNO(n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2))
    yield from _run(torch, net, draw(torch, "x", 1, 1, 16, 16))


def sentence_transformers(torch):
    from sentence_transformers import losses, util
    a, b = draw(torch, "a", 3, 8), draw(torch, "b", 4, 8)
    yield "cosine", util.cos_sim(a, b)
    yield "dot", util.dot_score(a, b)
    yield "found", torch.tensor([[h["corpus_id"] for h in row] for row in util.semantic_search(a, b, top_k=2)])
    assert losses.MultipleNegativesRankingLoss


def open_clip(torch):
    from open_clip.model import CLIP
    net = CLIP(16, {"image_size": 16, "layers": 1, "width": 16, "patch_size": 8, "head_width": 8},
               {"context_length": 8, "vocab_size": 20, "width": 16, "heads": 2, "layers": 1})
    net = fill(torch, net)
    images, texts = draw(torch, "i", 2, 3, 16, 16), ints(torch, "t", 20, 2, 8)
    image, text, scale = net(images, texts)
    yield "image", image
    yield "text", text
    yield from train(torch, net, lambda: (net(images, texts)[0] * net(images, texts)[1]).sum(), 2)


def chronos(torch):
    from chronos.chronos import ChronosConfig
    config = ChronosConfig("MeanScaleUniformBins", {"low_limit": -5.0, "high_limit": 5.0}, 16, 4, 32, 2, 0, 1, True,
                           "seq2seq", 1, 1.0, 10, 1.0)
    tokenizer = config.create_tokenizer()
    ids, mask, scale = tokenizer.context_input_transform(draw(torch, "x", 2, 10))
    yield "tokens", ids
    yield "scale", scale


def efficientnet_pytorch(torch):
    from efficientnet_pytorch import EfficientNet
    net = fill(torch, EfficientNet.from_name("efficientnet-b0", num_classes=3)).eval()
    yield "result", net(draw(torch, "x", 1, 3, 32, 32))


def segmentation_models_pytorch(torch):
    import segmentation_models_pytorch as smp
    for make in (smp.Unet, smp.FPN, smp.Linknet):
        net = fill(torch, make("resnet18", encoder_weights=None, classes=2)).eval()
        yield make.__name__, net(draw(torch, "x", 1, 3, 32, 32))
    yield "dice", smp.losses.DiceLoss("multiclass")(draw(torch, "p", 2, 3, 8, 8), ints(torch, "t", 3, 2, 8, 8))


def lightly(torch):
    from lightly.loss import BarlowTwinsLoss, NTXentLoss, VICRegLoss
    a, b = draw(torch, "a", 6, 8).requires_grad_(), draw(torch, "b", 6, 8)
    for loss in (NTXentLoss(), BarlowTwinsLoss(), VICRegLoss()):
        value = loss(a, b)
        yield type(loss).__name__, value
        yield "gradient", torch.autograd.grad(value, a)[0]


def poutyne(torch):
    from poutyne import Model
    model = Model(_net(torch), "sgd", "cross_entropy", batch_metrics=["accuracy"])
    x, y = _data(torch).tensors
    yield "losses", torch.tensor([model.train_on_batch(x, y)[0] for _ in range(3)])
