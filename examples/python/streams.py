"""Batches come to the device in one stream while another one computes with the batch before. Data loaders with
pin_memory=True do this by themselves; ../streams.c says more.

    python3 streams.py [DEVICE]

Without DEVICE that is the first CUDA device, or the CPU, where a stream stands for the only queue there is.
"""
import sys

import cairn

BATCHES, ROWS, COLUMNS = 6, 512, 256


def bring(i: int, device: cairn.device, copies: cairn.Stream, arrived: cairn.Event) -> cairn.Tensor:
    """Queues the copy of batch i, from memory that the device reads by itself; returns it, on the device."""
    host = cairn.full((ROWS, COLUMNS), 1.0 + i)
    if device.type != "cpu":
        host = host.pin_memory(device)
    with copies:
        x = host.to(device, non_blocking=True)
    arrived.record(copies)
    return x


def main() -> None:
    device = cairn.device(sys.argv[1] if len(sys.argv) > 1 else "cuda" if cairn.cuda.is_available() else "cpu")
    copies, work = cairn.Stream(device), cairn.Stream(device, priority=-1)  # work goes first
    arrived = cairn.Event(device)
    begun, done = (cairn.Event(device, enable_timing=True) for _ in range(2))

    weight = cairn.full((COLUMNS, 64), 0.5, device=device)
    arrived.record()  # the weight is made in the device's own stream: the other waits for it
    work.wait_event(arrived)
    weight.record_stream(work)

    sums = []
    begun.record(work)
    following = bring(0, device, copies, arrived)
    for i in range(BATCHES):
        x = following
        work.wait_event(arrived)  # the copy of this batch; the next one's begins at once
        x.record_stream(work)  # its memory is used again when both streams have come so far
        if i + 1 < BATCHES:
            following = bring(i + 1, device, copies, arrived)
        with work:
            sums.append((x @ weight).sum())
    done.record(work)
    work.synchronize()  # nothing above waited; failures of what was queued are raised here

    for i, total in enumerate(sums):
        print(f"batch {i}: {total.item():.0f}")
        assert total.item() == 0.5 * (1 + i) * COLUMNS * ROWS * 64
    assert begun.elapsed_time(done) >= 0  # milliseconds


if __name__ == "__main__":
    main()
