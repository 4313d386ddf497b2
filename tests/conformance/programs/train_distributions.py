"""Training with distributions: a variational autoencoder, a mixture density network, a normalising flow and a
regression with uncertain weights. Noise comes from outside, through icdf."""
import math
import random

import torch
import torch.distributions as dist
import torch.nn.functional as F
from torch import nn, optim
from torch.distributions import (Categorical, Independent, MixtureSameFamily, MultivariateNormal, Normal,
                                 TransformedDistribution, constraints, kl_divergence)
from torch.distributions.transforms import AffineTransform, Transform

rng = random.Random(21)


def draw(*shape):
    return torch.tensor([rng.uniform(0.02, 0.98) for _ in range(math.prod(shape))]).view(*shape)


def start(model):
    for p in model.parameters():
        p.data = draw(*p.shape) - 0.5
    return model


# A variational autoencoder
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 12), nn.SiLU(), nn.Linear(12, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 12), nn.SiLU(), nn.Linear(12, 8))

    def encode(self, x):
        mu, scale = torch.chunk(self.encoder(x), 2, dim=-1)
        return Normal(mu, F.softplus(scale) + 1e-4)

    def forward(self, x):
        q = self.encode(x)
        z = q.icdf(draw(*q.batch_shape))
        return q, dist.Bernoulli(logits=self.decoder(z))


vae = start(VAE())
optimizer = optim.Adam(vae.parameters(), lr=2e-2)
images = (draw(16, 8) > 0.5).float()
prior = Independent(Normal(torch.zeros(16, 2), torch.ones(16, 2)), 1)
for epoch in range(4):
    q, p = vae(images)
    divergence = kl_divergence(Independent(q, 1), prior).mean()
    loss = divergence - p.log_prob(images).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("vae %d loss %.4f kl %.4f" % (epoch, loss.item(), divergence.item()))
full = MultivariateNormal(q.mean, scale_tril=torch.diag_embed(q.stddev))
standard = MultivariateNormal(torch.zeros(2), torch.eye(2))
print("two ways:", torch.allclose(kl_divergence(full, standard).mean(), divergence, atol=1e-5), full.batch_shape)


# A mixture density network
class MDN(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 10), nn.Tanh())
        self.heads = nn.Linear(10, 3 * k)

    def forward(self, x):
        logits, mu, log_scale = self.heads(self.body(x)).chunk(3, -1)
        return MixtureSameFamily(Categorical(logits=logits), Normal(mu, log_scale.exp()))


mdn = start(MDN(3))
optimizer = optim.Adam(mdn.parameters(), lr=3e-2)
y = draw(40) * 2 - 1
x = (y + 0.3 * torch.sin(2 * math.pi * y)).unsqueeze(1)
for epoch in range(4):
    loss = -mdn(x).log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("mdn %d loss %.4f" % (epoch, loss.item()))
mixture = mdn(x[:2])
print(mixture.mean, mixture.variance, mixture.cdf(torch.zeros(2)))


# A normalising flow
class Coupling(Transform):
    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, net):
        super().__init__(cache_size=1)
        self.net = net

    def _call(self, x):
        a, b = x.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        return torch.cat([b * s.tanh().exp() + t, a], -1)

    def _inverse(self, y):
        b, a = y.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        return torch.cat([a, (b - t) * (-s.tanh()).exp()], -1)

    def log_abs_det_jacobian(self, x, y):
        return self.net(x.chunk(2, -1)[0]).chunk(2, -1)[0].tanh().sum(-1)


nets = start(nn.ModuleList(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)))
scale = nn.Parameter(torch.zeros(2))
optimizer = optim.Adam([*nets.parameters(), scale], lr=3e-2)
points = Normal(0.0, 1.0).icdf(draw(50, 2))
points = torch.stack([points[:, 0], points[:, 0] ** 2 * 0.5 + 0.2 * points[:, 1]], 1)
for epoch in range(4):
    flow = TransformedDistribution(standard, [*map(Coupling, nets), AffineTransform(torch.zeros(2), scale.exp(), 1)])
    loss = -flow.log_prob(points).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("flow %d loss %.4f" % (epoch, loss.item()))
print(flow.batch_shape, flow.event_shape, flow.sample((3,)).shape, flow.support)


# A regression with uncertain weights
mu, rho = torch.zeros(3, requires_grad=True), torch.full((3,), -2.0, requires_grad=True)
optimizer = optim.Adam([mu, rho], lr=0.1)
inputs = draw(30, 3) - 0.5
target = inputs @ torch.tensor([1.0, -2.0, 0.5])
for step in range(6):
    q = Normal(mu, F.softplus(rho))
    weights = q.icdf(draw(3))
    likelihood = dist.StudentT(4.0, inputs @ weights, 0.1).log_prob(target).sum()
    loss = kl_divergence(q, Normal(0.0, 1.0)).sum() - likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("elbo %.3f" % -loss.item(), mu, q)
