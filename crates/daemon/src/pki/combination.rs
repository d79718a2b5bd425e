//! Options of `caravan pki issue` that contradict each other, and what to write instead.

use std::net::IpAddr;

use anyhow::{Context, bail};
use crypto::cert::Certificate;
use crypto::sign::PublicKey;

use super::{IssueArgs, read};
use crate::control::check_name;

/// Refuses options of which one could only be ignored, or that make a client that works nowhere.
pub(super) fn check(args: &IssueArgs) -> anyhow::Result<()> {
    check_name(&args.name)
        .or_else(|error| match args.name.parse::<IpAddr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(error),
        })
        .context("--name")?;
    let has_key = args.key.is_some() || args.csr.is_some();
    if has_key && (args.kind.ml_dsa.is_some() || args.bits.is_some()) {
        bail!(
            "--bits and --ml-dsa are for a new key: with {} there is none",
            if args.csr.is_some() { "--csr" } else { "--key" }
        );
    }
    if args.client.is_aggressive() && args.kind.ml_dsa.is_some() {
        bail!(
            "aggressive mode is of IKEv1, whose certificates have RSA keys: leave --aggressive out \
             for IKEv2 with ML-DSA, or --ml-dsa out"
        );
    }
    let is_client = args.bundle || args.profile.is_some();
    if let Some(option) = args.client.given().filter(|_| !is_client) {
        bail!(
            "{option} is for a client's configuration: add --bundle, or --profile for a phone, or \
             leave it out"
        );
    }
    Ok(())
}

/// Refuses an authority whose signature a client cannot verify.
pub(super) fn check_authority(args: &IssueArgs) -> anyhow::Result<()> {
    let whose = match args.profile {
        Some(_) => "a device without Caravan",
        None if args.client.is_aggressive() => "a peer of IKEv1",
        None => return Ok(()),
    };
    let path = args.ca.join("ca.pem");
    let all = Certificate::all_from_pem(&read(&path)?);
    let all = all.with_context(|| path.display().to_string())?;
    let keys = all.iter().map(Certificate::signature_key);
    if keys.flatten().any(|key| matches!(key, PublicKey::MlDsa(_))) {
        bail!(
            "{whose} cannot verify this authority's ML-DSA signature: make another one for such \
             clients, `caravan pki ca --subject \"O=Example, CN=Example phones\" --out DIR`, and \
             name both ca.pem in the gateway's cacerts"
        );
    }
    Ok(())
}
