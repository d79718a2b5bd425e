"""The configuration files that the testbed writes for both programs."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from caravan.testbed.caravan import caravan_toml
from caravan.testbed.connection import Connection, PublicKey, Published, SharedKey
from caravan.testbed.pki import CaravanAuthority, Credentials
from caravan.testbed.strongswan import parse_pretty, swanctl_conf


def public_key(directory: Path) -> PublicKey:
    authority = object.__new__(CaravanAuthority)
    authority.directory = directory
    return PublicKey(Credentials(directory / "ms.pem", directory / "ms.key", "CN=ms"), authority)


def test_the_gateway_s_file_says_what_the_connection_says(tmp_path: Path) -> None:
    connection = Connection(
        public_key(tmp_path),
        local_id="sg.example",
        mode="transport",
        version=1,
        is_aggressive=True,
        pool="10.99.0.0/24",
        publish=(Published(8080, "10.10.0.2:80"),),
        is_legacy=False,
        child_rekey_s=5,
    )
    assert tomllib.loads(caravan_toml(connection)) == {
        "connections": {
            "road": {
                "version": 1,
                "aggressive": True,
                "proposals": ["aes128-sha1-modp2048"],
                "pools": ["inner"],
                "legacy": False,
                "local": {
                    "auth": "pubkey",
                    "certs": ["own.pem"],
                    "key": "own.key",
                    "id": "sg.example",
                },
                "remote": {"auth": "pubkey", "cacerts": ["ca.pem"], "id": "*"},
                "children": {
                    "net": {
                        "mode": "transport",
                        "esp_proposals": ["aes128gcm16"],
                        "rekey_time": "5s",
                    }
                },
            }
        },
        "pools": {"inner": {"addrs": "10.99.0.0/24"}},
        "publish": [{"protocol": "tcp", "port": 8080, "to": "10.10.0.2:80"}],
    }


def test_a_secret_with_quotes_stays_one_value() -> None:
    connection = Connection(SharedKey('a "quoted" secret'), remote_addrs="192.0.2.1")
    read = tomllib.loads(caravan_toml(connection))
    road = read["connections"]["road"]
    assert road["version"] == 2
    assert "aggressive" not in road
    assert road["local"]["secret"] == road["remote"]["secret"] == 'a "quoted" secret'
    assert road["remote_addrs"] == ["192.0.2.1"]


def test_aggressive_mode_is_of_ikev1_alone() -> None:
    with pytest.raises(ValueError, match="version must be 1"):
        Connection(SharedKey("secret"), is_aggressive=True)


def test_strongswan_gets_one_setting_a_line() -> None:
    text = swanctl_conf(Connection(SharedKey("secret"), child_rekey_s=9))
    lines = [line.strip() for line in text.splitlines()]
    assert "version = 2" in lines
    assert "aggressive = no" in lines
    assert "auth = psk" in lines
    assert lines.count("rekey_time = 9s") == 1
    assert all(line.endswith("{") or line == "}" or " = " in line for line in lines)


def test_a_listing_of_strongswan_is_read() -> None:
    listing = """list-sa event {
  road {
    uniqueid = 1
    remote-id = C=GR, O=Test, CN=ms = odd
    child-sas {
      net-1 {
        local-ts = [
          10.10.0.0/24
        ]
      }
    }
  }
}
"""
    (event,) = parse_pretty(listing)
    assert event["road"]["remote-id"] == "C=GR, O=Test, CN=ms = odd"
    assert event["road"]["child-sas"]["net-1"]["local-ts"] == ["10.10.0.0/24"]


def test_install_puts_program_units_and_samples_under_the_prefix(tmp_path: Path) -> None:
    # Any program will do: what is installed is the one that was named.
    settings = [f"DESTDIR={tmp_path}/root", "PREFIX=/opt/caravan", "BINARY=/bin/true"]
    top = Path(__file__).resolve().parents[2]
    said = subprocess.check_output(
        ["make", "-s", "install", *settings], cwd=top, timeout=60, text=True
    )
    assert "/etc/caravan/gateway.toml" in said and "mobile.toml" in said
    assert (tmp_path / "root/etc/caravan").is_dir()
    prefix = tmp_path / "root/opt/caravan"
    assert (prefix / "bin/caravan").stat().st_mode & 0o777 == 0o755
    subprocess.run([prefix / "bin/caravan"], check=True, timeout=10)
    for unit, order in (("caravan-gateway", "gateway"), ("caravan@", "up")):
        text = (prefix / f"lib/systemd/system/{unit}.service").read_text()
        (start,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        assert start.startswith(f"ExecStart=/opt/caravan/bin/caravan {order} -c ")
        assert start.endswith(" --user caravan")
        assert "CAP_DAC_OVERRIDE" not in text
    assert "u caravan " in (prefix / "lib/sysusers.d/caravan.conf").read_text()
    documents = prefix / "share/doc/caravan"
    for name in ("gateway.toml", "client.toml", "vpn-configuration.md"):
        assert (documents / name).is_file()
    done = subprocess.run(
        ["make", "-s", "install", *settings, "BINARY=nowhere"],
        cwd=top,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "make release" in done.stderr
