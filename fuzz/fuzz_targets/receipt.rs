//! Answers and receipts from strangers: decoding and checking must not panic, and nothing unsigned may count.
#![no_main]

use echo_protocol::charter::RunId;
use echo_protocol::codec::{decode, encode};
use echo_protocol::content::ContentId;
use echo_protocol::identity::NodeKey;
use echo_protocol::receipt::{Account, Receipt};
use echo_protocol::signed::Signed;
use echo_protocol::submission::{Answer, MAX_ANSWER_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let answered = decode::<Answer>(bytes, MAX_ANSWER_BYTES).ok().and_then(|answer| answer.receipt);
    let alone = || Signed::<Receipt>::from_bytes(bytes).ok();
    let Some(signed) = answered.map(|receipt| *receipt).or_else(alone) else { return };
    // The key is made up here: no input can hold its signature.
    let learner = NodeKey::from_secret([7; 32]).public();
    let run: RunId = decode(&encode(&ContentId::of(b"run"), 64).unwrap(), 64).unwrap();
    let mut account = Account::new(learner, run, learner);
    assert!(account.add(&signed).is_none() && account.groups() == 0);
    account.close(0);
});
