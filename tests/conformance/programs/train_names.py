"""Names by letters: one at a time as in old tutorials, then in padded and packed batches from a data loader; names made
up letter by letter."""
import math
import random
import string
import time
import unicodedata

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

random.seed(6)
rng = random.Random(8)
all_letters = string.ascii_letters + " .,;'"
n_letters = len(all_letters)
names = {"Italian": ["Abandonato", "Rossi", "Bianchi", "Ricci"], "German": ["Abbing", "Schmidt", "Krüger"],
         "Chinese": ["Ang", "Li", "Wang", "Zhao"]}
all_categories = list(names)


def unicodeToAscii(s):
    return "".join(c for c in unicodedata.normalize("NFD", s) if unicodedata.category(c) != "Mn" and c in all_letters)


category_lines = {category: [unicodeToAscii(line) for line in lines] for category, lines in names.items()}


def redraw(module, scale):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([rng.gauss(0, scale) for _ in range(p.numel())]).reshape(p.shape))


def lineToTensor(line):
    tensor = torch.zeros(len(line), 1, n_letters)
    for li, letter in enumerate(line):
        tensor[li][0][all_letters.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super(RNN, self).__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        hidden = self.i2h(torch.cat((input, hidden), 1))
        return self.softmax(self.h2o(hidden)), hidden

    def initHidden(self):
        return Variable(torch.zeros(1, self.hidden_size))


def categoryFromOutput(output):
    top_n, top_i = output.data.topk(1)
    category_i = top_i[0][0]
    return all_categories[category_i], category_i


def timeSince(since):
    s = time.time() - since
    return "%dm" % math.floor(s / 60)


rnn = RNN(n_letters, 32, len(all_categories))
redraw(rnn, 0.1)
criterion = nn.NLLLoss()
learning_rate = 0.02


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


start, current_loss = time.time(), 0
for iteration in range(1, 61):
    category = random.choice(all_categories)
    line = random.choice(category_lines[category])
    category_tensor = Variable(torch.LongTensor([all_categories.index(category)]))
    output, loss = train(category_tensor, Variable(lineToTensor(line)))
    current_loss += loss
    if iteration % 10 == 0:
        guess, guess_i = categoryFromOutput(output)
        correct = "✓" if guess == category else "✗ (%s)" % category
        print("%d %d%% (%s) %.4f %s / %s %s" % (iteration, iteration / 60 * 100, timeSince(start), current_loss / 10,
                                                line, guess, correct))
        current_loss = 0
confusion = torch.zeros(3, 3)
for category, lines in category_lines.items():
    for line in lines:
        hidden = rnn.initHidden()
        for letter in lineToTensor(line):
            output, hidden = rnn(letter, hidden)
        confusion[all_categories.index(category)][categoryFromOutput(output)[1]] += 1
for i in range(3):
    confusion[i] = confusion[i] / confusion[i].sum()
print(confusion)
topv, topi = output.data.topk(3, 1, True)
for i in range(3):
    print("(%.2f) %s" % (topv[0][i], all_categories[topi[0][i]]))


class NamesDataset(Dataset):
    def __init__(self):
        self.samples = [(line, category) for category, lines in category_lines.items() for line in lines]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, idx):
        line, category = self.samples[idx]
        letters = torch.tensor([all_letters.index(c) for c in line])
        return letters, all_categories.index(category), line


def collate(batch):
    letters, labels, lines = zip(*batch)
    lengths = torch.tensor([len(t) for t in letters])
    return pad_sequence(letters, batch_first=True), lengths, torch.tensor(labels), lines


class CharLSTM(nn.Module):
    def __init__(self, embedding_dim=8, hidden_dim=10):
        super().__init__()
        self.embedding = nn.Embedding(n_letters, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden_dim, 3)

    def forward(self, letters, lengths):
        packed = pack_padded_sequence(self.embedding(letters), lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, cell) = self.lstm(packed)
        output, output_lengths = pad_packed_sequence(output, batch_first=True)
        mask = torch.arange(output.size(1))[None, :] < output_lengths[:, None]
        mean = (output * mask.unsqueeze(-1)).sum(1) / output_lengths.unsqueeze(1)
        return self.fc(mean + torch.cat((hidden[-2], hidden[-1]), dim=1))


dataset = NamesDataset()
loader = DataLoader(dataset, batch_size=4, collate_fn=collate)
model = CharLSTM()
redraw(model, 0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(4):
    total, right = 0.0, 0
    for letters, lengths, labels, lines in loader:
        optimizer.zero_grad()
        scores = model(letters, lengths)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3)
        optimizer.step()
        total += loss.item() * len(labels)
        right += (scores.argmax(1) == labels).sum().item()
    print(f"epoch {epoch}: loss {total / len(dataset):.4f}, {right / len(dataset):.0%} right", lines)
print(next(iter(DataLoader(dataset, batch_size=1)))[1:])

generator = nn.GRU(n_letters + 3, 16)
head = nn.Linear(16, n_letters + 1)
redraw(generator, 0.3)
redraw(head, 0.3)
optimizer = torch.optim.SGD([*generator.parameters(), *head.parameters()], lr=0.5, momentum=0.9)


def inputs(category, line):
    kind = F.one_hot(torch.tensor(all_categories.index(category)), 3).float().expand(len(line), 1, 3)
    return torch.cat((kind, lineToTensor(line)), 2)


for epoch in range(15):
    loss = 0
    for category, lines in category_lines.items():
        for line in lines:
            target = torch.tensor([all_letters.find(c) for c in line[1:]] + [n_letters]).unsqueeze_(-1)
            out, _ = generator(inputs(category, line))
            for o, t in zip(head(out), target):
                loss += F.cross_entropy(o, t) / 60
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss:.4f}")
with torch.no_grad():
    for category in all_categories:
        name, hidden = "A", None
        while len(name) < 8:
            out, hidden = generator(inputs(category, name[-1]), hidden)
            letter = head(out[0]).topk(1)[1][0][0]
            if letter == n_letters:
                break
            name += all_letters[letter]
        print(category, name)
