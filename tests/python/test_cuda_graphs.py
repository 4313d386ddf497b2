"""cairn.cuda.CUDAGraph and its kin, on a device that the processor stands for."""
import unittest

import emulated

TRAINING = """
    import cairn
    from cairn import nn

    def make():
        cairn.manual_seed(3)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 2)).to("cuda")
        return net, cairn.optim.%s(net.parameters(), lr=0.05)

    def step(net, optimizer, x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        return (cairn.arange(12.0).reshape(3, 4) * (0.1 + i)).sin(), (cairn.arange(6.0).reshape(3, 2) + i).cos()

    def run(graphed):
        net, optimizer = make()
        losses = []
        x, y = (t.to("cuda") for t in batch(0))
        side = cairn.cuda.Stream()
        side.wait_stream(cairn.cuda.current_stream())
        with cairn.cuda.stream(side):
            for i in range(2):
                step(net, optimizer, x, y)
        cairn.cuda.current_stream().wait_stream(side)
        g = cairn.cuda.CUDAGraph()
        if graphed:
            optimizer.zero_grad(set_to_none=True)
            with cairn.cuda.graph(g):
                assert cairn.cuda.is_current_stream_capturing()
                loss = step(net, optimizer, x, y)
            assert not cairn.cuda.is_current_stream_capturing()
            place = loss.data_ptr()
        for i in range(4):
            for group in optimizer.param_groups:
                group["lr"] = 0.05 / (1 + i)
            for static, fresh in zip((x, y), batch(i)):
                static.copy_(fresh)
            if graphed:
                g.replay()
                assert loss.data_ptr() == place
            else:
                loss = step(net, optimizer, x, y)
            losses.append(loss.item())
        return losses, [p.tolist() for p in net.parameters()], [p.grad.tolist() for p in net.parameters()]

    plain, graphed = run(False), run(True)
    assert plain == graphed, (plain, graphed)
    print(len(set(plain[0])))
"""

MEMORY = """
    import cairn
    x = cairn.ones(5, device="cuda")
    pool = cairn.cuda.graph_pool_handle()
    first, second = cairn.cuda.CUDAGraph(), cairn.cuda.CUDAGraph()
    with cairn.cuda.graph(first, pool=pool):
        y = x * 2
    with cairn.cuda.graph(second, pool=first.pool()):
        z = y + 1
    for value in (1.0, 4.0):
        x.fill_(value)
        first.replay()
        second.replay()
        print(z.tolist()[0])
    with_own = cairn.cuda.CUDAGraph()
    with_own.capture_begin(capture_error_mode="thread_local")
    w = cairn.rand(3, device="cuda")
    with_own.capture_end()
    cairn.manual_seed(1)
    want = [cairn.rand(3, device="cuda").tolist() for _ in range(2)]
    cairn.manual_seed(1)
    have = []
    for _ in range(2):
        with_own.replay()
        have.append(w.tolist())
    assert want == have and want[0] != want[1], (want, have)
    first.reset()
    second.reset()
    x.fill_(9.0)
    print(z.tolist()[0])
    with_own.reset()

    def raises(kind, text, function, *args, **named):
        try:
            function(*args, **named)
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)

    raises(RuntimeError, "nothing was captured", first.replay)
    raises(RuntimeError, "no capture was begun", first.capture_end)
    raises(RuntimeError, "capture_error_mode", first.capture_begin, capture_error_mode="none")
    raises(TypeError, "pool", first.capture_begin, pool=3)

    def read():
        with cairn.cuda.graph(first):
            (x + 1).sum().item()

    def wait():
        with cairn.cuda.graph(first):
            cairn.cuda.synchronize()

    def count():
        with cairn.cuda.graph(first):
            x.nonzero()

    for function in (read, wait, count):
        raises(RuntimeError, "cannot be recorded", function)
        assert not cairn.cuda.is_current_stream_capturing()
    number = cairn.tensor(1.0)  # in host memory: what it is when the graph runs
    with cairn.cuda.graph(first):
        u = x - number
    for _ in range(2):
        first.replay()
        print(u.tolist()[0])
        number += 1
"""

CALLABLES = """
    import cairn
    from cairn import nn

    def function(a, b):
        return (a * b).sum(), a + b

    a, b = cairn.ones(3, device="cuda"), cairn.full((3,), 2.0, device="cuda", requires_grad=True)
    graphed = cairn.cuda.make_graphed_callables(function, (a, b))
    total, both = graphed(a * 3, b)
    (total + both.sum()).backward()
    assert (total.item(), both.tolist(), b.grad.tolist()) == (18.0, [5.0] * 3, [4.0] * 3)
    try:
        graphed(cairn.ones(4, device="cuda"), b)
    except RuntimeError as error:
        assert "sample arguments" in str(error)
    else:
        raise AssertionError
    cairn.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to("cuda")
    x = cairn.ones(2, 3, device="cuda")
    net(x).sum().backward()
    want = [p.grad.tolist() for p in net.parameters()]
    net.zero_grad()
    net = cairn.cuda.make_graphed_callables(net, (x,))
    assert all(p.grad is None for p in net.parameters())
    net(x).sum().backward()
    assert want == [p.grad.tolist() for p in net.parameters()]
    net.eval()
    net(cairn.ones(5, 3, device="cuda"))  # as it is
    with cairn.amp.autocast("cuda", cairn.bfloat16):
        low = cairn.cuda.make_graphed_callables(nn.Linear(3, 1).to("cuda"), (x,))
        for _ in range(2):  # with the weights of each call
            want = cairn.nn.functional.linear(x, low.weight, low.bias)
            assert low(x).dtype == cairn.bfloat16 and low(x).tolist() == want.tolist()
            with cairn.no_grad():
                low.weight += 1
    hooked = nn.Linear(3, 1).to("cuda")
    hooked.register_forward_hook(lambda *_: None)
    for given in (hooked, (hooked,)):
        try:
            cairn.cuda.make_graphed_callables(given, (x,) if given is hooked else ((x,),))
        except RuntimeError as error:
            assert "hooks" in str(error)
        else:
            raise AssertionError
    print("done")
"""


KERNEL = """
    import ctypes, cairn
    text = '''
    struct job {
      float *x;
      long long n;
      float by;
    };
    extern "C" __global__ void __launch_bounds__(64) scale(const __grid_constant__ job j)
    {
      for (long long i = blockIdx.x * 64 + threadIdx.x; i < j.n; i += gridDim.x * 64) j.x[i] *= j.by;
    }
    '''

    class Job(ctypes.Structure):
        _fields_ = [("x", ctypes.c_void_p), ("n", ctypes.c_longlong), ("by", ctypes.c_float)]

    scale = cairn.cuda.compile_kernel(text, "scale")
    x = cairn.arange(100.0).to("cuda")
    job = Job(x.data_ptr(), 100, 2.0)
    scale((2,), (64,), [job])
    print(x.tolist()[:3], (x + 1).sum().item())
    g = cairn.cuda.CUDAGraph()
    with cairn.cuda.graph(g):
        y = x + 0
        scale((1, 1, 1), (64, 1, 1), [Job(y.data_ptr(), 100, 0.5)])
    g.replay()
    print(y.tolist()[:3])
    for error, call in ((RuntimeError, lambda: cairn.cuda.compile_kernel("no kernel", "scale")),
                        (TypeError, lambda: scale((1,), (64,), ["text"])),
                        (ValueError, lambda: scale((1,), (64,), [cairn.ones(3)]))):
        try:
            call()
        except error as raised:
            print(str(raised)[:30])
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestGraphs(unittest.TestCase):
    def test_training_step_with_sgd(self):
        self.assertEqual(emulated.run(TRAINING % "SGD"), "4\n")

    def test_training_step_with_adam(self):
        self.assertEqual(emulated.run(TRAINING % "Adam"), "4\n")

    def test_memory_and_refusals(self):
        self.assertEqual(emulated.run(MEMORY).split(), ["3.0", "9.0", "9.0", "8.0", "7.0"])

    def test_kernels_of_a_program(self):
        lines = emulated.run(KERNEL).splitlines()
        self.assertEqual(lines[:2], ["[0.0, 2.0, 4.0] 10000.0", "[0.0, 1.0, 2.0]"])
        self.assertRegex(lines[2], "cuda: kernel scale did not com")
        self.assertEqual(len(lines), 5)

    def test_callables(self):
        self.assertEqual(emulated.run(CALLABLES), "done\n")


if __name__ == "__main__":
    unittest.main()
