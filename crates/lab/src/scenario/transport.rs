//! The layer `transport`: TLS between the ends of flows by TCP. Its handshake is an exchange of the
//! catalogue.

use document::{Fault, Item, Table};
use serde::{Serialize, Serializer};

use super::catalogue::{Catalogue, Kind};
use super::motion::Flow;
use super::quantity;
use super::traffic::Model;
use crate::cost::{RECORD_MAX, Records, TlsVersion};

/// TLS, as a layer says it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tls {
    /// Version and suite.
    #[serde(serialize_with = "named")]
    pub records: Records,
    /// The exchange of its handshake.
    pub method: String,
    /// The most that a record carries, in octets.
    pub record_bytes: u32,
}

/// A flow in TLS.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transport {
    /// Index of the flow.
    pub flow: usize,
    /// How.
    pub tls: Tls,
}

/// The smallest record that a layer may ask for.
const RECORD_MIN: u32 = 64;

impl Tls {
    /// Reads what a layer says of it.
    pub(super) fn read(
        table: &Table<'_>,
        is_legacy: bool,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let version = TlsVersion::read(table.need("version")?)?;
        let records = Records::read(version, table.need("suite")?, is_legacy)?;
        let entry = catalogue.named(Kind::Exchange, table.need("method")?)?;
        files.push(entry.fingerprint());
        Ok(Self {
            records,
            method: entry.name.clone(),
            record_bytes: table.or("record", RECORD_MAX, record)?,
        })
    }
}

/// The flow by TCP that a layer names.
pub(super) fn flow_of(item: &Item, flows: &[Flow]) -> Result<usize, Fault> {
    let name = item.text()?;
    let Some(found) = flows.iter().position(|flow| flow.name == name) else {
        let names = flows.iter().map(|flow| flow.name.as_str());
        return Err(item.fault(document::unknown("flow", name, names)));
    };
    match is_tcp(&flows[found]) {
        true => Ok(found),
        false => Err(item.fault("TLS is of flows by TCP")),
    }
}

/// Whether TLS can protect a flow.
pub(super) fn is_tcp(flow: &Flow) -> bool {
    matches!(flow.traffic.model, Model::Tcp { .. })
}

fn record(item: &Item) -> Result<u32, Fault> {
    let bytes = item.quantity(quantity::size)?;
    let most = f64::from(RECORD_MAX);
    match (f64::from(RECORD_MIN)..=most).contains(&bytes) && libm::trunc(bytes) == bytes {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the limits"
        )]
        true => Ok(bytes as u32),
        false => Err(item.fault(format!("must be {RECORD_MIN} B to {RECORD_MAX} B"))),
    }
}

fn named<S: Serializer>(records: &Records, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&records.to_string())
}
