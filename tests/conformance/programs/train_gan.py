"""Two networks against each other on a line of points; labels filled in place, detach, separate optimisers."""
import random

import torch
import torch.nn as nn
import torch.optim as optim

rng = random.Random(7)
nz, real_label, fake_label = 4, 1., 0.


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Linear") != -1:
        with torch.no_grad():
            m.weight.copy_(torch.tensor([rng.gauss(0, 0.2) for _ in range(m.weight.numel())]).view_as(m.weight))
        if m.bias is not None:
            nn.init.constant_(m.bias.data, 0)
    elif classname.find("BatchNorm") != -1:
        nn.init.ones_(m.weight.data)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.main = nn.Sequential(nn.Linear(nz, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 2),
                                  nn.Tanh())

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, input):
        return self.main(input).view(-1)


def noise(n):
    return torch.tensor([[rng.gauss(0, 1) for _ in range(nz)] for _ in range(n)])


def real(n):
    t = torch.tensor([rng.uniform(-1, 1) for _ in range(n)])
    return torch.stack([t, 0.5 * t], dim=1)


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
print(netG)
print(netD)
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=0.02, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=0.02, betas=(0.5, 0.999))
fixed_noise = noise(3)
for i in range(10):
    netD.zero_grad()
    data = real(32)
    b_size = data.size(0)
    label = torch.full((b_size,), real_label, dtype=torch.float)
    output = netD(data)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()
    fake = netG(noise(b_size))
    label.fill_(fake_label)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake
    optimizerD.step()
    netG.zero_grad()
    label.fill_(real_label)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    if i % 3 == 0:
        print("[%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f" % (i, errD.item(), errG.item(), D_x, D_G_z1))
netG.eval()
with torch.no_grad():
    print(netG(fixed_noise).detach().cpu())
print(netG.main[1].running_mean[:4], netG.main[1].num_batches_tracked)
