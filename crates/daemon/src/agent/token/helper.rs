//! The program `caravan-token`: it answers the questions of [`wire::token`] on its standard input
//! by a PKCS #11 module. It ends when its input ends, or when the token is removed.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use cryptoki::types::AuthPin;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::token::{Ask, MESSAGE_MAX, Refusal, Say, cut};

use super::module::{Module, Opened};
use crate::agent::hygiene;
use crate::typed;

/// How often the token is looked for.
const LOOK_MS: u16 = 1_000;

/// Signs with one-time keys on a PKCS #11 token, for `caravan tunnel-agent`, which starts it
#[derive(Debug, Parser)]
#[command(name = "caravan-token", version)]
struct Args {
    /// The token's module, a shared library
    #[arg(long, value_name = "FILE")]
    module: PathBuf,
    /// Read the PIN from the first line of a file, such as /dev/fd/3; otherwise it is asked on the
    /// terminal
    #[arg(long, value_name = "FILE")]
    pin_file: Option<PathBuf>,
}

/// Runs until the input ends.
pub fn main() -> ExitCode {
    let args = Args::parse();
    // Of memory, the agent warns.
    let _ = hygiene::lock(hygiene::Rights::Kept);
    for warning in hygiene::hide() {
        eprintln!("caravan-token: {warning}");
    }
    match (Helper {
        args,
        module: None,
        opened: None,
    })
    .run()
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("caravan-token: {error:#}");
            ExitCode::FAILURE
        }
    }
}

struct Helper {
    args: Args,
    module: Option<Module>,
    opened: Option<Opened>,
}

impl Helper {
    fn run(&mut self) -> anyhow::Result<()> {
        let (input, mut output) = (std::io::stdin(), std::io::stdout());
        // It is read only after a wait, so nothing may stay in a buffer.
        let mut reading = std::fs::File::from(input.as_fd().try_clone_to_owned()?);
        let mut heard = Vec::new();
        let mut octets = [0; MESSAGE_MAX];
        loop {
            while let Some((message, len)) = cut(&heard)? {
                let say = match Ask::parse(message) {
                    Ok(ask) => self.answer(ask).unwrap_or_else(Say::Refused),
                    Err(_) => Say::Refused(Refusal::Malformed),
                };
                heard.drain(..len);
                write(&mut output, &say)?;
            }
            let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
            let timeout = match self.opened {
                Some(_) => PollTimeout::from(LOOK_MS),
                None => PollTimeout::NONE,
            };
            poll(&mut fds, timeout).context("cannot wait for questions")?;
            if !self.is_there() {
                return write(&mut output, &Say::Removed);
            }
            if fds[0].any().unwrap_or(false) {
                match reading.read(&mut octets).context("cannot read questions")? {
                    0 => return Ok(()),
                    len => heard.extend_from_slice(&octets[..len]),
                }
            }
        }
    }

    /// Whether the token that was opened has not been removed.
    fn is_there(&self) -> bool {
        match (&self.module, &self.opened) {
            (Some(module), Some(opened)) => module.has(opened),
            _ => true,
        }
    }

    fn answer(&mut self, ask: Ask) -> Result<Say, Refusal> {
        match ask {
            Ask::List => Ok(Say::Tokens(self.module()?.tokens()?)),
            Ask::Open(label) => {
                self.opened = None;
                let file = self.args.pin_file.clone();
                let pin = || {
                    let read = match &file {
                        Some(file) => typed::read(file),
                        None => typed::ask(&format!("PIN of the token {label}: ")),
                    };
                    let read = read.inspect_err(|fault| {
                        eprintln!("caravan-token: there is no PIN: {fault}");
                    });
                    Some(AuthPin::from(read.ok()?.as_str()))
                };
                self.opened = Some(self.module()?.open(&label, pin)?);
                Ok(Say::Open)
            }
            Ask::Make(handle) => Ok(Say::Public(self.opened()?.make(handle)?.0)),
            Ask::Find(handle) => Ok(Say::Public(self.opened()?.find(handle)?.0)),
            Ask::Sign(handle, octets) => {
                Ok(Say::Signature(self.opened()?.sign(handle, &octets)?.0))
            }
            Ask::Destroy(handle) => {
                self.opened()?.destroy(handle)?;
                Ok(Say::Destroyed)
            }
        }
    }

    fn opened(&self) -> Result<&Opened, Refusal> {
        self.opened.as_ref().ok_or(Refusal::NotOpen)
    }

    /// The module, loaded at the first question.
    fn module(&mut self) -> Result<&Module, Refusal> {
        if self.module.is_none() {
            let loaded = Module::load(&self.args.module);
            self.module = Some(loaded.map_err(|fault| {
                eprintln!("caravan-token: {fault:#}");
                Refusal::Module
            })?);
        }
        self.module.as_ref().ok_or(Refusal::Module)
    }
}

fn write(output: &mut impl Write, say: &Say) -> anyhow::Result<()> {
    let octets = say.to_vec().context("an answer is too long")?;
    let written = output.write_all(&octets).and_then(|()| output.flush());
    written.context("cannot answer")
}
