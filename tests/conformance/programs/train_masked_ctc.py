"""A masked language model with attention written out, and a speech-like net with convolutions, recurrent layers and the
loss of connectionist temporal classification."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

VOCAB, MASK, PAD, CLS, SEP = 30, 1, 0, 2, 3
rng = random.Random(2)


def redraw(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.25) for _ in range(p.numel())]).reshape(p.shape))


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def get_attn_pad_mask(seq_q, seq_k):
    batch_size, len_q = seq_q.size()
    batch_size, len_k = seq_k.size()
    return seq_k.data.eq(PAD).unsqueeze(1).expand(batch_size, len_q, len_k)


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.d_k = heads, d // heads
        self.W_Q, self.W_K, self.W_V = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.fc, self.norm = nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x, mask):
        residual, n = x, x.size(0)
        q, k, v = [w(x).view(n, -1, self.heads, self.d_k).transpose(1, 2) for w in (self.W_Q, self.W_K, self.W_V)]
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d_k)
        scores.masked_fill_(mask.unsqueeze(1).repeat(1, self.heads, 1, 1), -1e9)
        context = torch.matmul(nn.Softmax(dim=-1)(scores), v)
        context = context.transpose(1, 2).contiguous().view(n, -1, self.heads * self.d_k)
        return self.norm(self.fc(context) + residual)


class BERT(nn.Module):
    def __init__(self, d=12, maxlen=12):
        super(BERT, self).__init__()
        self.tok_embed = nn.Embedding(VOCAB, d)
        self.pos_embed = nn.Embedding(maxlen, d)
        self.seg_embed = nn.Embedding(2, d)
        self.norm = nn.LayerNorm(d)
        self.layers = nn.ModuleList([Attention(d, 3) for _ in range(2)])
        self.pool, self.activ1 = nn.Linear(d, d), nn.Tanh()
        self.linear, self.activ2 = nn.Linear(d, d), gelu
        self.classifier = nn.Linear(d, 2)
        n_vocab, n_dim = self.tok_embed.weight.size()
        self.decoder = nn.Linear(n_dim, n_vocab, bias=False)
        self.decoder.weight = self.tok_embed.weight
        self.decoder_bias = nn.Parameter(torch.zeros(n_vocab))

    def forward(self, input_ids, segment_ids, masked_pos):
        pos = torch.arange(input_ids.size(1), dtype=torch.long).unsqueeze(0).expand_as(input_ids)
        output = self.norm(self.tok_embed(input_ids) + self.pos_embed(pos) + self.seg_embed(segment_ids))
        mask = get_attn_pad_mask(input_ids, input_ids)
        for layer in self.layers:
            output = layer(output, mask)
        logits_clsf = self.classifier(self.activ1(self.pool(output[:, 0])))
        where = masked_pos[:, :, None].expand(-1, -1, output.size(-1))
        h_masked = self.norm(self.activ2(self.linear(torch.gather(output, 1, where))))
        return self.decoder(h_masked) + self.decoder_bias, logits_clsf


def make_batch(size):
    batch = []
    for _ in range(size):
        ids = [CLS] + [rng.randrange(4, VOCAB) for _ in range(4)] + [SEP] + [rng.randrange(4, VOCAB) for _ in range(3)]
        ids += [SEP]
        segments = [0] * 6 + [1] * 4
        places = [i for i, token in enumerate(ids) if token not in (CLS, SEP)]
        rng.shuffle(places)
        tokens = [ids[i] for i in places[:2]]
        for i in places[:2]:
            ids[i] = MASK
        rest = 12 - len(ids)
        batch.append([ids + [PAD] * rest, segments + [0] * rest, tokens + [0], places[:2] + [0], rng.random() < 0.5])
    return batch


model = BERT()
redraw(model)
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = optim.Adam(model.parameters(), lr=0.005)
input_ids, segment_ids, masked_tokens, masked_pos, is_next = map(torch.LongTensor, zip(*make_batch(6)))
print(input_ids.shape, is_next, len(list(model.parameters())))
for epoch in range(5):
    optimizer.zero_grad()
    logits_lm, logits_clsf = model(input_ids, segment_ids, masked_pos)
    loss_lm = criterion(logits_lm.transpose(1, 2), masked_tokens).float().mean()
    loss_clsf = nn.CrossEntropyLoss()(logits_clsf, is_next)
    loss = loss_lm + loss_clsf
    print("Epoch:", "%04d" % (epoch + 1), "cost =", "{:.6f}".format(loss))
    loss.backward()
    optimizer.step()
print(logits_lm.data.max(2)[1][0].tolist(), [pos for pos in masked_tokens[0].tolist() if pos != 0])

special = (input_ids == CLS) | (input_ids == SEP) | input_ids.eq(PAD)
labels = input_ids.clone()
chosen = (torch.arange(labels.numel()).view_as(labels) % 4 == 1) & ~special
labels[~chosen] = -100
print(labels[0], F.cross_entropy(torch.zeros(labels.numel(), VOCAB), labels.view(-1)), chosen.sum())


class SpeechNet(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv1d(features, 8, 3, stride=1, padding=1), nn.BatchNorm1d(8), nn.ReLU())
        self.rnn = nn.GRU(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(12, classes)

    def forward(self, x):
        x, _ = self.rnn(self.cnn(x).permute(0, 2, 1))
        return F.log_softmax(self.fc(x), dim=2).permute(1, 0, 2)


T, C, N, S = 14, 7, 3, 5
net = SpeechNet(6, C)
redraw(net)
ctc_loss = nn.CTCLoss(blank=0, reduction="mean", zero_infinity=True)
optimizer = optim.AdamW(net.parameters(), lr=1e-2)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, steps_per_epoch=6, epochs=1, anneal_strategy="linear")
x = torch.tensor([rng.gauss(0, 1) for _ in range(N * 6 * T)]).view(N, 6, T)
target = torch.tensor([[rng.randrange(1, C) for _ in range(S)] for _ in range(N)])
input_lengths = torch.full(size=(N,), fill_value=T, dtype=torch.long)
target_lengths = torch.tensor([5, 3, 4])
for step in range(6):
    out = net(x)
    loss = ctc_loss(out, target, input_lengths, target_lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, f"{loss.item():.4f} {scheduler.get_last_lr()[0]:.5f}")
out = out.detach()
joined = torch.cat([target[i, :n] for i, n in enumerate(target_lengths)])
print(ctc_loss(out, joined, (T,) * N, target_lengths.tolist()))
print(F.ctc_loss(out, target, [T] * N, (5, 3, 4), reduction="sum"))
best = torch.argmax(out.transpose(0, 1), dim=2)
print([[i for i in torch.unique_consecutive(row).tolist() if i != 0] for row in best])
