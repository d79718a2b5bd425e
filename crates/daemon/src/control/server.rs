//! The running process's end of the control socket.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::sockets::Sockets;
use super::{ControlError, REQUEST_BYTES_MAX, Reply, Request};

/// How long a client of the socket may take to write its line.
const ASKER_PATIENCE: Duration = Duration::from_secs(5);
/// Requests that wait at most. Others wait in the socket.
const QUEUE: usize = 16;

/// One request and its reply channel. Dropping it replies [`Reply::Ended`].
pub struct Call {
    /// The request.
    pub request: Request,
    /// The reply channel.
    pub reply: oneshot::Sender<Reply>,
}

/// The socket of one process under all its names, which are removed on drop. Requests come out of
/// the channel that [`ControlServer::bind`] returns, one by one, from the runtime's tasks.
pub struct ControlServer {
    sockets: Sockets,
    task: JoinHandle<()>,
}

impl ControlServer {
    /// Opens the socket under these names. Must run within a tokio runtime that drives IO.
    pub fn bind(
        runtime_dir: &Path,
        names: &[String],
    ) -> Result<(Self, mpsc::Receiver<Call>), ControlError> {
        let (sockets, listener) = Sockets::open(runtime_dir, names)?;
        let told = ControlError::io("cannot listen in", runtime_dir);
        let listener = UnixListener::from_std(listener).map_err(told)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let task = tokio::spawn(accept(listener, sender));
        Ok((Self { sockets, task }, receiver))
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
        // If this process lacks the right, its steward has removed them.
        self.sockets.remove();
    }
}

async fn accept(listener: UnixListener, sender: mpsc::Sender<Call>) {
    while !sender.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, sender.clone()));
            }
            // Most likely out of descriptors: let other connections end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers the requests of one connection, one line each, until it closes.
async fn attend(stream: UnixStream, sender: mpsc::Sender<Call>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut read).take(REQUEST_BYTES_MAX as u64);
        let asked = tokio::time::timeout(ASKER_PATIENCE, limited.read_until(b'\n', &mut line));
        match asked.await {
            Ok(Ok(count)) if count > 0 => (),
            _ => return,
        }
        let is_whole = line.ends_with(b"\n");
        let reply = match serde_json::from_slice::<Request>(&line) {
            Ok(request) if is_whole => ask(request, &sender).await,
            Ok(_) => failed("the request does not end with a line feed"),
            Err(error) => failed(&format!("not a request: {error}")),
        };
        let mut text = serde_json::to_vec(&reply).expect("replies are plain data");
        text.push(b'\n');
        if write.write_all(&text).await.is_err() || !is_whole {
            return;
        }
    }
}

async fn ask(request: Request, sender: &mpsc::Sender<Call>) -> Reply {
    let (reply, answer) = oneshot::channel();
    match sender.send(Call { request, reply }).await {
        Ok(()) => answer.await.unwrap_or(Reply::Ended),
        Err(_) => Reply::Ended,
    }
}

fn failed(text: &str) -> Reply {
    Reply::Failed {
        text: text.to_owned(),
    }
}
