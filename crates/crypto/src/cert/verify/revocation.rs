//! Revocation lists in the path check (RFC 5280 §6.3), and the effect of later lists on a path that
//! passed.
//!
//! A list counts if the issuer of the certificate signed it itself, under the name and key that
//! signed the certificate. Left out: reasons, delta and indirect lists, lists signed by another
//! key.

use super::{Budget, text_of_time};
use crate::cert::passed::{CertificatePath, Step};
use crate::cert::read::Signer;
use crate::cert::{CertFault, Certificate, ListFault, RevocationList, RevocationRule, TrustStore};

impl TrustStore {
    /// Why a path that passed before, perhaps in another store, is not trusted any more: a list of
    /// this store names a certificate of it, or other certificates are pinned here. A missing or
    /// expired list does not end trust.
    pub fn disbelieved_since(&self, path: &CertificatePath, now: i64) -> Option<CertFault> {
        if !self.pinned.is_empty() && !self.pinned.iter().any(|one| path.leaf.is(one)) {
            let subject = path.leaf.subject.clone();
            return Some(CertFault::NotPinned { subject });
        }
        path.steps.iter().find_map(|step| {
            // Most paths cost no signature check.
            let is_named = self.revocations.iter().any(|list| {
                list.issuer == step.issuer.name && list.revoked_at(&step.serial).is_some()
            });
            is_named.then(|| {
                let found = self.check_step(step, now, &mut Budget::default());
                found
                    .err()
                    .filter(|it| matches!(it, CertFault::Revoked { .. }))
            })?
        })
    }

    /// Whether a path that passed before would pass now, as far as lists, their rule and pins say.
    /// In contrast to [`Self::disbelieved_since`], a list that the rule demands must be there and
    /// in force. Does not look at the dates of certificates.
    pub fn still_believes(&self, path: &CertificatePath, now: i64) -> Result<(), CertFault> {
        if let Some(fault) = self.disbelieved_since(path, now) {
            return Err(fault);
        }
        let mut budget = Budget::default();
        let mut steps = path.steps.iter();
        steps.try_for_each(|step| self.check_step(step, now, &mut budget))
    }

    /// What is wrong with each list that does not count at `now`, in their order. Skips a list that
    /// a newer one replaced. A list of an authority whose certificate only peers send is
    /// [`ListFault::Unmatched`].
    pub fn list_faults(&self, now: i64) -> Vec<ListFault> {
        let known = self.authorities.iter().chain(&self.pinned);
        let signers: Vec<&Signer> = known.map(|one| &*one.facts.signer).collect();
        let fault = |list: &RevocationList| {
            let mut own = signers.iter().filter(|signer| signer.name == list.issuer);
            let issuer = list.issuer_text.clone();
            let mut first = own
                .next()
                .map(|signer| self.check_list(list, signer, now).err());
            // If two authorities have one name, one is enough.
            if own.any(|signer| self.check_list(list, signer, now).is_ok()) {
                first = Some(None);
            }
            let fault = first.unwrap_or(Some(ListFault::Unmatched { issuer }))?;
            let is_replaced = matches!(fault, ListFault::Over { .. })
                && signers.iter().any(|signer| {
                    signer.name == list.issuer
                        && self
                            .current_list(signer, now, &mut Budget::default())
                            .is_ok_and(|it| it.is_ok())
                });
            (!is_replaced).then_some(fault)
        };
        self.revocations.iter().filter_map(fault).collect()
    }

    /// The authorities whose certificates all fail at `now` because no list covers them, with the
    /// reason.
    pub fn uncovered(&self, now: i64) -> Vec<ListFault> {
        let budget = Budget::default;
        let refused = |found: Result<(), CertFault>| match found {
            Err(CertFault::NotChecked { why, .. }) => Some(why),
            _ => None,
        };
        if !self.pinned.is_empty() {
            let each = self
                .pinned
                .iter()
                .map(|one| self.check_pinned(one, now, &mut budget()));
            return each
                .filter_map(|found| refused(found.map(|_| ())))
                .collect();
        }
        let each = self.authorities.iter().map(|authority| {
            let list = self.current_list(&authority.facts.signer, now, &mut budget());
            let fault = list.ok()?.err()?;
            refused(self.without_list(&authority.facts.subject_text, fault))
        });
        each.flatten().collect()
    }

    /// A pinned certificate needs no path. The lists of its authority count if the authority is
    /// known.
    pub(super) fn check_pinned(
        &self,
        pinned: &Certificate,
        now: i64,
        budget: &mut Budget,
    ) -> Result<CertificatePath, CertFault> {
        let own = core::iter::once(pinned);
        for issuer in self.authorities.iter().chain(own) {
            if issuer.facts.signer.name != pinned.facts.issuer {
                continue;
            }
            budget.spend()?;
            if pinned
                .facts
                .signed
                .is_by(&issuer.facts.signer.key, self.accepts_legacy)
            {
                let step = Step::new(pinned, issuer);
                self.check_step(&step, now, budget)?;
                return Ok(CertificatePath::new(pinned, vec![step]));
            }
        }
        let issuer = pinned.facts.issuer_text.clone();
        let mut lists = self.revocations.iter();
        let fault = match lists.any(|list| list.issuer == pinned.facts.issuer) {
            true => ListFault::Unmatched { issuer },
            false => ListFault::Missing { issuer },
        };
        self.without_list(&pinned.facts.subject_text, fault)?;
        Ok(CertificatePath::new(pinned, Vec::new()))
    }

    pub(super) fn check_step(
        &self,
        step: &Step,
        now: i64,
        budget: &mut Budget,
    ) -> Result<(), CertFault> {
        let list = match self.newest_list(&step.issuer, now, budget)? {
            Ok(list) => list,
            Err(fault) => return self.without_list(&step.subject, fault),
        };
        // An expired list still says who was revoked.
        if let Some(at) = list.revoked_at(&step.serial) {
            return Err(CertFault::Revoked {
                subject: step.subject.clone(),
                at: text_of_time(at),
            });
        }
        in_force(list, now).or_else(|fault| self.without_list(&step.subject, fault))
    }

    /// Applies the rule to a certificate that no current list covers.
    fn without_list(&self, subject: &str, why: ListFault) -> Result<(), CertFault> {
        let is_listed = !matches!(why, ListFault::Missing { .. });
        match self.revocation {
            RevocationRule::Strict => {}
            RevocationRule::IfListed if is_listed => {}
            RevocationRule::IfListed | RevocationRule::Relaxed => return Ok(()),
        }
        Err(CertFault::NotChecked {
            subject: subject.into(),
            why,
        })
    }

    fn current_list(
        &self,
        issuer: &Signer,
        now: i64,
        budget: &mut Budget,
    ) -> Result<Result<&RevocationList, ListFault>, CertFault> {
        let newest = self.newest_list(issuer, now, budget)?;
        Ok(newest.and_then(|list| in_force(list, now).map(|()| list)))
    }

    /// The newest list that the issuer signed and that is not from the future. Otherwise, what is
    /// wrong with those that have its name.
    fn newest_list(
        &self,
        issuer: &Signer,
        now: i64,
        budget: &mut Budget,
    ) -> Result<Result<&RevocationList, ListFault>, CertFault> {
        let text = issuer.text.clone();
        let mut newest: Result<&RevocationList, _> = Err(ListFault::Missing { issuer: text });
        for list in self
            .revocations
            .iter()
            .filter(|it| it.issuer == issuer.name)
        {
            if newest
                .as_ref()
                .is_ok_and(|other| list.rank() <= other.rank())
            {
                continue;
            }
            budget.spend()?;
            match self.check_list(list, issuer, now) {
                Ok(()) | Err(ListFault::Over { .. }) => newest = Ok(list),
                Err(fault) => newest = newest.or(Err(fault)),
            }
        }
        Ok(newest)
    }

    /// Whether a list of this name is signed by the issuer and in force.
    fn check_list(
        &self,
        list: &RevocationList,
        issuer: &Signer,
        now: i64,
    ) -> Result<(), ListFault> {
        let text = list.issuer_text.clone();
        if !issuer.signs_revocations {
            return Err(ListFault::NoSigner { issuer: text });
        }
        if !list.signed.is_by(&issuer.key, self.accepts_legacy) {
            return Err(ListFault::BadSignature { issuer: text });
        }
        in_force(list, now)
    }
}

fn in_force(list: &RevocationList, now: i64) -> Result<(), ListFault> {
    let issuer = list.issuer_text.clone();
    if list.this_update > now {
        let at = text_of_time(list.this_update);
        return Err(ListFault::NotYet { issuer, at });
    }
    match list.next_update {
        Some(next) if next < now => Err(ListFault::Over {
            issuer,
            at: text_of_time(next),
        }),
        _ => Ok(()),
    }
}
