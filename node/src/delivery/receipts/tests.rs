use super::show;
use super::verify::verify;
use super::*;
use crate::state::data_dir::DataDir;
use crate::testing;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::work::receipt::ReceiptFinding;
use std::io::Write as _;

fn me() -> PublicKey {
    NodeKey::from_secret([2; 32]).public()
}

fn receipt(sequence: u64) -> Receipt {
    Receipt {
        run: testing::run_id(),
        node: me(),
        sequence,
        counter: OrderCounter(100 + sequence),
        group: ContentId::of(&sequence.to_le_bytes()),
        oldest: PolicyVersion(1),
        newest: PolicyVersion(1),
        trajectories: testing::GROUP,
        rewards: 2.0,
        at: UnixMillis(sequence),
    }
}

fn signed(receipt: &Receipt) -> Signed<Receipt> {
    Signed::sign(receipt, &testing::learner_key()).unwrap()
}

fn ledger(dir: &Path) -> Ledger {
    Ledger::open(dir, &testing::charter(), me()).unwrap()
}

fn keep(ledger: &mut Ledger, sequence: u64) {
    let receipt = receipt(sequence);
    ledger.accepted(receipt.counter, None, &signed(&receipt)).unwrap().unwrap();
}

#[test]
fn receipts_survive_restarts_and_a_torn_end_and_prove_what_was_accepted() {
    let dir = tempfile::tempdir().unwrap();
    (0..3).for_each(|sequence| keep(&mut ledger(dir.path()), sequence));
    let path = dir.path().join(format!("{}.receipts", testing::run_id()));
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[0, 0, 1, 0, 7]).unwrap();
    keep(&mut ledger(dir.path()), 3);
    let proof = verify(&path, Some(me())).unwrap();
    assert_eq!((proof.account.groups(), proof.account.wrong, proof.account.rewards), (4, 0, 8.0));
    assert_eq!(proof.account.trajectories, 4 * u64::from(testing::GROUP));
    assert_eq!((proof.learner, proof.last_at), (testing::learner_key().public(), Some(UnixMillis(3))));
    assert_eq!(verify(&path, None).unwrap().node, Some(me()), "the receipts say whose they are");
}

#[test]
fn a_damaged_file_of_receipts_never_proves_more() {
    let dir = tempfile::tempdir().unwrap();
    (0..3).for_each(|sequence| keep(&mut ledger(dir.path()), sequence));
    let path = dir.path().join(format!("{}.receipts", testing::run_id()));
    let honest = fs::read(&path).unwrap();
    // Cut anywhere: what stands before the cut is proven all the same.
    let mut whole = vec![0];
    while let Some(length) = honest.get(whole[whole.len() - 1]..).and_then(|rest| rest.first_chunk::<4>()) {
        whole.push(whole[whole.len() - 1] + 4 + u32::from_be_bytes(*length) as usize);
    }
    assert_eq!(whole[4], honest.len(), "a charter and three receipts");
    let (mut proven, mut steps) = (3, 0);
    for end in (0..=honest.len()).rev().step_by(11) {
        fs::write(&path, &honest[..end]).unwrap();
        let Ok(proof) = verify(&path, Some(me())) else { continue };
        let groups = proof.account.groups();
        assert_eq!(proof.torn, !whole.contains(&end), "cut at {end}");
        assert!(proof.account.wrong == 0 && (groups == proven || groups + 1 == proven), "cut at {end}");
        steps += proven - groups;
        proven = groups;
    }
    assert_eq!((proven, steps), (0, 3));
    // A bit anywhere: a receipt that is not what was signed does not count.
    for at in (0..honest.len()).step_by(7) {
        let mut changed = honest.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let Ok(proof) = verify(&path, Some(me())) else { continue };
        let account = proof.account;
        assert!(account.groups() <= 3 && account.rewards <= 6.0, "bit of byte {at}");
    }
}

#[test]
fn a_damaged_file_is_kept_whole_beside_the_receipts_before_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    (0..3).for_each(|sequence| keep(&mut ledger(dir.path()), sequence));
    let path = dir.path().join(format!("{}.receipts", testing::run_id()));
    let mut damaged = fs::read(&path).unwrap();
    let last = damaged.len() - receipt_frame();
    damaged[last] ^= 0xff;
    fs::write(&path, &damaged).unwrap();
    keep(&mut ledger(dir.path()), 3);
    assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), damaged);
    assert_eq!(verify(&path, Some(me())).unwrap().account.groups(), 3);

    // All of it is noise, and there is a copy of an earlier one already.
    let noise = vec![0xff; 1000];
    fs::write(&path, &noise).unwrap();
    keep(&mut ledger(dir.path()), 4);
    assert_eq!(fs::read(path.with_extension("damaged")).unwrap(), damaged);
    assert_eq!(fs::read(path.with_extension("damaged-2")).unwrap(), noise);
    assert_eq!(verify(&path, Some(me())).unwrap().account.groups(), 1);
}

/// Bytes of a receipt in its file.
fn receipt_frame() -> usize {
    4 + signed(&receipt(2)).to_bytes().len()
}

#[test]
fn a_new_identity_begins_its_own_receipts_and_those_of_the_old_one_stay_sound() {
    let dir = tempfile::tempdir().unwrap();
    (0..2).for_each(|sequence| keep(&mut ledger(dir.path()), sequence));
    let other = NodeKey::from_secret([4; 32]).public();
    let mut others = Ledger::open(dir.path(), &testing::charter(), other).unwrap();
    let own = Receipt { node: other, ..receipt(0) };
    others.accepted(own.counter, None, &signed(&own)).unwrap().unwrap();
    drop(others);
    let shown = show::all(dir.path(), other).unwrap();
    let proofs = shown.iter().map(|shown| &shown.proof);
    let found: Vec<_> =
        proofs.map(|proof| (proof.node.unwrap(), proof.account.groups(), proof.wrong())).collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&(other, 1, 0)) && found.contains(&(me(), 2, 0)), "{found:?}");
    // The old identity is back, and goes on where it was.
    keep(&mut ledger(dir.path()), 2);
    let path = dir.path().join(format!("{}.receipts", testing::run_id()));
    assert_eq!(verify(&path, Some(me())).unwrap().account.groups(), 3);
}

#[test]
fn a_lost_receipt_and_a_foreign_file_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = ledger(dir.path());
    [0, 2].into_iter().for_each(|sequence| keep(&mut ledger, sequence));
    drop(ledger);
    let shown = show::all(dir.path(), me()).unwrap();
    assert!(matches!(&shown[0].proof.account.findings[..], [ReceiptFinding::Missing(gap)] if *gap == (1..2)));
    assert!(shown[0].text().contains("! receipts 1 to 1 are missing"), "{}", shown[0].text());
    assert_eq!(shown[0].json()["wrong"], 1);
    let stranger = NodeKey::from_secret([9; 32]).public();
    assert_eq!(verify(&shown[0].path, Some(stranger)).unwrap().account.groups(), 0);
    fs::write(&shown[0].path, b"\0\0\0\x02no").unwrap();
    assert!(matches!(verify(&shown[0].path, None), Err(LedgerError::Damaged { .. })));
    fs::write(&shown[0].path, [0xff; 100]).unwrap();
    assert!(matches!(verify(&shown[0].path, None), Err(LedgerError::Damaged { .. })));
}

#[test]
fn a_file_that_ends_within_a_receipt_and_a_directory_of_no_node_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataDir::new(dir.path().join("mistyped"));
    assert!(matches!(show::mine(&data), Err(LedgerError::NoNode { .. })));
    assert!(!data.path().exists());
    echo_protocol::program::keyfile::load_or_create(&data.identity()).unwrap();
    assert!(show::mine(&data).unwrap().is_empty(), "it has worked for no run yet");
    (0..2).for_each(|sequence| keep(&mut ledger(dir.path()), sequence));
    let path = dir.path().join(format!("{}.receipts", testing::run_id()));
    let one = || show::one(path.clone(), Some(me())).unwrap();
    assert_eq!(one().json()["wrong"], 0);
    let honest = fs::read(&path).unwrap();
    let zeros = [&honest[..], &[0; 9]].concat();
    for torn in [&honest[..honest.len() - 5], &zeros[..]] {
        fs::write(&path, torn).unwrap();
        assert_eq!((one().proof.wrong(), one().json()["torn"].as_bool()), (1, Some(true)));
        assert!(one().text().contains("! the file ends within a receipt"));
    }
    drop(ledger(dir.path()));
    assert_eq!(one().proof.wrong(), 0, "the next start cuts it off");
}

#[test]
fn only_receipts_for_what_was_sent_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = ledger(dir.path());
    let honest = receipt(0);
    let forged = Signed::sign(&honest, &NodeKey::from_secret([5; 32])).unwrap();
    let others = Receipt { node: NodeKey::from_secret([3; 32]).public(), ..honest.clone() };
    let mut refused = |counter, group: Option<&[u8]>, receipt: &Signed<Receipt>| {
        ledger.accepted(counter, group, receipt).unwrap().is_err()
    };
    assert!(refused(honest.counter, None, &forged));
    assert!(refused(honest.counter, None, &signed(&others)));
    assert!(refused(OrderCounter(7), None, &signed(&honest)));
    let key = NodeKey::from_secret([2; 32]);
    let group = TrajectoryGroup {
        run: testing::run_id(),
        lease: echo_protocol::work::lease::LeaseId(1),
        counter: honest.counter,
        node: me(),
        trajectories: Vec::new(),
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    let sent = Signed::sign(&group, &key).unwrap();
    assert!(refused(honest.counter, Some(&sent.to_bytes()), &signed(&honest)), "of another group");
    let right = Receipt { group: sent.body_id(), ..honest.clone() };
    assert!(!refused(honest.counter, Some(&sent.to_bytes()), &signed(&right)));
    let twin =
        ledger.accepted(honest.counter, Some(&sent.to_bytes()), &signed(&honest)).unwrap().unwrap_err();
    assert!(twin.to_string().contains("in use on another machine"), "{twin}");
}

#[test]
fn refusals_are_counted_from_start_to_start() {
    let dir = tempfile::tempdir().unwrap();
    for at in 1..=3 {
        let mut ledger = ledger(dir.path());
        ledger.refused(UnixMillis(at), OrderCounter(at), RefuseReason::Stale, "v1 at v9").unwrap();
    }
    let shown = show::all(dir.path(), me()).unwrap();
    let stale = &shown[0].refused["stale"];
    assert_eq!((stale.groups, stale.last_order, &*stale.detail), (3, OrderCounter(3), "v1 at v9"));
    assert_eq!(shown[0].json()["refused"]["stale"]["groups"], 3);
    assert_eq!(shown[0].proof.account.groups(), 0);
    assert!(show::all(&dir.path().join("none"), me()).unwrap().is_empty());
}
