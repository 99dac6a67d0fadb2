//! A round of betting: whose turn it is, what matching costs, and who may raise.

use std::collections::VecDeque;

use super::Seat;
use crate::tasks::holdem::action::Legal;
use crate::tasks::holdem::stakes::Stakes;

/// The state of a round, beside the chips.
#[derive(Debug, Clone)]
pub(super) struct Betting {
    min_bet: u64,
    /// The largest blind before the flop, 0 afterwards.
    blind: u64,
    /// The seats that still have to decide, the next one first.
    to_act: VecDeque<usize>,
    /// The largest bet or raise of this round, by how much it went beyond the bet before.
    largest_raise: u64,
    /// What the latest raises added, each an all-in below the least raise, until they add up to one.
    short_run: u64,
    /// Who has decided since the last full raise.
    acted: Vec<bool>,
}

impl Betting {
    /// Betting that has not begun.
    pub(super) fn new(min_bet: u64) -> Self {
        Self { min_bet, blind: 0, to_act: VecDeque::new(), largest_raise: 0, short_run: 0, acted: Vec::new() }
    }

    /// Starts a round; `stakes` are given before the flop, when the blinds are posted.
    pub(super) fn open(&mut self, seats: &[Seat], stakes: Option<&Stakes>) {
        self.blind = stakes.map_or(0, Stakes::largest_blind);
        self.largest_raise = 0;
        self.short_run = 0;
        self.acted = vec![false; seats.len()];
        // The first to act sits left of the largest blind or straddle, of the later one where two
        // are equal. Without blinds that is left of the button.
        let blind = |seat| stakes.map_or(0, |stakes| stakes.blind(seat));
        let last = (0..seats.len()).max_by_key(|&seat| blind(seat)).unwrap_or(0);
        let mut reaches: Vec<u64> = seats.iter().filter(|player| !player.folded).map(Seat::reach).collect();
        reaches.sort_unstable();
        let contested = reaches.iter().rev().nth(1).copied().unwrap_or(0);
        // Who cannot win more than it has bet already has nothing to decide.
        self.to_act = after(last, seats.len())
            .filter(|&seat| can_act(&seats[seat]) && seats[seat].bet < contested)
            .collect();
        let highest = highest_bet(seats);
        if let [only] = self.to_act.make_contiguous()
            && seats[*only].bet >= highest
        {
            self.close();
        }
    }

    /// Nobody has to decide any more.
    pub(super) fn close(&mut self) {
        self.to_act.clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.to_act.is_empty()
    }

    /// What the bet of `actor` has to be to match the others.
    pub(super) fn price(&self, seats: &[Seat], actor: usize) -> u64 {
        let highest = highest_bet(seats);
        let contested = others(seats, actor).any(|other| other.stack > 0);
        if contested { highest.max(self.blind) } else { highest }
    }

    /// What the next seat may do.
    pub(super) fn legal(&self, seats: &[Seat]) -> Option<Legal> {
        let &actor = self.to_act.front()?;
        let player = &seats[actor];
        let price = self.price(seats, actor);
        let owed = price.saturating_sub(player.bet);
        let raise_to = self.may_raise(seats, actor, price).then(|| {
            let least = price + self.largest_raise.max(self.min_bet);
            least.min(player.reach())..=player.reach()
        });
        Some(Legal { actor, can_fold: owed > 0, call: owed.min(player.stack), raise_to })
    }

    fn may_raise(&self, seats: &[Seat], actor: usize, price: u64) -> bool {
        let player = &seats[actor];
        let reopened = price.saturating_sub(player.bet) >= self.largest_raise
            && !(self.short_run > 0 && self.acted[actor]);
        reopened && player.reach() > price && others(seats, actor).any(|other| other.reach() > price)
    }

    /// The next seat folded, called or checked.
    pub(super) fn passed(&mut self, seat: usize) {
        self.to_act.pop_front();
        self.acted[seat] = true;
    }

    /// The next seat raised by so much beyond the bet before; all others have to decide again.
    pub(super) fn raised(&mut self, seats: &[Seat], seat: usize, by: u64) {
        self.to_act =
            after(seat, seats.len()).filter(|&other| other != seat && can_act(&seats[other])).collect();
        if by >= self.largest_raise {
            self.acted.fill(false);
        }
        self.acted[seat] = true;
        self.largest_raise = self.largest_raise.max(by);
        self.short_run = if seats[seat].stack == 0 { self.short_run + by } else { 0 };
        if self.short_run >= self.largest_raise {
            self.short_run = 0;
        }
    }
}

/// All seats in the order of play, those after `last` first and `last` at the end.
fn after(last: usize, seats: usize) -> impl Iterator<Item = usize> {
    (last + 1..seats).chain(0..=last)
}

fn can_act(player: &Seat) -> bool {
    !player.folded && player.stack > 0
}

fn highest_bet(seats: &[Seat]) -> u64 {
    seats.iter().map(|player| player.bet).max().unwrap_or(0)
}

/// Everybody else who has not folded.
fn others(seats: &[Seat], actor: usize) -> impl Iterator<Item = &Seat> {
    seats
        .iter()
        .enumerate()
        .filter(move |(seat, player)| *seat != actor && !player.folded)
        .map(|(_, player)| player)
}
