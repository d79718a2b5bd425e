//! The running process's end of the control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::sockets::Sockets;
use super::{ControlError, REQUEST_BYTES_MAX, Reply, Request};

/// How long a client of the socket may take to write its line.
const ASKER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the end of the process waits for clients that do not read their answers.
const READER_PATIENCE: Duration = Duration::from_secs(2);
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
    unanswered: Arc<Unanswered>,
}

/// Counts requests whose answer is not written yet.
type Unanswered = watch::Sender<usize>;

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
        let unanswered = Arc::new(watch::Sender::new(0));
        let task = tokio::spawn(accept(listener, sender, unanswered.clone()));
        let server = Self {
            sockets,
            task,
            unanswered,
        };
        Ok((server, receiver))
    }

    /// Takes no other client, and returns when every answer is written. Each [`Call`] must have its
    /// answer, or be dropped, before that.
    pub async fn finish(&self) {
        self.task.abort();
        let mut unanswered = self.unanswered.subscribe();
        let is_done = unanswered.wait_for(|count| *count == 0);
        // Whoever does not read keeps nobody waiting.
        let _ = tokio::time::timeout(READER_PATIENCE, is_done).await;
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
        // If this process lacks the right, its steward has removed them.
        self.sockets.remove();
    }
}

async fn accept(listener: UnixListener, sender: mpsc::Sender<Call>, unanswered: Arc<Unanswered>) {
    while !sender.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, sender.clone(), unanswered.clone()));
            }
            // Most likely out of descriptors: let other connections end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers the requests of one connection, one line each, until it closes.
async fn attend(stream: UnixStream, sender: mpsc::Sender<Call>, unanswered: Arc<Unanswered>) {
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
        let _awaited = Awaited::new(&unanswered);
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

/// A request whose answer is not written yet.
struct Awaited<'a>(&'a Unanswered);

impl<'a> Awaited<'a> {
    fn new(unanswered: &'a Unanswered) -> Self {
        unanswered.send_modify(|count| *count += 1);
        Self(unanswered)
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::control::socket_path;

    #[tokio::test]
    async fn the_end_waits_until_the_last_answers_are_written() {
        let folder = std::env::temp_dir().join(format!("caravan-answers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let bound = ControlServer::bind(&folder, &["road".to_owned()]);
        let (server, mut calls) = bound.expect("a socket");
        let mut clients = [0, 1].map(|_| {
            let stream = UnixStream::connect(socket_path(&folder, "road")).expect("connected");
            stream.set_nonblocking(true).expect("a socket");
            (&stream)
                .write_all(b"{\"request\":\"stop\"}\n")
                .expect("written");
            BufReader::new(stream)
        });
        let [first, second] =
            [calls.recv().await, calls.recv().await].map(|call| call.expect("a request"));
        let text = "done".to_owned();
        first.reply.send(Reply::Done { text }).expect("awaited");
        drop((second, calls));
        server.finish().await;
        // No other task runs from here on, as at the end of the runtime.
        let mut answers = clients.each_mut().map(|client| {
            let mut line = String::new();
            client.read_line(&mut line).expect("an answer");
            serde_json::from_str::<Reply>(&line).expect("a reply")
        });
        answers.sort_by_key(|answer| *answer == Reply::Ended);
        let text = "done".to_owned();
        assert_eq!(answers, [Reply::Done { text }, Reply::Ended]);
        drop(server);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
