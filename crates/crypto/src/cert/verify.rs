//! The path from an end entity to an authority that we trust (RFC 5280 §6.1, RFC 4945 §5).
//!
//! Why this is not `rustls-webpki`, which does the same for TLS: it would replace the search and
//! the signature checks, about 170 lines of code here and in `revocation.rs`. We would have to add
//! translations of its errors, which do not name the certificate; signature schemes for legacy
//! algorithms; the checks of key usage and of a trust anchor's limits, which it lacks; and the
//! choice among several lists of one authority, of which it takes the first. It also refuses
//! certificates of version 1. That would be about as much code, and a second reader of certificates
//! beside ours. So it serves as a second opinion: the fuzz target `paths` compares both.

mod revocation;

use super::passed::{CertificatePath, Step};
use super::purpose::Purposes;
use super::read::Certificate;
use super::{CertFault, CertificateVerified, LeafKeys, TrustStore};
use crate::sign::KeyKind;

/// Certificates in a path at most, including end entity and trust anchor.
const MAX_CHAIN: usize = 8;
/// Signatures that one check may cost, however many certificates have the same name.
const MAX_SIGNATURES: u32 = 32;
/// RSA keys that are not legacy (RFC 8247 §3).
const MIN_BITS: u32 = 2048;

impl TrustStore {
    /// Checks the path from `leaf` over `intermediates` to an authority at calendar time `now`
    /// (seconds since 1970): signatures, validity, basic constraints, path length, key usage (RFC
    /// 4945 §5.1.3), extended key usage, revocation. If certificates are pinned, the leaf must be
    /// one of them and needs no path.
    pub fn verify(
        &self,
        leaf: &Certificate,
        intermediates: &[Certificate],
        now: i64,
    ) -> Result<CertificateVerified, CertFault> {
        self.verify_with(LeafKeys::RsaOnly, leaf, intermediates, now)
    }

    /// [`Self::verify`], for an end entity with a key of the given kinds.
    pub fn verify_with(
        &self,
        keys: LeafKeys,
        leaf: &Certificate,
        intermediates: &[Certificate],
        now: i64,
    ) -> Result<CertificateVerified, CertFault> {
        check_validity(leaf, now)?;
        check_leaf(leaf, keys, self.accepts_legacy)?;
        let mut budget = Budget::default();
        let path = if self.pinned.is_empty() {
            let mut climb = Climb {
                store: self,
                intermediates,
                now,
                budget,
                path: vec![leaf],
            };
            climb.from(leaf, 0, leaf.facts.extensions.purposes)?;
            climb.found()
        } else if self.pinned.iter().any(|one| one.der() == leaf.der()) {
            self.check_pinned(leaf, now, &mut budget)?
        } else {
            let subject = leaf.subject();
            return Err(CertFault::NotPinned { subject });
        };
        Ok(CertificateVerified {
            names: leaf.names(),
            spki: leaf.facts.spki.clone(),
            not_after: leaf.facts.not_after,
            path,
        })
    }
}

impl Certificate {
    /// Whether a peer could accept this end entity at calendar time `now` (seconds since 1970):
    /// checks validity, usage and key, but not the issuer. A key of less than 2048 bits needs
    /// `accepts_legacy`.
    pub fn check_as_own(&self, now: i64, accepts_legacy: bool) -> Result<(), CertFault> {
        self.check_as_own_with(LeafKeys::RsaOnly, now, accepts_legacy)
    }

    /// [`Self::check_as_own`], for a key of the given kinds.
    pub fn check_as_own_with(
        &self,
        keys: LeafKeys,
        now: i64,
        accepts_legacy: bool,
    ) -> Result<(), CertFault> {
        check_validity(self, now)?;
        check_leaf(self, keys, accepts_legacy)
    }

    /// Whether calendar time `now` (seconds since 1970) lies within its validity.
    pub fn check_in_force(&self, now: i64) -> Result<(), CertFault> {
        check_validity(self, now)
    }
}

/// Checks the end entity, whoever issued it.
fn check_leaf(leaf: &Certificate, keys: LeafKeys, accepts_legacy: bool) -> Result<(), CertFault> {
    let extensions = &leaf.facts.extensions;
    check_critical(leaf)?;
    if extensions.usage.is_some_and(|usage| !usage.signs) {
        let why = "its key usage has neither digitalSignature nor nonRepudiation";
        return Err(wrong_usage(leaf, why));
    }
    // RFC 5280 §4.2.1.10.
    if extensions.has_name_constraints && !extensions.is_authority {
        return Err(wrong_usage(
            leaf,
            "it has name constraints, and is no authority",
        ));
    }
    if !extensions.purposes.admit_ike() {
        let why = "its extended key usage has none of ipsecIKE, serverAuth, clientAuth and any";
        return Err(wrong_usage(leaf, why));
    }
    let kind = match keys {
        LeafKeys::RsaOnly => KeyKind::Rsa {
            bits: leaf.public_key()?.bits(),
        },
        LeafKeys::Any => leaf.signature_key()?.kind(),
    };
    let KeyKind::Rsa { bits } = kind else {
        return Ok(());
    };
    if bits < MIN_BITS && !accepts_legacy {
        return Err(CertFault::KeyUnsupported {
            subject: leaf.subject(),
            why: format!("{bits} bits are fewer than {MIN_BITS}"),
        });
    }
    Ok(())
}

/// Whether the fault says more than that the path leads nowhere.
fn tells(fault: &CertFault) -> bool {
    !matches!(
        fault,
        CertFault::BadSignature { .. }
            | CertFault::Namesake { .. }
            | CertFault::UnknownAuthority { .. }
    )
}

/// Signatures that one check may still cost.
struct Budget(u32);

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_SIGNATURES)
    }
}

impl Budget {
    fn spend(&mut self) -> Result<(), CertFault> {
        self.0 = self.0.checked_sub(1).ok_or(CertFault::TooMany)?;
        Ok(())
    }
}

/// A search for a path, upwards, with bounded depth and work.
struct Climb<'a> {
    store: &'a TrustStore,
    intermediates: &'a [Certificate],
    now: i64,
    budget: Budget,
    /// From the end entity upwards; after success, up to the anchor.
    path: Vec<&'a Certificate>,
}

impl<'a> Climb<'a> {
    /// Searches the issuer of `current`. `below` counts the authorities between it and the end
    /// entity that count for path lengths. `purposes` are common to all from the end entity to
    /// `current`.
    fn from(
        &mut self,
        current: &'a Certificate,
        below: u32,
        purposes: Purposes,
    ) -> Result<(), CertFault> {
        let mut fault = None;
        let (store, intermediates) = (self.store, self.intermediates);
        let anchors = store.authorities.iter().map(|anchor| (anchor, true));
        let others = intermediates.iter().map(|other| (other, false));
        for (issuer, is_anchor) in anchors.chain(others) {
            let is_used = self.path.iter().any(|used| used.der() == issuer.der());
            if issuer.facts.signer.name != current.facts.issuer || is_used {
                continue;
            }
            match self.over(current, (issuer, is_anchor), below, purposes) {
                Ok(()) => return Ok(()),
                Err(stop @ CertFault::TooMany) => return Err(stop),
                // Report the most useful fault: of two authorities of one name, that of the real
                // signer; of two paths, that of the one that came nearer to an anchor.
                Err(CertFault::BadSignature { .. } | CertFault::Namesake { .. })
                    if fault.is_some() => {}
                Err(CertFault::UnknownAuthority { .. }) if fault.as_ref().is_some_and(tells) => {}
                Err(other) => fault = Some(other),
            }
        }
        Err(fault.unwrap_or_else(|| CertFault::UnknownAuthority {
            subject: current.subject(),
            issuer: current.facts.issuer_text.clone(),
        }))
    }

    /// One step: checks that `issuer` signed `current` and may do so, then continues unless it is
    /// an anchor.
    fn over(
        &mut self,
        current: &'a Certificate,
        (issuer, is_anchor): (&'a Certificate, bool),
        below: u32,
        purposes: Purposes,
    ) -> Result<(), CertFault> {
        if self.path.len() >= MAX_CHAIN {
            return Err(CertFault::TooLong);
        }
        self.budget.spend()?;
        let key = &issuer.facts.signer.key;
        if !current.facts.signed.is_by(key, self.store.accepts_legacy) {
            let (subject, issuer_text) = (current.subject(), issuer.subject());
            let (own, other) = (&current.facts.extensions, &issuer.facts.extensions);
            return Err(match own.names_other_key(other) {
                true => CertFault::Namesake {
                    subject,
                    issuer: issuer_text,
                },
                false => CertFault::BadSignature {
                    subject,
                    issuer: issuer_text,
                },
            });
        }
        check_authority(issuer, below)?;
        check_validity(issuer, self.now)?;
        let step = Step::new(current, issuer);
        self.store.check_step(&step, self.now, &mut self.budget)?;
        self.path.push(issuer);
        if is_anchor {
            return Ok(());
        }
        let common = purposes.and(issuer.facts.extensions.purposes);
        // RFC 5280 §4.2.1.9: certificates that authorities issue to themselves do not count.
        let is_self_issued = issuer.facts.signer.name == issuer.facts.issuer;
        let found = match common.admit_ike() {
            true => self.from(issuer, below + u32::from(!is_self_issued), common),
            false => Err(wrong_usage(
                issuer,
                "the certificate below it and its own extended key usage share no purpose for IKE",
            )),
        };
        if found.is_err() {
            self.path.pop();
        }
        found
    }

    /// The path that was found.
    fn found(&self) -> CertificatePath {
        let pairs = self.path.windows(2);
        let steps = pairs.map(|pair| Step::new(pair[0], pair[1])).collect();
        CertificatePath::new(self.path[0], steps)
    }
}

/// Checks that an authority may issue with `below` authorities under it.
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
            now: text_of_time(now),
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

/// A calendar time: `2027-01-02 03:04:05 UTC`.
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
