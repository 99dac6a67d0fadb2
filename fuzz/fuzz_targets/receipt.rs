//! Receipts, also those that the learner did sign: an account counts what a small model of it
//! counts, whatever the order.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use echo_fuzz::{Edit, edited};
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec::{decode, encode};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::{Account, Receipt, ReceiptFinding, SEQUENCE_STRETCH};
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES};
use libfuzzer_sys::fuzz_target;

/// Most receipts of one account: signing is slow.
const MAX_RECEIPTS: usize = 24;
/// Where numbers of receipts begin, each beside a place where counting may go wrong.
const BASES: [u64; 4] = [0, SEQUENCE_STRETCH - 128, 7 * SEQUENCE_STRETCH, u64::MAX - 255];

/// What a receipt says: whose it is (0: as it has to be), its number, its order, its group,
/// its trajectories and rewards.
type Said = (u8, (u8, u8), u8, u8, u32, i16);

fuzz_target!(|input: ((u8, u8), Vec<Said>, Vec<Edit>, &[u8])| {
    let (from, receipts, edits, bytes) = input;
    let receipts: Vec<(NodeKey, Receipt)> = receipts.into_iter().take(MAX_RECEIPTS).map(receipt).collect();
    let signed: Vec<Signed<Receipt>> = receipts
        .iter()
        .map(|(key, receipt)| Signed::sign(receipt, key).expect("a receipt is short"))
        .collect();
    let from = number(from);
    let whole = account(&signed, from);
    let held = compare(&receipts, &whole);
    check_gaps(&whole.1, &held, from);

    // Where nothing comes twice, the order of arrival says nothing.
    if whole.0.copies == 0 && whole.1.len() as u64 == whole.0.wrong {
        let turned = account(&signed.iter().rev().cloned().collect::<Vec<_>>(), from);
        assert_eq!((turned.0.groups(), turned.0.trajectories), (whole.0.groups(), whole.0.trajectories));
        assert_eq!(turned.1, whole.1);
    }
    let changed = signed.first().map_or_else(Vec::new, |first| edited(&first.to_bytes(), &edits));
    check_stranger(&changed, signed.first());
    check_stranger(bytes, None);
});

/// The account of these receipts after it was closed, and the gaps that it found.
fn account(receipts: &[Signed<Receipt>], from: u64) -> (Account, Vec<Range<u64>>) {
    let mut account = Account::new(learner().public(), run(0), node(0));
    for (position, signed) in receipts.iter().enumerate() {
        if let Some(receipt) = account.add(signed) {
            assert_eq!(Some(receipt), receipts[position].open_from(&learner().public()).ok());
        }
    }
    account.close(from);
    let gaps = account.findings.iter().filter_map(|finding| match finding {
        ReceiptFinding::Missing(gap) => Some(gap.clone()),
        _ => None,
    });
    let gaps = gaps.collect();
    (account, gaps)
}

/// Compares an account with the model: a number and an order count where they come first. Returns
/// the numbers that count.
fn compare(receipts: &[(NodeKey, Receipt)], (account, gaps): &(Account, Vec<Range<u64>>)) -> BTreeSet<u64> {
    let (mut counted, mut orders) = (BTreeMap::new(), BTreeSet::new());
    let (mut copies, mut wrong, mut trajectories) = (0, 0, 0);
    for (key, receipt) in receipts {
        let ours = key.public() == learner().public() && receipt.run == run(0) && receipt.node == node(0);
        match counted.get(&receipt.sequence) {
            Some(group) if ours && *group == receipt.group => copies += 1,
            None if ours && orders.insert(receipt.counter) => {
                counted.insert(receipt.sequence, receipt.group);
                trajectories += u64::from(receipt.trajectories);
            }
            _ => wrong += 1,
        }
    }
    assert_eq!(
        (account.groups(), account.copies, account.trajectories),
        (counted.len(), copies, trajectories)
    );
    assert_eq!(account.wrong, wrong + gaps.len() as u64);
    counted.into_keys().collect()
}

/// A gap ends at a number that is here and holds none; it begins after one, at `from`, or
/// where counting began anew.
fn check_gaps(gaps: &[Range<u64>], held: &BTreeSet<u64>, from: u64) {
    for gap in gaps {
        assert!(from <= gap.start && gap.start < gap.end && held.contains(&gap.end));
        assert!(held.range(gap.clone()).next().is_none());
        let behind = gap.start.checked_sub(1).is_some_and(|before| held.contains(&before));
        assert!(behind || gap.start == from || gap.start.is_multiple_of(SEQUENCE_STRETCH));
    }
    assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
    let lonely = |number: &&u64| {
        **number > from && !number.is_multiple_of(SEQUENCE_STRETCH) && !held.contains(&(**number - 1))
    };
    assert_eq!(gaps.len(), held.iter().filter(lonely).count());
}

/// Bytes of a stranger count only where they are what the learner signed.
fn check_stranger(bytes: &[u8], genuine: Option<&Signed<Receipt>>) {
    let answered = decode::<Answer>(bytes, MAX_ANSWER_BYTES).ok().and_then(|answer| answer.receipt);
    let alone = || Signed::<Receipt>::from_bytes(bytes).ok();
    let Some(signed) = answered.map(|receipt| *receipt).or_else(alone) else { return };
    let mut account = Account::new(learner().public(), run(0), node(0));
    let counted = account.add(&signed);
    assert_eq!(account.groups(), usize::from(counted.is_some()));
    if let Some(counted) = counted {
        // Nobody guesses a signature: it is that of the receipt that was changed around it.
        assert_eq!(Some(counted), genuine.and_then(|genuine| genuine.open_from(&learner().public()).ok()));
    }
    account.close(0);
}

fn receipt((whose, at, counter, group, trajectories, rewards): Said) -> (NodeKey, Receipt) {
    let signer = if whose & 3 == 3 { NodeKey::from_secret([8; 32]) } else { learner() };
    let receipt = Receipt {
        run: run(u8::from(whose & 12 == 12)),
        node: node(u8::from(whose & 48 == 48)),
        sequence: number(at),
        counter: OrderCounter(counter.into()),
        group: ContentId::of(&[group % 4]),
        oldest: PolicyVersion(1),
        newest: PolicyVersion(2),
        trajectories,
        rewards: rewards.into(),
        at: UnixMillis(0),
    };
    (signer, receipt)
}

fn number((base, offset): (u8, u8)) -> u64 {
    BASES[usize::from(base) % BASES.len()] + u64::from(offset)
}

fn learner() -> NodeKey {
    NodeKey::from_secret([7; 32])
}

fn node(index: u8) -> PublicKey {
    NodeKey::from_secret([index + 1; 32]).public()
}

/// A run is named by a content id, and travels like one.
fn run(index: u8) -> RunId {
    let id = encode(&ContentId::of(&[index]), 64).expect("an id is short");
    decode(&id, 64).expect("a run id travels like a content id")
}
