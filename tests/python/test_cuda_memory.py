"""cairn.cuda's memory: what is counted, the limit, and running out, on the emulated driver."""
import json
import unittest

import emulated

COUNTED = """
    import json, cairn
    c = cairn.cuda
    cairn.empty(1, device="cuda")
    c.empty_cache()
    c.reset_peak_memory_stats()
    before = c.memory_stats()
    x = cairn.empty(1000, device="cuda")
    y = cairn.empty(3 << 20, dtype=cairn.uint8, device="cuda")
    during = c.memory_stats()
    del y
    after = c.memory_stats()
    assert c.memory_allocated() == after["allocated_bytes.all.current"]
    assert c.max_memory_allocated() == after["allocated_bytes.all.peak"]
    assert c.memory_reserved() == after["reserved_bytes.all.current"]
    assert c.max_memory_reserved() == after["reserved_bytes.all.peak"]
    nested = c.memory_stats_as_nested_dict()
    assert nested["segment"]["large_pool"]["freed"] == after["segment.large_pool.freed"]
    assert "segments" in c.memory_summary() and "large pool" not in c.memory_summary(abbreviated=True)
    print(json.dumps([before, during, after]))
    c.reset_accumulated_memory_stats()
    z = cairn.empty(1000, device="cuda")
    again = c.memory_stats()
    assert again["allocation.all.allocated"] == 1 and again["allocation.all.freed"] == 0, again
    assert again["allocation.all.current"] == after["allocation.all.current"] + 1
    assert (again["num_device_alloc"], again["num_ooms"], again["num_alloc_retries"]) == (0, 0, 0)
    del x
    assert c.memory_stats()["allocation.all.freed"] == 1
    assert c.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["allocated"] >= 4000
"""

LIMITED = """
    import cairn
    c = cairn.cuda
    _, total = c.mem_get_info()
    for wrong, error in ((1.5, ValueError), (-0.1, ValueError), ("half", TypeError)):
        try:
            c.set_per_process_memory_fraction(wrong)
        except error as e:
            assert "set_per_process_memory_fraction" in str(e)
        else:
            raise AssertionError(wrong)
    c.set_per_process_memory_fraction(1 / 64)
    assert c.get_per_process_memory_fraction() == 1 / 64
    x = cairn.empty(total // 64 - (32 << 20), dtype=cairn.uint8, device="cuda")
    try:
        cairn.empty(33 << 20, dtype=cairn.uint8, device="cuda")
    except cairn.OutOfMemoryError as e:
        assert isinstance(e, c.OutOfMemoryError) and isinstance(e, RuntimeError), e
        print(e)
    del x
    y = cairn.empty(33 << 20, dtype=cairn.uint8, device="cuda")
    assert c.max_memory_reserved() <= total // 64
    print(c.memory_stats()["num_ooms"])
    c.set_per_process_memory_fraction(0.0)
    try:
        cairn.empty(64 << 20, dtype=cairn.uint8, device="cuda")
    except c.OutOfMemoryError:
        c.set_per_process_memory_fraction(1)
        print(cairn.empty(64 << 20, dtype=cairn.uint8, device="cuda").numel())
"""


@unittest.skipIf(emulated.missing(), emulated.REASON)
class TestMemory(unittest.TestCase):
    def test_counted(self):
        before, during, after = json.loads(emulated.run(COUNTED))

        def gained(name, now, then=before):
            return now[name] - then[name]

        self.assertEqual(gained("allocated_bytes.all.current", during), 4000 + (3 << 20))
        self.assertEqual(gained("requested_bytes.small_pool.current", during), 4000)
        self.assertEqual(gained("active_bytes.small_pool.current", during), 4096)
        self.assertEqual(gained("allocation.all.current", during), 2)
        self.assertEqual(gained("allocation.large_pool.allocated", after), 1)
        self.assertEqual(gained("allocation.large_pool.freed", after), 1)
        self.assertEqual(gained("allocation.large_pool.current", after), 0)
        self.assertEqual(gained("segment.all.current", during), 2)
        self.assertEqual(gained("reserved_bytes.large_pool.current", during), 20 << 20)
        self.assertEqual(during["inactive_split_bytes.large_pool.current"], 17 << 20)
        self.assertEqual(gained("num_device_alloc", after), 2)
        self.assertEqual(after["allocated_bytes.all.peak"], during["allocated_bytes.all.current"])

    def test_limit(self):
        said, failures, numel = emulated.run(LIMITED).splitlines()
        self.assertRegex(said, r"empty: out of memory on cuda:0: 33\.00 MiB wanted; the device has 4\.00 GiB, .* free; "
                               r"cairn took 32\.00 MiB of at most 64\.00 MiB: 32\.00 MiB in use, .* kept for reuse .*"
                               r"Largest holders: 32\.00 MiB by empty \(1 block, the largest 32\.00 MiB\)")
        self.assertEqual((failures, numel), ("1", str(64 << 20)))

    def test_readings(self):
        self.assertEqual(emulated.run("""
            import cairn
            c = cairn.cuda
            with c.profiler.profile():
                print(c.utilization(), c.memory_usage("cuda:0"), c.temperature(), c.power_draw(0), c.clock_rate())
            x = cairn.empty(3 << 20, dtype=cairn.uint8, device="cuda")
            assert c.device_memory_used() == c.memory_reserved() >= 3 << 20
            s, e = c.Stream(), c.Event(enable_timing=True)
            assert (s.stream_id, s.native_handle, s.device_type) == (s.cuda_stream, s.cuda_stream, "cuda")
            assert c.get_stream_from_external(c.default_stream().cuda_stream) == c.default_stream() != s
            assert c.is_tf32_supported()
            print(c.get_gencode_flags(), c.get_device_properties().warp_size)
            """), "73 21 41 98765 1980\n-gencode compute=compute_90,code=sm_90 32\n")


if __name__ == "__main__":
    unittest.main()
