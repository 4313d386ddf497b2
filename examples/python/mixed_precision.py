"""The same network trained in float32, in bfloat16 and in float16 with loss scaling.

    python3 mixed_precision.py [DEVICE]
"""
import sys

import cairn
import cairn.nn.functional as F
from cairn import nn


def train(device: str, dtype: cairn.dtype | None) -> tuple[float, list[float]]:
    """The last loss, and how the scale of the loss went."""
    cairn.manual_seed(3)
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)).to(device)
    x = cairn.randn(256, 16, device=device)
    y = (x[:, :4] + 0.5 * x[:, 4:8]).argmax(1)
    optimizer = cairn.optim.AdamW(net.parameters(), lr=3e-3)
    scaler = cairn.amp.GradScaler(device, init_scale=2.0 ** 24, growth_interval=20, enabled=dtype == cairn.float16)
    scales = []
    for _ in range(60):
        optimizer.zero_grad()
        with cairn.autocast(device, dtype=dtype or cairn.bfloat16, enabled=dtype is not None):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return loss.item(), scales


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    for dtype in (None, cairn.bfloat16, cairn.float16):
        loss, scales = train(device, dtype)
        print(f"{dtype or 'cairn.float32'}: loss {loss:.2f}, scale from {scales[0]:.0f} to {scales[-1]:.0f}")


if __name__ == "__main__":
    main()
