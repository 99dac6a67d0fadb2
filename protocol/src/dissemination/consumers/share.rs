//! What the source has shown one consumer of a new version, and how much of it has been handed out.

use crate::dissemination::MAX_WINDOW;
use crate::snapshot::blocks::BlockMask;
use crate::snapshot::manifest::PieceIndex;
use crate::snapshot::piece_set::Holdings;
use crate::wire::time::UnixMillis;

/// Blocks that a consumer is told of before it has got any.
const FIRST: u64 = 8;
/// The most that it is told of and has not got: this, or what it gets in a second, as far as a
/// request may be wide.
const AHEAD: u64 = 64;
/// Between two looks at who asks for nothing, in milliseconds.
pub(in crate::dissemination) const LOOK_EVERY_MS: u64 = 100;

/// What is told of in one message.
pub(in crate::dissemination) type News = Vec<(PieceIndex, BlockMask)>;

/// What one consumer was told of.
#[derive(Debug)]
pub(in crate::dissemination) struct Share {
    told: Holdings,
    /// How many blocks these are, and how many of them were handed out.
    blocks: u64,
    got: u64,
    /// What it had got at the last look, and what it gets in a second.
    seen: u64,
    pace: u64,
    pub(in crate::dissemination) told_at: UnixMillis,
}

impl Share {
    pub(in crate::dissemination) fn new(now: UnixMillis) -> Self {
        Self { told: Holdings::default(), blocks: 0, got: 0, seen: 0, pace: 0, told_at: now }
    }

    /// How many blocks more are to be told of.
    pub(in crate::dissemination) fn wants(&self) -> u64 {
        let ahead = (FIRST + self.got / 2).min(self.pace.clamp(AHEAD, u64::from(MAX_WINDOW)));
        ahead.saturating_sub(self.blocks - self.got)
    }

    /// Measures how fast it is, once every [`LOOK_EVERY_MS`].
    pub(in crate::dissemination) fn look(&mut self) {
        let got = self.got - std::mem::replace(&mut self.seen, self.got);
        self.pace = (3 * self.pace + got * (1000 / LOOK_EVERY_MS)) / 4;
    }

    /// Notes what is told.
    pub(in crate::dissemination) fn tell(&mut self, now: UnixMillis, news: &News) {
        self.told_at = now;
        for (piece, blocks) in news {
            self.blocks += u64::from(self.told.insert(*piece, *blocks).len());
        }
    }

    /// Notes that a block is on its way. What the consumer heard of from others is not counted.
    pub(in crate::dissemination) fn got(&mut self, piece: PieceIndex, block: u32) {
        if self.told.get(piece).contains(block) {
            // It may be handed out twice.
            self.got = (self.got + 1).min(self.blocks);
        }
    }

    pub(in crate::dissemination) fn is_got(&self) -> bool {
        self.got == self.blocks
    }

    /// What it was not told of.
    pub(in crate::dissemination) fn rest(&self, have: &Holdings) -> News {
        let rest = have.iter().map(|(piece, blocks)| (piece, blocks.minus(self.told.get(piece))));
        rest.filter(|(_, blocks)| !blocks.is_empty()).collect()
    }
}
