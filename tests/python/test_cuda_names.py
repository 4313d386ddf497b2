"""Names of torch.cuda beyond tensors and streams, on the emulated driver: snapshots of memory, pinned memory's counts,
waits that warn or fail, a few functions of the runtime library, which devices are visible; and what they say where
there is no device."""
import os
import unittest

import emulated

SNAPSHOT = """
    import cairn
    c = cairn.cuda
    small = cairn.zeros(1000, device="cuda")
    large = cairn.empty(3 << 20, dtype=cairn.uint8, device="cuda")
    shown = c.memory_snapshot()
    stats = c.memory_stats()
    for key, name in (("total_size", "reserved_bytes"), ("allocated_size", "active_bytes"),
                      ("requested_size", "requested_bytes")):
        assert sum(s[key] for s in shown) == stats[name + ".all.current"], (key, shown)
    assert {s["segment_type"] for s in shown} == {"small", "large"}
    blocks = {b["address"]: b for s in shown for b in s["blocks"]}
    assert blocks[large.data_ptr()]["state"] == "active_allocated"
    assert blocks[large.data_ptr()]["requested_size"] == 3 << 20
    assert blocks[small.data_ptr()]["frames"][0]["name"] == "full", blocks[small.data_ptr()]
    for s in shown:
        at = s["address"]
        for b in s["blocks"]:
            assert b["address"] == at, s
            at += b["size"]
        assert at == s["address"] + s["total_size"] and s["device"] == 0
    was = large.data_ptr()
    del large
    after = {b["address"]: b["state"] for s in c.memory_snapshot() for b in s["blocks"]}
    assert after.get(was, "inactive") == "inactive"

    before = c.memory_allocated()
    at = c.caching_allocator_alloc(5000)
    with c.stream(c.Stream()) as _:
        other = c.caching_allocator_alloc(7000, stream=c.current_stream())
    assert at != other and c.memory_allocated() >= before + 12000
    c.caching_allocator_delete(at)
    c.caching_allocator_delete(other)
    assert c.memory_allocated() == before
    for wrong, error in ((lambda: c.caching_allocator_delete(at), RuntimeError),
                         (lambda: c.caching_allocator_alloc(1, stream="s"), TypeError),
                         (lambda: c.caching_allocator_enable(False), RuntimeError),
                         (c.caching_allocator_disabled, RuntimeError), (c.MemPool, NotImplementedError),
                         (lambda: c.use_mem_pool(None), NotImplementedError),
                         (lambda: c.change_current_allocator(None), NotImplementedError),
                         (lambda: c.memory_snapshot((0, 1)), NotImplementedError),
                         (c.current_blas_handle, RuntimeError), (c.current_solver_handle, RuntimeError)):
        try:
            wrong()
        except error as e:
            assert str(e)
        else:
            raise AssertionError(wrong)
    c.caching_allocator_enable(True)
    print(c.get_allocator_backend())
"""

HISTORY = """
    import os, pickle, tempfile
    import cairn
    m = cairn.cuda.memory
    cairn.zeros(4, device="cuda")
    assert m._snapshot()["device_traces"] == [[]]
    m._record_memory_history(max_entries=1000)
    x = cairn.ones(1000, device="cuda")
    at = x.data_ptr()
    del x
    m._record_memory_history(max_entries=1000)  # what was kept stays
    shown = m._snapshot()
    trace, = shown["device_traces"]
    own = [e for e in trace if e.get("addr") == at]
    assert [e["action"] for e in own] == ["alloc", "free_requested", "free_completed"], own
    assert all(e["size"] == 4000 and e["frames"][0]["name"] == "full" for e in own), own
    assert [e["time_us"] for e in trace] == sorted(e["time_us"] for e in trace)
    assert shown["segments"] == m.memory_snapshot()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump.pickle")
        m._dump_snapshot(path)
        with open(path, "rb") as file:
            assert pickle.load(file)["device_traces"][0][:len(trace)] == trace
    m._record_memory_history(True, trace_alloc_max_entries=5, skip_actions=["free_requested"])
    for _ in range(9):
        cairn.ones(1000, device="cuda")
    last, = m._snapshot()["device_traces"]
    assert {e["action"] for e in last} == {"alloc", "free_completed"} and len(last) == 5, last
    m._record_memory_history(None)
    assert m._snapshot()["device_traces"] == [[]]
    for wrong in (lambda: m._record_memory_history("some"), lambda: m._record_memory_history(record_cuda=False),
                  lambda: m._snapshot(augment_with_fx_traces=True)):
        try:
            wrong()
        except (RuntimeError, NotImplementedError) as e:
            assert str(e)
        else:
            raise AssertionError(wrong)
    print("done")
"""

PINNED = """
    import cairn
    c = cairn.cuda
    cairn.empty(1, device="cuda")
    c.reset_accumulated_host_memory_stats()
    before = c.host_memory_stats()
    x = cairn.empty(100_000, dtype=cairn.uint8).pin_memory()
    y = cairn.empty(5000, dtype=cairn.uint8).pin_memory()
    during = c.host_memory_stats()
    del x
    after = c.host_memory_stats()
    grew = {k: during[k] - before[k] for k in before}
    assert grew["allocations.current"] == grew["active_requests.current"] == grew["num_host_alloc"] == 2, grew
    assert grew["active_bytes.current"] >= 105_000 and grew["active_bytes.current"] == grew["allocated_bytes.current"]
    assert after["allocations.current"] == during["allocations.current"]  # kept
    assert after["active_requests.current"] == during["active_requests.current"] - 1
    assert after["active_requests.freed"] == before["active_requests.freed"] + 1
    assert after["active_requests.peak"] == during["active_requests.current"]
    c.reset_peak_host_memory_stats()
    assert c.host_memory_stats()["active_requests.peak"] == after["active_requests.current"]
    c.reset_accumulated_host_memory_stats()
    again = c.host_memory_stats()
    assert again["num_host_alloc"] == again["active_requests.freed"] == 0
    assert c.host_memory_stats_as_nested_dict()["active_bytes"]["current"] >= 5000
    print("done")
"""

WAITS = """
    import warnings, cairn
    c = cairn.cuda
    x = cairn.arange(4.0).to("cuda")
    waiting = {"item": lambda: x[1].item(), "cpu": lambda: x.cpu(), "nonzero": lambda: x.nonzero(),
               "masked_select": lambda: x[x > 1], "stream": c.Stream().synchronize}
    free = {"add": lambda: x + 1, "to": lambda: cairn.ones(3).to("cuda"), "all": c.synchronize,
            "own": c.current_stream().synchronize,
            "event": lambda: c.current_stream().record_event().synchronize()}
    assert c.get_sync_debug_mode() == 0
    for call in (*waiting.values(), *free.values()):
        call()
    c.set_sync_debug_mode("warn")
    assert c.get_sync_debug_mode() == 1
    for name, call in waiting.items():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
        assert any("waits for the device" in str(w.message) for w in seen), (name, seen)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in free.values():
            call()
    c.set_sync_debug_mode(2)
    for name, call in waiting.items():
        try:
            call()
        except RuntimeError as e:
            assert "would wait for the device" in str(e), (name, e)
        else:
            raise AssertionError(name)
    for call in free.values():
        call()
    for wrong in ("loud", 3, -1):
        try:
            c.set_sync_debug_mode(wrong)
        except RuntimeError as e:
            assert "debug_mode" in str(e)
        else:
            raise AssertionError(wrong)
    c.set_sync_debug_mode("default")
    print(x[3].item())
"""

RUNTIME = """
    import cairn
    c = cairn.cuda
    rt = c.cudart()
    assert rt.cudaMemGetInfo(0) == c.mem_get_info()
    assert rt.cudaGetErrorString(rt.cudaError.success) == "no error"
    x = cairn.empty(4096)
    assert rt.cudaHostRegister(x.data_ptr(), 4 * x.numel(), 0) == 0
    code = rt.cudaHostRegister(x.data_ptr(), 4 * x.numel(), 0)
    try:
        c.check_error(code)
    except c.CudaError as e:
        assert isinstance(e, RuntimeError) and "already mapped (712)" in str(e), e
    else:
        raise AssertionError(code)
    c.check_error(rt.cudaHostUnregister(x.data_ptr()))
    try:
        rt.cudaMalloc
    except AttributeError as e:
        assert "cudaMemGetInfo" in str(e)
    else:
        raise AssertionError
    assert not isinstance(x.storage(), c.FloatStorage) and isinstance(x.to("cuda").storage(), c.FloatStorage)
    assert not isinstance(x.to("cuda").storage(), c.HalfStorage)
    p = c.get_device_properties()
    assert (p.warp_size, p.max_threads_per_block, p.pci_bus_id, p.is_integrated) == (32, 1024, 0, 0), p
    assert p.shared_memory_per_block_optin >= p.shared_memory_per_block > 0
    assert p.uuid == "00000000-5174-0000-0000-000000000000", p
    capability = cairn.accelerator.get_device_capability()["supported_dtypes"]
    assert {cairn.float16, cairn.int64, cairn.bool} <= capability
    graph, z = cairn.accelerator.Graph(), cairn.zeros(4, device="cuda")
    with cairn.Stream("cuda"), graph:
        z += 2
    graph.replay(), graph.replay()
    assert z.tolist() == [4.0] * 4
    assert c.Stream.priority_range() == (0, -5)
    s, g = c.Stream(priority=-1), c.CUDAGraph()
    assert (s.device_index, s.device_type, s.stream_id) == (0, "cuda", s.cuda_stream) and not s.is_capturing()
    with c.graph(g, stream=s):
        captured = s.is_capturing(), c.current_stream().is_capturing(), c.Stream().is_capturing()
    assert captured == (True, True, False) and not s.is_capturing(), captured
    assert c.default_generators == (cairn.default_generator,)
    assert c.list_gpu_processes() == "GPU:0\\nprocess       4321 uses        3.000 MB GPU memory"
    from cairn.backends import cuda as b
    q = cairn.randn(1, 2, 8, 16, device="cuda")
    state = cairn.get_rng_state()
    assert not b.can_use_flash_attention(b.SDPAParams(q.cpu(), q.cpu(), q.cpu(), None, 0.0, False, False))
    low = q.half()
    taken = [can(b.SDPAParams(t, t, t, None, 0.0, True, False))
             for can in (b.can_use_flash_attention, b.can_use_efficient_attention, b.can_use_cudnn_attention)
             for t in (low, q.double())]
    assert taken == [True, False] * 3, taken
    assert bool((state == cairn.get_rng_state()).all())
    for call in (lambda: b.cufft_plan_cache.size, b.cufft_plan_cache.clear, lambda: b.cufft_plan_cache[0],
                 b.cublas_workspace_size, lambda: b.cublaslt_workspace_size(1)):
        try:
            call()
        except NotImplementedError as e:
            assert str(e)
        else:
            raise AssertionError(call)
    print("done")
"""

EXCHANGED = """
    import ctypes
    import cairn
    x = cairn.arange(6.0).to("cuda")
    counts = (ctypes.c_uint64 * 8).in_dll(ctypes.CDLL("libcuda.so.1"), "simt_counts")  # of tests/simt/simt_driver.h

    def waits(**words):
        before = counts[5]
        capsule = x.__dlpack__(**words)
        now = counts[5] - before
        assert cairn.from_dlpack(capsule).tolist() == list(range(6))
        return now

    own, other = cairn.cuda.current_stream().cuda_stream, cairn.cuda.Stream()
    for more in ({}, {"copy": True}):
        print([waits(stream=s, **more) for s in (own, -1, None, 1, other.cuda_stream)])
    with other:
        print(waits(stream=own), waits(stream=other.cuda_stream))
    print(waits(dl_device=(1, 0), stream=None) >= 1)
    try:
        cairn.ones(2).__dlpack__(stream=own)
    except (ValueError, RuntimeError) as e:
        print("CPU" in str(e))
"""

VISIBLE = """
    import cairn
    c = cairn.cuda
    names = [c.get_device_name(i) for i in range(c.device_count())]
    busy = [c.utilization(i) for i in range(c.device_count())]
    sums = [float((cairn.arange(4.0).to(f"cuda:{i}") + i).sum()) for i in range(c.device_count())]
    print(names, busy, sums, c.is_available())
"""

NONE = """
    import os
    import cairn
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before the first question
    c = cairn.cuda
    assert not c.is_available() and c.device_count() == 0 and c.memory_snapshot() == []
    assert c.host_memory_stats() == {} and c.get_sync_debug_mode() == 0 and c.default_generators == ()
    for call in (c.cudart, c.init, lambda: c.set_sync_debug_mode(1), lambda: c.caching_allocator_alloc(1),
                 lambda: cairn.ones(1, device="cuda")):
        try:
            call()
        except RuntimeError as e:
            print(e)
        else:
            raise AssertionError(call)
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestNames(unittest.TestCase):
    def test_snapshots_and_blocks_of_others(self):
        self.assertEqual(emulated.run(SNAPSHOT), "native\n")

    def test_history(self):
        self.assertEqual(emulated.run(HISTORY), "done\n")

    def test_pinned_memory(self):
        self.assertEqual(emulated.run(PINNED), "done\n")

    def test_waits(self):
        self.assertEqual(emulated.run(WAITS), "3.0\n")

    def test_exchange(self):
        """Memory is handed to other libraries behind the work that makes it, and without a wait in the same stream."""
        self.assertEqual(emulated.run(EXCHANGED), "[0, 0, 1, 1, 1]\n[0, 0, 1, 1, 1]\n1 0\nTrue\nTrue\n")

    def test_runtime(self):
        self.assertEqual(emulated.run(RUNTIME), "done\n")


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestVisibleDevices(unittest.TestCase):
    """What CUDA_VISIBLE_DEVICES lists of three devices, in that order, up to the first word that names none."""

    def check(self, listed, *devices):
        more = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
        names = ["emulated %d" % d for d in devices]
        sums = [6.0 + 4 * i for i in range(len(devices))]
        self.assertEqual(emulated.run(VISIBLE, SIMT_DEVICES="3", **more),
                         "%s %s %s %s\n" % (names, [73] * len(devices), sums, bool(devices)))

    @unittest.skipIf("CUDA_VISIBLE_DEVICES" in os.environ, "devices are hidden here already")
    def test_all(self):
        self.check(None, 0, 1, 2)

    def test_order(self):
        self.check("2,0", 2, 0)

    def test_unique_names(self):
        self.check("GPU-00000001,GPU-00000002-5174-0000-0000-000000000000", 1, 2)

    def test_words_that_name_none(self):
        self.check("1,7,0", 1)
        self.check("")
        self.check("-1,0")
        self.check("GPU-ffff")

    def test_without_one(self):
        said = emulated.run(NONE).splitlines()
        self.assertEqual(len(said), 5)
        for line in said:
            self.assertRegex(line, "no CUDA device|is not there")


if __name__ == "__main__":
    unittest.main()
