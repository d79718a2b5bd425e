use std::os::unix::fs::MetadataExt;

use super::client::{ask, find, running};
use super::server::ControlServer;
use super::sockets::Sockets;
use super::*;

/// A runtime directory for this test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("caravan-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Runs a server for `names` that answers each request with its own text.
fn serving<T: Send + 'static>(
    directory: &Path,
    names: &[&str],
    command: impl FnOnce(PathBuf) -> T + Send + 'static,
) -> T {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    runtime().block_on(async {
        let (_server, mut questions) = ControlServer::bind(directory, &names).unwrap();
        let path = directory.to_owned();
        let mut command = tokio::task::spawn_blocking(move || command(path));
        loop {
            tokio::select! {
                done = &mut command => return done.unwrap(),
                Some(asked) = questions.recv() => {
                    let text = format!("{:?}", asked.request);
                    let _ = asked.reply.send(Reply::Done { text });
                }
            }
        }
    })
}

#[test]
fn a_question_is_answered_by_the_process_of_that_name() {
    let directory = Directory::new("answer");
    let reply = serving(&directory.0, &["home", "work"], |path| {
        let names: Vec<String> = running(&path).into_iter().map(|r| r.name).collect();
        assert_eq!(names, ["home", "work"]);
        ask(&find(&path, "work").unwrap(), &Request::Reload).unwrap()
    });
    let text = "Reload".to_owned();
    assert_eq!(reply, Reply::Done { text });
    assert!(running(&directory.0).is_empty(), "sockets go with it");
}

#[test]
fn an_unknown_name_is_told_which_names_run() {
    let directory = Directory::new("unknown");
    let error = serving(&directory.0, &["home"], |path| {
        find(&path, "hom").unwrap_err().to_string()
    });
    assert!(error.contains("running: home"), "{error}");
    let error = find(&directory.0, "home").unwrap_err().to_string();
    assert!(error.contains("nothing is running"), "{error}");
}

#[test]
fn one_name_runs_once_and_a_dead_socket_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("once");
    let path = socket_path(&directory.0, "home");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let names = ["home".to_owned()];
    runtime().block_on(async {
        let _server = ControlServer::bind(&directory.0, &names).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = ControlServer::bind(&directory.0, &names).err().unwrap();
        assert!(matches!(error, ControlError::AlreadyRuns { .. }), "{error}");
        assert!(path.exists(), "the loser removes nothing");
    });
}

#[test]
fn nonsense_and_endless_lines_are_answered_and_dropped() {
    let directory = Directory::new("nonsense");
    let replies = serving(&directory.0, &["home"], |path| {
        use std::io::{Read, Write};
        let endless = vec![b'x'; REQUEST_BYTES_MAX];
        [&b"{\"request\":\"fly\"}\n"[..], &endless].map(|question| {
            let socket = socket_path(&path, "home");
            let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
            stream.write_all(question).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        })
    });
    for reply in replies {
        assert!(reply.contains("not a request"), "{reply}");
    }
}

#[test]
fn names_stay_within_the_runtime_directory() {
    for name in [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        ".lock",
        &"x".repeat(65),
        "a b",
    ] {
        assert!(check_name(name).is_err(), "{name:?}");
    }
    for name in ["home", "a-b_c.d", &"x".repeat(64)] {
        assert!(check_name(name).is_ok(), "{name:?}");
    }
}

#[test]
fn sockets_follow_the_names() {
    let directory = Directory::new("follow");
    let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let running = || {
        let found = running(&directory.0).into_iter().map(|one| one.name);
        found.collect::<Vec<_>>()
    };
    runtime().block_on(async {
        let names = named(&["home", "work"]);
        let (_server, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        // The steward, which opened none of them.
        let mut sockets = Sockets::found(&directory.0, &names).unwrap();
        sockets.follow(&named(&["ship", "work"])).unwrap();
        assert_eq!(running(), ["ship", "work"]);
        assert!(sockets.follow(&named(&["port", "../x"])).is_err());
        assert_eq!(running(), ["ship", "work"]);
        let (_other, _questions) = ControlServer::bind(&directory.0, &named(&["boat"])).unwrap();
        assert!(sockets.follow(&named(&["work", "boat"])).is_err());
        assert_eq!(running(), ["boat", "ship", "work"]);
        sockets.remove();
        assert_eq!(running(), ["boat"]);
    });
}

#[test]
fn a_name_that_another_process_has_taken_over_is_not_removed() {
    let directory = Directory::new("taken");
    let names = ["home".to_owned()];
    runtime().block_on(async {
        let (server, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        let path = socket_path(&directory.0, "home");
        std::fs::remove_file(&path).unwrap();
        let (_other, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        drop(server);
        assert!(path.exists());
    });
}

#[test]
fn a_socket_that_was_removed_comes_back_and_new_names_lead_to_the_same_process() {
    let directory = Directory::new("removed");
    let named = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let path = |name: &str| socket_path(&directory.0, name);
    let inode = |name: &str| std::fs::metadata(path(name)).unwrap().ino();
    runtime().block_on(async {
        let names = named(&["home", "work"]);
        let (_server, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        let mut sockets = Sockets::found(&directory.0, &names).unwrap();
        let own = inode("work");
        std::fs::remove_file(path("home")).unwrap();
        sockets.follow(&named(&["home", "work", "ship"])).unwrap();
        assert_eq!(["home", "work", "ship"].map(inode), [own; 3]);
        // Another process replaces the first one.
        std::fs::remove_file(path("home")).unwrap();
        let (_other, _questions) = ControlServer::bind(&directory.0, &named(&["home"])).unwrap();
        sockets.follow(&named(&["work", "boat"])).unwrap();
        assert_eq!(["work", "boat"].map(inode), [own; 2]);
        assert!(inode("home") != own && !path("ship").exists());
    });
}

#[test]
fn a_process_whose_every_socket_was_removed_reads_its_file_again_all_the_same() {
    let directory = Directory::new("bare");
    let names = ["home".to_owned()];
    runtime().block_on(async {
        let (_server, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        let mut sockets = Sockets::found(&directory.0, &names).unwrap();
        std::fs::remove_file(socket_path(&directory.0, "home")).unwrap();
        sockets.follow(&names).unwrap();
        // Another process replaces it: no name is linked to its socket.
        let (_other, _questions) = ControlServer::bind(&directory.0, &names).unwrap();
        sockets.follow(&names).unwrap();
        assert!(sockets.follow(&["home".into(), "work".into()]).is_err());
        assert!(!socket_path(&directory.0, "work").exists());
    });
}

/// What `caravan status` shows of a peer names it in a request, whatever the peer calls itself.
#[test]
fn a_shown_peer_is_named_in_a_request() {
    let long = "\\".repeat(1_000);
    let der = "asn1dn:#300d310b300906035504031e020041";
    for shown in [
        "192.0.2.1",
        "2001:db8::1",
        "ms1.example",
        "fqdn:*@x",
        "ms1@example",
        "C=GR, CN=a\\, \\\"b\\\" \\0a\\e2\\80\\ae",
        "keyid:group",
        "@#00ff22",
        der,
        &long,
    ] {
        let peer = Identity::parse(shown).unwrap();
        assert_eq!(peer.to_string(), shown);
        let connection = "road".to_owned();
        let request = Request::End { connection, peer };
        let line = serde_json::to_string(&request).unwrap();
        assert!(line.len() < REQUEST_BYTES_MAX);
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    }
    let wrong = r#"{"request":"end","connection":"road","peer":"two words"}"#;
    let fault = serde_json::from_str::<Request>(wrong).unwrap_err();
    assert!(fault.to_string().contains("no DNS name has"), "{fault}");
}
