"""The exchange files of IKE, from the messages of this program's own machine.

Each is a policy that the event kernel runs in the scenario `road`, or a move in `handover`: the
sizes are those of its messages, and the work is what both ends counted.
`python -m caravan.lab.exchanges FOLDER` writes them, and a test compares the files with the
machine. The prf and the ciphers of messages cost next to nothing beside the operations of key
exchanges, and are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from caravan.lab import core
from caravan.lab.core import Question

POLICY = """
name = "measured"
title = "The policy whose messages are counted"
suite = "{suite}"
mode = "tunnel"
[keys]
exchange = "{exchange}"
proposal = "{proposal}"
proof = "{proof}"
{more}
"""
X25519 = "aes128gcm16-prfsha256-curve25519"
RESUMED = "resumed = true"
MOBILE_IN_ESP = """
# In IP in IP to the home agent, in ESP in UDP with AES-128-GCM to the gateway: 20 and 2 octets are
# filled up to whole words with it, then 20 of IP, 8 of UDP, 8 of ESP, 8 of the IV, 16 of the ICV.
[data]
added = 60
block = 4
trailer = 22
source = "RFC 2003 §3, RFC 3948 §2.1, RFC 4303 §2, RFC 4106 §3"
"""
"""What becomes of data in Mobile IP through a tunnel."""
MOVE_S = 5.0
"""When the station of `handover` moves."""
Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Machine:
    """A policy, and what people should know of the file."""

    title: str
    proof: str
    proposal: str = X25519
    exchange: str = "ikev2"
    suite: str = "aes128gcm16"
    more: str = ""
    is_move: bool = False
    data: str = ""


def _v1(title: str, proof: str, proposal: str, suite: str, *, is_move: bool = False) -> Machine:
    return Machine(title, proof, proposal, "ikev1-main", suite, is_move=is_move)


def _hybrid(kem: str) -> str:
    return f"aes256gcm16-prfsha384-curve25519-ke1_{kem}"


MACHINES = {
    "ikev1-main-psk": _v1(
        "IKEv1: main mode with a pre-shared key, Mode Config, quick mode",
        "psk",
        "3des-sha1-modp1024",
        "3des-sha1-modp1024",
    ),
    "ikev1-main-rsa2048": _v1(
        "IKEv1: main mode with RSA-2048, Mode Config, quick mode",
        "rsa2048",
        "aes128-sha256-modp2048",
        "aes128gcm16-modp2048",
    ),
    "ikev1-move": _v1(
        "IKEv1: the tunnel goes on from a new address",
        "rsa2048",
        "aes128-sha256-modp2048",
        "aes128gcm16-modp2048",
        is_move=True,
    ),
    "ikev2-psk": Machine("IKEv2 with a pre-shared key", "psk"),
    "ikev2-rsa2048": Machine("IKEv2 with RSA-2048", "rsa2048"),
    "ikev2-ecdsa-p256": Machine("IKEv2 with ECDSA on P-256", "ecdsa-p256"),
    "ikev2-ed25519": Machine("IKEv2 with Ed25519", "ed25519"),
    "ikev2-eap-mschapv2": Machine("IKEv2 with EAP-MSCHAPv2, RSA-2048", "eap-mschapv2"),
    "ikev2-eap-tls": Machine("IKEv2 with EAP-TLS, RSA-2048", "eap-tls"),
    "ikev2-psk-cookie": Machine(
        "IKEv2 with a pre-shared key, at a gateway under load", "psk", more="cookie = true"
    ),
    "ikev2-psk-modp2048": Machine(
        "IKEv2 with a pre-shared key, MODP-2048", "psk", "aes128gcm16-prfsha256-modp2048"
    ),
    "ikev2-psk-p256": Machine(
        "IKEv2 with a pre-shared key, P-256", "psk", "aes128gcm16-prfsha256-ecp256"
    ),
    "ikev2-psk-mlkem768": Machine(
        "IKEv2 with a pre-shared key, ML-KEM-768 alone", "psk", "aes256gcm16-prfsha384-mlkem768"
    ),
    "ikev2-psk-x25519-mlkem768": Machine(
        "IKEv2 with a pre-shared key, X25519 and ML-KEM-768", "psk", _hybrid("mlkem768")
    ),
    "ikev2-psk-x25519-mlkem1024": Machine(
        "IKEv2 with a pre-shared key, X25519 and ML-KEM-1024", "psk", _hybrid("mlkem1024")
    ),
    "ikev2-rsa2048-x25519-mlkem768": Machine(
        "IKEv2 with RSA-2048, X25519 and ML-KEM-768", "rsa2048", _hybrid("mlkem768")
    ),
    "ikev2-psk-resumed": Machine(
        "IKEv2: a lost session goes on by its ticket, pre-shared key", "psk", more=RESUMED
    ),
    "ikev2-rsa2048-resumed": Machine(
        "IKEv2: a lost session goes on by its ticket, RSA-2048", "rsa2048", more=RESUMED
    ),
    "ikev2-mobike": Machine("IKEv2: MOBIKE, a new address", "rsa2048", is_move=True),
    "mvpn-mobike": Machine(
        "VPN with MOBIKE, Mobile IP inside: a move (RFC 5266)",
        "rsa2048",
        is_move=True,
        data=MOBILE_IN_ESP,
    ),
}
"""By the name of the file."""


def text(name: str) -> str:
    """The text of a file of `exchanges/`."""
    machine = MACHINES[name]
    lines = [f"# {line}" for line in _about(machine)]
    lines += [f'name = "{name}"', f'title = "{machine.title}"']
    rows = _moved(machine) if machine.is_move else _exchanged(machine)
    if machine.is_move:
        # The gateway sends to the new address from the first authentic message on.
        lines.append("knows = 1")
    for row in rows:
        says, source = _said(machine, row)
        lines += ["", *message(row, says, source)]
    return "\n".join(lines) + "\n" + machine.data


def message(row: Mapping[str, Any], says: str, source: str) -> list[str]:
    """The lines of a message in an exchange file, from a row of the event kernel's outcome."""
    lines = ["[[message]]", f'from = "{"node" if row["is_sent"] else "peer"}"']
    lines += [f'says = "{says}"', f'source = "{source}"', f"bytes = {row['wire_bytes']}"]
    if row["datagrams"] > 1:
        lines.append(f"packets = {row['datagrams']}")
    lines += [f"{key} = {json.dumps(row[key])}" for key in ("work", "peer_work") if row.get(key)]
    return lines


def _about(machine: Machine) -> Iterator[str]:
    scenario = "handover" if machine.is_move else "road"
    yield "Sizes are those of IP packets that the machine of this program sends in the scenario"
    yield f"{scenario}: `python -m caravan.lab.exchanges` writes this file."
    yield (
        f"Proposal {machine.proposal}, behind a NAT."
        if not machine.is_move
        else (
            "A station in a tunnel gets an address on another link. What follows a move and is not"
        )
    )
    if machine.more == RESUMED:
        yield "The ticket is of a session whose gateway has begun anew since. The wait until the"
        yield "station noticed that is left out."
    if machine.is_move:
        yield "needed for it, such as a renewal, is left out."
    if machine.is_move and machine.exchange == "ikev2":
        yield "The update is filled up: a new address gets no more than three times what came from"
        yield "there until it has proven itself."


def _request(machine: Machine, scenario: str, edits: Sequence[str]) -> dict[str, object]:
    request = Question(scenario, ("policy=measured", *edits)).request()
    catalogue = request["catalogue"]
    assert isinstance(catalogue, list)
    own = POLICY.format(
        suite=machine.suite,
        exchange=machine.exchange,
        proposal=machine.proposal,
        proof=machine.proof,
        more=machine.more,
    )
    entry = {"kind": "policy", "name": "measured", "file": "policies/measured.toml", "text": own}
    return {**request, "catalogue": [*catalogue, entry]}


def _exchanged(machine: Machine) -> Rows:
    answer = core.kernel(_request(machine, "road", ("traffic.bytes=1 KB",)))
    exchange = answer["simulate"]["exchange"]
    assert exchange["is_up"], exchange
    messages: Rows = exchange["messages"]
    return messages


def _moved(machine: Machine) -> Rows:
    """What the station of `handover` that moves sends and gets until it is done."""
    answer = core.kernel(_request(machine, "handover", (f"run.time={MOVE_S + 2:g} s",)))
    (tunnel,) = (one for one in answer["simulate"]["tunnels"] if one["station"] == "ms2")
    later: Rows = tunnel["later"]
    return later


def _said(machine: Machine, row: dict[str, Any]) -> tuple[str, str]:
    """What a message is, and where its protocol says so."""
    if machine.is_move:
        is_v2 = machine.exchange == "ikev2"
        return ("INFORMATIONAL", "RFC 4555 §3.5, §3.7" if is_v2 else "RFC 3706 §5.2")
    exchange, number = str(row["what"]).rsplit(" ", 1)
    if machine.exchange != "ikev2":
        return (f"{exchange}, message {number}", "RFC 2409 §5; draft-dukes-ike-mode-cfg-02 §3")
    kind = "request" if row["is_sent"] else "response"
    name, source = {
        "init": ("IKE_SA_INIT", "RFC 7296 §1.2, §2.6"),
        "intermediate": ("IKE_INTERMEDIATE", "RFC 9242 §3.3; RFC 9370 §2.2.2"),
        "auth": ("IKE_AUTH", "RFC 7296 §1.2, §2.16"),
        "resume": ("IKE_SESSION_RESUME", "RFC 5723 §4.3.2"),
    }[exchange]
    if machine.more == RESUMED and exchange == "auth":
        source = "RFC 5723 §4.3.3"
    return (f"{name} {kind}", source)


def main(folder: Path) -> None:
    """Writes every file."""
    for name in MACHINES:
        (folder / f"{name}.toml").write_text(text(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
