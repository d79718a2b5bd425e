"""Profiles for devices without Caravan, read by second implementations; and a strongSwan 5.9 that
sends the proposals of Apple's, Android's and Windows' own clients, those that the profiles
themselves name, and those of strongSwan's app, with the certificate of the profile or with a user's
password. Each case fetches a file and compares its hash.

The devices themselves are not here: what they send is from public sources, named in
`crates/engine/src/ikev2/tests/phones.rs`; the app's suites are those of strongSwan's own source,
`src/frontends/android` (`android_service.c`).
"""

from __future__ import annotations

import base64
import json
import plistlib
import re
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from strongswan_app import connected_app
from strongswan_pair import road_warrior, settle
from test_agent_sheet import codes, picture
from test_agent_texts import check_powershell

from caravan.testbed import RemoteAccess, RemoteAccessConfig
from caravan.testbed.caravan import Caravan
from caravan.testbed.connection import Connection, Eap, PublicKey
from caravan.testbed.errors import NamespaceError
from caravan.testbed.pki import CaravanAuthority, Credentials
from caravan.testbed.remote_access import GATEWAY_ADDRESS, SERVER_ADDRESS
from caravan.testbed.strongswan import StrongSwan
from caravan.testbed.traffic import download, make_file, ping, serve_files
from caravan.threeways.measurement import Keys

FILE_BYTES = 1_000_000
GATEWAY = "sg.example"
NETWORK = "10.10.0.0/24"
ARGUMENTS = ("--gateway", GATEWAY, "--remote-ts", NETWORK)
USER, PASSWORD = "alice", "correct horse battery"
PROOFS = pytest.mark.parametrize("is_user", [False, True], ids=["certificate", "password"])


def profile(authority: CaravanAuthority, device: str, output: Path, *more: str) -> tuple[Path, str]:
    """The folder of a profile named `phone1`, and its password."""
    # Android's own client takes the networks from the gateway.
    arguments = ARGUMENTS[:2] if device == "android" else ARGUMENTS
    return authority.profile(device, "phone1", output, (*arguments, *more))


def words_of(file: Path, password: str, *options: str) -> str:
    """What openssl says of the algorithms of a PKCS #12, and its contents in PEM."""
    argv = ["openssl", "pkcs12", *options, "-info", "-nodes", "-in", str(file)]
    done = subprocess.run(
        [*argv, "-passin", "env:PASSWORD"],
        env={"PASSWORD": password, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def fields_of(pem: str) -> str:
    """What openssl says of a certificate."""
    argv = ["openssl", "x509", "-noout", "-text"]
    return subprocess.run(argv, input=pem, capture_output=True, text=True, check=True).stdout


# The files.


@PROOFS
def test_a_profile_for_apple_is_a_property_list_with_all_it_needs(
    is_user: bool, authority: CaravanAuthority, tmp_path: Path
) -> None:
    more = ("--user", USER) if is_user else ()
    folder, password = profile(authority, "apple", tmp_path, *more)
    text = (folder / "phone1.mobileconfig").read_bytes()
    read = plistlib.loads(text)
    assert read["PayloadType"] == "Configuration"
    payloads = {one["PayloadType"]: one for one in read["PayloadContent"]}
    for one in (read, *payloads.values()):
        assert one["PayloadVersion"] == 1 and one["PayloadIdentifier"]
        assert uuid.UUID(one["PayloadUUID"]).variant == uuid.RFC_4122
    assert len({one["PayloadUUID"] for one in (read, *payloads.values())}) == 1 + len(payloads)
    root = payloads["com.apple.security.root"]["PayloadContent"]
    assert root == _der(authority.certificate)
    vpn = payloads["com.apple.vpn.managed"]
    assert vpn["VPNType"] == "IKEv2"
    ikev2 = vpn["IKEv2"]
    assert ikev2["RemoteAddress"] == ikev2["RemoteIdentifier"] == GATEWAY
    assert ikev2["ServerCertificateCommonName"] == GATEWAY
    assert ikev2["ServerCertificateIssuerCommonName"] == "Caravan test CA"
    suites = [ikev2[f"{key}SecurityAssociationParameters"] for key in ("IKE", "Child")]
    assert [suite_of(one, is_child=one is suites[1]) for one in suites] == [
        *(ASKED.proposals, ASKED.esp)
    ]
    if is_user:
        assert not password and "com.apple.security.pkcs12" not in payloads
        assert (ikev2["AuthenticationMethod"], ikev2["ExtendedAuthEnabled"]) == ("None", 1)
        assert ikev2["AuthName"] == USER and "AuthPassword" not in ikev2
        return
    bag = payloads["com.apple.security.pkcs12"]
    assert "Password" not in bag and password.encode() not in text
    assert ikev2["PayloadCertificateUUID"] == bag["PayloadUUID"]
    assert ikev2["LocalIdentifier"] == "phone1"
    (tmp_path / "bag.p12").write_bytes(bag["PayloadContent"])
    told = words_of(tmp_path / "bag.p12", password, "-legacy")
    assert len(re.findall(r"pbeWithSHA1And3-KeyTripleDES-CBC", told)) == 2
    assert re.search(r"MAC: sha1, Iteration \d+", told)
    assert "DNS:phone1" in fields_of(told[told.index("-----BEGIN CERTIFICATE") :])


def suite_of(asked: dict[str, Any], *, is_child: bool) -> str:
    """What a `.mobileconfig` asks for, in strongSwan's words."""
    assert asked["EncryptionAlgorithm"] == "AES-256-GCM"
    prf = {"SHA2-256": "prfsha256", "SHA2-384": "prfsha384"}[asked["IntegrityAlgorithm"]]
    group = {14: "modp2048", 19: "ecp256", 20: "ecp384"}[asked["DiffieHellmanGroup"]]
    # A child with AES-GCM has no integrity algorithm, and no PRF.
    return "-".join(["aes256gcm16", *([] if is_child else [prf]), group])


def test_the_same_device_keeps_the_identifiers_of_its_profile(
    authority: CaravanAuthority, tmp_path: Path
) -> None:
    made = [profile(authority, "apple", tmp_path / str(number))[0] for number in range(2)]
    first, second = (plistlib.loads((it / "phone1.mobileconfig").read_bytes()) for it in made)

    def identifiers(read: dict[str, Any]) -> list[str]:
        return [one["PayloadUUID"] for one in (read, *read["PayloadContent"])]

    assert identifiers(first) == identifiers(second)


@PROOFS
def test_a_profile_for_windows_is_a_script_of_known_commands(
    is_user: bool, authority: CaravanAuthority, tmp_path: Path
) -> None:
    more = ("--user", USER) if is_user else ()
    folder, password = profile(authority, "windows", tmp_path, *more)
    script = (folder / "phone1.ps1").read_text(encoding="utf-8-sig")
    names = check_powershell(script)
    wanted = {"Import-Certificate", "Add-VpnConnection", "Set-VpnConnectionIPsecConfiguration"}
    assert wanted <= set(names)
    assert f"Add-VpnConnectionRoute -ConnectionName $name -DestinationPrefix '{NETWORK}'" in script
    assert "Group2 " not in script and "-DHGroup Group14" in script
    assert ("Import-PfxCertificate" in names) is not is_user
    assert _der(folder / "ca.crt") == _der(authority.certificate)
    if not is_user:
        assert password not in script
        check_current(folder / "phone1.p12", password, 1)


@PROOFS
def test_a_page_for_android_has_the_fields_and_their_code(
    is_user: bool, authority: CaravanAuthority, tmp_path: Path
) -> None:
    more = ("--user", USER) if is_user else ()
    folder, password = profile(authority, "android", tmp_path, *more)
    page = folder / "phone1.html"
    kind = "IKEv2/IPSec MSCHAPv2" if is_user else "IKEv2/IPSec RSA"
    identity = USER if is_user else "phone1"
    read = codes(picture(page, tmp_path, (900, 900)))
    fields = dict(line.split(": ", 1) for line in read)
    assert fields["Type"] == kind
    assert fields["Server address"] == GATEWAY
    assert fields["IPSec identifier"] == identity
    assert fields.get("Username") == (USER if is_user else None)
    for name, value in fields.items():
        assert f"<tr><td>{name}</td><td><code>{value}</code></td></tr>" in page.read_text()
    if not is_user:
        assert password not in page.read_text() + "".join(read)
        check_current(folder / "phone1.p12", password, 2)


@PROOFS
def test_a_profile_for_strongswans_app_is_json_with_all_it_needs(
    is_user: bool, authority: CaravanAuthority, tmp_path: Path
) -> None:
    more = ("--user", USER) if is_user else ()
    folder, password = profile(authority, "strongswan", tmp_path, *more)
    text = (folder / "phone1.sswan").read_text(encoding="utf-8")
    read = json.loads(text)
    assert str(uuid.UUID(read["uuid"])) == read["uuid"]
    assert read["type"] == ("ikev2-eap" if is_user else "ikev2-cert")
    assert read["remote"]["addr"] == read["remote"]["id"] == read["name"] == GATEWAY
    assert base64.b64decode(read["remote"]["cert"]) == _der(authority.certificate)
    assert read["split-tunneling"] == {"subnets": [NETWORK]}
    # It names no suites: the app offers its own, as `APP` does.
    assert not {"ike-proposal", "esp-proposal"} & set(read)
    if is_user:
        assert read["local"] == {"eap_id": USER}
        return
    assert password not in text and read["local"]["id"] == "phone1"
    (tmp_path / "bag.p12").write_bytes(base64.b64decode(read["local"]["p12"]))
    check_current(tmp_path / "bag.p12", password, 2)


def test_a_gateways_certificate_is_one_that_every_device_accepts(
    authority: CaravanAuthority,
) -> None:
    told = fields_of(authority.issue(GATEWAY).certificate.read_text())
    assert "Public-Key: (2048 bit)" in told and "Public Key Algorithm: rsaEncryption" in told
    assert "Signature Algorithm: sha256WithRSAEncryption" in told
    assert "TLS Web Server Authentication" in told
    assert f"DNS:{GATEWAY}" in told


def test_a_hostile_name_stays_a_name(authority: CaravanAuthority, tmp_path: Path) -> None:
    name = 'O=S\u00f6hne & "Co" <x> ]]>, CN=it\'s \u2018$(calc)\u2019; `calc` #'
    more = ("--gateway-id", name)
    folder, _ = profile(authority, "apple", tmp_path, *more)
    read = plistlib.loads((folder / "phone1.mobileconfig").read_bytes())
    (vpn,) = [it for it in read["PayloadContent"] if it["PayloadType"].endswith("vpn.managed")]
    assert vpn["IKEv2"]["RemoteIdentifier"] == vpn["UserDefinedName"] == name
    folder, _ = profile(authority, "strongswan", tmp_path / "app", *more)
    app = json.loads((folder / "phone1.sswan").read_text(encoding="utf-8"))
    assert app["remote"]["id"] == app["name"] == name
    # Windows knows a gateway by its host name alone.
    with pytest.raises(NamespaceError, match="leave --gateway-id"):
        profile(authority, "windows", tmp_path / "script", *more)


def check_current(file: Path, password: str, certificates: int) -> None:
    """A PKCS #12 that needs nothing old; a wrong password opens nothing."""
    told = words_of(file, password)
    wanted = "PBES2, PBKDF2, AES-256-CBC, Iteration 10000, PRF hmacWithSHA256"
    assert told.count(wanted) == 2
    assert "MAC: sha256, Iteration 10000" in told
    assert told.count("BEGIN CERTIFICATE") == certificates
    with pytest.raises(AssertionError, match="invalid password"):
        words_of(file, password[:-1])


def _der(pem: Path) -> bytes:
    """The first certificate of a file."""
    text = pem.read_text()
    found = re.search(r"-----BEGIN CERTIFICATE-----\n(.+?)-----END", text, re.S)
    assert found
    return base64.b64decode(found[1])


# strongSwan as each of the devices.


@dataclass(frozen=True)
class Client:
    """The messages of a device's own client, in strongSwan's words.

    `device`: whose profile it has. `chosen`: what charon logs of its IKE SA, and `child` of its
    first child, where the profile or the app decides that. `settings`: of its connection.
    `has_hashes`: it announces hashes for signatures (RFC 7427). `is_named`: it says whom it wants
    (IDr).
    """

    device: str
    proposals: str
    esp: str
    chosen: str
    settings: Sequence[str] = ()
    has_hashes: bool = False
    is_named: bool = True
    identity: str = "phone1"
    name: str = ""
    child: str = ""


GROUPS = "modp4096-curve25519-modp3072-modp2048"
PRFS = "prfsha512-prfsha384-prfsha256-prfaesxcbc-prfaescmac-prfsha1"
CBC = "-".join(f"aes{bits}ctr-aes{bits}" for bits in (256, 192, 128))
GCM = "-".join(f"aes{bits}gcm16-aes{bits}gcm12-aes{bits}gcm8" for bits in (256, 192, 128))
MACS = "sha512-sha384-sha256-aesxcbc-aescmac"
CLIENTS = (
    Client(
        "apple",
        "aes256gcm16-prfsha256-ecp256,aes256gcm16-prfsha256-modp2048,"
        "aes256-sha256-ecp256,aes256-sha256-modp2048",
        "aes256gcm16-modp2048",
        "IKE:AES_GCM_16_256/PRF_HMAC_SHA2_256/ECP_256",
        ("send_certreq = no",),
    ),
    Client(
        "android",
        f"{CBC}-{MACS}-{PRFS}-{GROUPS},chacha20poly1305-{GCM}-{PRFS}-{GROUPS}",
        f"{CBC}-{MACS},chacha20poly1305-{GCM}",
        "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/CURVE_25519",
        has_hashes=True,
    ),
    Client(
        "windows",
        "aes256-sha256-modp2048",
        "aes256gcm16-modp2048",
        "IKE:AES_CBC_256/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/MODP_2048",
        is_named=False,
        identity="CN=phone1",
    ),
)
ASKED = Client(
    "apple",
    "aes256gcm16-prfsha384-ecp384",
    "aes256gcm16-modp2048",
    "IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384",
    ("send_certreq = no",),
    name="apple-profile",
    child="ESP:AES_GCM_16_256/NO_EXT_SEQ",
)
"""An Apple device that sends what the `.mobileconfig` itself names, and nothing else."""
APP_GROUPS = "curve25519-ecp384-ecp521-modp3072-modp4096-ecp256"
APP_CBC = "aes256-aes192-aes128-sha384-sha256-sha512-sha1"
APP_GCM = "aes256gcm16-aes128gcm16-chacha20poly1305"
APP = Client(
    "strongswan",
    "",
    f"{APP_GCM}-{APP_GROUPS}-modp8192,{APP_CBC}-{APP_GROUPS}-modp2048-modp8192,{APP_GCM},{APP_CBC}",
    "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/CURVE_25519",
    has_hashes=True,
    name="strongswan-app",
    child="ESP:AES_GCM_16_128/NO_EXT_SEQ",
)
"""strongSwan's app: the `.sswan` names no suites, so these are the app's own."""
DEVICES = pytest.mark.parametrize("client", CLIENTS, ids=lambda it: it.device)
ALL_CLIENTS = pytest.mark.parametrize(
    "client", (*CLIENTS, ASKED, APP), ids=lambda it: it.name or it.device
)


@pytest.fixture(scope="module")
def gateway_key(authority: CaravanAuthority) -> PublicKey:
    """The gateway's certificate."""
    return Keys.of(authority).gateway


def own_of(client: Client, authority: CaravanAuthority, output: Path) -> PublicKey:
    """The certificate and key that the device takes from its profile."""
    folder, password = profile(authority, client.device, output)
    if client.device == "apple":
        read = plistlib.loads((folder / "phone1.mobileconfig").read_bytes())
        bags = [it for it in read["PayloadContent"] if "pkcs12" in it["PayloadType"]]
        (folder / "phone1.p12").write_bytes(bags[0]["PayloadContent"])
    if client.device == "strongswan":
        app = json.loads((folder / "phone1.sswan").read_text(encoding="utf-8"))
        (folder / "phone1.p12").write_bytes(base64.b64decode(app["local"]["p12"]))
    options = ("-legacy",) if client.device == "apple" else ()
    told = words_of(folder / "phone1.p12", password, *options)
    certificate, key = output / "own.pem", output / "own.key"
    for path, kind in ((certificate, "CERTIFICATE"), (key, "PRIVATE KEY")):
        found = re.search(rf"-----BEGIN {kind}-----.+?-----END {kind}-----\n", told, re.S)
        assert found
        path.write_text(found[0])
    return PublicKey(Credentials(certificate, key, "CN=phone1"), authority)


@contextmanager
def up(
    client: Client, gateway: Connection, station: Connection, output: Path
) -> Iterator[tuple[RemoteAccess, Caravan, StrongSwan]]:
    """The gateway, and a charon that is connected as the device."""
    options = "" if client.has_hashes else "signature_authentication = no"
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        sg = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station, options)
        if client.settings:
            line = "version = 2\n"
            charon.change(line, line + "".join(f"    {one}\n" for one in client.settings))
        charon.initiate()
        sg.wait_until(True)
        yield network, sg, charon


def ends(
    client: Client, gateway_key: PublicKey, own: PublicKey | None
) -> tuple[Connection, Connection]:
    """The gateway with its default proposals, and the device."""
    both = Connection(
        gateway_key,
        version=2,
        is_legacy=False,
        proposals="",
        esp_proposals="",
        takes_rsa_sha1=not client.has_hashes,
    )
    auths = (gateway_key, own or gateway_key)
    gateway, station = road_warrior(both, auths, (GATEWAY, client.identity))
    if own is None:
        gateway = replace(gateway, auth=Eap("mschapv2", gateway_key, USER, PASSWORD))
        station = replace(station, auth=Eap("mschapv2", gateway_key, USER, PASSWORD))
        identity = "10.0.0.2" if client.device == "windows" else USER
        station = replace(station, local_id=identity)
    if not client.is_named:
        station = replace(station, remote_id="")
    return gateway, replace(station, proposals=client.proposals, esp_proposals=client.esp)


@pytest.mark.root
@ALL_CLIENTS
@PROOFS
def test_a_file_crosses_as_each_device(
    client: Client,
    is_user: bool,
    gateway_key: PublicKey,
    authority: CaravanAuthority,
    output: Path,
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    own = None if is_user else own_of(client, authority, output)
    gateway, station = ends(client, gateway_key, own)
    with up(client, gateway, station, output) as (network, sg, charon):
        fetched = download(network.ms, f"http://{SERVER_ADDRESS}/file")
        assert fetched.sha256 == expected
        assert charon.selected_proposals()[0] == client.chosen
        assert charon.selected_proposals()[1] == client.child or not client.child
        log = charon.log()
        if client.device == "android":
            assert "peer didn't accept" in log and "MODP_4096" in log
        signed = "RSA signature" if not client.has_hashes else r"RSA_EMSA_\w+"
        assert re.search(rf"authentication of '{GATEWAY}' with {signed} successful", log)
        if is_user:
            assert re.search(r"EAP method EAP_MSCHAPV2 succeeded, MSK established", log)
        request = re.search(r"generating IKE_AUTH request 1 \[(.*?)\]", log)
        assert request
        assert (" IDr " in request[1]) is client.is_named
        assert (" CERTREQ " in request[1]) is (client.device != "apple")
        assert "N(MOBIKE_SUP)" in request[1]
        init = re.search(r"generating IKE_SA_INIT request 0 \[(.*?)\]", log)
        assert init and ("N(HASH_ALG)" in init[1]) is client.has_hashes
        (connection,) = sg.status()["connections"]
        (session,) = connection["sessions"]
        peer = USER if is_user else client.identity
        assert session["peer"] == peer
        assert session["sha1_signature"] is not client.has_hashes
        # The device renews its child, with PFS where it has it, and the IKE SA.
        charon.rekey_child()
        echoes = ping(network.ms, SERVER_ADDRESS, 20, 0.05)
        assert echoes.received == echoes.sent
        charon.rekey_ike()
        echoes = ping(network.ms, SERVER_ADDRESS, 20, 0.05)
        assert echoes.received == echoes.sent
        fetched = download(network.ms, f"http://{SERVER_ADDRESS}/file")
        assert fetched.sha256 == expected


@pytest.mark.root
def test_charon_itself_takes_its_key_from_the_profile_of_the_app(
    gateway_key: PublicKey, authority: CaravanAuthority, output: Path
) -> None:
    expected = make_file(output / "www/file", FILE_BYTES)
    folder, password = profile(authority, "strongswan", output)
    gateway, _ = ends(APP, gateway_key, gateway_key)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        serve_files(network.server, output / "www", SERVER_ADDRESS)
        Caravan(network.sg, gateway).wait_ready()
        network.ms.run(["sh", "-c", f"echo {GATEWAY_ADDRESS} {GATEWAY} >> /etc/hosts"])
        charon = connected_app(network.ms, folder / "phone1.sswan", password)
        assert download(network.ms, f"http://{SERVER_ADDRESS}/file").sha256 == expected
        assert "authentication of 'phone1' (myself) with RSA_EMSA" in charon.log()


@pytest.mark.root
@DEVICES
def test_the_gateway_renews_what_a_device_has(
    client: Client, gateway_key: PublicKey, authority: CaravanAuthority, output: Path
) -> None:
    make_file(output / "www/file", FILE_BYTES)
    own = own_of(client, authority, output)
    gateway, station = ends(client, gateway_key, own)
    gateway = replace(gateway, child_rekey_s=2, rekey_s=5)
    with up(client, gateway, station, output) as (network, _, charon):
        echoes = ping(network.ms, SERVER_ADDRESS, 160, 0.05)
        assert echoes.received == echoes.sent
        log = charon.log()
        assert len(re.findall(r"parsed CREATE_CHILD_SA request .*N\(REKEY_SA\)", log)) >= 2
        chosen = re.findall(r"selected proposal: (IKE:\S+)", log)
        assert len(chosen) >= 2
        if client.device == "windows":
            # Of an IKE SA it takes no other group first.
            assert set(chosen) == {client.chosen}
            settle(lambda: is_answered(charon.log()))
        settle(lambda: len(charon.sas()) == 1 and len(charon.children()) == 1)


def is_answered(log: str) -> bool:
    """Whether charon was asked for a renewal of the IKE SA, and has accepted each such request."""
    halves = ("parsed CREATE_CHILD_SA request", "generating CREATE_CHILD_SA response")
    asked, accepted = (len(re.findall(rf"{half} \d+ \[ SA No KE \]", log)) for half in halves)
    return asked == accepted >= 1


@pytest.mark.root
def test_a_gateway_without_rsa_sha1_says_what_it_needs(
    gateway_key: PublicKey, authority: CaravanAuthority, output: Path
) -> None:
    client = CLIENTS[2]
    gateway, station = ends(client, gateway_key, own_of(client, authority, output))
    gateway = replace(gateway, takes_rsa_sha1=False)
    with RemoteAccess(RemoteAccessConfig(), output) as network:
        sg = Caravan(network.sg, gateway).wait_ready()
        charon = StrongSwan(network.ms, station, "signature_authentication = no")
        with pytest.raises(Exception, match="initiate"):
            charon.initiate(8)
        sg.wait_for_event("rsa_sha1 = true")
