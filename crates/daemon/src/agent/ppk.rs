//! What an agent says of a tunnel's post-quantum pre-shared key.

use engine::agent::audit::{Event, Step};
use engine::agent::ike::IkeVersion;
use engine::ikev2::ppk::PpkExchange;
use tracing::info;

/// RFC 9867: IKE_INTERMEDIATE comes before anybody says who he is.
const WITH_FIRST: &str = "all its IKE SAs, the first one too, in which the names are, and its \
                          traffic have the post-quantum pre-shared key of the one-time key \
                          (RFC 9867)";
/// RFC 8784 §1 and §2 give the key to what the first IKE SA makes.
const WITHOUT_FIRST: &str = "its traffic and later IKE SAs have the post-quantum pre-shared key of \
                             the one-time key; the first IKE SA, in which the names are, is \
                             without it (RFC 8784)";
const UNKNOWN_FIRST: &str = "its traffic and later IKE SAs have the post-quantum pre-shared key of \
                             the one-time key; this back-end does not say whether the first IKE \
                             SA, in which the names are, has it too";
const WITHOUT: &str = "no post-quantum pre-shared key: the one-time key or a back-end has none";

/// Says with a tunnel that is up whether it has one, and from when on.
pub(super) fn tell(event: &Event) {
    if let (Some(said), Some(tunnel)) = (said(event), event.tunnel) {
        info!("tunnel {tunnel}: {said}");
    }
}

/// An event has a version of IKE only if the tunnel has IKE.
fn said(event: &Event) -> Option<&'static str> {
    if event.step != Step::Up || event.ike != Some(IkeVersion::V2) {
        return None;
    }
    Some(match (event.has_ppk, event.ppk_exchange) {
        (false, _) => WITHOUT,
        (true, Some(PpkExchange::IkeIntermediate)) => WITH_FIRST,
        (true, Some(PpkExchange::IkeAuth)) => WITHOUT_FIRST,
        (true, None) => UNKNOWN_FIRST,
    })
}

#[cfg(test)]
mod tests {
    use engine::agent::audit::Role;
    use engine::time::Calendar;

    use super::*;

    #[test]
    fn the_log_says_whether_the_first_ike_sa_has_it() {
        let of = |step, ike, has_ppk, exchange| {
            let mut event = Event::new(Calendar(1), Role::Client, step);
            (event.ike, event.has_ppk, event.ppk_exchange) = (ike, has_ppk, exchange);
            said(&event)
        };
        let v2 = Some(IkeVersion::V2);
        let early = Some(PpkExchange::IkeIntermediate);
        let with = of(Step::Up, v2, true, early).unwrap();
        assert!(with.contains("the first one too") && with.contains("RFC 9867"));
        let late = of(Step::Up, v2, true, Some(PpkExchange::IkeAuth)).unwrap();
        assert!(late.contains("is without it (RFC 8784)"));
        let unknown = of(Step::Up, v2, true, None).unwrap();
        assert!(unknown.contains("does not say whether"));
        assert_eq!(of(Step::Up, v2, false, None), Some(WITHOUT));
        for nothing in [
            of(Step::Built, v2, true, early),
            of(Step::Up, Some(IkeVersion::V1), false, None),
            of(Step::Up, None, false, None),
        ] {
            assert_eq!(nothing, None);
        }
    }
}
