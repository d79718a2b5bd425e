//! The command line.

mod commands;
mod idle;

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use engine::identity::Identity;
use tracing_subscriber::EnvFilter;

use crate::agent::backend::{attendant, lines};
use crate::agent::hygiene::{self, Rights};
use crate::agent::socks;
use crate::config::ConfigError;
use crate::options::{Role, RunOptions};
use crate::privileges::PrivilegeError;
use crate::service::{self, Outcome, Ready};
use crate::{agent, bench, config, console, link, packet, pki, steward, user, wireless};

/// Exit status: an error while running.
const FAILED: u8 = 1;
/// Exit status: the command line or the configuration is wrong, or does not fit what runs already.
const WRONG: u8 = 2;

const RUNTIME_DIR: &str = "/run/caravan";

/// A mobile IPsec VPN in userspace
#[derive(Debug, Parser)]
#[command(
    name = "caravan",
    version,
    propagate_version = true,
    after_help = "Examples:\n  \
        caravan check client.toml           report errors and unwise settings\n  \
        caravan up -c client.toml --detach  bring its connections up\n  \
        caravan status                      show tunnels, counters and drops\n  \
        caravan down home                   take [connections.home] down\n  \
        caravan gateway -c gateway.toml     run a gateway\n\n\
        Exit status: 0 success, 1 failure, 2 the command line or the configuration is wrong, or\n\
        another process has its port or device."
)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command, below its own in the help.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// Folder for control sockets and records of running processes; or $CARAVAN_RUNTIME_DIR
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value_os_t = folder("CARAVAN_RUNTIME_DIR", RUNTIME_DIR)
    )]
    runtime_dir: PathBuf,
    /// Folder for inner addresses, peers' addresses and old resolvers; or $CARAVAN_STATE_DIR
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        default_value_os_t = folder("CARAVAN_STATE_DIR", "/var/lib/caravan")
    )]
    state_dir: PathBuf,
    /// What to log: error, warn, info, debug, trace, or "info,daemon::routes=debug"
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Format of the log on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

impl Global {
    /// The steward's command line for a process with these options.
    fn steward(&self, config: &Path, role: Role) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["steward".into(), "--config".into(), config.into()];
        all.extend(["--role".into(), role.command().into()]);
        all.extend(["--runtime-dir".into(), self.runtime_dir.clone().into()]);
        all.extend(["--state-dir".into(), self.state_dir.clone().into()]);
        all.extend(self.logging());
        all
    }

    fn place(&self) -> agent::Place {
        agent::Place {
            runtime_dir: self.runtime_dir.clone(),
            logging: self.logging(),
        }
    }

    /// Folders of agents' tunnels. Who names a folder means what is there.
    fn folders_of_tunnels(&self) -> Vec<PathBuf> {
        match self.runtime_dir == Path::new(RUNTIME_DIR) {
            true => agent::folders_of_tunnels(&self.runtime_dir),
            false => Vec::new(),
        }
    }

    /// How a process that this one starts logs: like this one.
    fn logging(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["--log-level".into(), self.log_level.clone().into()];
        if let Some(format) = self.log_format.to_possible_value() {
            all.extend(["--log-format".into(), format.get_name().into()]);
        }
        all
    }
}

/// The default of a folder, from the environment. With clap's own `env`, every usage line would
/// show the option as if it were required.
fn folder(variable: &str, otherwise: &str) -> PathBuf {
    let said = std::env::var_os(variable).filter(|said| !said.is_empty());
    said.map_or_else(|| otherwise.into(), PathBuf::from)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a gateway, in the foreground
    #[command(
        after_help = "Example:\n  caravan gateway -c /etc/caravan/gateway.toml\n\n\
        After it ends or crashes, traffic for its pools is refused until it runs again or until\n\
        `caravan down NAME`, unless its connection has on_failure = \"pass\"."
    )]
    Gateway(RunArgs),
    /// Run a home agent of Mobile IPv4, in the foreground
    #[command(
        after_help = "Example:\n  caravan home-agent -c /etc/caravan/home-agent.toml\n\n\
        It serves the nodes of [mobile_nodes.NAME]. docs/vpn-mobile-ip.md shows how."
    )]
    HomeAgent(RunArgs),
    /// Run a foreign agent of Mobile IPv4, in the foreground
    #[command(
        after_help = "Example:\n  caravan foreign-agent -c /etc/caravan/foreign-agent.toml\n\n\
        It serves mobile nodes that visit its link. docs/vpn-mobile-ip.md shows how."
    )]
    ForeignAgent(RunArgs),
    /// Run the firewall of a mobile private network, in the foreground
    #[command(
        after_help = "Example:\n  caravan firewall -c /etc/caravan/firewall.toml\n\n\
        It lets in what [access.NAME] allows and what is authentic. docs/vpn-mobile-ip.md shows\n\
        how."
    )]
    Firewall(RunArgs),
    /// Bring the connections of a configuration up and keep them up; run a mobile node
    #[command(after_help = "Examples:\n  \
        caravan up -c ms1.toml            in the foreground; ^C takes it down\n  \
        caravan up -c ms1.toml --detach   returns when the tunnel is up, or says why it is not\n\n\
        In the foreground it tries forever. With --detach it gives up when each address of the\n\
        gateway has failed once, or after --timeout. Then it prints the reason, returns status 1\n\
        and leaves no process running. A gateway that does not answer fails after 63 seconds, so\n\
        only a larger --timeout waits for that. A mobile node has until --timeout to register.\n\n\
        While a connection with on_failure = \"block\" is not up, traffic for its networks is\n\
        refused until `caravan down NAME`. This also holds before the first attempt, and after\n\
        `up` has given up, crashed or been stopped by ^C. So does the packet filter of a mobile\n\
        node outside of its firewall: `caravan down mobile` removes it.")]
    Up {
        #[command(flatten)]
        run: RunArgs,
        /// Return when the tunnel is up; the process stays in the background
        #[arg(long)]
        detach: bool,
        /// Seconds that --detach waits for the tunnel
        #[arg(
            long,
            value_name = "SECONDS",
            requires = "detach",
            default_value_t = 30,
            value_parser = clap::value_parser!(u32).range(1..)
        )]
        timeout: u32,
        /// This is the process in the background
        #[arg(long, hide = true)]
        background: bool,
        /// A process attends this one: it is taken down when standard input ends
        #[arg(long, hide = true, conflicts_with = "detach")]
        attended: bool,
    },
    /// Take a connection down, or a part in Mobile IPv4; its traffic takes ordinary routes again
    #[command(after_help = "Examples:\n  \
        caravan down home                       a whole connection\n  \
        caravan down ms --peer ms1.example      one peer of a gateway's connection\n  \
        caravan down firewall                   a part in Mobile IPv4\n\n\
        As root it also removes the packet filter of a firewall or of a mobile node. If no\n\
        process runs, it removes what a crashed one left behind. With --peer the peer may\n\
        connect again: to lock it out, use `caravan pki revoke`, or remove its pre-shared key.")]
    Down {
        /// Key of the connection: home for [connections.home]. In Mobile IPv4: home-agent,
        /// foreign-agent, firewall or mobile
        name: String,
        /// End only the tunnels of this peer; its identity as `caravan status` shows it
        #[arg(long, value_name = "ID", value_parser = Identity::parse)]
        peer: Option<Identity>,
    },
    /// Read the configuration and its files again; unchanged connections keep their tunnels, except
    /// those of revoked peers
    Reload {
        /// A connection of the process; not needed if only one process runs
        #[arg(conflicts_with = "all")]
        name: Option<String>,
        /// All running processes
        #[arg(long)]
        all: bool,
    },
    /// Renew the keys of a connection
    Rekey {
        /// Key of the connection
        name: String,
        /// Renew the keys of phase 1 instead of those of the children
        #[arg(long)]
        ike: bool,
    },
    /// Let a client that has used IKEv2 use IKEv1 again, with a connection of version = 0
    Forget {
        /// Key of the connection
        name: String,
        /// The client's identity as `caravan status` shows it
        #[arg(long, value_name = "ID", value_parser = Identity::parse)]
        peer: Identity,
    },
    /// Send a gateway's clients to another gateway, before this one is taken down; --off ends that
    #[command(
        group = ArgGroup::new("where").required(true).args(["to", "off"]),
        after_help = "Examples:\n  \
            caravan drain phones --to sg2.example   clients go to another gateway\n  \
            caravan drain phones --off              clients are served here again"
    )]
    Drain {
        /// Key of a connection of the gateway
        name: String,
        /// Address or name of the other gateway, none of this one
        #[arg(long, value_name = "GATEWAY")]
        to: Option<String>,
        /// End it: clients are served here again
        #[arg(long)]
        off: bool,
    },
    /// Show connections, tunnels, counters and drops
    Status {
        /// Key of one connection; without it, all
        name: Option<String>,
        /// JSON with fixed keys: one process is an object, several or none are
        /// {"processes": [...]}
        #[arg(long)]
        json: bool,
    },
    /// Report errors and unwise settings in a configuration
    Check(CheckArgs),
    /// Make, show and revoke keys and certificates
    #[command(subcommand)]
    Pki(pki::Command),
    /// Add, list and remove the users that a gateway lets in by EAP
    #[command(subcommand)]
    User(user::Command),
    /// Measure the speed of this machine, for the lab
    #[command(after_help = "Example:\n  caravan bench --quick")]
    Bench(bench::Args),
    /// Emulate a link with rate, delay, loss and queue
    Link(link::Args),
    /// Run a station or an access point of a wireless link without a radio
    #[command(
        after_help = "Example:\n  caravan wireless -c station.toml --capture air.pcap\n\n\
        It makes a TAP device, protects what the host sends there, and carries it as frames of\n\
        802.11 over another interface, the air. docs/vpn-wireless.md shows how."
    )]
    Wireless(wireless::Args),
    /// Get a tunnel from the machine at hand by a key that works once
    #[command(subcommand)]
    TunnelAgent(agent::Command),
    /// Bring one connection up without root, as a SOCKS server on this machine
    #[command(
        after_help = "Example:\n  umask 077; caravan socks -c ms1.toml > proxy &\n  \
        ALL_PROXY=$(head -n 1 proxy) curl http://10.1.0.1/\n\n\
        It prints the address with a password, drawn anew at each start: without it, every user\n\
        of this machine could use the tunnel. Names are resolved at the far end. It changes\n\
        nothing on this machine. docs/vpn-socks.md shows how."
    )]
    Socks(socks::command::Args),
    /// Change this host for `up` and `gateway`, which start it
    #[command(hide = true)]
    Steward(StewardArgs),
    /// Run one tunnel for an agent, which starts it
    #[command(hide = true)]
    TunnelEnd,
    /// Write texts of tunnels' ends, and drive back-ends: JSON lines on standard input
    #[command(hide = true)]
    TunnelBackend,
    /// Seal and open single packets with given keys: JSON lines on standard input
    #[command(hide = true)]
    Packet(packet::Args),
}

impl Command {
    /// What becomes of root's rights in it.
    fn rights(&self) -> Rights {
        match self {
            Self::Up { .. } | Self::Steward(_) => Rights::GivenUp,
            _ => Rights::Kept,
        }
    }
}

#[derive(Clone, Debug, Args)]
struct RunArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Record packets for Wireshark (mode 0600) AND THEIR KEYS in FILE.pcapng.keys
    #[arg(long, value_name = "FILE.pcapng")]
    capture: Option<PathBuf>,
    /// User to run as after the setup; default: daemon.user of the file, then caravan
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

#[derive(Clone, Debug, Args)]
struct CheckArgs {
    /// The configuration of any of these processes, or the file of `caravan wireless` or
    /// `caravan tunnel-agent`
    #[arg(required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The same, as the commands that run it take it
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl CheckArgs {
    fn named(&self) -> &Path {
        let named = self.file.as_ref().or(self.config.as_ref());
        named.expect("one of them is required")
    }
}

#[derive(Clone, Debug, Args)]
struct StewardArgs {
    /// The configuration
    #[arg(long)]
    config: PathBuf,
    /// The command of the process that it serves
    #[arg(long, value_parser = |text: &str| Role::of_command(text).ok_or("there is no such role"))]
    role: Role,
}

/// Reads the command line and runs the command; `run` is the main loop of `gateway` and `up`.
pub fn main(run: impl FnOnce(RunOptions) -> anyhow::Result<()>) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(asked) => return explain(&asked),
    };
    let result = log(&cli.global).and_then(|()| {
        hygiene::keep_private_if_told(cli.command.rights());
        cli.execute(run)
    });
    result.unwrap_or_else(|error| {
        console::complain(sentence(&error));
        ExitCode::from(if is_wrong(&error) { WRONG } else { FAILED })
    })
}

/// Whether trying again does not mend it: a user that is missing, or a port or device that another
/// process has, is as wrong as a file.
fn is_wrong(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        cause.is::<ConfigError>()
            || matches!(cause.downcast_ref(), Some(PrivilegeError::NoUser(_)))
            || matches!(kind, Some(ErrorKind::AddrInUse | ErrorKind::ResourceBusy))
    })
}

/// Prints requested help, or what is wrong with the command line.
fn explain(asked: &clap::Error) -> ExitCode {
    let is_help = !asked.use_stderr();
    match asked.print() {
        Err(error) if is_help && error.kind() != ErrorKind::BrokenPipe => {
            console::complain(format!("cannot write to standard output: {error}"));
            ExitCode::from(FAILED)
        }
        _ if is_help => ExitCode::SUCCESS,
        _ => ExitCode::from(WRONG),
    }
}

/// All causes of an error, each only once: many errors repeat the text of their cause.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            said if said.contains(&cause) => text,
            said => format!("{said}: {cause}"),
        }
    })
}

fn log(global: &Global) -> anyhow::Result<()> {
    // This library warns when it ends normally.
    let filter = EnvFilter::try_new(format!("netlink_proto=off,{}", global.log_level))
        .with_context(|| format!("--log-level {}", global.log_level))?;
    let is_journal = console::is_journal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .with_writer(console::Log { is_journal });
    match (global.log_format, is_journal) {
        (LogFormat::Text, false) => log.with_target(false).init(),
        (LogFormat::Text, true) => log.with_target(false).without_time().init(),
        (LogFormat::Json, _) => log.json().init(),
    }
    Ok(())
}

impl Cli {
    fn execute(
        self,
        run: impl FnOnce(RunOptions) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let global = self.global;
        let runtime_dir = global.runtime_dir.clone();
        let folders = (runtime_dir.clone(), global.state_dir.clone());
        let text = match self.command {
            Command::Gateway(args) => serve(args, Role::Gateway, &global, run)?,
            Command::HomeAgent(args) => serve(args, Role::HomeAgent, &global, run)?,
            Command::ForeignAgent(args) => serve(args, Role::ForeignAgent, &global, run)?,
            Command::Firewall(args) => serve(args, Role::Firewall, &global, run)?,
            Command::Up {
                run: args,
                detach,
                timeout,
                background,
                attended,
            } => {
                if detach && !background {
                    return commands::detach(&args.config, &runtime_dir, &folders.1);
                }
                let timeout = Duration::from_secs(timeout.into());
                let ready = (Ready::new(background)?, timeout);
                let mut options = args.options(Role::Station, &global, ready)?;
                options.is_attended = attended;
                run_client(options, background, run)?;
                String::new()
            }
            Command::Down { name, peer: None } => commands::down(&runtime_dir, &folders.1, &name)?,
            Command::Down {
                name,
                peer: Some(peer),
            } => commands::end_peer(&runtime_dir, name, peer)?,
            Command::Reload { name, all } => commands::reload(&runtime_dir, name.as_deref(), all)?,
            Command::Rekey { name, ike } => commands::rekey(&runtime_dir, name, ike)?,
            Command::Forget { name, peer } => commands::forget(&runtime_dir, name, peer)?,
            Command::Drain { name, to, .. } => commands::drain(&runtime_dir, name, to)?,
            Command::Status { name, json } => {
                let tunnels = global.folders_of_tunnels();
                commands::status((&runtime_dir, &tunnels), name.as_deref(), json)?
            }
            Command::Check(args) => commands::check(args.named())?,
            Command::Pki(command) => pki::run(&command)?,
            Command::User(command) => user::run(&command)?,
            Command::Bench(args) => silent(bench::run(&args))?,
            Command::Link(args) => silent(link::run(&args))?,
            Command::Wireless(args) => silent(wireless::run(&args))?,
            Command::TunnelAgent(command) => agent::run(command, global.place())?,
            Command::Socks(args) => silent(socks::command::run(&args))?,
            Command::Steward(args) => {
                steward::serve::run(steward::serve::Order {
                    role: args.role,
                    config: args.config,
                    runtime_dir: global.runtime_dir,
                    state_dir: global.state_dir,
                })?;
                String::new()
            }
            Command::TunnelEnd => silent(attendant::run(&global.logging()))?,
            Command::TunnelBackend => silent(lines::run())?,
            Command::Packet(args) => silent(packet::run(args))?,
        };
        console::say(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A command that has printed all it says.
fn silent<E: Into<anyhow::Error>>(done: Result<(), E>) -> anyhow::Result<String> {
    done.map(|()| String::new()).map_err(Into::into)
}

/// Runs a gateway or an agent, which have no background.
fn serve(
    args: RunArgs,
    role: Role,
    global: &Global,
    run: impl FnOnce(RunOptions) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let ready = (Ready::new(false)?, Duration::MAX);
    run(args.options(role, global, ready)?)?;
    Ok(String::new())
}

/// In the background, it leaves its outcome for `status` and for the terminal.
fn run_client(
    options: RunOptions,
    is_background: bool,
    run: impl FnOnce(RunOptions) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let run = |options| run(options).map_err(with_socks);
    if !is_background {
        let names = config::connection_names(&options.config).unwrap_or_default();
        if let Some(name) = names.first() {
            service::forget_failure(&options.runtime_dir, name);
        }
        return run(options);
    }
    let names = config::connection_names(&options.config)?;
    let name = names.first().context("there is no [connections.NAME]")?;
    let mut outcome = Outcome::open(&options.runtime_dir, name)?;
    let ended = run(options);
    if let Err(error) = &ended {
        outcome.failed(&sentence(error));
    }
    ended
}

/// Names the way that needs no rights.
fn with_socks(fault: anyhow::Error) -> anyhow::Error {
    match fault.downcast_ref() {
        Some(PrivilegeError::Lacking(_)) => anyhow::anyhow!(
            "{fault}; without root, `caravan socks -c FILE` serves programs that speak SOCKS"
        ),
        _ => fault,
    }
}

impl RunArgs {
    fn options(
        self,
        role: Role,
        global: &Global,
        (ready, timeout): (Ready, Duration),
    ) -> anyhow::Result<RunOptions> {
        let config =
            std::path::absolute(&self.config).with_context(|| self.config.display().to_string())?;
        Ok(RunOptions {
            role,
            steward: global.steward(&config, role),
            config,
            runtime_dir: global.runtime_dir.clone(),
            state_dir: global.state_dir.clone(),
            capture: self.capture,
            is_attended: false,
            user: self.user,
            ready,
            timeout,
        })
    }
}

#[cfg(test)]
mod tests;
