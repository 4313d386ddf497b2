"""Compiles and runs StableHLO texts by jaxlib's CPU client, for the PJRT plugin of the tests.

Started by plugin.c with one end of a socket pair: python server.py FD. Numbers are 8 bytes. A request is 'C', text: the
program's number comes back; or 'X', program, arguments: results come back. An answer begins with 0, or with the length
of an error's text.
"""

import socket
import struct
import sys

import ml_dtypes
import numpy as np

TYPES = [None, "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ml_dtypes.bfloat16]


class Server:
    """One client of XLA for CPUs, and the programs that were compiled."""

    def __init__(self, connection):
        import jax
        from jaxlib import xla_client

        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_enable_x64", True)
        self.jax, self.xla = jax, xla_client
        self.device = jax.devices("cpu")[0]
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

    def compile(self):
        text = self.bytes(self.number()).decode()
        program = self.device.client.compile_and_load(text, (self.device,), self.xla.CompileOptions())
        self.programs.append(program)
        self.send_number(0)
        self.send_number(len(self.programs) - 1)

    def execute(self):
        program = self.programs[self.number()]
        arguments = []
        for _ in range(self.number()):
            dtype = np.dtype(TYPES[self.number()])
            shape = [self.number() for _ in range(self.number())]
            array = np.frombuffer(self.bytes(self.number()), dtype).reshape(shape)
            arguments.append(self.jax.device_put(array, self.device))
        results = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
        arrays = [np.ascontiguousarray(np.asarray(r[0])) for r in results]
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
