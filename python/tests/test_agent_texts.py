"""The texts that agents write for other implementations: read by these where they are here, else by
a grammar that is written down below from the manual of each.

`ip` judges its own lines: this kernel has no IPsec, so a good line ends in the kernel's answer and
a bad one in `ip`'s own. PowerShell is parsed by tree-sitter, and its cmdlets are checked by a
table.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tree_sitter
import tree_sitter_powershell
from agent_ends import (
    CLIENT_NAME,
    MODERN,
    NAME,
    OLD,
    OPTIONS,
    TARGET_NAME,
    certificates,
    end,
    issued,
    texts,
)

from caravan.testbed.binary import caravan_binary
from caravan.testbed.libreswan import FILES
from caravan.testbed.pki import CaravanAuthority

SIDES = ("client", "target")
CELLS = [(side, option) for side in SIDES for option in OPTIONS]
IKE: tuple[dict[str, int], ...] = ({"ike": 1}, {"ike": 2}, {"ike": 2, "ppk": 0xCD})
"""What an end may say of IKE."""


@pytest.fixture(scope="module")
def signed(authority: CaravanAuthority) -> Mapping[str, Mapping[str, Any]]:
    """Credentials of both sides, by certificates."""
    client, target = issued(authority, CLIENT_NAME), issued(authority, TARGET_NAME)
    return {
        "client": certificates(client.certificate, client.key, target.certificate),
        "target": certificates(target.certificate, target.key, client.certificate),
    }


def lines_of(text: str) -> list[str]:
    """Lines without comments and empty ones."""
    bare = (line.split("#")[0].rstrip() for line in text.splitlines())
    return [line for line in bare if line]


# Linux.


@pytest.mark.root
@pytest.mark.parametrize(("side", "option"), CELLS)
def test_every_line_for_ip_xfrm_is_one_that_ip_reads(side: str, option: str) -> None:
    made = texts("ip-xfrm", end(side, option))
    for name in (f"{NAME}.xfrm", f"{NAME}-down.xfrm"):
        read = [line for line in lines_of(made.file(name)) if line]
        assert read
        for line in read:
            assert kernel_answered(line), line
            wrong = re.sub(r"(proto|dir) \S+", r"\1 nonsense", line)
            assert wrong != line and not kernel_answered(wrong), wrong


def kernel_answered(line: str) -> bool:
    """Whether `ip` has understood a line: the kernel refuses it, or takes it."""
    done = subprocess.run(["ip", *line.split()], capture_output=True, text=True, check=False)
    said = done.stderr
    answers = ("RTNETLINK answers", "Cannot open netlink socket", "Requested type not found")
    return done.returncode == 0 or any(words in said for words in answers)


# setkey (FreeBSD setkey(8)).

ADDRESS = r"(?:\d+\.\d+\.\d+\.\d+|[0-9a-f:]+)"
RANGE = rf"{ADDRESS}(?:/\d+)?"
KEY = r"0x[0-9a-f]+"
CIPHERS = {"des-cbc": (8,), "3des-cbc": (24,), "rijndael-cbc": (16, 24, 32)}
HASHES = {"hmac-md5": 16, "hmac-sha1": 20, "hmac-sha2-256": 32, "hmac-sha2-384": 48}
RULE = rf"(?:esp|ah)/(?:tunnel/{ADDRESS}-{ADDRESS}|transport/(?:{ADDRESS}-{ADDRESS})?)/require"
POLICY = rf"-P (?:in|out) (?:none|ipsec {RULE}(?: {RULE})?)"
SETKEY = [
    rf"add {ADDRESS} {ADDRESS} esp (?P<spi>{KEY}) -m (?:tunnel|transport) "
    rf"-E (?P<cipher>\S+) (?P<ekey>{KEY}) -A (?P<hash>\S+) (?P<akey>{KEY})",
    rf"add {ADDRESS} {ADDRESS} ah (?P<spi>{KEY}) -m (?:tunnel|transport) "
    rf"-A (?P<hash>\S+) (?P<akey>{KEY})",
    rf"delete {ADDRESS} {ADDRESS} (?:esp|ah) {KEY}",
    rf"spdadd {RANGE} {RANGE} any {POLICY}",
    rf"spddelete {RANGE} {RANGE} any -P (?:in|out)",
]


def read_setkey(text: str) -> list[str]:
    """The commands of a file for setkey; each must be one of its grammar."""
    commands = [command.strip() for command in " ".join(lines_of(text)).split(";")]
    assert commands.pop() == "", "the last command ends, too"
    for command in commands:
        found = next((m for one in SETKEY if (m := re.fullmatch(one, command))), None)
        assert found, command
        parts = found.groupdict()
        octets = {name: len(value) // 2 - 1 for name, value in parts.items() if "key" in name}
        if "ekey" in octets:
            assert octets["ekey"] in CIPHERS[parts["cipher"]]
        if "akey" in octets:
            assert octets["akey"] == HASHES[parts["hash"]]
        if "spi" in parts:
            assert 256 <= int(parts["spi"], 16) < 1 << 32
    return commands


def undone(add: list[str]) -> list[str]:
    """What takes these commands back."""
    made = []
    for command in add:
        words = command.split()
        if words[0] == "add":
            made.append(" ".join(["delete", *words[1:5]]))
        else:
            made.append(" ".join(["spddelete", *words[1:6]]))
    return made


@pytest.mark.parametrize(("side", "option"), CELLS)
def test_setkey_gets_commands_of_its_grammar_and_their_counterparts(side: str, option: str) -> None:
    made = texts("setkey", end(side, option))
    add = read_setkey(made.file(f"{NAME}.setkey"))
    assert read_setkey(made.file("-down.setkey")) == undone(add)
    sas = [command for command in add if command.startswith("add ")]
    assert len(sas) == {"Native": 0, "AH": 2, "ESP": 2, "AH+ESP": 4}[option]
    assert made.construct[0][:2] == made.destroy[0][:2] == ["setkey", "-f"]


def test_a_grammar_refuses_what_it_must() -> None:
    for wrong in ("spdadd 10.0.0.1 10.0.0.0/8 any -P out ipsec esp;", "add a b esp 0x1;", "x"):
        with pytest.raises(AssertionError):
            read_setkey(wrong)


# Blocks of racoon (racoon.conf(5)) and racoon2 (racoon2.conf(5)): directives end in ";".

TOKEN = re.compile(r'"[^"\n]*"|[{};,]|[^\s{};,"]+')


@dataclass
class Directive:
    """Words, and what their braces hold, if they have any."""

    words: tuple[str, ...]
    inside: list[Directive] | None = None


def tree(text: str) -> list[Directive]:
    """The directives of a file."""
    assert TOKEN.sub("", text).strip() == "", "an open quote"
    stack: list[list[Directive]] = [[]]
    words: list[str] = []
    heads: list[tuple[str, ...]] = []
    for token in TOKEN.findall("\n".join(lines_of(text))):
        if token == "{":
            heads.append(tuple(words))
            stack.append([])
            words = []
        elif token == ";":
            if words:
                stack[-1].append(Directive(tuple(words)))
            words = []
        elif token == "}":
            assert words == [], f"no semicolon after {words}"
            inside = stack.pop()
            stack[-1].append(Directive(heads.pop(), inside))
        else:
            words.append(token)
    assert len(stack) == 1 and words == []
    return stack[0]


RACOON = {
    "remote": {
        "exchange_mode", "my_identifier", "peers_identifier", "verify_identifier",
        "certificate_type", "peers_certfile", "passive", "generate_policy", "lifetime",
        "proposal",
    },
    "proposal": {"encryption_algorithm", "hash_algorithm", "authentication_method", "dh_group"},
    "sainfo": {
        "pfs_group", "lifetime", "encryption_algorithm", "authentication_algorithm",
        "compression_algorithm",
    },
}  # fmt: skip
RACOON2 = {
    "remote": {"acceptable_kmp", "ikev1", "selector_index"},
    "ikev1": {
        "passive", "my_id", "peers_id", "peers_ipaddr", "exchange_mode", "kmp_auth_method",
        "my_public_key", "peers_public_key", "pre_shared_key", "kmp_enc_alg", "kmp_hash_alg",
        "kmp_dh_group", "kmp_sa_lifetime_time",
    },
    "selector": {"direction", "src", "dst", "upper_layer_protocol", "policy_index"},
    "policy": {
        "action", "remote_index", "ipsec_mode", "ipsec_index", "ipsec_level", "my_sa_ipaddr",
        "peers_sa_ipaddr",
    },
    "ipsec": {"ipsec_sa_lifetime_time", "sa_index"},
    "sa": {"sa_protocol", "esp_enc_alg", "esp_auth_alg", "ah_auth_alg"},
}  # fmt: skip


QUOTED = r'"[^"\n]+"'
OWN = rf"{NAME}\w*"
RACOON_CIPHER = r"(?:des|3des|rijndael (?:128|192|256))"
RACOON_ID = rf'(?:address {ADDRESS}|fqdn "[\w.-]+"|user_fqdn "[\w.+-]+@[\w.-]+")'
RACOON_VALUES = {
    "path": rf"(?:pidfile|pre_shared_key) {QUOTED}",
    "remote": rf"(?:{ADDRESS}|anonymous)",
    "proposal": "",
    "sainfo": "anonymous",
    "exchange_mode": "main|aggressive",
    "my_identifier": RACOON_ID,
    "peers_identifier": RACOON_ID,
    "verify_identifier": "on",
    "certificate_type": rf"x509 {QUOTED} {QUOTED}",
    "peers_certfile": QUOTED,
    "passive": "on",
    "generate_policy": "on",
    "lifetime": r"time \d+ sec",
    "encryption_algorithm": rf"{RACOON_CIPHER}(?: , {RACOON_CIPHER})*",
    "hash_algorithm": "md5|sha1",
    "authentication_method": "pre_shared_key|rsasig",
    "dh_group": "[125]",
    "pfs_group": "[125]",
    "authentication_algorithm": "hmac_(?:md5|sha1)(?: , hmac_(?:md5|sha1))*",
    "compression_algorithm": "deflate",
}
RACOON2_ID = rf'(?:ipaddr "{ADDRESS}"|fqdn "[\w.-]+"|email "[\w.+-]+@[\w.-]+")'
RACOON2_HASH = "(?:md5|sha1|sha2_256|sha2_384|sha2_512)"
RACOON2_ADDRESS = rf'"(?:IP_RW|IP_ANY|{RANGE})"'
RACOON2_VALUES = {
    **dict.fromkeys(("remote", "selector", "policy", "ipsec", "sa"), OWN),
    **dict.fromkeys(("selector_index", "policy_index", "remote_index", "sa_index"), OWN),
    "ikev1": "",
    "passive": "on",
    "my_id": RACOON2_ID,
    "peers_id": RACOON2_ID,
    **dict.fromkeys(("peers_ipaddr", "my_sa_ipaddr", "peers_sa_ipaddr"), RACOON2_ADDRESS),
    **dict.fromkeys(("src", "dst"), RACOON2_ADDRESS),
    "exchange_mode": "main|aggressive",
    "my_public_key": rf"x509pem {QUOTED} {QUOTED}",
    "peers_public_key": rf"x509pem {QUOTED}",
    "pre_shared_key": QUOTED,
    **dict.fromkeys(("kmp_sa_lifetime_time", "ipsec_sa_lifetime_time"), r"\d+ sec"),
    "direction": "inbound|outbound",
    "upper_layer_protocol": '"any"',
    "action": "auto_ipsec|none",
    "ipsec_mode": "tunnel",
    "ipsec_level": "require",
    "sa_protocol": "esp|ah",
}
RACOON2_LISTS = {
    "acceptable_kmp": "ikev1",
    "kmp_auth_method": "rsasig|psk",
    "kmp_enc_alg": "(?:des|3des|aes128|aes192|aes256)_cbc",
    "kmp_hash_alg": RACOON2_HASH,
    "kmp_dh_group": r"modp(?:768|1024|1536|2048|3072|4096)",
    "ipsec_index": OWN,
    "sa_index": OWN,
    "esp_enc_alg": "(?:des|3des|aes128|aes192|aes256)_cbc|null",
    "esp_auth_alg": f"hmac_{RACOON2_HASH}",
    "ah_auth_alg": f"hmac_{RACOON2_HASH}",
}


@dataclass(frozen=True)
class Grammar:
    """Directives of each block, what may follow them, and what their lists in braces may have."""

    blocks: Mapping[str, set[str]]
    values: Mapping[str, str]
    lists: Mapping[str, str]

    def check(self, found: list[Directive], top: set[str]) -> set[str]:
        """Every directive is known where it stands, with its values. Returns the kinds of
        blocks."""
        kinds = set()
        for entry in found:
            name, value = entry.words[0], " ".join(entry.words[1:])
            assert name in top, entry
            if entry.inside is None or name in self.blocks:
                assert re.fullmatch(self.values[name], value), entry
            if entry.inside is None:
                continue
            if name in self.blocks:
                kinds.add(name)
                kinds |= self.check(entry.inside, self.blocks[name])
                continue
            assert value == "" and entry.inside, entry
            for one in entry.inside:
                assert one.inside is None, entry
                assert re.fullmatch(self.lists[name], " ".join(one.words)), entry
        return kinds


RACOON_GRAMMAR = Grammar(RACOON, RACOON_VALUES, {})
RACOON2_GRAMMAR = Grammar(RACOON2, RACOON2_VALUES, RACOON2_LISTS)
TOP2 = {"remote", "selector", "policy", "ipsec", "sa"}


@pytest.mark.parametrize(
    "wrong",
    [
        "remote anonymous { exchange_mode base; }",
        "remote nobody { passive on; }",
        "remote anonymous { lifetime time 5 parsecs; }",
        "remote anonymous { proposal { dh_group 14; } }",
        "remote anonymous { proposal { encryption_algorithm aes; } }",
        "sainfo anonymous { authentication_algorithm hmac_md5, null; }",
        "remote anonymous { my_identifier fqdn a b; }",
    ],
)
def test_a_wrong_value_for_racoon_is_refused(wrong: str) -> None:
    with pytest.raises(AssertionError):
        RACOON_GRAMMAR.check(tree(wrong), {"path", "remote", "sainfo"})


@pytest.mark.parametrize(
    "wrong",
    [
        f"remote {NAME} {{ ikev1 {{ kmp_enc_alg {{ rot13; }}; }}; }};",
        f"remote {NAME} {{ ikev1 {{ kmp_enc_alg {{ }}; }}; }};",
        f"policy {NAME} {{ action encrypt; }};",
        f"sa {NAME} {{ esp_enc_alg aes128_cbc; }};",
        f'selector {NAME} {{ src "anywhere"; }};',
    ],
)
def test_a_wrong_value_for_racoon2_is_refused(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        RACOON2_GRAMMAR.check(tree(wrong), TOP2)


@pytest.mark.parametrize(("side", "option"), CELLS)
def test_racoon_gets_a_file_of_its_grammar_and_policies(
    side: str, option: str, signed: Mapping[str, Mapping[str, Any]]
) -> None:
    for credential in (signed[side], None):
        made = texts("racoon", end(side, option, credential, proposals=OLD))
        assert "HISTORICAL" in made.whole
        read_setkey(made.file(f"{NAME}.setkey"))
        read_setkey(made.file("-down.setkey"))
        if option == "Native":
            continue
        found = tree(made.file(".conf"))
        kinds = RACOON_GRAMMAR.check(found, {"path", "remote", "sainfo"})
        assert kinds == {"remote", "proposal", "sainfo"}


@pytest.mark.parametrize(("side", "option"), CELLS)
def test_racoon2_gets_a_file_of_its_grammar_whose_names_all_lead_somewhere(
    side: str, option: str, signed: Mapping[str, Mapping[str, Any]]
) -> None:
    for credential in (signed[side], None):
        made = texts("racoon2", end(side, option, credential))
        text = made.file(".conf")
        found = tree(text)
        kinds = RACOON2_GRAMMAR.check(found, TOP2)
        wanted = TOP2 | {"ikev1"} if option != "Native" else {"selector", "policy"}
        assert kinds == wanted
        named = set(re.findall(rf"\b({NAME}\w*)\b", re.sub(r'"[^"]*"', "", text)))
        declared = {entry.words[1] for entry in found}
        assert named == declared
        assert (
            len([one for one in declared if one.endswith(("_ah", "_esp"))])
            == ({"Native": 0, "AH": 1, "ESP": 1, "AH+ESP": 2}[option])
        )


LIFETIMES = {
    "strongswan": 'reauth_time = "4321s"',
    "libreswan": "ikelifetime=4321s",
    "racoon": "lifetime time 4321 sec;",
    "racoon2": "kmp_sa_lifetime_time 4321 sec;",
    "caravan": 'rekey_time = "4321s"',
}


@pytest.mark.parametrize("kind", LIFETIMES)
def test_ike_lives_as_long_as_the_tunnel_where_nobody_else_ends_it(kind: str) -> None:
    proposals = OLD if kind == "racoon" else MODERN
    made = texts(kind, end("target", "ESP", proposals=proposals, lifetime_s=4_321))
    assert LIFETIMES[kind] in made.whole
    assert "4321" not in texts(kind, end("target", "ESP", proposals=proposals)).whole


# FreeS/WAN 2 (ipsec.conf(5)), whose form Libreswan has kept.

FREESWAN_ID = rf"(?:{ADDRESS}|@[\w.-]+|[\w.+-]+@[\w.-]+)"
FREESWAN = {
    "left": rf"{ADDRESS}|%defaultroute",
    "right": rf"{ADDRESS}|%any",
    "auto": "ignore",
    "type": "tunnel|passthrough",
    "keyexchange": "ike",
    "auth": "ah|esp",
    "leftid": FREESWAN_ID,
    "rightid": FREESWAN_ID,
    "authby": "secret|rsasig",
    "leftcert": r"/[\w./-]+",
    "rightcert": r"/[\w./-]+",
    "pfs": "yes|no",
    "leftsubnet": RANGE,
    "rightsubnet": RANGE,
}


@pytest.mark.parametrize(("side", "option"), CELLS)
def test_freeswan_gets_connections_of_its_grammar(
    side: str, option: str, signed: Mapping[str, Mapping[str, Any]]
) -> None:
    if option == "AH":
        with pytest.raises(ValueError, match="AH only around ESP"):
            texts("freeswan", end(side, option, proposals=OLD))
        return
    for credential in (signed[side], None):
        made = texts("freeswan", end(side, option, credential, proposals=OLD))
        first, *rest = lines_of(made.file(".conf"))
        assert first == "version 2.0"
        names = []
        for line in rest:
            if line.startswith("conn "):
                names.append(line.split()[1])
            else:
                found = re.fullmatch(r"\t(\w+)=(\S+)", line)
                assert found and re.fullmatch(FREESWAN[found[1]], found[2]), line
        assert names == [NAME, f"{NAME}-1"]
        loaded = [words[-1] for words in made.construct if "--add" in words]
        deleted = [words[-1] for words in made.destroy if "--delete" in words]
        assert loaded == deleted == names
        assert ("\tauth=ah" in rest) == (option == "AH+ESP")


# ipseccmd and ipsecpol: one rule a line, in the dynamic mode.

FILTER = rf"(?:0|\*|{ADDRESS}/{ADDRESS})[=+](?:0|\*|{ADDRESS}/{ADDRESS})"
METHOD = r"(?:AH\[(?:MD5|SHA)\]|(?:AH\[(?:MD5|SHA)\]\+)?ESP\[(?:DES|3DES|NONE),(?:MD5|SHA|NONE)\]"
METHOD += r"(?:PFS[12])?)"
PROOF = r'(?:PRESHARE:"[0-9a-f]+"|CERT:"[A-Za-z0-9 .,=@_-]+")'
MAIN = r"(?:DES|3DES)-(?:MD5|SHA)-[12]"


@pytest.mark.parametrize("program", ["ipseccmd", "ipsecpol"])
@pytest.mark.parametrize(("side", "option"), CELLS)
def test_dynamic_rules_of_windows_2000_are_of_their_grammar(
    program: str, side: str, option: str, signed: Mapping[str, Mapping[str, Any]]
) -> None:
    rule = rf"{program} -f {FILTER} -n {METHOD}(?: {METHOD})* -t {ADDRESS} -a {PROOF} -1s {MAIN}"
    for credential in (signed[side], None):
        made = texts(program, end(side, option, credential, proposals=OLD))
        lines = made.file("-up.cmd").split("\r\n")
        rules = [line for line in lines if line.startswith(program)]
        pattern = rf"{program} -f \({FILTER}\)" if option == "Native" else rule
        assert len(rules) == (2 if option == "Native" else 4)
        for line in rules:
            assert re.fullmatch(pattern, line), line
        others = set(lines) - set(rules)
        assert all(re.fullmatch(r"|@echo off|rem [^&|<>%^]*", line) for line in others)
        assert "net stop policyagent" in made.file("-down.cmd")


# PowerShell (the NetSecurity and PKI modules, Windows Server 2012 and later).

SET = {"PolicyStore", "Name", "DisplayName", "Proposal"}
CMDLETS: dict[str, set[str]] = {
    "New-NetIPsecMainModeCryptoProposal": {"Encryption", "Hash", "KeyExchange"},
    "New-NetIPsecMainModeCryptoSet": SET,
    "New-NetIPsecQuickModeCryptoProposal": {"Encapsulation", "Encryption", "ESPHash", "AHHash"},
    "New-NetIPsecQuickModeCryptoSet": SET | {"PerfectForwardSecrecyGroup"},
    "New-NetIPsecAuthProposal": {
        "Machine", "Cert", "PreSharedKey", "Authority", "AuthorityType", "ValidationCriteria",
        "Thumbprint",
    },
    "New-NetIPsecPhase1AuthSet": SET,
    "New-NetIPsecMainModeRule": {
        "PolicyStore", "Name", "DisplayName", "RemoteAddress", "MainModeCryptoSet",
        "PhaseOneAuthSet",
    },
    "New-NetIPsecRule": {
        "PolicyStore", "IPsecRuleName", "DisplayName", "Mode", "LocalAddress", "RemoteAddress",
        "LocalTunnelEndpoint", "RemoteTunnelEndpoint", "InboundSecurity", "OutboundSecurity",
        "KeyModule", "QuickModeCryptoSet", "PhaseOneAuthSet",
    },
    "Remove-NetIPsecRule": {"IPsecRuleName", "PolicyStore"},
    "Remove-NetIPsecMainModeRule": {"Name", "PolicyStore"},
    "Remove-NetIPsecPhase1AuthSet": {"Name", "PolicyStore"},
    "Remove-NetIPsecQuickModeCryptoSet": {"Name", "PolicyStore"},
    "Remove-NetIPsecMainModeCryptoSet": {"Name", "PolicyStore"},
    "Import-PfxCertificate": {"FilePath", "CertStoreLocation", "Password"},
    "Import-Certificate": {"FilePath", "CertStoreLocation"},
    "New-Object": {"ArgumentList"},
    "Join-Path": {"Path", "ChildPath"},
    "Remove-Item": {"Force", "ErrorAction", "LiteralPath"},
    "certutil.exe": {"f", "p", "mergepfx"},
    # The VpnClient module.
    "Add-VpnConnection": {
        "Name", "ServerAddress", "TunnelType", "AuthenticationMethod", "EapConfigXmlStream",
        "EncryptionLevel", "SplitTunneling", "AllUserConnection", "Force",
    },
    "Set-VpnConnectionIPsecConfiguration": {
        "ConnectionName", "AuthenticationTransformConstants", "CipherTransformConstants",
        "EncryptionMethod", "IntegrityCheckMethod", "DHGroup", "PfsGroup", "AllUserConnection",
        "Force",
    },
    "Add-VpnConnectionRoute": {"ConnectionName", "DestinationPrefix", "AllUserConnection"},
    "Get-VpnConnection": {"Name", "AllUserConnection", "ErrorAction"},
    "Remove-VpnConnection": {"Name", "AllUserConnection", "Force"},
    "New-EapConfiguration": set(),
    "Read-Host": {"AsSecureString", "Prompt"},
}  # fmt: skip
VALUES = {
    "Encapsulation": {"AH", "ESP", "'AH', 'ESP'"},
    "KeyExchange": {"DH1", "DH2", "DH14"},
    "PerfectForwardSecrecyGroup": {"DH1", "DH2", "DH14"},
    "Hash": {"MD5", "SHA1", "SHA256", "SHA384"},
    "AHHash": {"MD5", "SHA1", "SHA256"},
    "ESPHash": {"MD5", "SHA1", "SHA256", "AESGMAC128", "AESGMAC192", "AESGMAC256"},
    "Encryption": {
        "None", "DES", "DES3", "AES128", "AES192", "AES256", "AESGCM128", "AESGCM192", "AESGCM256",
    },
    "Mode": {"Tunnel", "Transport"},
    "KeyModule": {"IKEv1", "IKEv2", "AuthIP", "Default"},
    "InboundSecurity": {"None", "Require", "Request"},
    "OutboundSecurity": {"None", "Require", "Request"},
    "TunnelType": {"Pptp", "L2tp", "Sstp", "Ikev2", "Automatic"},
    "AuthenticationMethod": {"Pap", "Chap", "MSChapv2", "Eap", "MachineCertificate"},
    "EncryptionLevel": {"NoEncryption", "Optional", "Required", "Maximum", "Custom"},
    "AuthenticationTransformConstants": {
        "MD596", "SHA196", "SHA256128", "GCMAES128", "GCMAES192", "GCMAES256", "None",
    },
    "CipherTransformConstants": {
        "DES", "DES3", "AES128", "AES192", "AES256", "GCMAES128", "GCMAES192", "GCMAES256", "None",
    },
    "EncryptionMethod": {"DES", "DES3", "AES128", "AES192", "AES256", "GCMAES128", "GCMAES256"},
    "IntegrityCheckMethod": {"MD5", "SHA1", "SHA256", "SHA384"},
    "DHGroup": {"None", "Group1", "Group2", "Group14", "ECP256", "ECP384", "Group24"},
    "PfsGroup": {"None", "PFS1", "PFS2", "PFS2048", "ECP256", "ECP384", "PFSMM", "PFS24"},
}  # fmt: skip


def check_powershell(text: str) -> list[str]:
    """Parse a script, and check each command by the tables. Returns the commands' names."""
    # This parser knows no digit in the name of a parameter.
    text = text.replace("-Phase1AuthSet '", "-PhaseOneAuthSet '")
    language = tree_sitter.Language(tree_sitter_powershell.language())
    parsed = tree_sitter.Parser(language).parse(text.encode())
    assert not parsed.root_node.has_error, text
    names = []
    waiting = [parsed.root_node]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type != "command":
            continue
        words = (node.text or b"").decode()
        name = words.split()[0]
        names.append(name)
        assert name in CMDLETS, name
        for child in node.children:
            waiting_for = [child]
            while waiting_for:
                part = waiting_for.pop()
                if part.type == "command":
                    continue
                waiting_for += part.children
                if part.type == "command_parameter":
                    parameter = (part.text or b"").decode().removeprefix("-")
                    assert parameter in CMDLETS[name], (name, parameter)
        for parameter, allowed in VALUES.items():
            for value in re.findall(rf" -{parameter} ('\w+', '\w+'|\w+)", words):
                assert value in allowed, (parameter, value)
    return names


@pytest.mark.parametrize(("side", "option"), CELLS)
def test_powershell_parses_and_knows_each_cmdlet_and_parameter(
    side: str, option: str, signed: Mapping[str, Mapping[str, Any]]
) -> None:
    for credential in (signed[side], None):
        made = texts("windows", end(side, option, credential))
        up, down = (check_powershell(made.file(name)) for name in (".up.ps1", ".down.ps1"))
        for name in up:
            if name.startswith("New-NetIPsec") and "Proposal" not in name:
                assert name.replace("New-", "Remove-") in down, name
        assert "New-NetIPsecRule" in up
        if credential is not None and option != "Native":
            # Of all that the authority has certified, the other end's alone.
            peer = Path(str(signed[side]["certificates"]["peer"])).read_text()
            pem = peer[peer.index("-----BEGIN") :]
            digest = hashlib.sha1(ssl.PEM_cert_to_DER_cert(pem), usedforsecurity=False)
            pinned = f"-ValidationCriteria -Thumbprint {digest.hexdigest().upper()}"
            assert pinned in made.file(".up.ps1")
    with pytest.raises(AssertionError):
        check_powershell("New-NetIPsecRule -Nonsense 1")
    with pytest.raises(AssertionError):
        check_powershell("New-NetIPsecRule -DisplayName 'open")


# Caravan's own.


@pytest.mark.parametrize("ike", IKE)
@pytest.mark.parametrize(("side", "option"), CELLS)
def test_caravan_reads_what_is_written_for_it(
    side: str,
    option: str,
    ike: Mapping[str, Any],
    signed: Mapping[str, Mapping[str, Any]],
    tmp_path: Path,
) -> None:
    for credential in (signed[side], None):
        made = texts("caravan", end(side, option, credential, **ike), tmp_path)
        assert ("version = 1" in made.file(".toml")) == (ike["ike"] == 1)
        for path, text in made.files.items():
            Path(path).write_text(text)
            Path(path).chmod(0o600)
        argv = [str(caravan_binary()), "check", str(tmp_path / f"{NAME}.toml")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# Libreswan's own reader.


@pytest.mark.parametrize("ike", IKE)
@pytest.mark.parametrize(("side", "option"), CELLS)
def test_libreswan_reads_the_connections_that_are_written_for_it(
    side: str,
    option: str,
    ike: Mapping[str, Any],
    signed: Mapping[str, Mapping[str, Any]],
    tmp_path: Path,
) -> None:
    if option == "AH+ESP":
        with pytest.raises(ValueError, match="not both"):
            texts("libreswan", end(side, option))
        return
    for credential in (signed[side], None):
        made = texts("libreswan", end(side, option, credential, **ike), tmp_path)
        text = made.file(".conf")
        assert addconn(tmp_path, text) == ""
        assert "syntax error" in addconn(tmp_path, text + "\tnonsense=1\n")
        wanted = [NAME, f"{NAME}-1"]
        assert [line.split()[1] for line in lines_of(text) if line.startswith("conn")] == wanted
        for what in ("--add", "--delete"):
            orders = [*made.construct, *made.destroy]
            assert [words[-1] for words in orders if what in words] == wanted


def addconn(folder: Path, text: str) -> str:
    """What Libreswan says of a configuration."""
    path = folder / "ipsec.conf"
    path.write_text(text)
    argv = [str(FILES / "usr/libexec/ipsec/addconn"), "--config", str(path), "--checkconfig"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""
