"""Norms, variances, activations and losses against formulas written out."""
import random

import torch
import torch.nn.functional as F

rng = random.Random(13)
x = torch.tensor([[rng.gauss(0, 2) for _ in range(6)] for _ in range(5)], dtype=torch.float64, requires_grad=True)
checks = {
    "layer": (F.layer_norm(x, (6,)), (x - x.mean(1, keepdim=True)) / (x.var(1, unbiased=False, keepdim=True)
                                                                    + 1e-5).sqrt()),
    "rms": (F.rms_norm(x, (6,), eps=1e-6), x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)),
    "group": (F.group_norm(x, 3), F.layer_norm(x.view(5, 3, 2), (2,)).view(5, 6)),
    "softplus": (F.softplus(x), torch.log1p(torch.exp(-x.abs())) + x.clamp(min=0)),
    "silu": (F.silu(x), x * torch.sigmoid(x)),
    "mish": (F.mish(x), x * torch.tanh(F.softplus(x))),
    "elu": (F.elu(x), torch.where(x > 0, x, torch.expm1(x))),
    "gelu": (F.gelu(x), x * 0.5 * (1 + torch.erf(x / 2 ** 0.5))),
    "logsumexp": (torch.logsumexp(x, 1), x.exp().sum(1).log()),
    "log softmax": (F.log_softmax(x, 1), x - torch.logsumexp(x, 1, keepdim=True)),
    "huber": (F.huber_loss(x, x.flip(0)), F.smooth_l1_loss(x, x.flip(0))),
    "nll": (F.nll_loss(F.log_softmax(x, 1), torch.tensor([0, 1, 2, 3, 4])),
            F.cross_entropy(x, torch.tensor([0, 1, 2, 3, 4]))),
    "norm": (torch.linalg.vector_norm(x, dim=1), (x * x).sum(1).sqrt()),
    "variance": (torch.var(x, dim=0), ((x - x.mean(0)) ** 2).sum(0) / 4),
}
for name, (value, formula) in checks.items():
    a, = torch.autograd.grad(value.square().sum(), x, retain_graph=True)
    b, = torch.autograd.grad(formula.square().sum(), x, retain_graph=True)
    print(name, value.sum().item(), (value - formula).abs().max().item() < 1e-8, (a - b).abs().max().item() < 1e-8)
m, n = x.detach(), x.detach().flatten()
print(m.std().item(), torch.std_mean(m, dim=1)[0].tolist(), m.amax(1).tolist(), m.prod(0).tolist())
print(m.cumsum(1)[0].tolist(), m.cumprod(0)[-1].tolist(), m.argmin(0).tolist(), (m > 0).all(1).tolist(), m.any().item())
print(n.kthvalue(3), torch.count_nonzero(m > 1).item(), torch.norm(m).item(), m.trunc()[0].tolist())
