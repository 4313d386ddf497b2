"""A variational autoencoder whose noise comes from outside, with a custom loss and several outputs."""
import random

import torch
from torch import nn, optim
from torch.nn import functional as F

rng = random.Random(9)


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 16)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.tensor([rng.gauss(0, 1) for _ in range(std.numel())]).view_as(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 16))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 16), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = VAE()
for p in model.parameters():
    p.data = torch.tensor([rng.uniform(-0.3, 0.3) for _ in range(p.numel())]).view_as(p)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
batches = [torch.tensor([float(rng.random() < 0.5) for _ in range(8 * 16)]).view(8, 1, 4, 4) for _ in range(3)]
for epoch in range(3):
    model.train()
    train_loss = 0
    for data in batches:
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print("====> Epoch: {} Average loss: {:.4f}".format(epoch, train_loss / 24))
state = optimizer.state_dict()
print(sorted(state), sorted(state["state"][0]), float(state["state"][0]["step"]), state["param_groups"][0]["lr"])
print(optimizer)
