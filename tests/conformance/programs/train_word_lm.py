"""A word language model with each kind of recurrent layer and a transformer: tied weights, truncated backpropagation,
clipping, whole models saved and loaded, generation."""
import io
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

rng = random.Random(3)
ntokens, bptt = 15, 6


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.5, tie_weights=False):
        super(RNNModel, self).__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super(PositionalEncoding, self).__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return self.dropout(x + self.pe[:x.size(0), :])


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp, nhead, nhid, nlayers, dropout=0.5):
        super(TransformerModel, self).__init__(d_model=ninp, nhead=nhead, dim_feedforward=nhid,
                                               num_encoder_layers=nlayers, dropout=dropout)
        self.src_mask = None
        self.pos_encoder = PositionalEncoding(ninp, dropout)
        self.input_emb = nn.Embedding(ntoken, ninp)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src, has_mask=True):
        if has_mask and (self.src_mask is None or self.src_mask.size(0) != len(src)):
            self.src_mask = torch.log(torch.tril(torch.ones(len(src), len(src)))).to(src.device)
        elif not has_mask:
            self.src_mask = None
        src = self.pos_encoder(self.input_emb(src) * math.sqrt(self.ninp))
        return F.log_softmax(self.decoder(self.encoder(src, mask=self.src_mask)), dim=-1)


def batchify(data, bsz):
    data = data.narrow(0, 0, data.size(0) // bsz * bsz)
    return data.view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


train_data = batchify(torch.tensor([(i * i + rng.randrange(2)) % ntokens for i in range(120)]), 4)
criterion = nn.NLLLoss()
for name in ["LSTM", "GRU", "RNN_TANH", "RNN_RELU", "Transformer"]:
    transformer = name == "Transformer"
    model = TransformerModel(ntokens, 12, 2, 16, 2, 0.0) if transformer else \
        RNNModel(name, ntokens, 12, 12, 2, 0.0, tie_weights=True)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.2) for _ in range(p.numel())]).reshape(p.shape))
    model.train()
    hidden = None if transformer else model.init_hidden(4)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, bptt)):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        if transformer:
            output = model(data).view(-1, ntokens)
        else:
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-1.0)
        print("| {:11s} | {:2d} | loss {:5.2f} | ppl {:8.2f}".format(name, batch, loss.item(), math.exp(loss.item())))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    model = torch.load(file, weights_only=False)
    if not transformer:
        model.rnn.flatten_parameters()
        print(model.rnn, model.decoder.weight is model.encoder.weight, [n for n, _ in model.named_parameters()][:4])
    model.eval()
    words, input = [], torch.zeros((1, 1), dtype=torch.long)
    with torch.no_grad():
        hidden = None if transformer else model.init_hidden(1)
        for _ in range(5):
            if transformer:
                weights = model(input, False)[-1].squeeze().div(1.0).exp().cpu()
                word = weights.argmax()
                input = torch.cat([input, torch.Tensor([[word]]).long()], 0)
            else:
                output, hidden = model(input, hidden)
                word = output.squeeze().div(0.8).exp().cpu().argmax()
                input.fill_(word)
            words.append(word.item())
    print(words, sum(p.numel() for p in model.parameters()))
