use super::*;
use crate::run::charter;
use crate::wire::codec;
use crate::wire::identity::NodeKey;
use crate::wire::signed::{ENVELOPE_BYTES, Signed};
use crate::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome, RefuseReason};

fn key(seed: u8) -> NodeKey {
    NodeKey::from_secret([seed; 32])
}

fn run(seed: u8) -> RunId {
    let key = key(seed);
    RunId::of(&Signed::sign(&charter::tests::charter(&key), &key).unwrap())
}

/// The learner is key 1, the node key 2.
fn receipt(sequence: u64, counter: u64) -> Receipt {
    Receipt {
        run: run(1),
        node: key(2).public(),
        sequence,
        counter: OrderCounter(counter),
        group: ContentId::of(&counter.to_le_bytes()),
        oldest: PolicyVersion(3),
        newest: PolicyVersion(4),
        trajectories: 4,
        rewards: 1.5,
        at: UnixMillis(9),
    }
}

fn account(receipts: &[Receipt], signer: &NodeKey) -> Account {
    let mut account = Account::new(key(1).public(), run(1), key(2).public());
    for receipt in receipts {
        account.add(&Signed::sign(receipt, signer).unwrap());
    }
    account.close(0);
    account
}

fn findings(account: &Account) -> Vec<String> {
    account.findings.iter().map(ReceiptFinding::to_string).collect()
}

#[test]
fn the_longest_receipt_fits_its_limit_and_the_answer() {
    let most = u64::MAX;
    let longest = Receipt {
        oldest: PolicyVersion(most),
        newest: PolicyVersion(most),
        trajectories: u32::MAX,
        rewards: 0.1,
        at: UnixMillis(most),
        ..receipt(most, most)
    };
    let signed = Signed::sign(&longest, &key(1)).unwrap();
    assert!(signed.to_bytes().len() <= Receipt::MAX_BYTES + ENVELOPE_BYTES);
    let outcome = Outcome::Refused { reason: RefuseReason::FrameTooLarge, detail: "x".repeat(300) };
    let answer = Answer { counter: Some(OrderCounter(most)), outcome, receipt: Some(Box::new(signed)) };
    let bytes = codec::encode(&answer, MAX_ANSWER_BYTES).unwrap();
    assert_eq!(codec::decode::<Answer>(&bytes, MAX_ANSWER_BYTES).unwrap(), answer);
}

#[test]
fn receipts_in_a_row_prove_what_was_accepted_in_any_order_and_with_copies() {
    let receipts: Vec<Receipt> = [2, 0, 1, 1].map(|n| receipt(n, 70 + n)).to_vec();
    let account = account(&receipts, &key(1));
    assert_eq!(findings(&account), Vec::<String>::new());
    assert_eq!((account.groups(), account.trajectories, account.copies), (3, 12, 1));
    assert_eq!(account.rewards, 4.5);
}

#[test]
fn what_is_missing_or_comes_twice_is_named() {
    let receipts = [receipt(0, 1), receipt(3, 2), receipt(3, 9), receipt(4, 2)];
    let account = account(&receipts, &key(1));
    let found = findings(&account);
    assert_eq!((account.wrong, account.groups()), (3, 2));
    assert!(
        matches!(account.findings[0], ReceiptFinding::NumberTwice { position: 2, sequence: 3 }),
        "{found:?}"
    );
    assert!(matches!(account.findings[1], ReceiptFinding::OrderTwice { position: 3, .. }), "{found:?}");
    assert!(matches!(&account.findings[2], ReceiptFinding::Missing(gap) if *gap == (1..3)), "{found:?}");
}

#[test]
fn the_last_of_all_numbers_is_counted_like_another() {
    let whole = account(&[receipt(u64::MAX, 1)], &key(1));
    let gap = u64::MAX / SEQUENCE_STRETCH * SEQUENCE_STRETCH..u64::MAX;
    assert!(matches!(&whole.findings[..], [ReceiptFinding::Missing(missing)] if *missing == gap));
    let mut end = Account::new(key(1).public(), run(1), key(2).public());
    end.add(&Signed::sign(&receipt(u64::MAX, 1), &key(1)).unwrap());
    end.close(u64::MAX);
    assert_eq!((end.groups(), end.wrong), (1, 0));
}

#[test]
fn receipts_of_others_prove_nothing() {
    let forged = account(&[receipt(0, 1)], &key(2));
    assert!(matches!(forged.findings[0], ReceiptFinding::Unsound { position: 0, .. }));
    let receipts =
        [Receipt { run: run(7), ..receipt(0, 1) }, Receipt { node: key(3).public(), ..receipt(1, 2) }];
    let foreign = account(&receipts, &key(1));
    assert!(matches!(foreign.findings[0], ReceiptFinding::OtherRun { .. }));
    assert!(matches!(foreign.findings[1], ReceiptFinding::OtherNode { .. }));
    assert_eq!((forged.groups(), foreign.groups(), foreign.trajectories), (0, 0, 0));
    // One flipped bit.
    let mut bytes = Signed::sign(&receipt(0, 1), &key(1)).unwrap().to_bytes();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    if let Ok(signed) = Signed::from_bytes(&bytes) {
        let mut account = Account::new(key(1).public(), run(1), key(2).public());
        assert_eq!(account.add(&signed), None);
    }
}

#[test]
fn a_learner_that_lost_its_database_goes_on_at_the_next_stretch() {
    let s = SEQUENCE_STRETCH;
    let receipts = [receipt(0, 1), receipt(s, 2), receipt(s + 1, 3)];
    assert_eq!(findings(&account(&receipts, &key(1))), Vec::<String>::new());
    let receipts = [receipt(0, 1), receipt(s + 1, 3)];
    let cut = account(&receipts, &key(1));
    assert!(matches!(&cut.findings[0], ReceiptFinding::Missing(gap) if *gap == (s..s + 1)));
}
