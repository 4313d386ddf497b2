"""Questions and answers: packed sequences into a bidirectional encoder, three kinds of attention, a masked loss."""
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

PAD_token, SOS_token, EOS_token = 0, 1, 2
rng = random.Random(11)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def zeroPadding(batch, fillvalue=PAD_token):
    return list(itertools.zip_longest(*batch, fillvalue=fillvalue))


def inputVar(batch):
    lengths = torch.tensor([len(indexes) for indexes in batch])
    return torch.LongTensor(zeroPadding(batch)), lengths


def outputVar(batch):
    padded = zeroPadding(batch)
    mask = torch.BoolTensor([[token != PAD_token for token in row] for row in padded])
    return torch.LongTensor(padded), mask, max(len(indexes) for indexes in batch)


class EncoderRNN(nn.Module):
    def __init__(self, hidden_size, embedding, n_layers=1, dropout=0):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers, dropout=(0 if n_layers == 1 else dropout),
                          bidirectional=True)

    def forward(self, input_seq, input_lengths, hidden=None):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(input_seq), input_lengths)
        outputs, hidden = self.gru(packed, hidden)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs)
        return outputs[:, :, :self.hidden_size] + outputs[:, :, self.hidden_size:], hidden


class Attn(nn.Module):
    def __init__(self, method, hidden_size):
        super(Attn, self).__init__()
        self.method = method
        if self.method not in ["dot", "general", "concat"]:
            raise ValueError(self.method, "is not an appropriate attention method.")
        if self.method == "general":
            self.attn = nn.Linear(hidden_size, hidden_size)
        elif self.method == "concat":
            self.attn = nn.Linear(hidden_size * 2, hidden_size)
            self.v = nn.Parameter(torch.FloatTensor(hidden_size))

    def dot_score(self, hidden, encoder_output):
        return torch.sum(hidden * encoder_output, dim=2)

    def general_score(self, hidden, encoder_output):
        return torch.sum(hidden * self.attn(encoder_output), dim=2)

    def concat_score(self, hidden, encoder_output):
        both = torch.cat((hidden.expand(encoder_output.size(0), -1, -1), encoder_output), 2)
        return torch.sum(self.v * self.attn(both).tanh(), dim=2)

    def forward(self, hidden, encoder_outputs):
        energies = getattr(self, self.method + "_score")(hidden, encoder_outputs)
        return F.softmax(energies.t(), dim=1).unsqueeze(1)


class LuongAttnDecoderRNN(nn.Module):
    def __init__(self, attn_model, embedding, hidden_size, output_size, n_layers=1):
        super(LuongAttnDecoderRNN, self).__init__()
        self.n_layers = n_layers
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)
        self.attn = Attn(attn_model, hidden_size)

    def forward(self, input_step, last_hidden, encoder_outputs):
        rnn_output, hidden = self.gru(self.embedding(input_step), last_hidden)
        weights = self.attn(rnn_output, encoder_outputs)
        context = weights.bmm(encoder_outputs.transpose(0, 1))
        both = torch.cat((rnn_output.squeeze(0), context.squeeze(1)), 1)
        return F.softmax(self.out(torch.tanh(self.concat(both))), dim=1), hidden


def maskNLLLoss(inp, target, mask):
    crossEntropy = -torch.log(torch.gather(inp, 1, target.view(-1, 1)).squeeze(1))
    return crossEntropy.masked_select(mask).mean().to(device), mask.sum().item()


class GreedySearchDecoder(nn.Module):
    def __init__(self, encoder, decoder):
        super(GreedySearchDecoder, self).__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, input_seq, input_length, max_length):
        encoder_outputs, encoder_hidden = self.encoder(input_seq, input_length)
        decoder_hidden = encoder_hidden[:self.decoder.n_layers]
        decoder_input = torch.ones(1, 1, device=device, dtype=torch.long) * SOS_token
        all_tokens = torch.zeros([0], device=device, dtype=torch.long)
        all_scores = torch.zeros([0], device=device)
        for _ in range(max_length):
            decoder_output, decoder_hidden = self.decoder(decoder_input, decoder_hidden, encoder_outputs)
            decoder_scores, decoder_input = torch.max(decoder_output, dim=1)
            all_tokens = torch.cat((all_tokens, decoder_input), dim=0)
            all_scores = torch.cat((all_scores, decoder_scores), dim=0)
            decoder_input = torch.unsqueeze(decoder_input, 0)
        return all_tokens, all_scores


pairs = sorted([[[rng.randrange(3, 12) for _ in range(n)] + [EOS_token] for n in (k, 7 - k)] for k in (2, 5, 3, 4)],
               key=lambda pair: len(pair[0]), reverse=True)
input_variable, lengths = inputVar([p[0] for p in pairs])
target_variable, mask, max_target_len = outputVar([p[1] for p in pairs])
print(input_variable, lengths, mask, max_target_len)
for method in ["dot", "general", "concat"]:
    embedding = nn.Embedding(12, 10)
    encoder = EncoderRNN(10, embedding, 2, 0.1).to(device)
    decoder = LuongAttnDecoderRNN(method, embedding, 10, 12, 2).to(device)
    with torch.no_grad():
        for p in [*encoder.parameters(), *decoder.parameters()]:
            p.copy_(torch.tensor([rng.gauss(0, 0.3) for _ in range(p.numel())]).reshape(p.shape))
    encoder.train()
    decoder.train()
    encoder.gru.dropout = 0.0
    encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.005)
    decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.01)
    for iteration in range(6):
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        loss, print_losses, n_totals = 0, [], 0
        encoder_outputs, encoder_hidden = encoder(input_variable, lengths)
        decoder_input = torch.LongTensor([[SOS_token for _ in pairs]]).to(device)
        decoder_hidden = encoder_hidden[:decoder.n_layers]
        use_teacher_forcing = True if rng.random() < 0.7 else False
        for t in range(max_target_len):
            decoder_output, decoder_hidden = decoder(decoder_input, decoder_hidden, encoder_outputs)
            if use_teacher_forcing:
                decoder_input = target_variable[t].view(1, -1)
            else:
                _, topi = decoder_output.topk(1)
                decoder_input = torch.LongTensor([[topi[i][0] for i in range(len(pairs))]]).to(device)
            mask_loss, n_total = maskNLLLoss(decoder_output, target_variable[t], mask[t])
            loss += mask_loss
            print_losses.append(mask_loss.item() * n_total)
            n_totals += n_total
        loss.backward()
        _ = nn.utils.clip_grad_norm_(encoder.parameters(), 50.0)
        _ = nn.utils.clip_grad_norm_(decoder.parameters(), 50.0)
        encoder_optimizer.step()
        decoder_optimizer.step()
        print("Iteration: {}; loss: {:.4f}".format(iteration, sum(print_losses) / n_totals))
encoder.eval()
decoder.eval()
searcher = GreedySearchDecoder(encoder, decoder)
with torch.no_grad():
    tokens, scores = searcher(torch.LongTensor([[5, 6, 2]]).transpose(0, 1), torch.tensor([3]), 5)
print([t.item() for t in tokens], scores)
print(searcher)
