//! A profile of strongSwan's app for Android: JSON, `application/vnd.strongswan.profile`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Part, Profile, Proof};

pub(super) fn render(profile: &Profile) -> anyhow::Result<(Vec<Part>, String)> {
    let text = serde_json::to_string_pretty(&document(profile))? + "\n";
    let told = match profile.proof {
        Proof::Certificate { .. } => {
            "bring it to the phone and open it in strongSwan's app, which asks for the password"
        }
        Proof::User(_) => {
            "bring it to the phone and open it in strongSwan's app, which asks for the user's \
             password"
        }
    };
    let part = Part::new(profile.file("sswan"), text);
    Ok((vec![part], told.to_owned()))
}

fn document(profile: &Profile) -> Value {
    let mut all = json!({
        "uuid": profile.uuid("profile"),
        "name": profile.gateway_id.as_str(),
        "remote": {
            "addr": profile.gateway.as_str(),
            "id": profile.gateway_id.as_str(),
            "cert": STANDARD.encode(&profile.authority),
        },
    });
    match &profile.proof {
        Proof::Certificate { identity, file } => {
            all["type"] = json!("ikev2-cert");
            all["local"] = json!({ "id": identity.as_str(), "p12": STANDARD.encode(file) });
        }
        Proof::User(user) => {
            all["type"] = json!("ikev2-eap");
            all["local"] = json!({ "eap_id": user.as_str() });
        }
    }
    if !profile.is_full() {
        let networks = profile.networks.iter();
        let networks: Vec<String> = networks
            .map(|(net, bits)| format!("{net}/{bits}"))
            .collect();
        all["split-tunneling"] = json!({ "subnets": networks });
    }
    all
}
