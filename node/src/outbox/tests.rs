use super::*;

fn run(byte: u8) -> RunId {
    echo_protocol::codec::decode(&[[0x58, 32].as_slice(), &[byte; 32]].concat(), 64).unwrap()
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
    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
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

    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
    assert_eq!((waiting(&outbox), outbox.len(), outbox.bytes()), (vec![2, 300], 2, 50));
    assert_eq!(outbox.first(|_| false).unwrap(), Some((OrderCounter(2), vec![2; 20])));
    assert!(outbox.contains(OrderCounter(300)).unwrap() && !outbox.contains(OrderCounter(9)).unwrap());
}

#[test]
fn what_push_returned_from_is_on_disk_even_if_the_process_dies_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
    outbox.push(&[(OrderCounter(1), vec![7; 100])]).unwrap();
    // A copy of the files as they are now, while the database is open: what a killed process leaves behind.
    let after_kill = tempfile::tempdir().unwrap();
    copy(dir.path(), after_kill.path());
    let survivor = Outbox::open(after_kill.path(), &run(1)).unwrap();
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
    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
    outbox.push(&[(OrderCounter(1), vec![1])]).unwrap();
    outbox.push(&[(OrderCounter(1), vec![2, 2])]).unwrap();
    assert_eq!(outbox.first(|_| false).unwrap(), Some((OrderCounter(1), vec![1])));
    assert_eq!((outbox.len(), outbox.bytes()), (1, 1));
    drop(outbox);
    assert!(Outbox::open(dir.path(), &run(2)).unwrap().is_empty());
    assert_eq!(Outbox::open(dir.path(), &run(1)).unwrap().len(), 1);
}

#[test]
fn a_full_outbox_refuses_instead_of_dropping() {
    let dir = tempfile::tempdir().unwrap();
    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
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
    let outbox = Outbox::open(dir.path(), &run(1)).unwrap();
    let fitting = (MAX_OUTBOX_BYTES / MAX_ENTRY_BYTES as u64) as usize;
    assert!(outbox.has_room(fitting) && !outbox.has_room(fitting + 1));
    let too_large = outbox.push(&[(OrderCounter(0), vec![0; MAX_ENTRY_BYTES + 1])]);
    assert!(matches!(too_large, Err(OutboxError::TooLarge { .. })));
    assert!(outbox.is_empty());
}
