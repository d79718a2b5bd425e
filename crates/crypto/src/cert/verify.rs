//! The path from an end entity to an authority that we believe (RFC 5280 §6.1, RFC 4945 §5).

use super::read::{Certificate, RevocationList};
use super::{CertFault, CertificateVerified, TrustStore};

/// Certificates in a path, end entity and trust anchor among them.
const MAX_CHAIN: usize = 8;
/// Signatures that one check may cost, however many certificates have the same name.
const MAX_SIGNATURES: u32 = 32;
/// RSA keys that are not legacy (RFC 8247 §3).
const MIN_BITS: u32 = 2048;

impl TrustStore {
    /// Checks the path from `leaf` over `intermediates` to an authority at calendar time `now`
    /// (seconds since 1970): signatures, validity, basic constraints, path length, key usage
    /// (RFC 4945 §5.1.3), extended key usage, revocation. A leaf that is one of the authorities
    /// itself needs no path.
    pub fn verify(
        &self,
        leaf: &Certificate,
        intermediates: &[Certificate],
        now: i64,
    ) -> Result<CertificateVerified, CertFault> {
        check_validity(leaf, now)?;
        check_leaf(leaf, self.accepts_legacy)?;
        let is_pinned = self.authorities.iter().any(|one| one.der() == leaf.der());
        if !is_pinned {
            let mut climb = Climb {
                store: self,
                intermediates,
                now,
                signatures_left: MAX_SIGNATURES,
                path: vec![leaf],
            };
            climb.from(leaf, 0)?;
        }
        Ok(CertificateVerified {
            names: leaf.names(),
            spki: leaf.facts.spki.clone(),
            not_after: leaf.facts.not_after,
        })
    }
}

impl Certificate {
    /// Whether a peer could believe it at calendar time `now` (seconds since 1970) as an end
    /// entity, by its own words: validity, usage, key. Who issued it is not looked at. A key of
    /// less than 2048 bits needs `accepts_legacy`.
    pub fn check_as_own(&self, now: i64, accepts_legacy: bool) -> Result<(), CertFault> {
        check_validity(self, now)?;
        check_leaf(self, accepts_legacy)
    }
}

/// What the end entity must be, whoever issued it.
fn check_leaf(leaf: &Certificate, accepts_legacy: bool) -> Result<(), CertFault> {
    let extensions = &leaf.facts.extensions;
    check_critical(leaf)?;
    if extensions.usage.is_some_and(|usage| !usage.signs) {
        let why = "its key usage has neither digitalSignature nor nonRepudiation";
        return Err(wrong_usage(leaf, why));
    }
    if extensions.is_for_something_else {
        return Err(wrong_usage(leaf, "its extended key usage is not for IKE"));
    }
    let bits = leaf.public_key()?.bits();
    if bits < MIN_BITS && !accepts_legacy {
        return Err(CertFault::KeyUnsupported {
            subject: leaf.subject(),
            why: format!("{bits} bits are fewer than {MIN_BITS}"),
        });
    }
    Ok(())
}

/// A search for a path, upwards, with bounded depth and work.
struct Climb<'a> {
    store: &'a TrustStore,
    intermediates: &'a [Certificate],
    now: i64,
    signatures_left: u32,
    path: Vec<&'a Certificate>,
}

impl<'a> Climb<'a> {
    /// Finds who issued `current`, with `below` authorities between it and the end entity that
    /// count for path lengths.
    fn from(&mut self, current: &'a Certificate, below: u32) -> Result<(), CertFault> {
        let mut fault = None;
        let (store, intermediates) = (self.store, self.intermediates);
        let anchors = store.authorities.iter().map(|anchor| (anchor, true));
        let others = intermediates.iter().map(|other| (other, false));
        for (issuer, is_anchor) in anchors.chain(others) {
            let is_used = self.path.iter().any(|used| used.der() == issuer.der());
            if issuer.facts.subject != current.facts.issuer || is_used {
                continue;
            }
            match self.over(current, issuer, is_anchor, below) {
                Ok(()) => return Ok(()),
                Err(stop @ CertFault::TooMany) => return Err(stop),
                // Of two authorities of one name, the one that did sign knows more.
                Err(CertFault::BadSignature { .. }) if fault.is_some() => {}
                Err(other) => fault = Some(other),
            }
        }
        Err(fault.unwrap_or_else(|| CertFault::UnknownAuthority {
            subject: current.subject(),
            issuer: current.facts.issuer_text.clone(),
        }))
    }

    /// One step: `issuer` signed `current` and may have; then on, unless it is an anchor.
    fn over(
        &mut self,
        current: &'a Certificate,
        issuer: &'a Certificate,
        is_anchor: bool,
        below: u32,
    ) -> Result<(), CertFault> {
        if self.path.len() >= MAX_CHAIN {
            return Err(CertFault::TooLong);
        }
        self.spend_signature()?;
        let key = &issuer.facts.key;
        if !current.facts.signed.is_by(key, self.store.accepts_legacy) {
            return Err(CertFault::BadSignature {
                subject: current.subject(),
                issuer: issuer.subject(),
            });
        }
        check_authority(issuer, below)?;
        check_validity(issuer, self.now)?;
        self.check_revocation(current, issuer)?;
        if is_anchor {
            return Ok(());
        }
        // RFC 5280 §4.2.1.9: certificates that authorities issue to themselves do not count.
        let is_self_issued = issuer.facts.subject == issuer.facts.issuer;
        self.path.push(issuer);
        let found = self.from(issuer, below + u32::from(!is_self_issued));
        self.path.pop();
        found
    }

    fn check_revocation(
        &mut self,
        current: &Certificate,
        issuer: &Certificate,
    ) -> Result<(), CertFault> {
        let Some(list) = self.newest_list(issuer)? else {
            return self.without_list(issuer);
        };
        // A list that is out of date still says who was revoked.
        if let Some(at) = list.revoked_at(&current.facts.serial) {
            return Err(CertFault::Revoked {
                subject: current.subject(),
                at: text_of_time(at),
            });
        }
        match list.next_update {
            Some(next) if next < self.now => self.without_list(issuer),
            _ => Ok(()),
        }
    }

    fn without_list(&self, issuer: &Certificate) -> Result<(), CertFault> {
        match self.store.requires_revocation {
            true => Err(CertFault::NoRevocationList {
                issuer: issuer.subject(),
            }),
            false => Ok(()),
        }
    }

    /// The newest list of the issuer that it signed and that is not from the future.
    fn newest_list(
        &mut self,
        issuer: &Certificate,
    ) -> Result<Option<&'a RevocationList>, CertFault> {
        if issuer
            .facts
            .extensions
            .usage
            .is_some_and(|usage| !usage.signs_revocations)
        {
            return Ok(None);
        }
        let mut newest: Option<&RevocationList> = None;
        for list in &self.store.revocations {
            let is_newer = newest.is_none_or(|other| list.this_update > other.this_update);
            if list.issuer != issuer.facts.subject || list.this_update > self.now || !is_newer {
                continue;
            }
            self.spend_signature()?;
            let key = &issuer.facts.key;
            if list.signed.is_by(key, self.store.accepts_legacy) {
                newest = Some(list);
            }
        }
        Ok(newest)
    }

    fn spend_signature(&mut self) -> Result<(), CertFault> {
        self.signatures_left = self
            .signatures_left
            .checked_sub(1)
            .ok_or(CertFault::TooMany)?;
        Ok(())
    }
}

/// What an authority must be to have issued something with `below` authorities under it.
fn check_authority(issuer: &Certificate, below: u32) -> Result<(), CertFault> {
    let extensions = &issuer.facts.extensions;
    check_critical(issuer)?;
    if !extensions.is_authority {
        return Err(wrong_usage(issuer, "it is not an authority's"));
    }
    if extensions.has_name_constraints {
        return Err(wrong_usage(issuer, "it has name constraints"));
    }
    if extensions.path_len.is_some_and(|most| below > most) {
        return Err(wrong_usage(issuer, "its path length is exceeded"));
    }
    if extensions
        .usage
        .is_some_and(|usage| !usage.signs_certificates)
    {
        return Err(wrong_usage(issuer, "its key usage lacks keyCertSign"));
    }
    Ok(())
}

fn check_critical(certificate: &Certificate) -> Result<(), CertFault> {
    match &certificate.facts.extensions.unknown_critical {
        None => Ok(()),
        Some(oid) => {
            let why = format!("critical extension {oid} is not processed");
            Err(wrong_usage(certificate, &why))
        }
    }
}

fn check_validity(certificate: &Certificate, now: i64) -> Result<(), CertFault> {
    let facts = &certificate.facts;
    let subject = certificate.subject();
    if now < facts.not_before {
        let not_before = text_of_time(facts.not_before);
        return Err(CertFault::NotYetValid {
            subject,
            not_before,
        });
    }
    if now > facts.not_after {
        let not_after = text_of_time(facts.not_after);
        return Err(CertFault::Expired { subject, not_after });
    }
    Ok(())
}

fn wrong_usage(certificate: &Certificate, why: &str) -> CertFault {
    CertFault::WrongUsage {
        subject: certificate.subject(),
        why: why.into(),
    }
}

/// A moment of the calendar, `2027-01-02 03:04:05 UTC`.
fn text_of_time(seconds: i64) -> String {
    match time::OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(at) => {
            let (hour, minute, second) = at.to_hms();
            format!("{} {hour:02}:{minute:02}:{second:02} UTC", at.date())
        }
        Err(_) => format!("{seconds} seconds from 1970"),
    }
}

#[cfg(test)]
mod tests;
