"""nn.Transformer's parts: a language model with positions in a buffer, masks, and an encoder-decoder."""
import math
import random

import torch
from torch import Tensor, nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer

rng = random.Random(4)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pe[:x.size(0)]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken: int, d_model: int, nhead: int, d_hid: int, nlayers: int, dropout: float = 0.0):
        super().__init__()
        self.model_type = "Transformer"
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        encoder_layers = TransformerEncoderLayer(d_model, nhead, d_hid, dropout)
        self.transformer_encoder = TransformerEncoder(encoder_layers, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)
        self.init_weights()

    def init_weights(self) -> None:
        initrange = 0.1
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-initrange, initrange)

    def forward(self, src: Tensor, src_mask: Tensor = None) -> Tensor:
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src)).to(src.device)
        output = self.transformer_encoder(src, src_mask)
        return self.linear(output)


def reset(model):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor([rng.gauss(0, 0.15) for _ in range(p.numel())]).view_as(p))
    return model


ntokens = 12
model = reset(TransformerModel(ntokens, 16, 2, 24, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.95)
for epoch in range(4):
    model.train()
    sequence = [(i * 5 + epoch) % ntokens for i in range(8 * 4 + 1)]
    data = torch.tensor(sequence[:-1]).view(4, 8).t().contiguous()
    targets = torch.tensor(sequence[1:]).view(4, 8).t().reshape(-1)
    output = model(data)
    loss = criterion(output.view(-1, ntokens), targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    print(f"{epoch} {loss.item():.4f} {scheduler.get_last_lr()[0]:.4f} {math.exp(loss.item()):.3f}")
print(list(model.state_dict())[:4], model.transformer_encoder.layers[0].linear1)

transformer = reset(nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16,
                                   dropout=0.0, batch_first=True))
src = torch.tensor([rng.gauss(0, 1) for _ in range(2 * 5 * 8)]).view(2, 5, 8)
tgt = torch.tensor([rng.gauss(0, 1) for _ in range(2 * 4 * 8)]).view(2, 4, 8)
padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
out = transformer(src, tgt, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4),
                  src_key_padding_mask=padding, memory_key_padding_mask=padding)
print(out.shape, out.sum(-1)[0, :2])
out.pow(2).mean().backward()
print(transformer.encoder.layers[0].self_attn.in_proj_weight.grad.norm().item() > 0)
mha = reset(nn.MultiheadAttention(8, 2, batch_first=True))
y, w = mha(src, src, src, key_padding_mask=padding)
print(y.shape, w.shape, w[1, 0, 3:].tolist(), mha(src, src, src, need_weights=False)[1])
print(mha)
