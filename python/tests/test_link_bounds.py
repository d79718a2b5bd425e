"""No link of the catalogue exceeds its bandwidth, its modulation or the speed of light."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from caravan.lab.core import listing

LINKS = Path(__file__).parents[2] / "links"
LIGHT_M_S = 299_792_458.0


@dataclass(frozen=True)
class Bound:
    """What physics allows: rates each way, and the way that every packet goes.

    `what` says how the rates come about, and from which document.
    """

    up_bps: float
    down_bps: float
    metres: float
    what: str


def ofdm_bps(carriers: int, bits: float, symbol_s: float, streams: int = 1) -> float:
    """The rate of so many carriers with so many user bits per symbol each."""
    return streams * carriers * bits / symbol_s


BOUNDS = {
    "nb-iot": Bound(
        1000 / 48e-3,
        680 / 3e-3,
        0.0,
        "3GPP TS 36.101 table A.2.4: a resource unit of one tone has 96 symbols of QPSK in 8 ms, "
        "192 bits; TS 36.213 tables 16.5.1.2-1 and -2: 1000 of 6 units' 1152 are the user's; "
        "table 16.4.1.5.1-1: 680 bits in three subframes",
    ),
    "nb-iot-peak": Bound(192 / 8e-3, 680 / 3e-3, 0.0, "the same, every coded bit the user's"),
    "umts-radio": Bound(
        5.76e6, 14.4e6, 0.0, "3GPP TS 25.306: HSUPA category 6 and HSDPA category 10, in 5 MHz"
    ),
    "lte": Bound(
        75.4e6, 299.6e6, 0.0, "3GPP TS 36.306 table 4.1-1 and -2: category 4 up, 5 down, 20 MHz"
    ),
    "5g": Bound(
        625e6, 2.34e9, 0.0, "3GPP TS 38.306 §4.1.2: 100 MHz, 256-QAM, one layer up, four down"
    ),
    "wifi": Bound(
        ofdm_bps(108, 6 * 5 / 6, 3.6e-6, 2),
        ofdm_bps(108, 6 * 5 / 6, 3.6e-6, 2),
        0.0,
        "IEEE 802.11n clause 20.6: MCS 15 in 40 MHz, short guard interval",
    ),
    "wifi-11b": Bound(11e6, 11e6, 0.0, "IEEE 802.11b clause 18: 11 Mchip/s, 8 chips for 8 bits"),
    "wimax": Bound(
        ofdm_bps(192, 6 * 3 / 4, 68e-6),
        ofdm_bps(192, 6 * 3 / 4, 68e-6),
        0.0,
        "IEEE 802.16 clause 8.3: 192 carriers, 256 samples at 8/7 x 3.5 MHz, prefix 1/16",
    ),
    "ethernet": Bound(1e9, 1e9, 100.0, "IEEE 802.3 clause 40"),
    "ethernet-100": Bound(1e8, 1e8, 100.0, "IEEE 802.3 clause 25, 100BASE-TX"),
    "atm-155": Bound(155.52e6, 155.52e6, 0.0, "ITU-T G.707: STM-1"),
    "frame-relay-100": Bound(100e6, 100e6, 0.0, "the line: paper U names no other"),
    "satellite-leo": Bound(
        240e6 * 6, 240e6 * 6, 2 * 550e3, "240 MHz a beam, 64-QAM; 550 km up and down"
    ),
    "satellite-geo": Bound(
        500e6 * 6, 500e6 * 6, 2 * 35_786e3, "500 MHz a transponder, 64-QAM; RFC 2488 §2"
    ),
}


def links() -> dict[str, dict[str, object]]:
    return {row["name"]: row["link"] for row in listing("link")}


def test_every_link_of_the_catalogue_has_its_bound() -> None:
    assert {path.stem for path in LINKS.glob("*.toml")} == set(BOUNDS) == set(links())


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_a_link_stays_within_what_physics_allows(name: str) -> None:
    link, bound = links()[name], BOUNDS[name]
    rate = link["rate"]
    assert isinstance(rate, dict)
    assert 0 < rate["up_bps"] <= bound.up_bps * 1.001, bound.what
    assert 0 < rate["down_bps"] <= bound.down_bps * 1.001, bound.what
    delay_s = link["delay_s"]
    assert isinstance(delay_s, float)
    # A file without a delay says so at its top, or is from a paper that has none.
    assert delay_s == 0.0 or delay_s >= bound.metres / LIGHT_M_S
    if bound.metres:
        assert delay_s > 0.0, f"{name} goes {bound.metres:,.0f} m in no time"


def test_the_airtime_of_802_11b_is_the_sum_of_its_parts() -> None:
    """A frame waits for DIFS and a mean back-off, and its acknowledgement follows after SIFS."""
    found = links()["wifi-11b"]
    slot, sifs, preamble = 20e-6, 10e-6, 144e-6 + 48e-6
    difs = sifs + 2 * slot
    acknowledgement = preamble + 14 * 8 / 2e6
    parts = difs + 31 / 2 * slot + preamble + sifs + acknowledgement
    assert found["access_s"] == pytest.approx(parts)
    assert found["overhead_bytes"] == 24 + 4 + 8
    assert found["is_half_duplex"]


def test_what_one_tone_of_nb_iot_sustains_is_less_than_its_peak() -> None:
    found = links()
    sustained, peak = found["nb-iot"]["rate"], found["nb-iot-peak"]["rate"]
    assert isinstance(sustained, dict) and isinstance(peak, dict)
    # 1000 bits every 60 ms; 680 in 4 ms, and every 26 ms of which a quarter is the cell's own.
    # Blocks of index 10, by their resource units of 8 ms: none is faster than the peak.
    blocks = {1: 144, 2: 328, 3: 504, 4: 680, 5: 872, 6: 1000}
    fastest = max(bits / (units * 8e-3) for units, bits in blocks.items())
    assert peak["up_bps"] == pytest.approx(fastest, rel=2e-3)
    assert sustained["up_bps"] == pytest.approx(1000 / 60e-3, rel=3e-3)
    assert peak["down_bps"] == pytest.approx(680 / 4e-3, rel=2e-3)
    assert sustained["down_bps"] == pytest.approx(0.75 * 680 / 26e-3, rel=3e-3)


def test_every_number_of_a_link_has_its_source() -> None:
    for path in LINKS.glob("*.toml"):
        found = tomllib.loads(path.read_text())
        assert set(found["sources"]) == set(found) - {"title", "sources"}, path.name
