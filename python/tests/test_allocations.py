"""No allocation on a packet's path in the whole program: its own loop, the planes, and the C
libraries below them. `crates/engine/tests/allocations.rs` tests the same for the planes alone."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.remote_access import SERVER_ADDRESS
from caravan.testbed.traffic import iperf, ping
from caravan.threeways.measurement import Keys, tunnel_ends

pytestmark = pytest.mark.root

COUNTER = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

#define SLOTS 64
struct slot { uint64_t thread, count; };
static struct slot *slots;
static uint32_t taken;
static __thread struct slot *own __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void begin(void) {
    char path[4096];
    const char *folder = getenv("ALLOCATIONS");
    if (!folder) return;
    snprintf(path, sizeof path, "%s/%d", folder, getpid());
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, SLOTS * sizeof(struct slot))) return;
    size_t size = SLOTS * sizeof(struct slot);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) slots = map;
}

static void count(void) {
    if (!slots) return;
    if (!own) {
        uint32_t slot = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
        if (slot >= SLOTS) return;
        own = &slots[slot];
        own->thread = gettid();
    }
    own->count++;
}

void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t many, size_t size) { count(); return __libc_calloc(many, size); }
void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
void *memalign(size_t to, size_t size) { count(); return __libc_memalign(to, size); }
void *aligned_alloc(size_t to, size_t size) { count(); return __libc_memalign(to, size); }
int posix_memalign(void **out, size_t to, size_t size) {
    count();
    *out = __libc_memalign(to, size);
    return *out ? 0 : ENOMEM;
}
"""
"""Replaces the C library's allocator, and counts by thread where the test can read the counts."""

SLOT = struct.Struct("QQ")
CARRIED_MIN_BYTES = 5_000_000
GROWTH_MAX = 500
"""Buffers grow to the largest burst so far, and the control thread asks for a list of the SAs now
and then: up to a hundred. One allocation per burst would be 2,000 for the datagrams alone."""


def allocations(folder: Path, pid: int) -> dict[str, int]:
    """Allocations of the packet threads of a process by thread name, since its start."""
    found = dict.fromkeys(("caravan-1", "caravan-2"), 0)
    for thread, count in SLOT.iter_unpack((folder / str(pid)).read_bytes()):
        comm = Path(f"/proc/{pid}/task/{thread}/comm")
        name = comm.read_text().strip() if thread and comm.exists() else ""
        if name in found:
            found[name] += count
    return found


def drive(network: RemoteAccess) -> int:
    """Single packets, TCP super-packets and datagrams, in both directions; returns the bytes
    carried."""
    assert ping(network.ms, SERVER_ADDRESS, 20, 0.01).received == 20
    return sum(
        iperf(
            network.ms, network.server, SERVER_ADDRESS, 1, reverse=reverse, udp_mbit_s=rate
        ).received_bytes
        for reverse in (False, True)
        for rate in (None, 20)
    )


@pytest.mark.parametrize(
    ("suite", "version"),
    [("aes128gcm16", 2), ("chacha20poly1305", 2), ("aes128-sha1", 2), ("3des-md5", 1)],
    ids=lambda value: value if isinstance(value, str) else f"ikev{value}",
)
def test_the_packet_threads_ask_for_no_memory(
    suite: str, version: int, keys: Keys, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output.mkdir(parents=True, exist_ok=True)
    source, library, folder = output / "counter.c", output / "counter.so", output / "counts"
    source.write_text(COUNTER)
    folder.mkdir()
    argv = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(argv, check=True, capture_output=True)
    ends = tunnel_ends(keys, suite, version=version)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("ALLOCATIONS", str(folder))
        with Caravan(network.sg, ends[0]) as gateway, Caravan(network.ms, ends[1]) as station:
            monkeypatch.delenv("LD_PRELOAD")
            gateway.wait_ready()
            station.wait_ready()
            pids = [gateway.process.pid, station.process.pid]
            # Buffers grow to the largest burst.
            drive(network)
            before = [sum(allocations(folder, pid).values()) for pid in pids]
            assert all(before), "they are counted"
            carried = drive(network)
            after = [sum(allocations(folder, pid).values()) for pid in pids]
    grown = [late - early for early, late in zip(before, after, strict=True)]
    assert carried > CARRIED_MIN_BYTES
    assert max(grown) <= GROWTH_MAX
