//! What a PostgreSQL server says, looked at before the client library acts on it. The library logs
//! in by whatever method the server names, keeps what it is told unasked for as long as a session
//! lives, waits for messages of any length, and asks back about each type that it does not know.
//!
//! Messages are those of protocol 3 (PostgreSQL's manual, "Message Formats"): a kind, four octets
//! of length with themselves, a body. Left out: what the rows of answers say.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::types::Type;

/// Octets of a message. Our longest rows have an answer to Client.
const MESSAGE_MAX: usize = 1 << 20;
/// Octets of all messages of one answer. The longest is a list of all keys.
const ANSWER_MAX: usize = 64 << 20;
/// Octets that a server says unasked in one session: settings and notices.
const UNASKED_MAX: usize = 1 << 20;
/// What a message counts besides its octets: a row without columns takes memory too.
const MESSAGE_COST: usize = 128;
/// Octets of a message that is looked into: about the login, or types.
const KEPT_MAX: usize = 8_192;
/// Kind and length.
const HEAD_LEN: usize = 5;
/// What is looked into: the login, the types of rows and of parameters.
const KEPT: [u8; 3] = *b"RTt";

/// How a server is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// By its certificate: it may ask for the password in any way.
    Certified,
    /// By SCRAM (RFC 7677 §3): it must prove that it knows the password, and does not get it.
    Proven,
    /// By the place of its socket: there is no password.
    Placed,
}

/// A connection whose server is watched.
pub(super) struct Watched<S> {
    stream: S,
    watch: Watch,
}

/// Makes one out of each TLS connection.
pub(super) struct WatchedTls<T>(pub(super) T);

/// What the server has said so far.
struct Watch {
    trust: Trust,
    has_proven: bool,
    head: [u8; HEAD_LEN],
    head_len: usize,
    /// Octets of the body that are still to come.
    left: usize,
    /// The body, if it is looked into.
    kept: Vec<u8>,
    answer: usize,
    unasked: usize,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, trust: Trust) -> Self {
        let watch = Watch::new(trust);
        Self { stream, watch }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let heard = this.watch.hear(&buffer.filled()[before..]);
        Poll::Ready(heard.map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, octets)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Watched<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

impl<S, T> TlsConnect<S> for WatchedTls<T>
where
    T: TlsConnect<S>,
    T::Stream: Unpin,
    T::Future: 'static,
{
    type Stream = Watched<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>>>>;

    fn connect(self, stream: S) -> Self::Future {
        let connected = self.0.connect(stream);
        Box::pin(async move { Ok(Watched::new(connected.await?, Trust::Certified)) })
    }
}

/// Why a server is not heard any more.
type Why = String;

impl Watch {
    fn new(trust: Trust) -> Self {
        Self {
            trust,
            has_proven: false,
            head: [0; HEAD_LEN],
            head_len: 0,
            left: 0,
            kept: Vec::new(),
            answer: 0,
            unasked: 0,
        }
    }

    /// Takes octets of the server, in any portions.
    fn hear(&mut self, mut octets: &[u8]) -> Result<(), Why> {
        loop {
            if self.head_len < HEAD_LEN {
                let (head, rest) = octets.split_at(octets.len().min(HEAD_LEN - self.head_len));
                self.head[self.head_len..][..head.len()].copy_from_slice(head);
                self.head_len += head.len();
                octets = rest;
                if self.head_len < HEAD_LEN {
                    return Ok(());
                }
                self.begin()?;
            }
            let (body, rest) = octets.split_at(octets.len().min(self.left));
            let is_kept = KEPT.contains(&self.head[0]);
            if is_kept {
                self.kept.extend_from_slice(body);
            }
            self.left -= body.len();
            octets = rest;
            if self.left > 0 {
                return Ok(());
            }
            self.head_len = 0;
            if is_kept {
                let said = std::mem::take(&mut self.kept);
                match self.head[0] {
                    b'R' => self.log_in(&said)?,
                    kind => check_types(kind, &said)?,
                }
            }
        }
    }

    /// A message has begun.
    fn begin(&mut self) -> Result<(), Why> {
        let [kind, a, b, c, d] = self.head;
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        let most = match KEPT.contains(&kind) {
            true => KEPT_MAX,
            false => MESSAGE_MAX,
        };
        if !(HEAD_LEN - 1..=most).contains(&len) {
            return Err(format!(
                "it begins a message of {len} octets, at most {most}"
            ));
        }
        self.left = len - (HEAD_LEN - 1);
        let cost = len + MESSAGE_COST;
        match kind {
            // A notice, a notification, a setting.
            b'N' | b'A' | b'S' => self.unasked += cost,
            // It is ready for the next question.
            b'Z' => self.answer = 0,
            _ => self.answer += cost,
        }
        if self.unasked > UNASKED_MAX {
            return Err(format!("it says more than {UNASKED_MAX} octets unasked"));
        }
        match self.answer > ANSWER_MAX {
            true => Err(format!(
                "an answer of it is longer than {ANSWER_MAX} octets"
            )),
            false => Ok(()),
        }
    }

    /// What it says about the login: another number for each method and step.
    fn log_in(&mut self, said: &[u8]) -> Result<(), Why> {
        let Some(step) = said.first_chunk::<4>() else {
            return Ok(());
        };
        match (u32::from_be_bytes(*step), self.trust) {
            (_, Trust::Certified) => Ok(()),
            (3 | 5, _) => Err(
                "it asks for the password itself, or a hash like it, in clear: let it take \
                 scram-sha-256 in pg_hba.conf, or add sslmode=verify-full to the URL"
                    .into(),
            ),
            // The library has asked for this proof and checks it, or it refuses this message.
            (12, _) => {
                self.has_proven = true;
                Ok(())
            }
            (0, Trust::Proven) if !self.has_proven => Err(
                "it does not ask for the password, so anybody may be there: let it demand \
                 scram-sha-256 in pg_hba.conf, or add sslmode=verify-full to the URL"
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}

/// Refuses types that the library would ask about, and about those in the answers, without an end.
/// Our tables have none.
fn check_types(kind: u8, said: &[u8]) -> Result<(), Why> {
    let types = types(kind, said).ok_or("it does not say of what types its answer is")?;
    let strange = types.into_iter().find(|it| Type::from_oid(*it).is_none());
    strange.map_or(Ok(()), |strange| {
        Err(format!("it answers with a type of its own ({strange})"))
    })
}

/// The types of columns (`T`), or of parameters.
fn types(kind: u8, said: &[u8]) -> Option<Vec<u32>> {
    let (count, mut rest) = said.split_first_chunk::<2>()?;
    let mut types = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        if kind == b'T' {
            // A name, its table, its number.
            let name = rest.iter().position(|octet| *octet == 0)?;
            rest = rest.get(name + 7..)?;
        }
        let (oid, more) = rest.split_first_chunk::<4>()?;
        types.push(u32::from_be_bytes(*oid));
        // The size, the type's modifier, the format.
        rest = if kind == b'T' { more.get(8..)? } else { more };
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is heard of a server, octet by octet and at once.
    fn heard(trust: Trust, said: &[u8]) -> Result<(), Why> {
        let whole = Watch::new(trust).hear(said);
        let mut watch = Watch::new(trust);
        let single = said.chunks(1).try_for_each(|octet| watch.hear(octet));
        assert_eq!(whole, single);
        whole
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).expect("a short body");
        [&[kind][..], &len.to_be_bytes(), body].concat()
    }

    fn login(step: u32, body: &[u8]) -> Vec<u8> {
        message(b'R', &[&step.to_be_bytes(), body].concat())
    }

    #[test]
    fn a_password_goes_to_a_certified_server_alone() {
        for step in [3, 5] {
            let asks = login(step, b"salt");
            for trust in [Trust::Proven, Trust::Placed] {
                let why = heard(trust, &asks).expect_err("it is refused");
                assert!(why.contains("scram-sha-256"), "{why}");
            }
            assert_eq!(heard(Trust::Certified, &asks), Ok(()));
        }
    }

    #[test]
    fn who_does_not_prove_to_know_the_password_is_refused() {
        let at_once = login(0, b"");
        let why = heard(Trust::Proven, &at_once).expect_err("it is refused");
        assert!(why.contains("anybody may be there"), "{why}");
        assert_eq!(heard(Trust::Placed, &at_once), Ok(()));
        let proven = [
            login(10, b"SCRAM-SHA-256\0\0"),
            login(11, b"r=x,s=y,i=4096"),
            login(12, b"v=z"),
            at_once,
            message(b'Z', b"I"),
        ];
        assert_eq!(heard(Trust::Proven, &proven.concat()), Ok(()));
    }

    #[test]
    fn a_type_that_is_not_built_in_is_refused() {
        let row = |oid: u32| {
            let column = [
                &b"handle\0\0\0\0\x01\0\x01"[..],
                &oid.to_be_bytes(),
                &[0; 8],
            ]
            .concat();
            message(b'T', &[&[0, 2][..], &column, &column].concat())
        };
        let parameters = |oid: u32| message(b't', &[&[0, 1][..], &oid.to_be_bytes()].concat());
        for known in [Type::INT8, Type::BYTEA, Type::TEXT, Type::VOID] {
            assert_eq!(heard(Trust::Placed, &row(known.oid())), Ok(()));
            assert_eq!(heard(Trust::Placed, &parameters(known.oid())), Ok(()));
        }
        for said in [row(16_384), parameters(16_384)] {
            let why = heard(Trust::Placed, &said).expect_err("it is refused");
            assert!(why.contains("16384"), "{why}");
        }
        assert!(heard(Trust::Placed, &message(b'T', &[0, 1, 0])).is_err());
    }

    #[test]
    fn what_a_server_says_has_bounds() {
        let endless = |kind: u8, body: &[u8]| {
            let mut watch = Watch::new(Trust::Certified);
            let one = message(kind, body);
            (0_usize..).find(|_| watch.hear(&one).is_err())
        };
        // Settings are kept, however short they are.
        assert!(endless(b'S', b"a\0b\0").is_some_and(|it| it < 10_000));
        assert!(endless(b'N', &[0; 1_000]).is_some_and(|it| it < 1_000));
        assert!(endless(b'D', &[0; 2]).is_some_and(|it| it < 1_000_000));
        let mut watch = Watch::new(Trust::Certified);
        assert!(watch.hear(&[b'D', 0x7f, 0, 0, 0]).is_err());
        assert!(watch.hear(&[b'D', 0, 0, 0, 3]).is_err());
        // Each answer has its own bound.
        let mut watch = Watch::new(Trust::Certified);
        let rows = vec![0; MESSAGE_MAX / 2];
        for _ in 0..4 * ANSWER_MAX / MESSAGE_MAX {
            watch.hear(&message(b'D', &rows)).expect("an answer");
            watch.hear(&message(b'Z', b"I")).expect("its end");
        }
    }
}
