"""Names, passwords and secrets that would be other settings in the files of FreeRADIUS, hostapd and
wpa_supplicant: they are quoted right, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dot1x_bed import Bed, Certificates, running

from caravan.testbed.dot1x.authentication_server import radius_users, radiusd_conf
from caravan.testbed.dot1x.authenticator import Authenticator, eap_users
from caravan.testbed.dot1x.method import Account, Login, Method, ServerConfig, ServerIdentity
from caravan.testbed.dot1x.quoting import hostapd_setting
from caravan.testbed.dot1x.supplicant import network_settings
from caravan.testbed.errors import TimedOut
from caravan.testbed.pki import Credentials

OWN = Path("/ca")
IDENTITY = ServerIdentity(Credentials(OWN, OWN, "own"), OWN)
OPEN_S = 3.0


def config(*accounts: Account) -> ServerConfig:
    return ServerConfig(IDENTITY, accounts)


@pytest.mark.parametrize(
    "name",
    ['a"b', "a\nb", "a\rb", "a\0b", "a\x1bb", "a\u2028b", "", "a" * 254, "\udc80"],
    ids=repr,
)
def test_a_name_that_no_file_can_quote_is_refused(name: str) -> None:
    account = Account(name, Method.MD5, "pw")
    with pytest.raises(ValueError, match=r"name .*(printable|octets)") as refused:
        radius_users([account], is_inner=False)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match=r"name .*(printable|octets)"):
        eap_users(config(account))


@pytest.mark.parametrize("name", ["a\\b", "DEFAULT"])
def test_a_name_that_only_freeradius_cannot_have_is_refused_there(name: str) -> None:
    account = Account(name, Method.MD5, "pw")
    with pytest.raises(ValueError, match="FreeRADIUS"):
        radius_users([account], is_inner=True)
    assert eap_users(config(account)) == f'"{name}" MD5 7077\n'


@pytest.mark.parametrize("password", ["p'w", "p\\tw", 'pw\n"x" EAP-Type := MD5', "p\0w"])
def test_a_password_that_cannot_be_quoted_is_refused_and_not_repeated(password: str) -> None:
    with pytest.raises(ValueError, match="the password of 'a@b' must have") as refused:
        radius_users([Account("a@b", Method.MD5, password)], is_inner=False)
    assert password not in str(refused.value)


def test_a_line_that_hostapd_would_read_as_two_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 510 octets"):
        eap_users(config(Account("a@b", Method.MD5, "p" * 300)))


def test_a_user_of_a_certificate_has_no_password_in_a_tunnel() -> None:
    accounts = [Account("a@b", Method.TLS), Account("c@d", Method.TTLS, "pw")]
    assert radius_users(accounts, is_inner=True) == "\"c@d\" Cleartext-Password := 'pw'\n"


@pytest.mark.parametrize("secret", ['s"', "s\n}", "s\\", "${raddbdir}", "%{x}"])
def test_a_secret_that_radiusd_conf_would_read_otherwise_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=r"the secret of 10\.0\.0\.1 must have") as refused:
        radiusd_conf(OWN, "10.0.0.2", {"10.0.0.1": secret}, config())
    assert secret not in str(refused.value)


def test_paths_and_addresses_are_no_settings_either() -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4"):
        radiusd_conf(OWN, "10.0.0.2", {"10.0.0.1 {": "s"}, config())
    with pytest.raises(ValueError, match="the path '/a\"b'"):
        radiusd_conf(Path('/a"b'), "10.0.0.2", {}, config())
    with pytest.raises(ValueError, match="the setting auth_server_shared_secret"):
        hostapd_setting("s\neap_server=1", "the setting auth_server_shared_secret")
    login = Login("a@b", Method.TTLS, "pw", authority=Path('/a"\n    ca_cert="/none'))
    with pytest.raises(ValueError, match="the setting ca_cert"):
        network_settings(login)


def test_a_station_may_say_any_name_and_password() -> None:
    settings = network_settings(Login('x"\n ca_cert="/none', Method.MD5, 'p"\n'))
    assert bytes.fromhex(settings["identity"]) == b'x"\n ca_cert="/none'
    assert bytes.fromhex(settings["password"]) == b'p"\n'
    assert set(settings) == {"key_mgmt", "eapol_flags", "eap", "identity", "password"}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    # A folder whose name has a space, in every file.
    folder = tmp_path_factory.mktemp("names") / "of users"
    folder.mkdir()
    with running(folder / "logs", Certificates(folder)) as it:
        yield it


PASSWORDS = ['p"w', "%{User-Name}", "${raddbdir}", "p # w", " p, w ", "pässwörd", "0x7077", "`id`"]


@pytest.mark.root
def test_passwords_are_what_they_say_in_every_file(bed: Bed) -> None:
    """At FreeRADIUS, and at hostapd's own server, which also takes backslashes and new lines."""
    base = bed.certificates.config()
    accounts = [
        Account(f"user {number} %{{x}}@b'", Method.MD5, password)
        for number, password in enumerate([*PASSWORDS, "p\\tw", "p'w", "p\nw"])
    ]
    own = replace(base, accounts=tuple(accounts))
    with bed.access_point("ap2", own) as ap2:
        for account in accounts:
            assert_opens(bed, ap2, account.identity, account.password)
    accounts = accounts[: len(PASSWORDS)]
    with bed.serving(replace(own, accounts=tuple(accounts))):
        for account in accounts:
            assert_opens(bed, bed.ap1, account.identity, account.password)
        expanded = accounts[1].identity
        with pytest.raises(TimedOut):
            assert_opens(bed, bed.ap1, expanded, expanded)


def assert_opens(bed: Bed, point: Authenticator, identity: str, password: str) -> None:
    with bed.station(Login(identity, Method.MD5, password), point.host.role) as station:
        began_s = point.associate(station.hardware_address)
        point.wait_open(station.hardware_address, began_s, OPEN_S)
