//! What waits to be said to one consumer.
//!
//! The machine speaks whenever it has something to say, the consumer listens as fast as its link
//! allows. News of one piece merge while they wait, so what waits is bounded by the snapshot's
//! pieces; blocks are bounded by the machine's own window.

use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::{Piece, PieceIndex};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::Notify;

/// Blocks that may wait for one consumer. The machine keeps far below.
const MAX_WAITING: usize = 1024;

/// A block to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockToSend {
    pub(super) index: PieceIndex,
    pub(super) piece: Piece,
    pub(super) block: u32,
}

/// What a consumer's task is to say next.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) news: BTreeMap<PieceIndex, BlockMask>,
    pub(super) orders: VecDeque<BlockToSend>,
    pub(super) refused: bool,
}

/// The place where it waits.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    wake: Notify,
}

impl Mailbox {
    /// Adds news to those that wait.
    pub(super) fn tell(&self, news: Vec<(PieceIndex, BlockMask)>) {
        let mut mail = self.mail.lock();
        for (piece, blocks) in news {
            let waiting = mail.news.entry(piece).or_default();
            *waiting = waiting.union(blocks);
        }
        self.wake.notify_one();
    }

    /// Adds a block to send; false when too many wait.
    pub(super) fn order(&self, order: BlockToSend) -> bool {
        let mut mail = self.mail.lock();
        let room = mail.orders.len() < MAX_WAITING;
        if room {
            mail.orders.push_back(order);
            self.wake.notify_one();
        }
        room
    }

    /// Says that nothing more comes, after what waits.
    pub(super) fn refuse(&self) {
        self.mail.lock().refused = true;
        self.wake.notify_one();
    }

    /// Takes the news and at most `blocks` blocks, once there is anything.
    pub(super) async fn take(&self, blocks: usize) -> Mail {
        loop {
            if let Some(mail) = self.try_take(blocks) {
                return mail;
            }
            self.wake.notified().await;
        }
    }

    /// As [`Mailbox::take`], if there is anything now.
    pub(super) fn try_take(&self, blocks: usize) -> Option<Mail> {
        let mut mail = self.mail.lock();
        if mail.news.is_empty() && mail.orders.is_empty() && !mail.refused {
            return None;
        }
        let taken = blocks.min(mail.orders.len());
        let orders = mail.orders.drain(..taken).collect();
        Some(Mail { news: std::mem::take(&mut mail.news), orders, refused: mail.refused })
    }
}
