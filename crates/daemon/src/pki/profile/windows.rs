//! A script of PowerShell that sets up Windows' own client (the VpnClient and PKI modules).
//!
//! Windows' default is MODP-1024, which no Caravan gateway accepts; the script sets group 14.

use core::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::agent::writers::powershell_string;

use super::{Part, Profile, Proof};

/// What PowerShell 5 needs to read a file as UTF-8.
const MARK: &str = "\u{feff}";
/// Algorithms that a Caravan gateway accepts without configuration. Names are those of the cmdlet:
/// of ESP, its integrity and cipher; of the IKE SA, its cipher and hash; then both groups.
const SUITE: &str = "-AuthenticationTransformConstants GCMAES256 \
                     -CipherTransformConstants GCMAES256 -EncryptionMethod AES256 \
                     -IntegrityCheckMethod SHA256 -DHGroup Group14 -PfsGroup PFS2048";

pub(super) fn render(profile: &Profile) -> (Vec<Part>, String) {
    let script = Part::new(profile.file("ps1"), MARK.to_owned() + &script(profile));
    let mut parts = vec![script, authority(profile)];
    let told = match &profile.proof {
        Proof::Certificate { file, .. } => {
            parts.push(Part::new(profile.file("p12"), file.clone()));
            "copy the folder to the machine and run the script there as administrator; it asks \
             for the password"
        }
        Proof::User(_) => {
            "copy the folder to the machine and run the script there as administrator; Windows \
             asks for the user's name and password when it connects"
        }
    };
    (parts, told.to_owned())
}

/// The authority's certificate, in the form that Windows and Android read.
pub(super) fn authority(profile: &Profile) -> Part {
    let lines = STANDARD.encode(&profile.authority);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in lines.as_bytes().chunks(64) {
        text.extend(line.iter().map(|octet| char::from(*octet)));
        text.push('\n');
    }
    Part::new("ca.crt".to_owned(), text + "-----END CERTIFICATE-----\n")
}

fn script(profile: &Profile) -> String {
    let quoted = |text: &str| powershell_string(text);
    let name = quoted(profile.gateway_id.as_str());
    let beside = |file: &str| {
        let file = quoted(file);
        format!("(Join-Path -Path $PSScriptRoot -ChildPath {file})")
    };
    let mut text = String::from(
        "# Sets up a VPN for all users of this machine. Run as administrator:\n\
         # powershell.exe -ExecutionPolicy Bypass -File THIS_FILE\n\
         #Requires -RunAsAdministrator\n\
         $ErrorActionPreference = 'Stop'\n\n\
         # From here to the end every program of this machine trusts this authority.\n",
    );
    let _ = writeln!(
        text,
        "Import-Certificate -FilePath {} -CertStoreLocation 'Cert:\\LocalMachine\\Root'",
        beside("ca.crt")
    );
    let method = match &profile.proof {
        Proof::Certificate { .. } => {
            let file = profile.file("p12");
            let asked = quoted(&format!("Password of {file}"));
            let _ = writeln!(
                text,
                "$password = Read-Host -AsSecureString -Prompt {asked}\n\
                 Import-PfxCertificate -FilePath {} -CertStoreLocation \
                 'Cert:\\LocalMachine\\My' -Password $password",
                beside(&file)
            );
            "-AuthenticationMethod MachineCertificate"
        }
        Proof::User(_) => {
            // Without further words it is EAP-MSCHAPv2.
            text += "$eap = New-EapConfiguration\n";
            "-AuthenticationMethod Eap -EapConfigXmlStream $eap.EapConfigXmlStream"
        }
    };
    let split = if profile.is_full() {
        ""
    } else {
        " -SplitTunneling"
    };
    let _ = writeln!(
        text,
        "\n$name = {name}\n\
         if (Get-VpnConnection -Name $name -AllUserConnection -ErrorAction SilentlyContinue) \
         {{\n    Remove-VpnConnection -Name $name -AllUserConnection -Force\n}}\n\
         Add-VpnConnection -Name $name -ServerAddress {} -TunnelType Ikev2 {method} \
         -EncryptionLevel Maximum{split} -AllUserConnection -Force\n\
         Set-VpnConnectionIPsecConfiguration -ConnectionName $name {SUITE} -AllUserConnection \
         -Force",
        quoted(profile.gateway.as_str())
    );
    for route in routes(profile) {
        let _ = writeln!(
            text,
            "Add-VpnConnectionRoute -ConnectionName $name -DestinationPrefix {} -AllUserConnection",
            quoted(&route)
        );
    }
    text
}

/// Networks that get a route. A default route of IPv4 is Windows' own; of IPv6 it makes none, and
/// takes none as a whole.
fn routes(profile: &Profile) -> Vec<String> {
    let mut all = Vec::new();
    for (network, bits) in &profile.networks {
        match (network.is_ipv4(), bits) {
            (true, 0) => {}
            (false, 0) => all.extend(["::/1".to_owned(), "8000::/1".to_owned()]),
            _ => all.push(format!("{network}/{bits}")),
        }
    }
    all
}
