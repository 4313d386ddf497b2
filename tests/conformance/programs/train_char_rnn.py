"""Names and their languages: a recurrent classifier written by hand, then nn.RNN, LSTM and GRU."""
import random
import string

import torch
import torch.nn as nn

letters = string.ascii_lowercase
names = {"nordic": ["bjorn", "sigrid", "astrid", "olaf"], "italian": ["paolo", "lucia", "marco", "elena"],
         "welsh": ["gwyn", "rhys", "dylan", "carys"]}
categories = list(names)
rng = random.Random(3)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for i, letter in enumerate(line):
        tensor[i][0][letters.find(letter)] = 1
    return tensor


def reset(model):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.3) for _ in range(p.numel())]).view(p.shape))
    return model


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        hidden = torch.tanh(self.i2h(combined))
        return self.softmax(self.h2o(hidden)), hidden

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn = reset(RNN(len(letters), 16, len(categories)))
criterion = nn.NLLLoss()
learning_rate = 0.05


def train(category_tensor, line_tensor):
    hidden = rnn.initHidden()
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-learning_rate)
    return output, loss.item()


def category_from_output(output):
    top_n, top_i = output.topk(1)
    return categories[top_i[0].item()]


for epoch in range(4):
    total, right = 0.0, 0
    for category, lines in names.items():
        for line in lines:
            target = torch.tensor([categories.index(category)], dtype=torch.long)
            output, loss = train(target, line_to_tensor(line))
            total += loss
            right += category_from_output(output) == category
    print(epoch, round(total / 12, 5), right)


class Classifier(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(len(letters), 12, num_layers=2, bidirectional=True)
        self.out = nn.Linear(24, len(categories))

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        y, state = self.rnn(packed)
        y, lengths = nn.utils.rnn.pad_packed_sequence(y)
        h = state[0] if isinstance(state, tuple) else state
        return self.out(torch.cat([h[-2], h[-1]], dim=-1)), y


lines = [(line, categories.index(c)) for c, group in names.items() for line in group]
batch = nn.utils.rnn.pad_sequence([line_to_tensor(line)[:, 0] for line, _ in lines])
lengths = torch.tensor([len(line) for line, _ in lines])
targets = torch.tensor([c for _, c in lines])
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    model = reset(Classifier(kind))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        scores, y = model(batch, lengths)
        loss = nn.functional.cross_entropy(scores, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(kind.__name__, step, round(loss.item(), 5), round(float(norm), 5), tuple(y.shape))
    print(model.rnn)
