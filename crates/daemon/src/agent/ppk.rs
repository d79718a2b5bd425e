//! What an agent says of a tunnel's post-quantum pre-shared key.

use engine::agent::audit::{Event, Step};
use engine::agent::ike::IkeVersion;
use engine::agent::objectives::SecurityOption;
use tracing::info;

/// What RFC 8784 does not protect: §1 and §2 give the key to what the first IKE SA makes.
const WITH: &str = "its traffic and later IKE SAs have the post-quantum pre-shared key of the \
                    one-time key; the first IKE SA, in which the names are, is without it (RFC \
                    8784)";
const WITHOUT: &str = "no post-quantum pre-shared key: the one-time key or a back-end has none";

/// Says with a tunnel that is up whether it has one.
pub(super) fn tell(event: &Event) {
    let (Step::Up, Some(version), Some(tunnel)) = (event.step, event.ike, event.tunnel) else {
        return;
    };
    if version == IkeVersion::V2 && event.option != Some(SecurityOption::Native) {
        let said = if event.has_ppk { WITH } else { WITHOUT };
        info!("tunnel {tunnel}: {said}");
    }
}
