"""The databases of tunnel agents on a private PostgreSQL: everything that holds for a file holds
there, over TLS too, and also when the server is killed."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_postgres import SLOWEST_S, Postgres, postgres

from caravan.bench.benches import parse_executable

pytestmark = pytest.mark.root

TOP = Path(__file__).parents[2]
ROUNDS, ROUNDS_MAX = 10, 60
"""How often the server is killed. More often, if it was always too early or too late."""
LATEST_S = 0.03
"""When it is killed at the latest, after the start of an exchange that takes some 10 ms; later if
that was too early, and earlier if it was too late."""
RIVALS = 3
"""Processes that use one key at once."""


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture(scope="module")
def program() -> Path:
    """The tests of the databases, which also are the processes that use them.

    Of the whole workspace, so that what `make check` has built serves.
    """
    argv = ["cargo", "test", "-q", "--locked", "--workspace", "--test", "agent_store"]
    argv += ["--no-run", "--message-format", "json"]
    done = subprocess.run(argv, cwd=TOP, stdout=subprocess.PIPE, text=True, check=True)
    return parse_executable(done.stdout, "agent_store")


def start(program: Path, url: str, deed: str, key: int, number: int) -> subprocess.Popen[str]:
    """Start a process; it says that it is ready and waits for a line."""
    environment = os.environ | {
        "CARAVAN_STORE_DATABASE": url,
        "CARAVAN_STORE_DEED": deed,
        "CARAVAN_STORE_KEY": str(key),
        "CARAVAN_STORE_NUMBER": str(number),
    }
    return subprocess.Popen(
        [str(program), "--exact", "process::a_key_is_used_once", "--nocapture"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    heard = []
    for line in process.stdout:
        heard.append(line)
        if "says: ready" in line:
            return
    raise AssertionError("".join(heard))


def said(process: subprocess.Popen[str]) -> list[str]:
    text, _ = process.communicate("go\n", timeout=SLOWEST_S)
    return [line.partition("says: ")[2] for line in text.splitlines() if "says: " in line]


def test_everything_that_holds_for_a_file_holds_for_a_server(
    server: Postgres, program: Path
) -> None:
    environment = os.environ | {"CARAVAN_TEST_DATABASE": server.url}
    done = subprocess.run(
        [str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 filtered out" in done.stdout


def test_a_server_that_is_killed_makes_one_tunnel_or_none(server: Postgres, program: Path) -> None:
    issued = said(start(program, server.url, "issue", 0, 0))
    assert issued == ["issued"]
    chance = random.Random(14)
    tunnels, broken, latest_s = 0, 0, LATEST_S
    for key in range(ROUNDS_MAX):
        if key >= ROUNDS and tunnels > 0 and broken > 0:
            break
        rivals = [start(program, server.url, "use", key, it + 1) for it in range(RIVALS)]
        for rival in rivals:
            wait_ready(rival)
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("go\n")
            rival.stdin.flush()
        time.sleep(chance.uniform(0, latest_s))
        server.kill()
        heard = [said(rival) for rival in rivals]
        words = [word for one in heard for word in one]
        server.start()
        look = start(program, server.url, "look", key, 9)
        wait_ready(look)
        state, spent = said(look)
        note = f"key {key}: {heard} {state} {spent}"
        for what in ("taken", "spent", "finished"):
            assert words.count(what) <= 1, note
        assert state != "valid" or not {"taken", "refused"} & set(words), note
        assert state == "used" or "finished" not in words, note
        assert spent == "spent" or "spent" not in words, note
        assert spent == "unspent" or state != "valid", note
        # A key that was taken serves nobody, also after the server has come back.
        late = start(program, server.url, "use", key, 8)
        wait_ready(late)
        if state != "valid":
            assert said(late) == ["refused"], note
        else:
            # Whoever has looked has spent it at Target.
            assert said(late) == ["taken", "spent before", "finished"], note
        tunnels += words.count("spent")
        broken += "unavailable" in words
        if "spent" not in words:
            latest_s *= 2
        elif "unavailable" not in words:
            latest_s /= 2
    assert broken > 0, "the server was never killed in time"
    assert tunnels > 0, "the server was killed before anything was done"


def ask(host: subprocess.Popen[str]) -> str:
    """What a Host hears when it looks a key up."""
    assert host.stdin is not None and host.stdout is not None
    host.stdin.write("go\n")
    host.stdin.flush()
    for line in host.stdout:
        if "says: " in line and "says: ready" not in line:
            return line.partition("says: ")[2].strip()
    raise AssertionError("the process has ended")


def test_a_host_goes_on_when_its_server_comes_back(server: Postgres, program: Path) -> None:
    with start(program, server.url, "hold", 0, 0) as host:
        wait_ready(host)
        assert ask(host) == "unknown"
        assert said(start(program, server.url, "issue", 0, 0)) == ["issued"]
        assert ask(host) == "found"
        server.kill()
        assert [ask(host) for _ in range(3)] == ["unavailable"] * 3
        text, _ = start(program, server.url, "hold", 0, 0).communicate(timeout=SLOWEST_S)
        assert "PostgreSQL: error connecting to server" in text, text
        server.start()
        deadline = time.monotonic() + SLOWEST_S
        while ask(host) != "found":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        host.kill()


def test_a_server_that_may_forget_is_refused(server: Postgres, program: Path) -> None:
    server.kill()
    server.settings["fsync"] = "off"
    server.start()
    process = start(program, server.url, "hold", 0, 0)
    text, _ = process.communicate("go\n", timeout=SLOWEST_S)
    assert process.returncode != 0
    assert "PostgreSQL runs with fsync = off" in text, text


def certify(folder: Path, name: str, authority: str = "") -> None:
    """Make NAME.pem and NAME.key: an authority, or a server's certificate from one."""
    kind = "FALSE" if authority else "TRUE"
    config = folder / "openssl.conf"
    config.write_text(
        f"[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n"
        f"[dn]\nCN = {name}\n"
        f"[ext]\nbasicConstraints = critical, CA:{kind}\nsubjectAltName = DNS:{name}\n"
    )
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-days", "2", "-config", str(config)]
    argv += ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
    if authority:
        argv += [
            "-CA",
            str(folder / f"{authority}.pem"),
            "-CAkey",
            str(folder / f"{authority}.key"),
        ]
    subprocess.run(argv, check=True, capture_output=True)


def opened(program: Path, who: str, rest: str = "") -> str:
    """Why a Host does not work with the server, or nothing if it does."""
    process = start(program, f"postgresql://{who}/postgres?{rest}", "hold", 0, 0)
    text, _ = process.communicate("go\n", timeout=SLOWEST_S)
    return "" if process.returncode == 0 else text


def test_a_password_in_clear_is_proven_and_never_sent(server: Postgres, program: Path) -> None:
    certify(server.folder, "authority")
    certify(server.folder, "localhost", "authority")
    words = ["-h", str(server.folder), "-U", "postgres", "-c", "ALTER USER postgres PASSWORD 'x'"]
    subprocess.run([server.program("psql"), *words], check=True, capture_output=True)
    server.settings |= {
        "listen_addresses": "127.0.0.1",
        "ssl": "on",
        "ssl_cert_file": f"{server.folder}/localhost.pem",
        "ssl_key_file": f"{server.folder}/localhost.key",
    }
    secured = f"sslmode=verify-full&sslrootcert={server.folder}/authority.pem"
    for method, why in [
        ("scram-sha-256", ""),
        ("password", "in clear: let it take scram-sha-256"),
        ("trust", "anybody may be there"),
    ]:
        rules = f"local all all trust\nhost all all 127.0.0.1/32 {method}\n"
        (server.folder / "data/pg_hba.conf").write_text(rules)
        server.kill()
        server.start()
        said = opened(program, "postgres:x@127.0.0.1")
        assert why in said and (why != "" or said == ""), said
        assert opened(program, "postgres:x@localhost", secured) == ""
        if method != "trust":
            said = opened(program, "postgres:y@localhost", secured)
            assert "password authentication failed" in said, said


def test_a_server_that_is_reached_by_tls_shows_its_certificate(
    server: Postgres, program: Path
) -> None:
    folder = server.folder
    certify(folder, "authority")
    certify(folder, "stranger")
    certify(folder, "localhost", "authority")
    server.kill()
    server.settings["listen_addresses"] = "127.0.0.1"
    server.start()

    trusted = f"sslmode=verify-full&sslrootcert={folder}/authority.pem"
    assert "Unproven" in opened(program, "postgres@localhost", "")
    assert "server does not support TLS" in opened(program, "postgres@localhost", trusted)
    server.kill()
    server.settings |= {
        "ssl": "on",
        "ssl_key_file": str(folder / "localhost.key"),
        "ssl_cert_file": str(folder / "localhost.pem"),
    }
    server.start()
    assert opened(program, "postgres@localhost", trusted) == ""
    stranger = f"sslmode=require&sslrootcert={folder}/stranger.pem"
    assert "invalid peer certificate: UnknownIssuer" in opened(
        program, "postgres@localhost", stranger
    )
    assert "invalid peer certificate" in opened(program, "postgres@localhost", "sslmode=require")
    assert "not valid for name" in opened(program, "postgres@127.0.0.1", trusted)
