//! A client's ready configuration: one folder for `caravan up -c`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use engine::identity::Identity;
use engine::selector::TrafficSelector;

use crate::config::values::meant_subnet;

/// The settings of a client's file besides its keys.
#[derive(Debug, Args)]
pub(super) struct Client {
    /// With --bundle or --profile: address or name of the gateway
    #[arg(long, value_name = "ADDR")]
    gateway: Option<String>,
    /// Identity of the gateway; default: its address or name
    #[arg(long, value_name = "ID", value_parser = identity)]
    gateway_id: Option<String>,
    /// Networks behind the gateway, such as 10.10.0.0/24; the option may be repeated
    #[arg(long, value_name = "PREFIX", num_args = 1.., value_parser = network)]
    remote_ts: Vec<String>,
    /// Transport mode: the client talks to the gateway's own address
    #[arg(long, conflicts_with = "remote_ts")]
    transport: bool,
    /// IKEv1 in aggressive mode: three messages instead of six, and RSA keys alone
    #[arg(long)]
    aggressive: bool,
}

impl Client {
    /// The address or name of the gateway, if there is one.
    pub(super) fn gateway(&self) -> &str {
        self.gateway.as_deref().unwrap_or_default()
    }

    /// Whether it is a client of IKEv1.
    pub(super) fn is_aggressive(&self) -> bool {
        self.aggressive
    }

    /// An option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let all = [
            ("--gateway", self.gateway.is_some()),
            ("--gateway-id", self.gateway_id.is_some()),
            ("--remote-ts", !self.remote_ts.is_empty()),
            ("--transport", self.transport),
            ("--aggressive", self.aggressive),
        ];
        let found = all.into_iter().find(|(_, is_given)| *is_given);
        found.map(|(option, _)| option)
    }

    pub(super) fn gateway_id(&self) -> &str {
        self.gateway_id.as_deref().unwrap_or(self.gateway())
    }

    pub(super) fn networks(&self) -> impl Iterator<Item = &str> {
        self.remote_ts.iter().map(String::as_str)
    }

    /// One inner address for each family of the networks; IPv4 if there are none.
    fn families(&self) -> Vec<String> {
        let networks = self.remote_ts.iter().filter_map(|text| text.parse().ok());
        let v4 = |network: TrafficSelector| network.first.is_ipv4();
        let (v4, v6): (Vec<bool>, Vec<bool>) = networks.map(v4).partition(|is_v4| *is_v4);
        let any = [
            (!v4.is_empty() || v6.is_empty()).then_some("0.0.0.0"),
            (!v6.is_empty()).then_some("::"),
        ];
        any.into_iter().flatten().map(str::to_owned).collect()
    }
}

/// Checks that a configuration accepts this selector, and returns it as written.
fn network(text: &str) -> Result<String, String> {
    if text.trim().contains([',', ' ']) {
        return Err("name one network, and repeat --remote-ts for each other one".to_owned());
    }
    if let Some(subnet) = meant_subnet(text) {
        let bits = if subnet.contains(':') { 128 } else { 32 };
        return Err(format!(
            "it is one address; did you mean {subnet}? Write {text}/{bits} for one host"
        ));
    }
    match TrafficSelector::parse(text) {
        Ok(Some(_)) => Ok(text.to_owned()),
        Ok(None) => Err("name a network, such as 10.10.0.0/24".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

fn identity(text: &str) -> Result<String, String> {
    match Identity::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Writes the configuration beside certificate, key and the authority's certificate.
pub(super) fn write_client(
    folder: &Path,
    name: &str,
    client: &Client,
    authority_pem: &str,
) -> anyhow::Result<String> {
    super::write(&folder.join("ca.pem"), authority_pem, 0o644)?;
    let path = folder.join(format!("{name}.toml"));
    super::write(&path, &text(name, client), 0o600)?;
    Ok(format!(
        "{} is ready: copy the folder to the client and run `caravan up -c {name}.toml` there\n",
        path.display()
    ))
}

fn text(name: &str, client: &Client) -> String {
    let (gateway, id) = (client.gateway(), client.gateway_id());
    // A JSON string is a valid TOML basic string.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let list = |items: &[String]| serde_json::Value::from(items).to_string();
    let connection = format!("connections.{}", quoted(name));
    let mut text = format!("[{connection}]\nremote_addrs = [{}]\n", quoted(gateway));
    if client.aggressive {
        text += "version = 1\naggressive = true\n";
    }
    if !client.transport {
        let _ = writeln!(text, "vips = {}", list(&client.families()));
    }
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let _ = writeln!(
        text,
        "local = {{ certs = [{}], key = {} }}\n\
         remote = {{ cacerts = [\"ca.pem\"], id = {} }}\n\n\
         [{connection}.children.net]",
        quoted(&certificate),
        quoted(&key),
        quoted(id)
    );
    if client.transport {
        text += "mode = \"transport\"\n";
    }
    if !client.remote_ts.is_empty() {
        let _ = writeln!(text, "remote_ts = {}", list(&client.remote_ts));
    }
    text
}
