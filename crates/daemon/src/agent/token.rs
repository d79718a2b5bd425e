//! A one-time key on a PKCS #11 token, by way of `caravan-token`: a program of its own, started
//! when a key sits on a token. It alone loads the token's module, which is foreign code: the agent
//! may be static and has no such code in its memory, and no PIN.
//!
//! Both talk over a socket pair in the messages of [`wire::token`]. The kernel kills the helper
//! when the agent ends.

pub mod helper;
mod module;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crypto::ed25519::{Signature, VerifyKey};
use engine::agent::Handle;
use nix::unistd::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wire::token::{Ask, Say, cut};
pub use wire::token::{Refusal, SIGNED_MAX, Token};

use crate::sys::tie;
use crate::token::{OTHERS_WRITE, TokenArgs};
use crate::typed;

/// The helper's file name, beside the agent's.
pub const PROGRAM: &str = "caravan-token";
/// Octets that are read at once.
const READ_BYTES: usize = 4_096;

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The helper does not start.
    #[error(
        "cannot start {PROGRAM} ({0}): without it, keys on tokens cannot be used; put it beside \
         this program, or use a printed key"
    )]
    Start(io::Error),
    /// The helper has ended, or says what it should not.
    #[error("{PROGRAM} has ended without an answer")]
    Gone,
    /// The file of the PIN cannot be read, or others may read it.
    #[error("cannot read a PIN from {path}: {source}", path = .path.display())]
    PinFile {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No token has this label, or several have it; these are there.
    #[error(
        "no token has the label {0:?}, or several have it; there are: {there}",
        there = labels(.1)
    )]
    Label(String, Vec<Token>),
    /// The token was removed.
    #[error("the token was removed")]
    Removed,
    /// The helper cannot.
    #[error("{}", sentence(*.0))]
    Refused(Refusal),
    /// More octets than a request has.
    #[error("a token signs at most {SIGNED_MAX} octets at once")]
    TooLong,
}

fn labels(tokens: &[Token]) -> String {
    let each = tokens.iter().map(|token| format!("{:?}", token.label));
    match each.len() {
        0 => "none".to_owned(),
        _ => each.collect::<Vec<_>>().join(", "),
    }
}

/// The sentence for a refusal.
pub fn sentence(why: Refusal) -> &'static str {
    match why {
        Refusal::Module => "the token's module cannot be loaded or started",
        Refusal::NoToken => "no token has this label, or several have it",
        Refusal::Pin => "the token refuses the PIN",
        Refusal::NoPin => "the token needs a PIN, and nobody has given one",
        Refusal::PinLocked => "the token has locked its PIN after too many wrong ones",
        Refusal::NoKey => "the token has no Ed25519 key with this handle",
        Refusal::SeveralKeys => "the token has a key with this handle already, or several",
        Refusal::NoEd25519 => "the token does not sign with Ed25519",
        Refusal::NotOpen => "no token is open",
        Refusal::Token => "the token has failed",
        Refusal::Malformed => "the question was malformed",
        Refusal::Other(_) => {
            "the token's helper refuses, for a reason that this program is too \
                              old to know"
        }
    }
}

/// The helper beside a program. In a folder where everybody may write, it could be anybody's, and
/// would run as this user: only those who could replace the program itself may have put it there.
fn beside(own: &Path) -> io::Result<PathBuf> {
    let program = own.with_file_name(PROGRAM);
    let found = program.symlink_metadata()?;
    let owners = [0, geteuid().as_raw(), own.metadata()?.uid()];
    let is_ours = owners.contains(&found.uid()) && found.mode() & OTHERS_WRITE == 0;
    match found.is_file() && is_ours {
        true => Ok(program),
        false => Err(io::Error::other(format!(
            "{} must be a file of the one who has {}, and writable for its owner alone",
            program.display(),
            own.display()
        ))),
    }
}

/// A running helper.
pub struct TokenHelper {
    stream: UnixStream,
    heard: Vec<u8>,
    child: Child,
}

impl TokenHelper {
    /// Starts the helper beside this program and logs in; none without a module. It may wait for a
    /// person who types a PIN.
    pub async fn open(args: &TokenArgs) -> Result<Option<Self>, TokenError> {
        let (Some(module), Some(label)) = (&args.module, &args.token) else {
            return Ok(None);
        };
        if let Some(path) = &args.pin_file {
            let path = path.clone();
            typed::check(&path).map_err(|source| TokenError::PinFile { path, source })?;
        }
        let own = std::env::current_exe().map_err(TokenError::Start)?;
        let program = beside(&own).map_err(TokenError::Start)?;
        let mut helper = Self::start(&program, module, args.pin_file.as_deref())?;
        match helper.log_in(label).await {
            Ok(()) => Ok(Some(helper)),
            Err(TokenError::Refused(Refusal::NoToken)) => {
                let there = helper.tokens().await?;
                Err(TokenError::Label(label.clone(), there))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Starts `program` for a module. The PIN is read from `pin`, a file such as `/dev/fd/3`, or
    /// asked on the terminal. Call it in the agent's main thread: the helper ends with the thread.
    pub fn start(program: &Path, module: &Path, pin: Option<&Path>) -> Result<Self, TokenError> {
        let (own, others) = std::os::unix::net::UnixStream::pair().map_err(TokenError::Start)?;
        let input = OwnedFd::from(others.try_clone().map_err(TokenError::Start)?);
        let mut command = Command::new(program);
        command
            .arg("--module")
            .arg(module)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(OwnedFd::from(others)));
        if let Some(pin) = pin {
            command.arg("--pin-file").arg(pin);
        }
        let child = tie(&mut command).spawn().map_err(TokenError::Start)?;
        own.set_nonblocking(true).map_err(TokenError::Start)?;
        let stream = UnixStream::from_std(own).map_err(TokenError::Start)?;
        Ok(Self {
            stream,
            heard: Vec::new(),
            child,
        })
    }

    /// The tokens that are there.
    pub async fn tokens(&mut self) -> Result<Vec<Token>, TokenError> {
        match self.ask(&Ask::List).await? {
            Say::Tokens(tokens) => Ok(tokens),
            _ => Err(TokenError::Gone),
        }
    }

    /// Logs in to the token of this label. It may wait for a person who types a PIN.
    pub async fn log_in(&mut self, label: &str) -> Result<(), TokenError> {
        match self.ask(&Ask::Open(label.to_owned())).await? {
            Say::Open => Ok(()),
            _ => Err(TokenError::Gone),
        }
    }

    /// Makes a key on the token, which never leaves it.
    pub async fn make(&mut self, handle: Handle) -> Result<VerifyKey, TokenError> {
        self.public(&Ask::Make(handle.0)).await
    }

    /// The public half of the key with this handle.
    pub async fn find(&mut self, handle: Handle) -> Result<VerifyKey, TokenError> {
        self.public(&Ask::Find(handle.0)).await
    }

    /// Signs with the key of this handle: what `engine::agent::client` asks for.
    pub async fn sign(&mut self, handle: Handle, octets: &[u8]) -> Result<Signature, TokenError> {
        match self.ask(&Ask::Sign(handle.0, octets.to_vec())).await? {
            Say::Signature(signature) => Ok(Signature(signature)),
            _ => Err(TokenError::Gone),
        }
    }

    /// Destroys the key of this handle, so that it can never sign again.
    pub async fn destroy(&mut self, handle: Handle) -> Result<(), TokenError> {
        match self.ask(&Ask::Destroy(handle.0)).await? {
            Say::Destroyed => Ok(()),
            _ => Err(TokenError::Gone),
        }
    }

    /// Waits until the token is removed, or the helper is gone. It may be dropped and called again.
    pub async fn removed(&mut self) -> TokenError {
        match self.hear().await {
            Ok(_) => TokenError::Gone,
            Err(why) => why,
        }
    }

    async fn public(&mut self, ask: &Ask) -> Result<VerifyKey, TokenError> {
        match self.ask(ask).await? {
            Say::Public(public) => Ok(VerifyKey(public)),
            _ => Err(TokenError::Gone),
        }
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Say, TokenError> {
        let octets = ask.to_vec().ok_or(TokenError::TooLong)?;
        let written = self.stream.write_all(&octets).await;
        written.map_err(|_| TokenError::Gone)?;
        match self.hear().await? {
            Say::Refused(why) => Err(TokenError::Refused(why)),
            say => Ok(say),
        }
    }

    /// The next message.
    async fn hear(&mut self) -> Result<Say, TokenError> {
        loop {
            if let Some((message, len)) = cut(&self.heard).map_err(|_| TokenError::Gone)? {
                let say = Say::parse(message).map_err(|_| TokenError::Gone)?;
                self.heard.drain(..len);
                return match say {
                    Say::Removed => Err(TokenError::Removed),
                    say => Ok(say),
                };
            }
            let mut octets = [0; READ_BYTES];
            match self.stream.read(&mut octets).await {
                Ok(len) if len > 0 => self.heard.extend_from_slice(&octets[..len]),
                _ => return Err(TokenError::Gone),
            }
        }
    }
}

impl Drop for TokenHelper {
    fn drop(&mut self) {
        // It ends by itself when its input ends, except while it waits for a person or a token.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_helper_that_others_can_write_is_not_started() {
        let name = format!("caravan-token-beside-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let (own, helper) = (folder.join("caravan"), folder.join(PROGRAM));
        fs::write(&own, "").unwrap();
        assert_eq!(beside(&own).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&helper, "").unwrap();
        let set = |mode| fs::set_permissions(&helper, Permissions::from_mode(mode)).unwrap();
        set(0o755);
        assert_eq!(beside(&own).unwrap(), helper);
        for mode in [0o775, 0o757] {
            set(mode);
            assert!(beside(&own).is_err(), "{mode:o}");
        }
        fs::remove_file(&helper).unwrap();
        std::os::unix::fs::symlink(&own, &helper).unwrap();
        assert!(beside(&own).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
