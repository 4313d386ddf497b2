"""Tagging: an LSTM that scores each word by itself, and a bidirectional one with a conditional random field."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

START_TAG, STOP_TAG = "<START>", "<STOP>"
rng = random.Random(7)


def redraw(module):
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.3) for _ in range(p.numel())]).reshape(p.shape))


def prepare_sequence(seq, to_ix):
    return torch.tensor([to_ix[w] for w in seq], dtype=torch.long)


def argmax(vec):
    _, idx = torch.max(vec, 1)
    return idx.item()


def log_sum_exp(vec):
    max_score = vec[0, argmax(vec)]
    spread = max_score.view(1, -1).expand(1, vec.size()[1])
    return max_score + torch.log(torch.sum(torch.exp(vec - spread)))


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size):
        super(LSTMTagger, self).__init__()
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim)
        self.hidden2tag = nn.Linear(hidden_dim, tagset_size)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        lstm_out, _ = self.lstm(embeds.view(len(sentence), 1, -1))
        return F.log_softmax(self.hidden2tag(lstm_out.view(len(sentence), -1)), dim=1)


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, tag_to_ix, embedding_dim, hidden_dim):
        super(BiLSTM_CRF, self).__init__()
        self.hidden_dim = hidden_dim
        self.tag_to_ix = tag_to_ix
        self.tagset_size = len(tag_to_ix)
        self.word_embeds = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim // 2, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(hidden_dim, self.tagset_size)
        self.transitions = nn.Parameter(torch.randn(self.tagset_size, self.tagset_size))
        redraw(self)
        self.transitions.data[tag_to_ix[START_TAG], :] = -10000
        self.transitions.data[:, tag_to_ix[STOP_TAG]] = -10000

    def features(self, sentence):
        hidden = (torch.zeros(2, 1, self.hidden_dim // 2), torch.zeros(2, 1, self.hidden_dim // 2))
        embeds = self.word_embeds(sentence).view(len(sentence), 1, -1)
        lstm_out, hidden = self.lstm(embeds, hidden)
        return self.hidden2tag(lstm_out.view(len(sentence), self.hidden_dim))

    def partition(self, feats):
        forward_var = torch.full((1, self.tagset_size), -10000.)
        forward_var[0][self.tag_to_ix[START_TAG]] = 0.
        for feat in feats:
            alphas = []
            for next_tag in range(self.tagset_size):
                emit = feat[next_tag].view(1, -1).expand(1, self.tagset_size)
                score = forward_var + self.transitions[next_tag].view(1, -1) + emit
                alphas.append(log_sum_exp(score).view(1))
            forward_var = torch.cat(alphas).view(1, -1)
        return log_sum_exp(forward_var + self.transitions[self.tag_to_ix[STOP_TAG]])

    def score(self, feats, tags):
        total = torch.zeros(1)
        tags = torch.cat([torch.tensor([self.tag_to_ix[START_TAG]], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            total = total + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]
        return total + self.transitions[self.tag_to_ix[STOP_TAG], tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        feats = self.features(sentence)
        return self.partition(feats) - self.score(feats, tags)

    def forward(self, sentence):
        """Viterbi: the best path and its score."""
        backpointers = []
        forward_var = torch.full((1, self.tagset_size), -10000.)
        forward_var[0][self.tag_to_ix[START_TAG]] = 0
        for feat in self.features(sentence):
            pointers, best = [], []
            for next_tag in range(self.tagset_size):
                following = forward_var + self.transitions[next_tag]
                tag_id = argmax(following)
                pointers.append(tag_id)
                best.append(following[0][tag_id].view(1))
            forward_var = (torch.cat(best) + feat).view(1, -1)
            backpointers.append(pointers)
        terminal = forward_var + self.transitions[self.tag_to_ix[STOP_TAG]]
        tag_id = argmax(terminal)
        path_score, path = terminal[0][tag_id], [tag_id]
        for pointers in reversed(backpointers):
            tag_id = pointers[tag_id]
            path.append(tag_id)
        assert path.pop() == self.tag_to_ix[START_TAG]
        path.reverse()
        return path_score, path


simple = [("The dog ate the apple".split(), ["DET", "NN", "V", "DET", "NN"]),
          ("Everybody read that book".split(), ["NN", "V", "DET", "NN"])]
word_to_ix = {}
for sent, tags in simple:
    for word in sent:
        word_to_ix.setdefault(word, len(word_to_ix))
tag_to_ix = {"DET": 0, "NN": 1, "V": 2}
model = LSTMTagger(6, 6, len(word_to_ix), len(tag_to_ix))
redraw(model)
loss_function = nn.NLLLoss()
optimizer = optim.SGD(model.parameters(), lr=0.5)
for epoch in range(40):
    for sentence, tags in simple:
        model.zero_grad()
        loss = loss_function(model(prepare_sequence(sentence, word_to_ix)), prepare_sequence(tags, tag_to_ix))
        loss.backward()
        optimizer.step()
print(loss)
with torch.no_grad():
    scores = model(prepare_sequence(simple[0][0], word_to_ix))
    print(scores)
    print([list(tag_to_ix)[i] for i in scores.argmax(1)])

chunks = [("the wall street journal reported today that apple made money".split(), "B I I I O O O B O O".split()),
          ("georgia tech is a university in georgia".split(), "B I O O O O B".split())]
word_to_ix = {}
for sentence, tags in chunks:
    for word in sentence:
        word_to_ix.setdefault(word, len(word_to_ix))
tag_to_ix = {"B": 0, "I": 1, "O": 2, START_TAG: 3, STOP_TAG: 4}
model = BiLSTM_CRF(len(word_to_ix), tag_to_ix, 5, 4)
optimizer = optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)
check = prepare_sequence(chunks[0][0], word_to_ix)
with torch.no_grad():
    print(model(check))
for epoch in range(6):
    for sentence, tags in chunks:
        model.zero_grad()
        targets = torch.tensor([tag_to_ix[t] for t in tags], dtype=torch.long)
        loss = model.neg_log_likelihood(prepare_sequence(sentence, word_to_ix), targets)
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.4f}")
with torch.no_grad():
    print(model(check))
print(model)
