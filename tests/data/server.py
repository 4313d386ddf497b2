#!/usr/bin/env python3
"""A small HTTP server on loopback for test_download.c: files with and without ranges, connections that break off,
redirections. Prints its port, then serves until its standard input ends.

The content of a file of version v is (i * i >> 3) + v, byte by byte.
"""
import http.server
import re
import sys
import threading
import time

SIZE = 300000
counts = {}
lock = threading.Lock()


def content(version=0):
    return bytes(((i * i >> 3) + version) & 255 for i in range(SIZE))


WHOLE = [content(0), content(1)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("Connection", "close")
        super().end_headers()

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/count":
            name = self.path.split("?")[1]
            self.whole(str(counts.get("/" + name, 0)).encode())
            return
        with lock:
            counts[path] = counts.get(path, 0) + 1
        name = re.sub(r"[^a-z]", "_", path[1:].split(".")[0])
        method = getattr(self, name, None)
        if method:
            method(counts[path])
        else:
            self.send_error(404)
        self.close_connection = True

    def whole(self, data, etag=None, send=None):
        """All of the data, or the promise of it and `send` bytes."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        self.wfile.write(data if send is None else data[:send])

    def ranged(self, data, etag='"v0"', send=None):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not asked or self.headers.get("If-Range", etag) != etag:
            self.whole(data, etag, send)
            return
        begin = int(asked.group(1))
        if begin >= len(data):
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:] if send is None else data[begin:begin + send])

    def file(self, _):
        self.ranged(WHOLE[0])

    def breaks(self, n):
        self.ranged(WHOLE[0], send=SIZE // 2 if n == 1 else None)

    def crumbs(self, _):
        self.ranged(WHOLE[0], send=SIZE // 8)

    def norange(self, n):
        self.whole(WHOLE[0], send=SIZE // 2 if n == 1 else None)

    def never(self, _):
        self.whole(WHOLE[0], send=SIZE // 2)

    def changes(self, n):
        version = 0 if n == 1 else 1
        self.ranged(WHOLE[version], f'"v{version}"', send=SIZE // 2 if n == 1 else None)

    def dead(self, _):
        pass

    def slow(self, _):
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        for i in range(0, SIZE, SIZE // 10):
            self.wfile.write(WHOLE[0][i:i + SIZE // 10])
            time.sleep(0.05)

    def moved(self, _, to="/file.bin"):
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def loop(self, _):
        self.moved(0, "/loop.bin")

    def local(self, _):
        self.moved(0, "file:///etc/hostname")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that go away are part of the test


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
