//! `caravan tunnel-agent`: Client, Host and Target of the tunnel agents ([`engine::agent`]), and
//! what their administrators need.
//!
//! Each role is a loop around a pure machine: `client`, `host`, `target`. What may take long has a
//! thread of its own (`worker`): the database ([`store`]), and the ends of tunnels (`ends`, through
//! a [`backend`]). `docs/agents.md` shows how to use it, `docs/design/agents.md` why it is so.

mod administer;
mod audit;
pub mod backend;
mod certify;
mod choice;
mod client;
mod clock;
mod door;
mod drops;
mod ends;
mod evidence;
mod host;
pub mod hygiene;
mod issue;
mod key_file;
mod log;
mod paper;
mod post;
mod ppk;
mod sheet_file;
pub mod socks;
pub mod store;
mod tables;
mod target;
pub mod token;
mod told;
mod tunnels;
mod worker;
mod write;

use std::ffi::OsString;
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use engine::agent::{LIFETIME_MAX, LIFETIME_MIN};

use crate::config::agent::{AgentConfig, AgentRole, HostConfig, TargetConfig, identity_text, load};
use crate::config::values::Span;
use crate::{files, pki};

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// `caravan tunnel-agent`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask for a tunnel by a one-time key, keep it up, take it down
    #[command(after_help = "Examples:\n  \
        caravan tunnel-agent client --user alice --sheet sheet.txt --key 3\n  \
        caravan tunnel-agent client --user alice --objectives DataExchangeConf,NonRepudiation\n\n\
        Without --sheet it reads the first line of the sheet and that of one key from standard\n\
        input. The tunnel ends at ^C, at logout, when the token is removed, and after --lifetime.\n\
        \n\
        Exit status: 0 the tunnel was up, and you or its time have ended it; 1 there was no\n\
        tunnel, or it has ended before its time; 2 the command line or the file of -c\n\
        is wrong.\n\
        docs/agents.md shows how.")]
    Client(Box<client::ClientArgs>),
    /// Run Host's agent, which keeps the one-time keys, in the foreground
    #[command(after_help = "Example:\n  caravan tunnel-agent host -c host.toml")]
    Host(RunArgs),
    /// Run Target's agent, which builds the other ends, in the foreground
    #[command(
        after_help = "Example:\n  caravan tunnel-agent target -c target.toml\n\n\
        It takes all tunnels down when it ends."
    )]
    Target(RunArgs),
    /// Make the secret keys of Host or Target, and print their public halves
    #[command(after_help = "Example:\n  caravan tunnel-agent init host.keys\n\n\
        The identity, or host.keys.pub, goes to the other agents. Compare the fingerprint by\n\
        another way.")]
    Init {
        /// The file, new or of an earlier `init`
        file: PathBuf,
    },
    /// Make one-time keys for a user, at Host
    #[command(after_help = "Examples:\n  \
        caravan tunnel-agent issue -c host.toml --user alice --count 10 --out sheet.txt\n  \
        A page to print:  caravan tunnel-agent issue -c host.toml --user alice --count 10 \\\n    \
        --format html --out sheet.html\n  \
        On a token:       caravan tunnel-agent issue -c host.toml --user alice --count 10 \\\n    \
        --module libsofthsm2.so --token alice --pin-file pin --out sheet.txt\n  \
        Made by the user: caravan tunnel-agent issue -c host.toml --user alice \\\n    \
        --public keys.pub --out head.txt")]
    Issue(Box<issue::IssueArgs>),
    /// Make one-time keys where their user is, so that nobody else ever has them
    #[command(after_help = "Example:\n  \
        caravan tunnel-agent make --count 10 --out sheet.txt --public keys.pub")]
    Make(issue::MakeArgs),
    /// Show the one-time keys of Host and their states
    Keys(administer::KeysArgs),
    /// Revoke one-time keys at Host
    #[command(after_help = "Examples:\n  \
        caravan tunnel-agent revoke -c host.toml --user alice\n  \
        caravan tunnel-agent revoke -c host.toml --all")]
    Revoke(administer::RevokeArgs),
    /// Say who may come in, at Target
    #[command(after_help = "Examples:\n  \
        caravan tunnel-agent member -c target.toml add alice@home --network 10.10.0.0/24\n  \
        caravan tunnel-agent member -c target.toml list")]
    Member(administer::MemberArgs),
    /// Show the tunnels of Target: who is in, by which key, from where, to what, until when
    #[command(
        after_help = "Example:\n  caravan tunnel-agent tunnels -c target.toml\n\n\
        A tunnel is begun, expected (Client has not come), up, open (nobody can see whether\n\
        Client has come), or ending."
    )]
    Tunnels(tunnels::TunnelsArgs),
    /// Show what a user has signed for a tunnel, from Target's database and log, and check it
    #[command(after_help = "Example:\n  \
        caravan tunnel-agent evidence -c target.toml 0123456789abcdef0123456789abcdef\n\n\
        The log names tunnels: grep 'step=up' target.log")]
    Evidence(evidence::EvidenceArgs),
    /// Verify the chain of a log, and say the first bad line
    #[command(after_help = "Examples:\n  \
        caravan tunnel-agent audit host.log\n  \
        caravan tunnel-agent audit host.log --end 12:9f86d081884c7d65...\n\n\
        Lines that were cut off the end are found only with an end that was noted elsewhere.")]
    Audit(audit::AuditArgs),
    /// Write the texts by which another implementation builds one end and takes it down
    #[command(after_help = "Example:\n  \
        caravan tunnel-agent write --for windows --side client --local-id alice@home \\\n    \
        --remote 192.0.2.9 --remote-id target.example --network 10.10.0.0/24 --session-key psk")]
    Write(Box<write::WriteArgs>),
    /// Print the paper's Tables 1 to 4 as the machines have them, and today's reading
    Tables {
        /// JSON with fixed keys
        #[arg(long)]
        json: bool,
    },
}

/// So many keys.
fn keys_text(count: usize) -> String {
    match count {
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    }
}

/// Reads how long a tunnel shall live.
fn lifetime(text: &str) -> Result<Span, String> {
    let span = Span::parse(text)?;
    match (LIFETIME_MIN..=LIFETIME_MAX).contains(&span.0) {
        true => Ok(span),
        false => Err(
            "a tunnel of agents lives from 1 minute to 24 hours (1m to 24h): all three agents hold \
             to that, and no file changes it"
                .to_owned(),
        ),
    }
}

/// Options of an agent that serves.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The agent's file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

/// What the processes of an agent share with it.
pub struct Place {
    /// The folder of this program's control sockets.
    pub runtime_dir: PathBuf,
    /// The options by which it logs.
    pub logging: Vec<OsString>,
}

/// Runs a command. Returns the text to print.
pub fn run(command: Command, place: Place) -> anyhow::Result<String> {
    let served = match command {
        Command::Client(args) => wait(client::run(*args, place)),
        Command::Host(args) => {
            let (config, folder) = host_of(&args.config)?;
            warn_of(&args.config)?;
            wait(host::run(config, &folder))
        }
        Command::Target(args) => {
            let (config, folder) = target_of(&args.config)?;
            warn_of(&args.config)?;
            wait(target::run(config, &folder, place))
        }
        Command::Init { file } => return init(&file),
        Command::Issue(args) => {
            let (config, folder) = host_of(&args.config)?;
            return wait(issue::issue(&args, &config, &folder));
        }
        Command::Make(args) => return wait(issue::make(&args)),
        Command::Keys(args) => {
            let (config, folder) = host_of(&args.config)?;
            return wait(administer::keys(&args, &config, &folder));
        }
        Command::Revoke(args) => {
            let (config, folder) = host_of(&args.config)?;
            return wait(administer::revoke(&args, &config, &folder));
        }
        Command::Member(args) => {
            let (config, folder) = target_of(&args.config)?;
            return wait(administer::member(&args, &config, &folder));
        }
        Command::Tunnels(args) => {
            let (config, folder) = target_of(&args.config)?;
            return wait(tunnels::run(&args, &config, &folder));
        }
        Command::Evidence(args) => {
            let (config, folder) = target_of(&args.config)?;
            return wait(evidence::run(&args, &config, &folder));
        }
        Command::Audit(args) => return audit::run(&args),
        Command::Write(args) => return write::run(&args),
        Command::Tables { json } => return Ok(tables::run(json)),
    };
    served.map(|()| String::new())
}

/// The folders of tunnels that Client's agents of this user have up: each has a control socket.
/// `runtime_dir` is that of this program.
pub fn folders_of_tunnels(runtime_dir: &Path) -> Vec<PathBuf> {
    backend::folders(&choice::passing_folder(runtime_dir.to_owned()))
}

fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // Does not wait for a name that is still being resolved.
    runtime.shutdown_background();
    done
}

/// `caravan check`: what is unwise, and what the file is. Files that it names are read.
pub fn check(path: &Path) -> anyhow::Result<String> {
    let (config, folder, cautions) = read(path)?;
    let warnings = cautions.into_iter();
    let mut text: String = warnings.map(|it| format!("warning: {it}\n")).collect();
    let keys = match &config {
        AgentConfig::Client(config) => client::know(config).map(|()| None)?,
        AgentConfig::Host(config) => Some(host::know(config, &folder)?),
        AgentConfig::Target(config) => Some(target::know(config, &folder)?.keys),
    };
    if let Some(keys) = keys {
        text += &format!("note: fingerprint {}\n", keys.identity().fingerprint());
    }
    let role = match config.role() {
        AgentRole::Client => "Client's agent",
        AgentRole::Host => "Host's agent",
        AgentRole::Target => "Target's agent",
    };
    text += &format!("{} is valid: {role}\n", path.display());
    Ok(text)
}

fn init(file: &Path) -> anyhow::Result<String> {
    let (identity, made) = match file.exists() {
        true => (key_file::load(file)?.identity(), String::new()),
        false => {
            let identity = key_file::create(file)?;
            let made = format!("{} has the secret keys: it stays there\n", file.display());
            (identity, made)
        }
    };
    let public = file.with_added_extension("pub");
    let text = identity_text(&identity);
    pki::write(&public, &format!("{text}\n"), 0o644)?;
    Ok(format!(
        "{made}{} is for the other agents\nidentity    {text}\nfingerprint {}\n",
        public.display(),
        identity.fingerprint()
    ))
}

/// An agent's file, its folder, and what is unwise. A file with the password of a database is a
/// secret.
fn read(path: &Path) -> anyhow::Result<(AgentConfig, PathBuf, Vec<String>)> {
    let config = load(path)?;
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let mut cautions = config.warnings();
    let database = match &config {
        AgentConfig::Client(_) => return Ok((config, folder, cautions)),
        AgentConfig::Host(config) => &config.database,
        AgentConfig::Target(config) => &config.database,
    };
    let database = store::Database::parse(database, &folder)?;
    let file = File::open(path).with_context(|| path.display().to_string())?;
    if database.is_secret() {
        files::check_secret(&file, path)?;
    }
    if file.metadata()?.permissions().mode() & WRITABLE_BY_OTHERS != 0 {
        let name = path.display();
        let text =
            format!("other users can change {name}, and we do what it says: `chmod go-w {name}`");
        cautions.push(text);
    }
    cautions.extend(database.warning());
    Ok((config, folder, cautions))
}

fn warn_of(path: &Path) -> anyhow::Result<()> {
    for caution in read(path)?.2 {
        tracing::warn!("{caution}");
    }
    Ok(())
}

fn host_of(path: &Path) -> anyhow::Result<(HostConfig, PathBuf)> {
    match read(path)? {
        (AgentConfig::Host(config), folder, _) => Ok((config, folder)),
        (other, ..) => wrong(path, &other, "host"),
    }
}

fn target_of(path: &Path) -> anyhow::Result<(TargetConfig, PathBuf)> {
    match read(path)? {
        (AgentConfig::Target(config), folder, _) => Ok((*config, folder)),
        (other, ..) => wrong(path, &other, "target"),
    }
}

fn wrong<T>(path: &Path, other: &AgentConfig, needed: &str) -> anyhow::Result<T> {
    bail!(
        "{} is the file of {:?}'s agent: role = \"{needed}\" is needed",
        path.display(),
        other.role()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_lifetime_out_of_range_is_refused_with_the_range() {
        for good in ["1m", "60s", "24h", "1d"] {
            assert!(lifetime(good).is_ok(), "{good}");
        }
        for wrong in ["59s", "25h", "0s", "59999ms"] {
            let said = lifetime(wrong).unwrap_err();
            assert!(said.contains("from 1 minute to 24 hours"), "{said}");
        }
        assert!(lifetime("1").is_err());
    }

    #[test]
    fn a_file_with_a_password_is_a_secret_and_a_port_in_clear_is_told() {
        let name = format!("caravan-agent-file-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        files::make_folder(&folder, 0o700).unwrap();
        let path = folder.join("host.toml");
        let read_with = |database: &str, mode: u32| {
            let text = format!("role = \"host\"\ndatabase = \"{database}\"\n");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path).map(|(_, _, cautions)| cautions.concat())
        };
        let socket = "postgresql:///caravan?user=host";
        for (database, mode) in [("host.db", 0o644), (socket, 0o644), (socket, 0o600)] {
            let cautions = read_with(database, mode).unwrap();
            assert!(!cautions.contains("in clear") && !cautions.contains("can change"));
        }
        let secret = "postgresql://host:secret@localhost/caravan";
        let said = read_with(secret, 0o640).err().unwrap().to_string();
        assert!(said.contains("chmod 600"), "{said}");
        let cautions = read_with(secret, 0o600).unwrap();
        assert!(cautions.contains("is reached in clear"), "{cautions}");
        assert!(!cautions.contains("secret@"), "{cautions}");
        let secured = format!("{secret}?sslmode=verify-full");
        assert!(!read_with(&secured, 0o600).unwrap().contains("in clear"));
        assert!(read_with("host.db", 0o666).unwrap().contains("can change"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
