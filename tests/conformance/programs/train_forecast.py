"""Series: two LSTM cells trained by L-BFGS that continue sines, forecasts with each recurrent layer and with dilated
convolutions, quantiles, a schedule that waits for the loss."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data as data
from torch.nn.utils import weight_norm

rng = random.Random(4)


def redraw(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.3) for _ in range(p.numel())]).reshape(p.shape))


class Sequence(nn.Module):
    def __init__(self):
        super(Sequence, self).__init__()
        self.lstm1 = nn.LSTMCell(1, 8)
        self.lstm2 = nn.LSTMCell(8, 8)
        self.linear = nn.Linear(8, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t, c_t, h_t2, c_t2 = (torch.zeros(input.size(0), 8, dtype=torch.double) for _ in range(4))
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


waves = torch.tensor([[math.sin((t + shift) / 5) for t in range(30)] for shift in (0, 4, 9, 13, 17, 22)],
                     dtype=torch.float64)
seq = Sequence()
redraw(seq)
seq.double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)
for step in range(2):
    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(waves[2:, :-1]), waves[2:, 1:])
        print("loss: %.5f" % loss.item())
        loss.backward()
        return loss

    optimizer.step(closure)
with torch.no_grad():
    pred = seq(waves[:2, :-1], future=4)
    print("test loss: %.5f" % criterion(pred[:, :-4], waves[:2, 1:]).item(), pred.shape, pred[:, -2:])


def windows(series, lookback):
    x = torch.stack([series[i:i + lookback] for i in range(len(series) - lookback)])
    y = torch.stack([series[i + 1:i + lookback + 1] for i in range(len(series) - lookback)])
    return x, y


class Forecaster(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.rnn = getattr(nn, cell)(input_size=1, hidden_size=8, num_layers=1, batch_first=True)
        self.linear = nn.Linear(8, 1)

    def forward(self, x):
        x, _ = self.rnn(x)
        return self.linear(x)


series = torch.tensor([math.sin(t / 5) + t / 30 for t in range(50)]).unsqueeze(-1)
x_train, y_train = windows(series[:36], 4)
x_test, y_test = windows(series[36:], 4)
loader = data.DataLoader(data.TensorDataset(x_train, y_train), shuffle=False, batch_size=8)
for cell in ["LSTM", "GRU", "RNN"]:
    model, best, bad = Forecaster(cell), float("inf"), 0
    redraw(model)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=0, threshold=0.3)
    for epoch in range(4):
        model.train()
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            test = criterion(model(x_test), y_test)
        scheduler.step(test)
        if test < best:
            best, state = test.item(), copy.deepcopy(model.state_dict())
        print(f"{cell} epoch {epoch}: test RMSE {math.sqrt(test):.4f} lr {optimizer.param_groups[0]['lr']:.5f}")
    print(model.load_state_dict(state), f"{best:.4f}")


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super(Chomp1d, self).__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, :-self.chomp_size].contiguous()


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs, n_outputs, kernel_size, dilation):
        super(TemporalBlock, self).__init__()
        padding = (kernel_size - 1) * dilation
        conv = weight_norm(nn.Conv1d(n_inputs, n_outputs, kernel_size, padding=padding, dilation=dilation))
        self.net = nn.Sequential(conv, Chomp1d(padding), nn.ReLU(), nn.Dropout(0.0))
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None

    def forward(self, x):
        return F.relu(self.net(x) + (x if self.downsample is None else self.downsample(x)))


class QuantileLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.quantiles = quantiles

    def forward(self, preds, target):
        losses = []
        for i, q in enumerate(self.quantiles):
            errors = target - preds[:, i]
            losses.append(torch.max((q - 1) * errors, q * errors).unsqueeze(1))
        return torch.mean(torch.sum(torch.cat(losses, dim=1), dim=1))


tcn = nn.Sequential(TemporalBlock(1, 5, 2, 1), TemporalBlock(5, 5, 2, 2), nn.Flatten(), nn.Linear(20, 3))
redraw(tcn)
print([name for name, _ in tcn.named_parameters()])
quantile_loss = QuantileLoss([0.1, 0.5, 0.9])
optimizer = optim.RMSprop(tcn.parameters(), lr=1e-2)
for step in range(5):
    optimizer.zero_grad()
    loss = quantile_loss(tcn(x_train.transpose(1, 2)), y_train[:, -1, 0])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(tcn.parameters(), 0.5)
    optimizer.step()
    print(f"{step} {loss:.4f}")
with torch.no_grad():
    low, middle, high = tcn(x_test.transpose(1, 2)).unbind(1)
print(((y_test[:, -1, 0] >= low) & (y_test[:, -1, 0] <= high)).float().mean(), middle[:3])
print(tcn[0])
