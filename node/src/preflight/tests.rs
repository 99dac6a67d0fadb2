use super::*;
use crate::settings::{Config, Flags, Role};
use crate::state::charter_file;
use crate::testing;
use echo_policy::model::precision::Precision;
use echo_protocol::run::peer_list;
use echo_protocol::run::peer_list::{ListedRun, PeerList};
use echo_protocol::wire::rate::BytesPerSec;
use std::fs;
use std::path::Path;

const NOW: UnixMillis = UnixMillis(EARLIEST_NOW.0 + 1);

fn settings(dir: &Path) -> Settings {
    let flags = Flags { data_dir: Some(dir.join("data")), threads: Some(1), ..Flags::default() };
    let settings = Config::load(&flags, Vec::new()).unwrap().settings;
    Settings { listen: vec!["/ip4/127.0.0.1/tcp/0".into()], peers: Some(dir.join("list")), ..settings }
}

fn write_list(dir: &Path, runs: &[(&str, u8)]) {
    let keeper = NodeKey::from_secret([1; 32]);
    let runs = runs.iter().map(|(name, seed)| ListedRun {
        name: (*name).into(),
        learner: NodeKey::from_secret([*seed; 32]).public().to_string(),
    });
    let peer = echo_protocol::net::peer_id_of([9; 32]);
    let list = PeerList {
        network: "echo".into(),
        version: 1,
        expires: NOW.0 / 1000 + 1000,
        peers: vec!["/ip4/127.0.0.1/tcp/1".into(), format!("/ip4/127.0.0.1/tcp/1/p2p/{peer}")],
        runs: runs.collect(),
    };
    fs::write(dir.join("list"), peer_list::sign(&list, &keeper).unwrap()).unwrap();
}

#[test]
fn a_sound_node_is_ready_and_keeps_its_identity() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), &[("sums", 5)]);
    let settings = settings(dir.path());
    let ready = check(&settings, NOW).unwrap();
    assert_eq!(ready.target.name, "sums");
    assert_eq!(ready.bootstraps.len(), 1, "an address without a peer is left out");
    let first = ready.identity.public();
    drop(ready);
    assert_eq!(check(&settings, NOW).unwrap().identity.public(), first);
}

#[test]
fn all_problems_are_listed_at_once_each_with_its_mend() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let settings = Settings {
        threads: 100_000,
        max_orders: 0,
        log: "info,,=".into(),
        max_upload: Some(BytesPerSec(5)),
        listen: vec![format!("/ip4/127.0.0.1/tcp/{port}"), "/ip4/127.0.0.1/udp/1".into(), "nonsense".into()],
        ..settings(dir.path())
    };
    let other = settings.data().lock().unwrap();
    let text = check(&settings, UnixMillis(5)).unwrap_err().to_string();
    drop(other);
    for expected in [
        "clock is in the past",
        "threads is 100000",
        "max_orders is 0; set it to 2 to 1024",
        "log is \"info,,=\"",
        "max_upload is 5B/s, and below 8kbit nothing gets through; write a unit",
        "another program listens there",
        "/tcp/PORT or /udp/PORT/quic-v1",
        "nonsense",
        "there is no peer list at",
        "another echo-node is using",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing from {text}");
    }
    assert!(text.starts_with("10 problems"), "{text}");
}

#[test]
fn too_few_threads_are_a_problem_that_names_how_many_there_are() {
    let limited = |most: usize| checks::room_for_threads(9, |needed| needed.min(most));
    let text = limited(8).unwrap_err().to_string();
    assert!(text.contains("start 8 more threads, and it needs 9"), "{text}");
    limited(9).unwrap();
}

#[test]
fn a_precision_that_the_known_run_does_not_take_is_a_problem_for_who_generates() {
    let dir = tempfile::tempdir().unwrap();
    // Whose charter it is.
    write_list(dir.path(), &[("sums", 200)]);
    let settings = Settings { precision: Some(Precision::Int8), ..settings(dir.path()) };
    drop(check(&settings, NOW).expect("the charter is not known yet"));
    charter_file::keep_charter(&settings.data(), &testing::charter()).unwrap();
    let text = check(&settings, NOW).unwrap_err().to_string();
    assert!(text.contains("precision is int8, and the run takes f32"), "{text}");
    drop(check(&Settings { roles: [Role::Relay].into(), ..settings.clone() }, NOW).unwrap());
    drop(check(&Settings { precision: None, ..settings }, NOW).unwrap());
}

#[test]
fn a_device_that_is_not_there_is_a_problem_for_who_generates() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), &[("sums", 5)]);
    let device = "wgpu:no such card".parse().unwrap();
    let settings = Settings { device, ..settings(dir.path()) };
    let text = check(&settings, NOW).unwrap_err().to_string();
    assert!(text.contains("no device wgpu:no such card") && text.contains("--device"), "{text}");
    drop(check(&Settings { roles: [Role::Relay].into(), ..settings.clone() }, NOW).unwrap());
    drop(check(&Settings { device: Default::default(), ..settings }, NOW).unwrap());
}

#[test]
fn a_list_of_several_runs_needs_a_choice() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), &[("sums", 5), ("words", 6)]);
    let chosen = |run: Option<&str>| {
        let settings = Settings { run: run.map(str::to_owned), ..settings(dir.path()) };
        check(&settings, NOW).map(|ready| ready.target.name).map_err(|p| p.to_string())
    };
    assert!(chosen(None).unwrap_err().contains("the peer list has 2 runs; choose one with --run: sums ("));
    assert_eq!(chosen(Some("words")).unwrap(), "words");
    let key = NodeKey::from_secret([5; 32]).public().to_string();
    assert_eq!(chosen(Some(&key)).unwrap(), "sums");
    assert!(chosen(Some("chess")).unwrap_err().contains("no run \"chess\""));
}

#[cfg(unix)]
#[test]
fn an_identity_that_others_can_read_is_a_problem() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), &[("sums", 5)]);
    let settings = settings(dir.path());
    drop(check(&settings, NOW).unwrap());
    let path = settings.data().identity();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let text = check(&settings, NOW).unwrap_err().to_string();
    assert!(text.contains("mode 644") && text.contains("chmod 600"), "{text}");
}

#[test]
fn a_data_directory_that_is_a_file_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), &[("sums", 5)]);
    let settings = settings(dir.path());
    fs::write(&settings.data_dir, "").unwrap();
    let text = check(&settings, NOW).unwrap_err().to_string();
    assert!(text.contains("choose another with --data-dir"), "{text}");
}

#[test]
fn programs_are_isolated_or_it_is_said_what_is_missing() {
    let Programs { isolation, languages, lacks } = programs();
    assert!(isolation.is_some() || (languages.is_empty() && !lacks.is_empty()), "{languages:?} {lacks:?}");
}

#[test]
fn a_list_of_names_needs_a_resolver_and_one_with_an_ip_address_does_not() {
    let address = |text: &str| text.parse::<Multiaddr>().unwrap();
    let names = [address("/dns4/boot.example.org/tcp/1")];
    let both = [names[0].clone(), address("/ip4/127.0.0.1/tcp/1")];
    let missing = || Err(std::io::ErrorKind::NotFound.into());
    let problem = checks::resolver(&names, missing).unwrap_err().to_string();
    assert!(problem.contains("/etc/resolv.conf"), "{problem}");
    checks::resolver(&names, || Ok(())).unwrap();
    checks::resolver(&both, missing).unwrap();
    checks::resolver(&[], missing).unwrap();
}
