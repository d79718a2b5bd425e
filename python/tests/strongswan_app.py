"""strongSwan 5.9 in place of its app for Android: who it is, whom it believes and where it goes is
from a `.sswan` alone.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from caravan.testbed.host import Host
from caravan.testbed.strongswan import BareStrongSwan

ESP = "aes256gcm16-aes128gcm16-chacha20poly1305"
"""Of what the app offers; a `.sswan` of ours names no suites."""


def connected_app(host: Host, profile: Path, password: str, options: str = "") -> BareStrongSwan:
    """A charon that has imported a profile with a certificate, and is connected. `options`: of
    charon itself."""
    read = json.loads(profile.read_text(encoding="utf-8"))
    own, remote = read["local"], read["remote"]
    charon = BareStrongSwan(host, options)
    folder = charon.directory / "swanctl"
    (folder / "x509ca/ca.pem").write_bytes(base64.b64decode(remote["cert"]))
    (folder / "pkcs12").mkdir(exist_ok=True)
    (folder / "pkcs12/own.p12").write_bytes(base64.b64decode(own["p12"]))
    (folder / "swanctl.conf").write_text(f"""connections {{
  app {{
    version = 2
    remote_addrs = {remote["addr"]}
    vips = 0.0.0.0
    local {{
      auth = pubkey
      id = {own["id"]}
    }}
    remote {{
      auth = pubkey
      cacerts = ca.pem
      id = {remote["id"]}
    }}
    children {{
      app {{
        esp_proposals = {ESP}
        remote_ts = {",".join(read["split-tunneling"]["subnets"])}
      }}
    }}
  }}
}}
secrets {{
  pkcs12-app {{
    file = own.p12
    secret = {password}
  }}
}}
""")
    charon.swanctl("--load-all", "--noprompt")
    charon.swanctl("--initiate", "--child", "app", "--timeout", "20", timeout_s=25)
    return charon
