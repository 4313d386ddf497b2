"""Compiles and runs StableHLO texts by jaxlib's CPU client, for the PJRT plugin of the tests.

Started by plugin.c with one end of a socket pair: python server.py FD. Numbers are 8 bytes. A request is 'C', text, how
many devices and which: the program's number comes back; or 'X', program, arguments: results come back. Each array comes
in as many parts as there are devices. An answer begins with 0, or with the length of an error's text.
"""

import os
import re
import socket
import struct
import sys

import ml_dtypes
import numpy as np

TYPES = [None, "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16]


HEAD = re.compile(r"@main\((.*?)\) -> ", re.S)
SHARDY = re.compile(r"#sdy\.sharding<@mesh, \[(.*?)\]>")
AXIS = re.compile(r'"(\w+)"=(\d+)')
TILES = re.compile(r"devices=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")


def numbers(text):
    return [int(n) for n in text.split(",")]


def factors(n):
    """The primes that it is made of; of 1 itself."""
    first = next((k for k in range(2, n) if n % k == 0), n)
    return [n] if first == n else [first] + factors(n // first)


class Server:
    """One client of XLA for CPUs, and the programs that were compiled."""

    def __init__(self, connection):
        os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
        import jax
        from jaxlib import xla_client

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)
        self.jax, self.xla = jax, xla_client
        self.devices = jax.devices("cpu")
        self.connection, self.programs = connection, []

    def number(self):
        return struct.unpack("<q", self.bytes(8))[0]

    def bytes(self, n):
        parts = []
        while n:
            part = self.connection.recv(min(n, 1 << 20))
            if not part:
                sys.exit(0)
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def send_number(self, n):
        self.connection.sendall(struct.pack("<q", n))

    def fail(self, error):
        text = str(error).encode()[:2900]
        self.send_number(len(text))
        self.connection.sendall(text)

    def named_sharding(self, text, devices, axes):
        """The same of Shardy's words, which name the axes."""
        dims = [tuple(re.findall(r'"(\w+)"', dim)) for dim in re.findall(r"\{(.*?)\}", SHARDY.search(text)[1])]
        mesh = self.jax.sharding.Mesh(np.array(devices).reshape(list(axes.values())), list(axes))
        tiles = [int(np.prod([axes[name] for name in dim], dtype=int)) for dim in dims]
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec(*dims)), tiles

    def sharding(self, text, devices):
        """How an argument lies, of what its attributes say: axes of a mesh, of prime sizes, for each dim."""
        found = TILES.search(text)
        sizes = numbers(found[2]) if found else [len(devices)]
        tiles = numbers(found[1]) if found else []
        parts = [["a%d_%d" % (i, k) for k in range(len(factors(size)))] for i, size in enumerate(sizes)]
        names = [name for i in (numbers(found[3]) if found and found[3] else range(len(sizes))) for name in parts[i]]
        size_of = {name: n for part, size in zip(parts, sizes) for name, n in zip(part, factors(size))}
        if "last_tile_dim_replicate" in text:
            tiles.pop()
        dims = []
        for tile in tiles:
            taken = []
            while tile > 1:
                taken.append(names.pop(0))
                tile //= size_of[taken[-1]]
            dims.append(tuple(taken))
        mesh = self.jax.sharding.Mesh(np.array(devices).reshape(list(size_of.values())), list(size_of))
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec(*dims)), tiles

    def compile(self):
        text = self.bytes(self.number()).decode()
        devices = tuple(self.devices[self.number()] for _ in range(self.number()))
        options = self.xla.CompileOptions()
        options.num_partitions = len(devices)
        options.executable_build_options.use_spmd_partitioning = len(devices) > 1
        axes = {name: int(n) for name, n in AXIS.findall(text[:text.index("@main(")])}
        options.executable_build_options.use_shardy_partitioner = bool(axes)
        program = self.devices[0].client.compile_and_load(text, devices, options)
        arguments = re.split(r"(?:^|, )%", HEAD.search(text)[1])[1:]
        lie = [self.named_sharding(a, devices, axes) if axes else self.sharding(a, devices) for a in arguments]
        self.programs.append((program, devices, lie))
        self.send_number(0)
        self.send_number(len(self.programs) - 1)

    def argument(self, devices, sharding, tiles):
        dtype = np.dtype(TYPES[self.number()])
        shape = [self.number() for _ in range(self.number())]
        parts = [self.jax.device_put(np.frombuffer(self.bytes(self.number()), dtype).reshape(shape), device)
                 for device in devices]
        whole = [n * (tiles[i] if i < len(tiles) else 1) for i, n in enumerate(shape)]
        return parts[0] if len(devices) == 1 else \
            self.jax.make_array_from_single_device_arrays(tuple(whole), sharding, parts)

    def execute(self):
        program, devices, shardings = self.programs[self.number()]
        arguments = [self.argument(devices, *shardings[i]) for i in range(self.number())]
        results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
        arrays = []
        for result in results:
            by_device = {part.device: part for part in result}
            arrays += [np.ascontiguousarray(np.asarray(by_device[device])) for device in devices]
        self.send_number(0)
        for array in arrays:
            self.send_number(array.nbytes)
            self.connection.sendall(array.tobytes())

    def serve(self):
        while True:
            request = chr(self.number())
            try:
                (self.compile if request == "C" else self.execute)()
            except Exception as error:  # whatever it is, the plugin reports it
                self.fail(error)


if __name__ == "__main__":
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()
