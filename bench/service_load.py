"""The requests per second of the service, its slowest answers, and whether its memory stays flat.

    python bench/service_load.py [RELEASE] [--requests 100000] [--workers 1] [--connections 16]

Everything runs on this machine's loopback: the service in separate processes, the client in this one, so they share the
cores. The output also has the service's processor time per request, which a busy machine changes little: compare
versions by it.

The floor is the same client with /health, which answers without any work. Without a release, the
census of `ilba.datasets` is published first.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.serving import Server, serving


def published(folder: Path) -> Path:
    import ilba
    from ilba.demo import HKEY, KEY

    people = ilba.datasets.census(1_000_000)
    finest = ilba.build(people, HKEY, KEY, secret=ilba.Secret(bytes(32)))
    labels = ilba.datasets.census_codes()
    finest.release(folder / "census", labels=labels, method="ilba", accept_risk=True, ledger=False)
    return folder / "census"


async def ask(address: str, paths: itertools.cycle[str], number: int, connections: int) -> tuple[list[float], int, int]:
    """Send requests over some connections that are kept; the seconds of each, how many failed, and the bytes."""
    host = urlsplit(address)
    seconds: list[float] = []
    failed = received = 0
    left = iter(range(number))

    async def one() -> None:
        nonlocal failed, received
        reader = writer = None
        for _ in left:
            clock = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(host.hostname, host.port)
                writer.write(f"GET {next(paths)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                received += length
                failed += not head.startswith(b"HTTP/1.1 200")
            except (OSError, asyncio.IncompleteReadError):
                failed += 1
                writer = None
                continue
            seconds.append(time.perf_counter() - clock)
        if writer:
            writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return seconds, failed, received


def workers_of(server: Server) -> list[int]:
    told = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(server.process.pid)], capture_output=True, text=True
    ).stdout
    found = [int(line.split()[0]) for line in told.splitlines() if "spawn_main" in line]
    return found or [server.process.pid]


def memory(server: Server) -> float:
    """The resident memory of all workers in MB."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in workers_of(server))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def processor(server: Server) -> float:
    """The seconds of processor time that all workers took until now."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in workers_of(server)]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def told(name: str, seconds: list[float], failed: int, received: int, wall: float, taken: float) -> str:
    seconds = sorted(seconds)
    return (
        f"{name:<38}{len(seconds) / wall:>9,.0f}{1000 * seconds[len(seconds) // 2]:>9.1f}"
        f"{1000 * seconds[int(len(seconds) * 0.99)]:>9.1f}{received / wall / 1e6:>9.1f}"
        f"{1e6 * taken / max(1, len(seconds)):>9.0f}{failed:>8}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("release", nargs="?", type=Path)
    options.add_argument("--requests", type=int, default=100_000)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--connections", type=int, default=16)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        release = given.release or published(Path(scratch))
        with serving(release, options=("--workers", str(given.workers), "--no-access-log")) as server:
            measure(server, given.requests, given.connections)


def measure(server: Server, requests: int, connections: int) -> None:
    import httpx

    areas = httpx.get(f"{server.address}api/v2/tables/LA3/metadata", timeout=60).json()["dimension"]["LA3"]["category"]
    cells = [
        f"/api/v2/cell?level=LA3&key=gender,age&hkey_value={code[:2]},{code[:4]},{code}&key_value={gender},{age}"
        for code in areas["index"]
        for gender in (1, 2)
        for age in range(1, 19)
    ]
    random.Random(1).shuffle(cells)
    blocks = "/api/v2/tables/OA.gender/data?valuecodes[OA]=*&valuecodes[gender]=*"
    fresh = [f"{blocks}&stub={number}" for number in range(2000)]
    plan = [
        ("floor: /health", ["/health"], requests // 10),
        ("single cells, all different", cells, min(requests // 10, len(cells))),
        ("a table of 5,012 cells, made each time", fresh, 2000),
        ("the same table, from memory", [blocks], requests // 10),
    ]
    print(f"{platform.machine()}, {os.cpu_count()} cores shared with the client, Python {platform.python_version()}")
    print(f"{len(workers_of(server))} worker(s), {connections} connections\n")
    print(f"{'':<38}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'MB/s':>9}{'µs CPU':>9}{'failed':>8}")
    for name, paths, number in plan:
        clock, began = time.perf_counter(), processor(server)
        found = asyncio.run(ask(server.address, itertools.cycle(paths), number, connections))
        print(told(name, *found, time.perf_counter() - clock, processor(server) - began), flush=True)
    print(f"\nmemory of the workers over {requests:,} requests, one table in twenty:")
    mixed = itertools.cycle(
        path for n, cell in enumerate(cells) for path in ([blocks, cell] if n % 20 == 0 else [cell])
    )
    failed = 0
    for part in range(5):
        _, lost, _ = asyncio.run(ask(server.address, mixed, requests // 5, connections))
        failed += lost
        print(f"  after {(part + 1) * (requests // 5):>8,}  {memory(server):7.1f} MB  failed {failed}", flush=True)
    if len(workers_of(server)) > 1:
        killed(server, mixed, connections)


def killed(server: Server, mixed: itertools.cycle[str], connections: int) -> None:
    """Kill a worker in the middle of a run: only what it was answering may be lost."""
    victim = workers_of(server)[-1]

    async def run() -> tuple[list[float], int, int]:
        asyncio.get_running_loop().call_later(1, os.kill, victim, signal.SIGKILL)
        return await ask(server.address, mixed, 20_000, connections)

    seconds, failed, _ = asyncio.run(run())
    print(f"\na worker killed during 20,000 requests: {len(seconds):,} answered, {failed} lost", flush=True)


if __name__ == "__main__":
    main()
