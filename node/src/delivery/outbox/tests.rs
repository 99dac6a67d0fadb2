use super::*;
use crate::testing;
use echo_protocol::wire::identity::NodeKey;

fn open(dir: &Path, of_run: u8) -> Result<Outbox, OutboxError> {
    Outbox::open(dir, &run(of_run), &key(1).public())
}

fn key(byte: u8) -> NodeKey {
    NodeKey::from_secret([byte; 32])
}

fn signed(order: u64, by: &NodeKey) -> (OrderCounter, Vec<u8>) {
    let group = testing::group(by.public(), OrderCounter(order));
    (group.counter, Signed::sign(&group, by).unwrap().to_bytes())
}

fn run(byte: u8) -> RunId {
    echo_protocol::wire::codec::decode(&[[0x58, 32].as_slice(), &[byte; 32]].concat(), 64).unwrap()
}

fn waiting(outbox: &Outbox) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some((counter, _)) = outbox.first(|c| seen.contains(&c.0)).unwrap() {
        seen.push(counter.0);
    }
    seen
}

#[test]
fn only_settled_groups_leave_and_the_rest_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path(), 1).unwrap();
    let mut changes = outbox.changes();
    outbox.push(&[(OrderCounter(9), vec![9; 10]), (OrderCounter(2), vec![2; 20])]).unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    outbox.push(&[(OrderCounter(300), vec![3; 30])]).unwrap();
    outbox.settle(OrderCounter(9)).unwrap();
    outbox.settle(OrderCounter(77)).unwrap();
    assert!(changes.has_changed().unwrap());
    assert_eq!((waiting(&outbox), outbox.bytes()), (vec![2, 300], 50));
    drop(outbox);

    let outbox = open(dir.path(), 1).unwrap();
    assert_eq!((waiting(&outbox), outbox.len(), outbox.bytes()), (vec![2, 300], 2, 50));
    assert_eq!(outbox.first(|_| false).unwrap(), Some((OrderCounter(2), vec![2; 20])));
    assert!(outbox.contains(OrderCounter(300)).unwrap() && !outbox.contains(OrderCounter(9)).unwrap());
}

#[test]
fn what_push_returned_from_is_on_disk_even_if_the_process_dies_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path(), 1).unwrap();
    outbox.push(&[(OrderCounter(1), vec![7; 100])]).unwrap();
    // A copy of the files as they are now, while the database is open: what a killed process leaves behind.
    let after_kill = tempfile::tempdir().unwrap();
    copy(dir.path(), after_kill.path());
    let survivor = open(after_kill.path(), 1).unwrap();
    assert_eq!(survivor.first(|_| false).unwrap(), Some((OrderCounter(1), vec![7; 100])));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_group_on_its_way_is_not_replaced_and_runs_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path(), 1).unwrap();
    outbox.push(&[(OrderCounter(1), vec![1])]).unwrap();
    outbox.push(&[(OrderCounter(1), vec![2, 2])]).unwrap();
    assert_eq!(outbox.first(|_| false).unwrap(), Some((OrderCounter(1), vec![1])));
    assert_eq!((outbox.len(), outbox.bytes()), (1, 1));
    drop(outbox);
    assert!(open(dir.path(), 2).unwrap().is_empty());
    assert_eq!(open(dir.path(), 1).unwrap().len(), 1);
}

#[test]
fn a_full_outbox_refuses_instead_of_dropping() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path(), 1).unwrap();
    let groups: Vec<_> = (0..MAX_OUTBOX_GROUPS).map(|n| (OrderCounter(n), vec![0])).collect();
    outbox.push(&groups).unwrap();
    assert!(!outbox.has_room(1));
    let refused = outbox.push(&[(OrderCounter(MAX_OUTBOX_GROUPS), vec![0])]);
    assert!(matches!(refused, Err(OutboxError::Full { .. })));
    assert_eq!(outbox.len(), MAX_OUTBOX_GROUPS);
    outbox.settle(OrderCounter(0)).unwrap();
    outbox.push(&[(OrderCounter(MAX_OUTBOX_GROUPS), vec![0])]).unwrap();
}

#[test]
fn room_is_counted_in_the_longest_groups() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = open(dir.path(), 1).unwrap();
    let fitting = (MAX_OUTBOX_BYTES / MAX_ENTRY_BYTES as u64) as usize;
    assert!(outbox.has_room(fitting) && !outbox.has_room(fitting + 1));
    let too_large = outbox.push(&[(OrderCounter(0), vec![0; MAX_ENTRY_BYTES + 1])]);
    assert!(matches!(too_large, Err(OutboxError::TooLarge { .. })));
    assert!(outbox.is_empty());
}

#[test]
fn groups_of_another_identity_are_not_sent_and_come_back_with_it() {
    let logged = testing::logged();
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (key(1), key(2));
    let open = |me: &NodeKey| Outbox::open(dir.path(), &run(1), &me.public()).unwrap();
    open(&old).push(&[signed(1, &old), signed(2, &old)]).unwrap();
    assert!(logged.lines("another identity").is_empty());

    let outbox = open(&new);
    assert_eq!((outbox.len(), outbox.bytes(), waiting(&outbox)), (0, 0, vec![]));
    assert_eq!(logged.lines("2 groups were signed by another identity").len(), 1);
    outbox.push(&[signed(2, &new), signed(3, &new)]).unwrap();
    drop(outbox);
    assert_eq!(waiting(&open(&new)), [2, 3]);

    let outbox = open(&old);
    assert_eq!(waiting(&outbox), [1, 2]);
    assert_eq!(outbox.get(OrderCounter(2)).unwrap(), Some(signed(2, &old).1));
}

/// Damages a file of a closed outbox with one group by `damage`, and opens it again.
fn damaged(file: &str, damage: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), 1).unwrap().push(&[(OrderCounter(4), vec![4; 40])]).unwrap();
    let path = dir.path().join(file);
    match damage(&std::fs::read(&path).unwrap()) {
        Some(bytes) => std::fs::write(&path, bytes).unwrap(),
        None => std::fs::remove_file(&path).unwrap(),
    }
    waiting(&open(dir.path(), 1).unwrap())
}

#[test]
fn damaged_settings_of_the_database_cost_no_group() {
    let half = |bytes: &[u8]| Some(bytes[..bytes.len() / 2].to_vec());
    let zeros = |bytes: &[u8]| Some(vec![0; bytes.len()]);
    let noise = |bytes: &[u8]| Some(vec![0xa7; bytes.len()]);
    let logged = testing::logged();
    assert_eq!(damaged("conf", half), [4]);
    assert_eq!(damaged("conf", zeros), [4]);
    assert_eq!(damaged("conf", noise), [4]);
    assert_eq!(logged.lines("conf was damaged, and has been written again").len(), 3);
    assert_eq!(damaged("conf", |_| None), [4]);
    assert!(logged.lines("are lost").is_empty());
}

#[test]
fn lost_groups_are_named() {
    let zeros = |bytes: &[u8]| Some(vec![0; bytes.len()]);
    let noise = |bytes: &[u8]| Some(vec![0xa7; bytes.len()]);
    let logged = testing::logged();
    let mut left = vec![damaged("db", |_| None), damaged("db", |_| Some(Vec::new()))];
    left.extend([damaged("db", zeros), damaged("db", noise)]);
    assert!(left.iter().all(Vec::is_empty), "{left:?}");
    assert_eq!(logged.lines("groups that waited there are lost").len(), 4);
    // Neither a new outbox nor one that was emptied has lost anything.
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1).unwrap());
    drop(open(dir.path(), 1).unwrap());
    assert_eq!(logged.lines("are lost").len(), 4);
}
