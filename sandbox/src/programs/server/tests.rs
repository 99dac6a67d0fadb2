use std::io::Write;
use std::num::NonZeroUsize;

use super::*;
use crate::programs::JudgeOptions;
use crate::programs::language::Language;
use crate::programs::program::Submission;
use crate::programs::service::{JudgeRequest, QueueLimits};
use crate::programs::suite::Suite;
use crate::programs::testing::{judge, store, suite};
use crate::programs::verdict::ProgramVerdict;
use echo_protocol::wire::content_id::ContentId;

fn server(dir: &Path) -> Server {
    let service = Service::start(judge(), store(), NonZeroUsize::MIN, QueueLimits::default());
    Server::start(&dir.join("verify.sock"), Arc::new(service), &[]).unwrap()
}

fn request(suite: Suite) -> JudgeRequest {
    let submission = Submission { language: Language::Python, source: "print(input())".into() };
    JudgeRequest::Program { submission, suite, options: JudgeOptions::default() }
}

#[test]
fn tests_are_put_once_and_reports_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut client = Client::connect(server.path()).unwrap();
    assert!(client.languages().contains(&Language::Python));
    let absent = ContentId::of(b"only named");
    assert_eq!(client.missing([absent]).unwrap(), [absent]);
    let id = client.put(b"over the socket").unwrap();
    assert_eq!(client.missing([id, absent]).unwrap(), [absent]);
    let suite = suite(&[("1", "1"), ("1", "2")]);
    let reports = client.judge(request(suite.clone())).unwrap();
    let verdicts: Vec<_> = reports.map(|report| report.unwrap().verdict).collect();
    assert_eq!(verdicts, [ProgramVerdict::Accepted, ProgramVerdict::WrongAnswer]);
    // A refusal leaves the connection as it is.
    let empty = request(Suite { tests: Vec::new(), ..suite.clone() });
    let refused = client.judge(empty).unwrap().next().unwrap();
    assert!(matches!(refused, Err(ClientError::Refused { .. })));
    assert_eq!(client.judge(request(suite)).unwrap().count(), 2);
}

#[test]
fn who_does_not_keep_to_the_protocol_is_told_and_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0, 0, 0, 1, 0xff], &[0, 0, 0, 3, 0x82, 1, 2]] {
        let mut stream = UnixStream::connect(server.path()).unwrap();
        stream.write_all(bytes).unwrap();
        let length = frame::read_length(&mut stream).unwrap().unwrap();
        assert!(matches!(frame::read_message(&mut stream, length).unwrap(), ServerReply::Refused { .. }));
        assert!(!matches!(frame::read_length(&mut stream), Ok(Some(_))));
    }
    // The server goes on.
    Client::connect(server.path()).unwrap();
}

#[test]
fn connections_are_bounded_and_freed() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mut open: Vec<_> =
        (0..MAX_CONNECTIONS_PER_CLIENT).map(|_| Client::connect(server.path()).unwrap()).collect();
    assert!(matches!(Client::connect(server.path()), Err(ClientError::Refused { .. })));
    open.pop();
    let again = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        Client::connect(server.path()).ok()
    });
    assert!(again.is_some());
}

#[test]
fn one_user_has_neither_all_connections_nor_more_turns_for_more_processes() {
    let (owner, guest) = (1000, 1001);
    let processes = |user: u32| (1..).map(move |process| Peer { user, process });
    let mut open: Vec<Peer> = Vec::new();
    for (user, connections) in [(guest, MAX_CONNECTIONS_PER_USER), (owner, MAX_CONNECTIONS / 2)] {
        for peer in processes(user).take(connections) {
            peer.room(&open, owner).unwrap();
            open.push(peer);
        }
        let refused = Peer { user, process: u32::MAX }.room(&open, owner).unwrap_err();
        assert!(refused.contains(&format!("{connections} of them of this user")), "{refused}");
    }
    let clients = |user: u32| -> BTreeSet<ClientId> {
        open.iter().filter(|peer| peer.user == user).map(|peer| peer.client(owner)).collect()
    };
    assert_eq!((clients(guest).len(), clients(owner).len()), (1, MAX_CONNECTIONS / 2));
    assert!(clients(guest).is_disjoint(&clients(owner)));
}

#[test]
fn only_named_users_are_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    let mode = fs::metadata(server.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (stream, _other) = UnixStream::pair().unwrap();
    assert!(server.shared.register(1_000_000, &stream).is_ok());
    let strangers = Shared {
        service: Arc::clone(&server.shared.service),
        users: [geteuid().as_raw() + 1].into(),
        stopping: AtomicBool::new(false),
        open: Mutex::default(),
    };
    assert!(strangers.register(0, &stream).unwrap_err().contains("may not use this server"));
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("verify.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = server(dir.path());
    let service = Arc::clone(&first.shared.service);
    assert!(matches!(Server::start(&path, service, &[]), Err(ServerError::InUse { .. })));
    drop(first);
    assert!(!path.exists());
    assert!(matches!(Client::connect(&path), Err(ClientError::Connect { .. })));
}

#[test]
fn who_cannot_listen_is_told_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let service = Arc::clone(&server(dir.path()).shared.service);
    let refused = |name: &str| {
        Server::start(&dir.path().join(name), Arc::clone(&service), &[]).unwrap_err().to_string()
    };
    assert!(refused("none/v.sock").contains("make its directory"));
    assert!(refused(&"x".repeat(120)).contains("at most 107 bytes"));
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let service = Arc::clone(&server(dir.path()).shared.service);
    let path = dir.path().join("thesis.txt");
    fs::write(&path, "years of work").unwrap();
    let refused = Server::start(&path, service, &[]).unwrap_err();
    assert!(matches!(refused, ServerError::NoSocket { .. }), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), b"years of work");
}

#[test]
fn a_server_whose_socket_was_taken_away_still_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(dir.path());
    fs::remove_file(server.path()).unwrap();
    drop(server);
}
