"""The security policies of paper P (Agarwal, Gill and Wang, GLOBECOM 2004), and TLS beside them, as
their files say them.

A policy is what protects the air (WEP), who opens the port (IEEE 802.1X), what protects a node's
packets as far as the gateway of its home (IPsec), and what protects them as far as the other end
(TLS). All but TLS 1.3 and the method EAP-TLS are insecure, or have been replaced: they are here to
be measured. What the programs here are not configured for is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from caravan.document import Step
from caravan.files import CATALOGUE, read, within
from caravan.testbed.dot1x.ipsec import PROPOSALS, Ipsec
from caravan.testbed.dot1x.method import Method
from caravan.testbed.dot1x.written import Catalogue, Written, find

WEP = "wep-104"
METHODS = {"eap-md5": Method.MD5, "eap-tls": Method.TLS, "eap-tls-rsa1024": Method.TLS}
SHORT_KEYS = ("eap-tls-rsa1024",)
"""Those with keys as long as those of 2004: only in a policy with `legacy = true`, and only there
do the programs of EAP have an OpenSSL configuration that takes such keys."""
PROOFS = {"psk": False, "rsa2048": True}
FORM = {"mode": "tunnel", "udp": False, "outer": 4}
"""Of ESP: IP protocol 50, there is no NAT."""
FORM_ABSENT = {"mode": "tunnel", "udp": True, "outer": 4}
EXCHANGE = "ikev1-main"
TRANSPORTS = {"tls-1.2": "tls12-rsa2048", "tls-1.3": "tls13-rsa2048"}
"""Versions of TLS, and the handshake of each: `traffic_end` has OpenSSL's defaults."""
TRANSPORT_FORM = {"suite": "aes256gcm16", "record": "16384 B"}
STUDY = "studies/wireless-policies"


@dataclass(frozen=True)
class Policy:
    """One policy. `has_short_keys`: those of EAP-TLS are RSA-1024, else RSA-2048. `transport`: the
    version of TLS between both ends, empty without it."""

    name: str
    has_wep: bool = False
    method: Method | None = None
    has_short_keys: bool = False
    ipsec: Ipsec | None = None
    transport: str = ""

    @property
    def is_dynamic(self) -> bool:
        """Whether keys of WEP come from IEEE 802.1X: only EAP-TLS yields keys (RFC 5216 §2.3)."""
        return self.has_wep and self.method is Method.TLS


def policy(name: str, catalogue: Catalogue) -> Policy:
    """The policy of a name by its file, which the native core has checked; `Refused` names file
    and key of what the testbed cannot do."""
    text = find("policy", name, catalogue)
    if text is None or "layer" not in text.values:
        whole = Written.of({"file": name, "text": ""}) if text is None else text
        raise whole.fault(("layer",), "the testbed needs a policy in layers")
    found = Policy(name)
    for index, layer in enumerate(text.values["layer"]):
        at = ("layer", index)
        if layer["kind"] == "access":
            method = _method(text, at)
            found = replace(found, method=METHODS[method], has_short_keys=method in SHORT_KEYS)
        elif layer["kind"] == "link-cipher":
            _among(text, (*at, "cipher"), layer["cipher"], (WEP,))
            found = replace(found, has_wep=True)
        elif layer["kind"] == "ipsec":
            found = replace(found, ipsec=_ipsec(text, (*at, "policy"), catalogue))
        else:
            found = replace(found, transport=_transport(text, at))
    return found


def _method(text: Written, at: tuple[Step, ...]) -> str:
    told = text.item.find((*at, "method")).plain()
    names = told if isinstance(told, list) else [told]
    if len(names) != 1:
        raise text.fault((*at, "method"), "the testbed has one method for each station")
    method: str = names[0]
    _among(text, (*at, "method"), method, tuple(METHODS))
    if method in SHORT_KEYS and not text.values.get("legacy", False):
        raise text.fault((*at, "method"), f"legacy = true is needed for {method}")
    return method


def _ipsec(naming: Written, at: tuple[Step, ...], catalogue: Catalogue) -> Ipsec:
    name = naming.item.find(at).plain()
    text = find("policy", name, catalogue)
    if text is None:
        raise naming.fault(at, f"the testbed needs a policy file with [keys], and {name} has none")
    values = text.values
    _among(text, ("suite",), values.get("suite", "SKIP"), PROPOSALS)
    for key, wanted in FORM.items():
        if (told := values.get(key, FORM_ABSENT[key])) != wanted:
            raise text.fault((key,), f"the testbed has {_said(wanted)}, found {_said(told)}")
    keys = values.get("keys")
    if keys is None:
        raise text.fault(("keys",), "the testbed needs a key exchange")
    _among(text, ("keys", "exchange"), keys["exchange"], (EXCHANGE,))
    _among(text, ("keys", "proposal"), keys["proposal"], PROPOSALS)
    _among(text, ("keys", "proof"), keys["proof"], tuple(PROOFS))
    return Ipsec(keys["proposal"], values["suite"], PROOFS[keys["proof"]])


def _transport(text: Written, at: tuple[Step, ...]) -> str:
    layer = text.item.find(at).plain()
    version: str = layer["version"]
    _among(text, (*at, "version"), version, tuple(TRANSPORTS))
    for key, wanted in {**TRANSPORT_FORM, "method": TRANSPORTS[version]}.items():
        _among(text, (*at, key), layer.get(key, wanted), (wanted,))
    return version


def _among(text: Written, at: Sequence[Step], told: str, valid: Sequence[str]) -> None:
    if told not in valid:
        raise text.fault(at, f"the testbed has {' or '.join(valid)}, found {told}")


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_study(kind: str) -> dict[str, Mapping[str, str]]:
    """The texts of a kind that the study of paper P has in the catalogue, by name."""
    return {
        name: read(kind, path, name).request() for name, path in within(kind, CATALOGUE / STUDY)
    }


@cache
def of_the_study() -> dict[str, Policy]:
    """Those of the catalogue's study in layers, by name."""
    texts = of_study("policy")
    catalogue = list(texts.values())
    layered = (one for one in texts if "layer" in Written.of(texts[one]).values)
    return {one: policy(one, catalogue) for one in layered}
