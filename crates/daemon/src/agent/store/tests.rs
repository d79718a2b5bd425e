//! What is wrong with a file: its place, its owner, its content, its version, its locks. What the
//! tables do, in both databases, is in `crates/daemon/tests/agent_store.rs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use crypto::ed25519::VerifyKey;
use engine::agent::host::{ANSWER_LIVES, Half, State};
use engine::agent::ppk::KeyPpk;
use engine::time::Calendar;
use rusqlite::Connection;

use super::*;

const REQUEST: Digest = Digest([7; 32]);
const TARGET: StoreRole = StoreRole::Target(AgentName([3; 16]));

/// A folder of one test. It is removed with its content.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("caravan-store-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        crate::files::make_folder(&path, 0o700).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("agent.db")
    }

    async fn open(&self, role: StoreRole) -> Result<Store, StoreError> {
        Store::open(&Database::Sqlite(self.file()), role).await
    }

    async fn open_with_key(&self) -> Store {
        let mut store = self.open(StoreRole::Host).await.expect("it opens");
        store.issue(&[(handle(1), record())]).await.expect("issued");
        store
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn handle(number: u8) -> Handle {
    Handle([number; 16])
}

fn record() -> Record {
    let half = Half::Public(VerifyKey([9; 32]));
    let mut record = Record::new(half, "alice".into(), Calendar(1_000));
    record.ppk = Some(KeyPpk::of_octets(&PPK));
    record
}

const PPK: [u8; 32] = [0xa7; 32];

fn take(number: u8) -> Ask {
    Ask::Take {
        handle: handle(number),
        request: REQUEST,
        at: Calendar(100),
    }
}

fn finish(number: u8, answer: Option<Vec<u8>>) -> Ask {
    Ask::Finish {
        handle: handle(number),
        request: REQUEST,
        answer,
    }
}

/// What was refused, as a person reads it.
fn refused(opened: Result<Store, StoreError>) -> String {
    opened.err().expect("it is refused").to_string()
}

async fn state(store: &mut Store, number: u8) -> State {
    match store.answer(&Ask::Find(handle(number))).await {
        Answer::Found(Some(record)) => record.state,
        _ => panic!("key {number} is not found"),
    }
}

#[tokio::test]
async fn a_second_host_is_refused_and_an_administrator_is_not() {
    let folder = Folder::new("second");
    let mut host = folder.open_with_key().await;
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("agent.db is used by another Host"), "{said}");
    assert!(said.contains("share PostgreSQL"), "{said}");
    let mut desk = folder
        .open(StoreRole::Administrator)
        .await
        .expect("it opens");
    desk.issue(&[(handle(2), record())]).await.expect("issued");
    assert_eq!(desk.revoke(Which::Handle(handle(1))).await.ok(), Some(1));
    assert_eq!(state(&mut host, 1).await, State::Revoked);
    assert!(host.answer(&take(2)).await == Answer::Taken);
    assert_eq!(desk.keys().await.expect("keys").len(), 2);
    // The other role is another lock, and one Target is not the other.
    let target = folder.open(TARGET).await.expect("it opens");
    let said = refused(folder.open(TARGET).await);
    assert!(said.contains("another Target"), "{said}");
    let other = StoreRole::Target(AgentName([4; 16]));
    folder.open(other).await.expect("it opens");
    drop((host, target));
    folder
        .open(StoreRole::Host)
        .await
        .expect("the lock is gone");
    folder.open(TARGET).await.expect("the lock is gone");
}

#[tokio::test]
async fn the_file_is_ours_alone() {
    let folder = Folder::new("ours");
    drop(folder.open_with_key().await);
    let mode = |name: &str| {
        let found = fs::metadata(folder.0.join(name)).expect("it is there");
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("agent.db"), mode("agent.db.lock")), (0o600, 0o600));
    // What others could only read is closed to them.
    fs::set_permissions(folder.file(), Permissions::from_mode(0o644)).expect("changed");
    let mut host = folder.open(StoreRole::Host).await.expect("it opens");
    assert!(host.answer(&take(1)).await == Answer::Taken);
    assert_eq!(["agent.db", "agent.db-journal"].map(mode), [0o600; 2]);
    drop(host);
    fs::set_permissions(folder.file(), Permissions::from_mode(0o622)).expect("changed");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("other users can write into it"), "{said}");
    fs::set_permissions(folder.file(), Permissions::from_mode(0o600)).expect("changed");
    fs::hard_link(folder.file(), folder.0.join("second")).expect("linked");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("a second name"), "{said}");
    fs::rename(folder.file(), folder.0.join("elsewhere")).expect("moved");
    symlink("elsewhere", folder.file()).expect("linked");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("it is a link"), "{said}");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).expect("changed");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("can write into this folder"), "{said}");
}

#[tokio::test]
async fn a_lock_that_is_a_link_is_refused() {
    let folder = Folder::new("lock");
    fs::write(folder.0.join("victim"), "text").expect("written");
    symlink("victim", folder.0.join("agent.db.lock")).expect("linked");
    refused(folder.open(StoreRole::Host).await);
    assert_eq!(fs::read(folder.0.join("victim")).expect("text"), b"text");
}

#[tokio::test]
async fn what_is_no_database_of_ours_stays_as_it_is() {
    let folder = Folder::new("foreign");
    let text = "these are no pages of a database\n".repeat(300);
    fs::write(folder.file(), &text).expect("written");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("no database of tunnel agents"), "{said}");
    assert_eq!(fs::read_to_string(folder.file()).expect("text"), text);
    fs::remove_file(folder.file()).expect("removed");
    let other = Connection::open(folder.file()).expect("a database");
    other
        .execute_batch("CREATE TABLE birds (name TEXT)")
        .expect("a table");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("no database of tunnel agents"), "{said}");
    let tables = "SELECT count(*) FROM sqlite_schema";
    let count: i64 = other
        .query_row(tables, [], |row| row.get(0))
        .expect("a number");
    assert_eq!(count, 1);
}

#[tokio::test]
async fn an_earlier_version_is_brought_to_ours_and_a_later_one_refused() {
    let folder = Folder::new("version");
    let place = sqlite::Place::claim(&folder.file(), StoreRole::Administrator).expect("a place");
    let mut link = Link::Sqlite(place.open(Missing::Made).expect("it opens"));
    schema::make_version(&mut link, 1).await.expect("version 1");
    link.begin(Access::Writes).await.expect("begun");
    // As a program of that version has issued and taken it.
    let taken = "INSERT INTO agent_keys \
                 (handle, half_kind, half, user_id, not_after, state, request, taken_at) \
                 VALUES ($1, 'public', $2, 'alice', 1000, 'taken', $3, 100)";
    let values = [&handle(1).0[..], &[9; 32], &REQUEST.0].map(Value::octets);
    assert_eq!(link.change(taken, &values).await.expect("taken"), 1);
    link.commit().await.expect("written");
    let members = link.rows("SELECT count(*) FROM agent_members", &[]).await;
    assert!(members.is_err(), "version 1 has no members");
    drop((link, place));
    let mut target = folder.open(TARGET).await.expect("it is migrated");
    assert_eq!(target.members().await.expect("a list"), []);
    let request = REQUEST;
    let taken = State::Taken {
        request,
        at: Calendar(100),
    };
    assert_eq!(state(&mut target, 1).await, taken, "keys stay as they are");
    drop(target);
    let later = Connection::open(folder.file()).expect("a database");
    let known = schema::VERSION;
    later
        .execute("INSERT INTO agent_version VALUES (?1)", [known + 1])
        .expect("a version");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains(&format!("version {}", known + 1)), "{said}");
    assert!(said.contains("use a newer caravan"), "{said}");
}

/// Taken, revoked, or its time is over: the file itself has nothing of it left.
#[tokio::test]
async fn what_a_key_gives_for_ppks_is_gone_with_it() {
    for how in 0..4 {
        let folder = Folder::new("ppk");
        let mut host = folder.open_with_key().await;
        let has_ppk = || {
            let whole = fs::read(folder.file()).expect("a file");
            whole.windows(PPK.len()).any(|part| part == PPK)
        };
        assert!(has_ppk());
        let refuse = |number| Ask::Refuse {
            handle: handle(1),
            request: Digest([number; 32]),
            is_wrong_user: true,
        };
        match how {
            0 => assert!(host.answer(&take(1)).await == Answer::Taken),
            1 => assert_eq!(host.revoke(Which::All).await.expect("revoked"), 1),
            2 => {
                for number in 0..5 {
                    assert!(has_ppk());
                    assert!(host.answer(&refuse(number)).await == Answer::Noted);
                }
            }
            _ => {
                let before = Calendar(1_001);
                host.answer(&Ask::Sweep { before }).await;
            }
        }
        assert!(!has_ppk(), "{how}");
        let found = host.answer(&Ask::Find(handle(1))).await;
        assert!(matches!(found, Answer::Found(Some(record)) if record.ppk.is_none()));
    }
}

#[tokio::test]
async fn a_locked_database_is_unavailable_until_it_is_not() {
    let folder = Folder::new("locked");
    let mut host = folder.open_with_key().await;
    let other = Connection::open(folder.file()).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    assert!(host.answer(&take(1)).await == Answer::Unavailable);
    assert_eq!(
        state(&mut host, 1).await,
        State::Valid,
        "reading waits for nobody"
    );
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert!(host.answer(&take(1)).await == Answer::Taken);
}

#[tokio::test]
async fn a_full_database_changes_nothing_and_works_when_there_is_room() {
    let folder = Folder::new("full");
    let mut host = folder.open_with_key().await;
    assert!(host.answer(&take(1)).await == Answer::Taken);
    let limit = |store: &Store| {
        let Some(Link::Sqlite(opened)) = &store.link else {
            panic!("it is a file");
        };
        opened.run("PRAGMA max_page_count = 1").expect("a limit");
    };
    limit(&host);
    let long = Some(vec![1; 1 << 20]);
    assert!(host.answer(&finish(1, long.clone())).await == Answer::Unavailable);
    let request = REQUEST;
    let taken = State::Taken {
        request,
        at: Calendar(100),
    };
    assert_eq!(state(&mut host, 1).await, taken);
    limit(&host);
    let many: Vec<_> = (2..200).map(|number| (handle(number), record())).collect();
    let said = host.issue(&many).await.expect_err("it is full").to_string();
    assert!(said.contains("full"), "{said}");
    assert_eq!(host.keys().await.expect("keys").len(), 1, "all or none");
    // The limit has gone with the connection.
    assert!(host.answer(&finish(1, long)).await == Answer::Finished);
}

#[tokio::test]
async fn a_database_that_is_removed_or_replaced_is_unavailable() {
    let folder = Folder::new("gone");
    let mut host = folder.open_with_key().await;
    let away = folder.0.join("away");
    fs::rename(folder.file(), &away).expect("moved");
    assert!(host.answer(&take(1)).await == Answer::Unavailable);
    assert!(!folder.file().exists(), "no empty one is made in its place");
    fs::write(folder.file(), "").expect("written");
    fs::set_permissions(folder.file(), Permissions::from_mode(0o600)).expect("changed");
    assert!(host.answer(&take(1)).await == Answer::Unavailable);
    fs::rename(&away, folder.file()).expect("moved back");
    assert!(host.answer(&take(1)).await == Answer::Taken);
}

#[tokio::test]
async fn a_damaged_database_is_unavailable() {
    let folder = Folder::new("damaged");
    drop(folder.open_with_key().await);
    let whole = fs::read(folder.file()).expect("octets");
    let page = 4_096;
    for start in (page..whole.len()).step_by(page) {
        let mut damaged = whole.clone();
        damaged[start..start + page].fill(0xa5);
        fs::write(folder.file(), &damaged).expect("written");
        // Not every page belongs to keys. No answer is wrong, and none is a panic.
        if let Ok(mut host) = folder.open(StoreRole::Host).await {
            let answer = host.answer(&take(1)).await;
            assert!(matches!(answer, Answer::Unavailable | Answer::Taken));
            if answer == Answer::Taken {
                assert!(host.answer(&take(1)).await != Answer::Taken);
            }
        }
    }
    let row = "UPDATE agent_keys SET half = zeroblob(32), half_kind = 'public', state = 'taken'";
    fs::write(folder.file(), &whole).expect("written");
    let other = Connection::open(folder.file()).expect("a database");
    assert!(
        other.execute(row, []).is_err(),
        "the tables refuse half a state"
    );
    other
        .execute_batch("PRAGMA ignore_check_constraints = ON")
        .expect("a way around");
    other.execute(row, []).expect("half a state");
    let mut host = folder.open(StoreRole::Host).await.expect("it opens");
    assert!(host.answer(&Ask::Find(handle(1))).await == Answer::Unavailable);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_said() {
    let folder = Folder::new("read-only");
    drop(folder.open_with_key().await);
    fs::set_permissions(&folder.0, Permissions::from_mode(0o500)).expect("changed");
    // Root may write everywhere, this thread not.
    let set = caps::CapSet::Effective;
    caps::drop(None, set, caps::Capability::CAP_DAC_OVERRIDE).expect("dropped");
    let said = refused(folder.open(StoreRole::Host).await);
    assert!(said.contains("this folder cannot be written to"), "{said}");
    let missing = folder.0.join("new.db");
    let opened = Store::open(&Database::Sqlite(missing.clone()), StoreRole::Host).await;
    let said = refused(opened);
    assert!(
        said.contains("cannot be written to") && !missing.exists(),
        "{said}"
    );
}

#[tokio::test]
async fn an_answer_is_forgotten_when_nobody_can_ask_for_it() {
    let folder = Folder::new("forgotten");
    let mut host = folder.open_with_key().await;
    assert!(host.answer(&take(1)).await == Answer::Taken);
    assert!(host.answer(&finish(1, Some(vec![1, 2]))).await == Answer::Finished);
    let lives = ANSWER_LIVES.as_secs() as i64;
    let (request, mut answer) = (REQUEST, Some(vec![1, 2]));
    for (before, is_there) in [(100 + lives, true), (101 + lives, false)] {
        let before = Calendar(before);
        assert!(host.answer(&Ask::Sweep { before }).await == Answer::Swept(Vec::new()));
        answer = answer.filter(|_| is_there);
        let expected = State::Used {
            request,
            answer: answer.clone(),
        };
        assert_eq!(state(&mut host, 1).await, expected);
    }
}

#[tokio::test]
async fn work_that_is_dropped_halfway_changes_nothing() {
    let folder = Folder::new("dropped");
    let mut host = folder.open_with_key().await;
    let never = host.within_transaction(Access::Writes, async |link| {
        assert!(keys::answer(link, &take(1)).await? == Answer::Taken);
        std::future::pending::<Result<(), StoreError>>().await
    });
    let given_up = within(Duration::from_millis(1), never).await;
    assert!(matches!(given_up, Err(StoreError::Silent)));
    assert_eq!(state(&mut host, 1).await, State::Valid);
    assert!(host.answer(&take(1)).await == Answer::Taken);
}

#[tokio::test]
async fn names_that_nobody_could_read_are_refused() {
    let folder = Folder::new("names");
    let mut desk = folder
        .open(StoreRole::Administrator)
        .await
        .expect("it opens");
    for name in ["", "a\0b", "a\nb", &"a".repeat(65)] {
        let mut bad = record();
        bad.user = name.to_owned();
        let fault = desk.issue(&[(handle(1), record()), (handle(2), bad)]).await;
        assert!(matches!(fault, Err(StoreError::Name { .. })), "{name:?}");
    }
    let mut used = record();
    used.state = State::Revoked;
    let fault = desk.issue(&[(handle(3), used)]).await;
    assert!(matches!(fault, Err(StoreError::NotValid(_))));
    assert_eq!(desk.keys().await.expect("keys").len(), 0, "all or none");
    desk.issue(&[(handle(1), record())]).await.expect("issued");
    let fault = desk
        .issue(&[(handle(2), record()), (handle(1), record())])
        .await;
    assert!(matches!(fault, Err(StoreError::HandleTaken(it)) if it == handle(1)));
    assert_eq!(desk.keys().await.expect("keys").len(), 1, "all or none");
}

#[test]
fn addresses_of_databases() {
    let parse = |text: &str| Database::parse(text, Path::new("/etc/caravan"));
    let shown = |text: &str| {
        parse(text)
            .map(|it| it.to_string())
            .map_err(|it| it.to_string())
    };
    assert_eq!(shown("agent.db").as_deref(), Ok("/etc/caravan/agent.db"));
    assert_eq!(shown("/var/lib/a.db").as_deref(), Ok("/var/lib/a.db"));
    let good = [
        "postgresql:///caravan",
        "postgresql://host:secret@localhost/caravan",
        "postgres://host:secret@127.0.0.1:5433/caravan?sslmode=disable",
        "postgresql://[::1]/caravan?user=host&password=secret",
        "postgresql:///caravan?host=/run/postgresql&user=host",
        "postgresql://host:secret@far/caravan?hostaddr=127.0.0.1",
        "postgresql://host@db.example/caravan?sslmode=require",
        "postgresql://db.example/caravan?sslmode=verify-full&sslrootcert=ca.pem&user=host",
    ];
    for text in good {
        let shown = shown(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert!(!shown.contains("secret"), "{shown}");
    }
    let bad = [
        ("", "it is empty"),
        ("mysql://root@db/x", "mysql:// is not known"),
        (
            "postgresql://db.example/x",
            "db.example is not on this machine",
        ),
        (
            "postgresql://host:secret@localhost,db.example/x",
            "db.example is not on this machine",
        ),
        (
            "postgresql://localhost/x?hostaddr=192.0.2.1",
            "192.0.2.1 is not on this machine",
        ),
        ("postgresql://localhost/x?sslmode=prefer", "sslmode=prefer"),
        (
            "postgresql:///x?sslmode=require&host=/run/postgresql",
            "a Unix socket has no TLS",
        ),
        ("postgresql://localhost/x?color=red", "color"),
        (
            "postgresql://host@localhost/x",
            "put a password into the URL",
        ),
        ("postgresql://host@[::1]/x?sslmode=disable", "SCRAM"),
        ("postgresql://a,b/x?hostaddr=192.0.2.1", "as many of each"),
    ];
    for (text, part) in bad {
        let said = shown(text).expect_err(text);
        assert!(said.contains(part), "{text}: {said}");
    }
    let Ok(Database::Postgres(server)) = parse(good[7]) else {
        panic!("it is a server");
    };
    let fault = postgres::Door::new(&server, StoreRole::Host).err();
    let said = fault.expect("there is no such file").to_string();
    assert!(said.contains("/etc/caravan/ca.pem"), "{said}");
}
