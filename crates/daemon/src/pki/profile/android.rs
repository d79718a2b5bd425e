//! Android's own client (11 and later) reads no file: a page with the fields of its form, and a QR
//! code of them, which a camera turns into text to copy from.

use core::fmt::Write as _;

use anyhow::Context as _;
use qrcodegen::{QrCode, QrCodeEcc};

use super::{Part, Profile, Proof, windows};
use crate::qr;

pub(super) fn render(profile: &Profile) -> anyhow::Result<(Vec<Part>, String)> {
    let fields = fields(profile);
    let lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let lines = lines.join("\n");
    let code = QrCode::encode_text(&lines, QrCodeEcc::Low);
    let code = code.context("the fields are too long for a QR code: use shorter names")?;
    let page = Part::new(profile.file("html"), page(&fields, &code));
    let mut parts = vec![page, windows::authority(profile)];
    let mut told = match &profile.proof {
        Proof::Certificate { file, .. } => {
            parts.push(Part::new(profile.file("p12"), file.clone()));
            format!(
                "install ca.crt and {} on the phone, then fill in the fields of its form\n\n",
                profile.file("p12")
            )
        }
        Proof::User(_) => "install ca.crt on the phone, then fill in its form\n\n".to_owned(),
    };
    told += &lines;
    told += "\n\n";
    qr::draw(&code, &mut told);
    Ok((parts, told))
}

/// The form's fields with the words of Android's settings.
fn fields(profile: &Profile) -> Vec<(&'static str, &str)> {
    let (gateway, name) = (profile.gateway.as_str(), profile.name.as_str());
    let mut all = vec![("Name", profile.gateway_id.as_str())];
    match &profile.proof {
        Proof::Certificate { identity, .. } => all.extend([
            ("Type", "IKEv2/IPSec RSA"),
            ("Server address", gateway),
            ("IPSec identifier", identity.as_str()),
            ("IPSec user certificate", name),
            ("IPSec CA certificate", name),
            ("IPSec server certificate", "(received from server)"),
        ]),
        Proof::User(user) => all.extend([
            ("Type", "IKEv2/IPSec MSCHAPv2"),
            ("Server address", gateway),
            ("IPSec identifier", user.as_str()),
            ("IPSec CA certificate", "the one of ca.crt"),
            ("IPSec server certificate", "(received from server)"),
            ("Username", user.as_str()),
        ]),
    }
    all
}

fn page(fields: &[(&str, &str)], code: &QrCode) -> String {
    let mut page = String::from(
        "<!doctype html>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>VPN</title>\n<style>\n\
         body { font: 12pt sans-serif; margin: 12mm }\n\
         td { padding: 1mm 6mm 1mm 0 }\nsvg { width: 80mm; height: 80mm }\n</style>\n\
         <h1>VPN</h1>\n<p>Settings, Network &amp; internet, VPN, +</p>\n<table>\n",
    );
    for (name, value) in fields {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td><code>{}</code></td></tr>",
            escaped(name),
            escaped(value)
        );
    }
    page += "</table>\n";
    qr::svg(code, &mut page);
    page + "\n"
}

/// Text between tags.
fn escaped(text: &str) -> String {
    let mut all = String::new();
    for c in text.chars() {
        match c {
            '&' => all += "&amp;",
            '<' => all += "&lt;",
            '>' => all += "&gt;",
            '"' => all += "&quot;",
            '\'' => all += "&#39;",
            other => all.push(other),
        }
    }
    all
}
