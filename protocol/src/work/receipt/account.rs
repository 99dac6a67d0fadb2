//! Checking a file of receipts without asking anybody.

use super::{Receipt, SEQUENCE_STRETCH};
use crate::run::charter::RunId;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::signed::{Signed, SignedError};
use crate::work::order::OrderCounter;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most receipts of which one account is made. Further ones are findings.
pub const MAX_RECEIPTS: usize = 1 << 22;
/// Most findings that are kept; all are counted.
pub const MAX_FINDINGS: usize = 1_000;

/// What is wrong with a receipt, or missing. Positions are those in the file, from 0.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptFinding {
    /// It is no receipt, or nobody signed it.
    #[error("receipt {position}: {cause}")]
    Unsound {
        /// The receipt's position, from 0.
        position: usize,
        /// Why the envelope does not open.
        cause: SignedError,
    },
    /// It belongs to another run.
    #[error("receipt {position} belongs to run {run}")]
    OtherRun {
        /// The receipt's position, from 0.
        position: usize,
        /// The run that the receipt names.
        run: RunId,
    },
    /// It belongs to another node.
    #[error("receipt {position} belongs to node {node}")]
    OtherNode {
        /// The receipt's position, from 0.
        position: usize,
        /// The node that the receipt names.
        node: PublicKey,
    },
    /// The same number on two different receipts.
    #[error("receipt {position} has the number {sequence}, as another one has")]
    NumberTwice {
        /// The position of the later receipt, from 0.
        position: usize,
        /// The number that both receipts carry.
        sequence: u64,
    },
    /// Two receipts of one order.
    #[error("receipt {position} is about order {counter}, as another one is")]
    OrderTwice {
        /// The position of the later receipt, from 0.
        position: usize,
        /// The order that both receipts name.
        counter: OrderCounter,
    },
    /// Receipts that are not here.
    #[error("receipts {} to {} are missing: their answers were lost, or the file was cut", .0.start, .0.end - 1)]
    Missing(Range<u64>),
    /// More receipts than anybody counts.
    #[error("there are more than {MAX_RECEIPTS} receipts: the rest is not looked at")]
    TooMany,
}

/// What the receipts of one node in one run prove.
#[derive(Debug)]
pub struct Account {
    learner: PublicKey,
    run: RunId,
    node: PublicKey,
    seen: usize,
    full: bool,
    /// Number → the group.
    numbers: BTreeMap<u64, ContentId>,
    orders: BTreeSet<OrderCounter>,
    /// Trajectories of sound receipts.
    pub trajectories: u64,
    /// Sum of the rewards in sound receipts.
    pub rewards: f64,
    /// Copies of receipts that were counted already. They do no harm: an answer may come twice.
    pub copies: u64,
    /// What is wrong, at most [`MAX_FINDINGS`].
    pub findings: Vec<ReceiptFinding>,
    /// How many findings there were.
    pub wrong: u64,
}

impl Account {
    /// An empty account of `node` in `run`, whose charter names `learner`.
    pub fn new(learner: PublicKey, run: RunId, node: PublicKey) -> Self {
        Self {
            learner,
            run,
            node,
            seen: 0,
            full: false,
            numbers: BTreeMap::new(),
            orders: BTreeSet::new(),
            trajectories: 0,
            rewards: 0.0,
            copies: 0,
            findings: Vec::new(),
            wrong: 0,
        }
    }

    /// Takes the next receipt of the file; what it says, if it is sound.
    pub fn add(&mut self, signed: &Signed<Receipt>) -> Option<Receipt> {
        let position = self.seen;
        self.seen += 1;
        if self.numbers.len() >= MAX_RECEIPTS {
            if !std::mem::replace(&mut self.full, true) {
                self.find(ReceiptFinding::TooMany);
            }
            return None;
        }
        match self.check(position, signed) {
            Ok(receipt) => {
                self.trajectories += u64::from(receipt.trajectories);
                self.rewards += receipt.rewards;
                Some(receipt)
            }
            Err(None) => {
                self.copies += 1;
                None
            }
            Err(Some(finding)) => {
                self.find(finding);
                None
            }
        }
    }

    /// Sound receipts, each counted once.
    pub fn groups(&self) -> usize {
        self.numbers.len()
    }

    /// Looks for numbers from `from` on that are missing, when the whole file has been added. It is
    /// 0 where all receipts were kept.
    pub fn close(&mut self, from: u64) {
        let mut expected = from;
        let mut gaps = Vec::new();
        for number in self.numbers.range(from..).map(|(number, _)| *number) {
            let restarted = number.is_multiple_of(SEQUENCE_STRETCH) && number > expected;
            if number > expected && !restarted {
                // Behind a loss of the learner's database counting began anew, and only what
                // follows is a gap.
                gaps.push(expected.max(number / SEQUENCE_STRETCH * SEQUENCE_STRETCH)..number);
            }
            // No number follows the last one.
            expected = number.saturating_add(1);
        }
        gaps.into_iter().for_each(|gap| self.find(ReceiptFinding::Missing(gap)));
    }

    /// `Err(None)` for a copy.
    fn check(
        &mut self,
        position: usize,
        signed: &Signed<Receipt>,
    ) -> Result<Receipt, Option<ReceiptFinding>> {
        let receipt = signed
            .open_from(&self.learner)
            .map_err(|cause| Some(ReceiptFinding::Unsound { position, cause }))?;
        if receipt.run != self.run {
            return Err(Some(ReceiptFinding::OtherRun { position, run: receipt.run }));
        }
        if receipt.node != self.node {
            return Err(Some(ReceiptFinding::OtherNode { position, node: receipt.node }));
        }
        let (sequence, counter) = (receipt.sequence, receipt.counter);
        match self.numbers.get(&sequence) {
            Some(group) if *group == receipt.group => return Err(None),
            Some(_) => return Err(Some(ReceiptFinding::NumberTwice { position, sequence })),
            None => {}
        }
        if !self.orders.insert(counter) {
            return Err(Some(ReceiptFinding::OrderTwice { position, counter }));
        }
        self.numbers.insert(sequence, receipt.group);
        Ok(receipt)
    }

    fn find(&mut self, finding: ReceiptFinding) {
        self.wrong += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}
