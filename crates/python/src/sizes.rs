//! Sizes of packets under a policy.

use lab::cost::{Accounting, Parts, Policy};
use serde::Deserialize;
use serde_json::json;

use crate::refused::Refused;
use crate::request::read;

/// Clear IP packets of these sizes under a policy file, by the formulas of an accounting.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizesRequest {
    file: String,
    text: String,
    accounting: Accounting,
    bytes: Vec<u32>,
}

/// Bytes on the wire, null if the accounting has no formula; parts, null without protection, of
/// ESP in UDP or of SKIP.
pub(crate) fn of(request: &str) -> Result<String, Refused> {
    let request: SizesRequest = read(request)?;
    let policy = Policy::parse(&request.file, &request.text)?;
    let size = request.accounting.size(&policy).ok();
    let clear = request.bytes.iter().copied().map(f64::from);
    let wire: Option<Vec<f64>> = size.map(|size| clear.map(|bytes| size.at(bytes)).collect());
    let suite = policy.suite.ipsec();
    let parts = match policy.suite.skip() {
        Some(skip) => json!(skip.parts()),
        None => json!(suite.map(|suite| Parts::of(&suite.protection))),
    };
    Ok(json!({ "wire_bytes": wire, "parts": parts }).to_string())
}
