"""Port-based network access control (IEEE 802.1X) with the programs that people run.

`network.WirelessLan` has two access points in one subnet, `subnets.TwoSubnets` one in each of two.
On them run `authenticator.Authenticator` (hostapd) and, on stations, `supplicant.Supplicant`
(wpa_supplicant); `authentication_server.RadiusServer` is FreeRADIUS. `wireless.WirelessCipher`
protects the airs, with keys that `radius_keys` reads. `measurement` says how long an
authentication takes and a roam interrupts, `cause` why a station has no access.
"""
