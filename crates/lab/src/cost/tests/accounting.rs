//! True sizes must equal the engine's own.

use engine::plane::shape::wire_bytes;
use engine::sa::Mode;
use proptest::prelude::*;

use super::super::accounting::Sizes;
use super::*;

/// Every suite in every way in which the engine carries it.
fn everyone() -> Vec<Policy> {
    let mut all = Vec::new();
    for suite in Suite::all() {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for is_udp_encapsulated in [false, true] {
                for is_outer_v6 in [false, true] {
                    all.push(Policy {
                        mode,
                        is_udp_encapsulated,
                        is_outer_v6,
                        ..Policy::of(suite.clone())
                    });
                }
            }
        }
    }
    all
}

#[test]
fn true_sizes_are_the_engines_at_every_size_from_20_to_9000() {
    for policy in everyone() {
        let size = Accounting::Rfc.size(&policy).expect("a size");
        let Some(shape) = policy.shape() else {
            assert_eq!(size.at(1400.0), 1400.0);
            continue;
        };
        // In transport mode a packet is at least its IP header.
        let least = match policy.mode {
            Mode::Tunnel => 20,
            Mode::Transport => shape.ip_header_bytes(),
        };
        for bytes in least..=9000 {
            assert_eq!(
                size.at(bytes as f64),
                wire_bytes(&shape, bytes) as f64,
                "{policy:?}"
            );
        }
    }
}

#[test]
fn paper_w_sizes_are_the_engines_tunnel_mode_whatever_the_policy_says() {
    for policy in everyone() {
        let plain = Policy {
            mode: Mode::Tunnel,
            is_udp_encapsulated: false,
            is_outer_v6: false,
            ..policy.clone()
        };
        assert_eq!(
            Accounting::PaperW.size(&policy),
            Accounting::Rfc.size(&plain)
        );
    }
}

#[test]
fn paper_u_has_no_formula_for_other_suites() {
    for word in ["aes128", "md5", "aes128gcm16", "3des-sha1", "ah-sha256"] {
        let policy = Policy::of(word.parse().expect("a suite"));
        assert_eq!(Accounting::PaperU.size(&policy), Err(NoFormula));
    }
    assert!("papers".parse::<Accounting>().is_err());
    for one in [Accounting::PaperU, Accounting::PaperW, Accounting::Rfc] {
        assert_eq!(one.name().parse(), Ok(one));
    }
}

#[test]
fn a_des_packet_of_paper_u_lacks_the_iv_of_rfc_2405() {
    let policy = Policy {
        mode: Mode::Transport,
        ..Policy::of("des-md5".parse().expect("a suite"))
    };
    let paper = Accounting::PaperU.size(&policy).expect("a formula");
    let truth = Accounting::Rfc.size(&policy).expect("a size");
    for bytes in 40..2000 {
        assert_eq!(truth.at(f64::from(bytes)) - paper.at(f64::from(bytes)), 8.0);
    }
}

proptest! {
    /// Compares the number of blocks that are encrypted or covered by the ICV with a direct count.
    #[test]
    fn blocks_are_those_of_the_engines_packet(bytes in 40_usize..9000, extra in 0_u8..40) {
        for policy in everyone() {
            let Some(shape) = policy.shape() else { continue };
            let sizes = Sizes::of(&shape);
            let wire = wire_bytes(&shape, bytes);
            let outer = shape.ip_header_bytes() + if shape.is_udp_encapsulated { 8 } else { 0 };
            let icv = shape.protection.icv_len();
            let is_esp = shape.protocol == engine::sa::Protocol::Esp;
            let covered = if is_esp { wire - outer - icv } else { wire };
            for width in [64_usize, 128] {
                let expected = (covered + usize::from(extra)).div_ceil(width);
                let step = sizes.covered().blocks(f64::from(extra), width as f64);
                prop_assert_eq!(step.at(bytes as f64), expected as f64);
            }
            if is_esp {
                let encrypted = wire - outer - 8 - shape.protection.iv_len() - icv;
                prop_assert_eq!(sizes.encrypted().octets().at(bytes as f64), encrypted as f64);
                let expected = (encrypted + usize::from(extra)).div_ceil(16);
                let step = sizes.encrypted().blocks(f64::from(extra), 16.0);
                prop_assert_eq!(step.at(bytes as f64), expected as f64);
            }
        }
    }
}
