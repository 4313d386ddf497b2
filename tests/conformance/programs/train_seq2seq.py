"""Reversing sequences: an encoder and a decoder with attention, teacher forcing and greedy decoding."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

SOS_token, EOS_token, VOCAB, HIDDEN, MAX_LENGTH = 0, 1, 8, 16, 6
rng = random.Random(5)
device = torch.device("cpu")


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        embedded = self.dropout(self.embedding(input))
        output, hidden = self.gru(embedded)
        return output, hidden


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long, device=device).fill_(SOS_token)
        decoder_hidden = encoder_hidden
        decoder_outputs, attentions = [], []
        for i in range(MAX_LENGTH):
            decoder_output, decoder_hidden, attn = self.forward_step(decoder_input, decoder_hidden, encoder_outputs)
            decoder_outputs.append(decoder_output)
            attentions.append(attn)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = decoder_output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        decoder_outputs = torch.cat(decoder_outputs, dim=1)
        return F.log_softmax(decoder_outputs, dim=-1), decoder_hidden, torch.cat(attentions, dim=1)

    def forward_step(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input)
        query = hidden.permute(1, 0, 2)
        context, weights = self.attention(query, encoder_outputs)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, weights


def pairs(n):
    x = torch.tensor([[rng.randrange(2, VOCAB) for _ in range(MAX_LENGTH - 1)] + [EOS_token] for _ in range(n)])
    y = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)
    return x, y


encoder, decoder = EncoderRNN(VOCAB, HIDDEN).to(device), AttnDecoderRNN(HIDDEN, VOCAB).to(device)
with torch.no_grad():
    for module in (encoder, decoder):
        for name, p in module.named_parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.25) for _ in range(p.numel())]).reshape(p.shape))
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.01)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.01)
criterion = nn.NLLLoss()
for step in range(12):
    x, y = pairs(16)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    encoder_outputs, encoder_hidden = encoder(x)
    decoder_outputs, _, _ = decoder(encoder_outputs, encoder_hidden, y)
    loss = criterion(decoder_outputs.view(-1, decoder_outputs.size(-1)), y.view(-1))
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    if step % 3 == 0:
        print("%d %.4f" % (step, loss.item()))
encoder.eval()
decoder.eval()
with torch.no_grad():
    x, y = pairs(2)
    outputs, hidden, attention = decoder(*encoder(x))
    print(outputs.shape, hidden.shape, attention.sum(-1).flatten()[:3])
print(decoder)
