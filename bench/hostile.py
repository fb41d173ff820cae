"""The effect of hostile clients on others: every API operation with long, nested, repeated and slow input.

    python bench/hostile.py [RELEASE] [--bytes 2000000] [--honest 100000] [--slow 200]

The service runs with one worker, on this machine's loopback. During a hostile request, a separate process asks /health
repeatedly over new connections, and records the longest wait. Each line of the table is an operation and a kind of
input: the number of requests, their answers, the longest answer, and the longest wait of /health at the same time. Then
honest requests are sent together with slow clients of every kind. Without a release, the census of `ilba.datasets` is
published first.

The exit code is 1 if a hostile request was answered with 500 or not at all, or if an honest one failed.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import multiprocessing
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import httpx

from service_load import ask, memory, published
from support.serving import Server, serving

# What is repeated until it fills the place.
TEXTS = {
    "long": ["a", ",", " ", "%ED%95%9C", "%00", "é"],
    "nested": [",[", '["', '"",', "[", "RANGE(", "TOP(", "((", "%5B%22"],
    "repeated": ["*,", "?", "a*,", "TOP(1),", "RANGE(1,2),", "1,", "NA,"],
}
_ADDRESS = 59_000  # letters that an address may have


@dataclass
class Row:
    """What became of one kind of requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    health: float = 0.0

    def add(self, status: str, seconds: float, health: float) -> None:
        self.statuses[status] += 1
        self.slowest, self.health = max(self.slowest, seconds), max(self.health, health)


def _probe(host: str, port: int, control: Connection) -> None:
    """In a process of its own: ask /health until told to stop, and say the longest wait when asked."""
    asked = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    longest = 0.0
    while True:
        if control.poll(0.005):
            if control.recv() == "stop":
                return
            control.send(longest)
            longest = 0.0
        clock = time.perf_counter()
        with socket.create_connection((host, port), timeout=120) as raw:
            raw.sendall(asked)
            answer = raw.recv(4096)
        longest = max(longest, time.perf_counter() - clock if b" 200 " in answer[:20] else 999.0)


class Probe:
    """The longest wait for /health since it was asked last."""

    def __init__(self, address: str) -> None:
        host = urlsplit(address)
        self._control, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_probe, args=(host.hostname, host.port, theirs), daemon=True
        )
        self._process.start()
        self.longest()

    def longest(self) -> float:
        self._control.send("tell")
        if not self._control.poll(130):
            raise TimeoutError("/health was not answered, or the process that asks it ended")
        return float(self._control.recv())

    def stop(self) -> None:
        self._control.send("stop")
        self._process.join(130)


def operations(address: str) -> Iterator[tuple[str, str, dict[str, str], list[str]]]:
    """Each operation of the API from its own description: method, path, the parts of the path, its parameters."""
    told = httpx.get(f"{address}api/v2/openapi.json", timeout=60).json()
    for path, methods in told["paths"].items():
        for method in sorted(methods.keys() & {"get", "post"}):
            parts, names = {}, []
            for given in methods[method]["parameters"]:
                shared = given.get("$ref", "").rpartition("/")[2]
                parameter = told["components"]["parameters"][shared] if shared else given
                if parameter["in"] == "path":
                    parts[parameter["name"]] = next(iter(parameter.get("examples", {"x": None})), "x")
                elif parameter.get("style") == "deepObject":
                    names.append(f"{parameter['name']}[%]")
                else:
                    names.append(parameter["name"])
            yield method.upper(), path, parts, names


def addresses(path: str, parts: dict[str, str], names: list[str], variable: str) -> Iterator[tuple[str, str]]:
    """Hostile addresses of an operation, each with the kind of its input."""
    plain = path.format(**{name: quote(part, safe="") for name, part in parts.items()})
    for kind, texts in TEXTS.items():
        for text in texts:
            filled = quote(text, safe="%,*?()[]\"'") * (_ADDRESS // len(quote(text, safe="%,*?()[]\"'")))
            filled = filled.replace('"', "%22")[:_ADDRESS]
            for name in names or ["unknown"]:
                yield kind, f"{plain}?{name.replace('%', variable)}={filled}"
            for name in parts:
                others = {**{one: quote(part, safe="") for one, part in parts.items()}, name: filled[:1900]}
                yield kind, path.format(**others)
    for name in names:
        yield "repeated", f"{plain}?" + "&".join([f"{name.replace('%', variable)}=1"] * 5000)
    yield "repeated", f"{plain}?" + "&".join(f"p{number}=" for number in range(7000))


def bodies(size: int, variable: str) -> Iterator[tuple[str, bytes]]:
    """Hostile bodies, each with the kind of its input."""

    def asked(values: bytes, name: bytes = b"valueCodes") -> bytes:
        return b'{"selection":[{"variableCode":"%s","%s":%s}]}' % (variable.encode(), name, values)

    size -= 200
    for verb in (b"RANGE", b"TOP", b"BOTTOM", b"FROM", b"TO", b""):
        for text in (b",", b" ", b"a", b"1,", b"[,", b"(", b"*", b"?"):
            yield "long", asked(b'["%s(%s)"]' % (verb, text * (size // len(text))))
    yield "long", asked(b'"%s"' % (b"x" * size), b"codelist")
    yield "long", b'{"selection":[{"variableCode":"%s"}]}' % (b"x" * size)
    yield "long", b" " * size
    yield "long", b"\xff" * size
    yield "long", asked(b'["%s"]' % (b"\\u0000" * (size // 6)))
    for opened in (b"[", b'{"a":', b'{"selection":[', b'[{"selection":'):
        yield "nested", opened * (size // len(opened))
        yield "nested", b'{"selection":%s' % (opened * (size // len(opened)))
        yield "nested", b'{"placement":{"a":%s' % (opened * (size // len(opened)))
    for one in (b'"1"', b'"*"', b'"?"', b'"a*"', b'""', b'"TOP(1)"', b"1", b"null", b"[]"):
        yield "repeated", asked(b"[%s]" % b",".join([one] * (size // (len(one) + 1))))
    different = b",".join(b'"%d*"' % number for number in range(size // 11))
    yield "repeated", asked(b"[%s]" % different)
    for entry in (b"{}", b'{"variableCode":"a"}', b"1", b"[]"):
        yield "repeated", b'{"selection":[%s]}' % b",".join([entry] * (size // (len(entry) + 1)))
    yield "repeated", b'{"placement":{"a":[%s]}}' % b",".join([b"[]"] * (size // 3))
    yield "repeated", b"{%s}" % b",".join(b'"%d":1' % number for number in range(size // 12))


def heads(path: str) -> Iterator[tuple[str, bytes]]:
    """Requests whose headers are hostile, and whatever else is sent before an answer is awaited."""
    first = f"GET {path} HTTP/1.1\r\nHost: x\r\n".encode()
    for name in (b"Accept-Encoding", b"If-None-Match", b"Content-Type", b"X", b"Cookie"):
        for text in (b"gzip;q=0,", b'W/"x",', b",", b" "):
            yield "long", first + name + b": " + text * (90_000 // len(text)) + b"\r\n\r\n"
    yield "repeated", first + b"a:\r\n" * 24_000 + b"\r\n"
    yield "repeated", first + b"Host: y\r\n\r\n"
    yield "repeated", first + b"Content-Length: 5\r\n" * 100 + b"\r\n"
    yield "repeated", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 50_000
    post = b"POST /api/v2/tables/all/data HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield "repeated", post + b"1\r\n[\r\n" * 330_000
    yield "nested", first + b"Content-Length: 2000000\r\n\r\n" + b"[" * 1_000_000


def send(address: str, content: bytes, wait: float = 120.0) -> str:
    """Send bytes, and the status of the first answer; 'closed' when the connection was ended without one."""
    host = urlsplit(address)
    with socket.create_connection((host.hostname, host.port), timeout=wait) as raw:
        with contextlib.suppress(OSError):  # it may be refused before everything was sent
            raw.sendall(content)
        try:
            first = raw.recv(100)
        except OSError:
            return "closed"
    return first.split(b" ")[1].decode() if first.startswith(b"HTTP/1.1 ") else "closed"


def attack(server: Server, size: int, every: int = 1) -> dict[tuple[str, str], Row]:
    """Send hostile requests, one after the other; `every` takes only some of them."""
    rows: dict[tuple[str, str], Row] = {}
    probe = Probe(server.address)
    told = httpx.get(f"{server.address}api/v2/releases", timeout=60).json()["releases"][0]
    variable = told["hierarchies"][0]["levels"][-1]["code"] if told["hierarchies"] else told["keys"][0]["code"]
    table = max((one for one in told["tables"] if "." not in one["id"]), key=lambda one: one["cells"])["id"]
    number = itertools.count()
    halves: list[tuple[str, bytes]] = []  # requests that never end

    def one(operation: str, kind: str, content: bytes) -> None:
        if next(number) % every:
            return
        probe.longest()
        clock = time.perf_counter()
        status = send(server.address, content)
        seconds = time.perf_counter() - clock
        rows.setdefault((operation, kind), Row()).add(status, seconds, probe.longest())

    for method, path, parts, names in operations(server.address):
        if "/tables/{id}" in path:
            parts["id"] = table
        short = f"{method} {path.removeprefix('/api/v2')}"
        if method == "GET":
            for kind, address in addresses(path, parts, names, variable):
                one(short, kind, f"GET {address} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        else:
            for kind, body in bodies(size, variable):
                head = f"POST {path.format(**parts)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                one(short, kind, f"{head}Connection: close\r\n\r\n".encode() + body)
        halves.append((short, f"{method} {path.format(**parts)} HTTP/1.1\r\nHost: x\r\nX-Slow: ".encode()))
        if method == "POST":
            halves.append((short, halves[-1][1] + b"x\r\nContent-Length: 9\r\n\r\n"))
    for kind, content in heads(f"/api/v2/tables/{table}/data"):
        one("any, its head", kind, content)
    clock = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(len(halves)) as pool:
        statuses = list(pool.map(lambda half: send(server.address, half[1]), halves))
    seconds, waited = time.perf_counter() - clock, probe.longest()
    for (operation, _), status in zip(halves, statuses, strict=True):
        rows.setdefault((operation, "slow"), Row()).add(status, seconds, waited)
    probe.stop()
    return dict(sorted(rows.items()))


@contextlib.contextmanager
def slow_clients(server: Server, number: int) -> Iterator[list[Counter[str]]]:
    """Slow clients of four kinds, each begun anew as soon as it was ended; how they were ended is counted."""
    ended: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_slow, args=(server.address, number, theirs), daemon=True)
    process.start()
    ours.recv()
    box = [ended]
    try:
        yield box
    finally:
        ours.send("stop")
        box[0] = ours.recv()
        process.join(30)


def _slow(address: str, number: int, control: Connection) -> None:
    ended: Counter[str] = Counter()
    host = urlsplit(address)
    table = "GET /api/v2/releases HTTP/1.1\r\nHost: x\r\nAccept-Encoding: identity\r\n\r\n"

    async def client(kind: int) -> None:
        names = ("no head", "half a head", "half a body", "an answer not taken")
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host.hostname, host.port, limit=1)
                try:
                    if kind == 1:
                        writer.write(b"GET /health HTTP/1.1\r\n")
                    elif kind == 2:
                        writer.write(
                            b"POST /api/v2/tables/all/data HTTP/1.1\r\nHost: x\r\nContent-Length: 1600000\r\n\r\n"
                        )
                        writer.write(b" " * 1_500_000)
                    elif kind == 3:
                        writer.transport.pause_reading()
                        writer.write((table * 15).encode())
                    while not writer.is_closing() and not reader.at_eof():
                        await asyncio.sleep(0.5)
                        if kind in (1, 2):
                            writer.write(b"x" if kind == 1 else b" ")
                        elif kind == 3:
                            writer.write(b"\r\n")
                        await asyncio.wait_for(writer.drain(), 0.5) if kind == 1 else None
                except (OSError, TimeoutError):
                    pass
                finally:
                    ended[names[kind]] += 1
                    writer.close()

    async def main() -> None:
        clients = [asyncio.create_task(client(one % 4)) for one in range(number)]
        await asyncio.sleep(2)
        control.send("ready")
        while not control.poll(0):
            await asyncio.sleep(0.1)
        for one in clients:
            one.cancel()
        control.send(ended)

    asyncio.run(main())


def beside(server: Server, honest: int, slow: int, connections: int = 16) -> tuple[int, float, float, Counter[str]]:
    """Honest requests beside slow clients: how many failed, the slowest, the memory, and how the slow ones ended."""
    told = httpx.get(f"{server.address}api/v2/releases", timeout=60).json()["releases"][0]
    names = sorted(told["tables"], key=lambda one: one["cells"])[: max(1, len(told["tables"]) // 2)]
    paths = [f"/api/v2/tables/{quote(one['id'], safe='')}/data" for one in names]
    paths = [address for path in paths for address in (path, "/api/v2/cell", f"{path}?lang=ko", "/health")]
    with slow_clients(server, slow) as ended:
        seconds, failed, _ = asyncio.run(ask(server.address, itertools.cycle(paths), honest, connections))
    return failed, max(seconds, default=0.0), memory(server), ended[0]


def table(rows: dict[tuple[str, str], Row]) -> str:
    lines = [f"{'operation':<38}{'input':<10}{'requests':>9}{'slowest s':>11}{'/health s':>11}  answers"]
    for (operation, kind), row in rows.items():
        answers = ", ".join(f"{status}: {many}" for status, many in sorted(row.statuses.items()))
        number = sum(row.statuses.values())
        lines.append(f"{operation:<38}{kind:<10}{number:>9,}{row.slowest:>11.3f}{row.health:>11.3f}  {answers}")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("release", nargs="?", type=Path)
    options.add_argument("--bytes", type=int, default=2_000_000, help="the size of a body")
    options.add_argument("--every", type=int, default=1, help="send only each so-manieth hostile request")
    options.add_argument("--honest", type=int, default=100_000)
    options.add_argument("--slow", type=int, default=200)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        release = given.release or published(Path(scratch))
        with serving(release, options=("--no-access-log", "--timeout", "5")) as server:
            rows = attack(server, given.bytes, given.every)
            print(table(rows), flush=True)
            worst = max(row.health for row in rows.values())
            bad = sum(row.statuses["500"] for row in rows.values())
            sent = sum(sum(row.statuses.values()) for row in rows.values())
            print(f"\n{sent:,} requests; longest wait for /health: {worst:.3f} s; answers with 500: {bad}", flush=True)
            failed, slowest, held, ended = beside(server, given.honest, given.slow)
            print(f"\n{given.honest:,} honest requests beside {given.slow} slow clients: {failed} failed", end="")
            print(f", the slowest took {slowest:.2f} s; memory of the worker {held:.0f} MB")
            print("slow clients that were ended: " + json.dumps(ended))
            said = [line for line in server.lines if "Traceback" in line]
            print(f"tracebacks in the log: {len(said)}")
    return 1 if bad or failed or said else 0


if __name__ == "__main__":
    sys.exit(main())
