//! The engine: one hand of no-limit hold'em as a pure state machine.
//!
//! Seats are numbered from the left of the button; the last one has the button. The table is
//! given the whole deal at the start and shows of it what its street shows; it posts,
//! collects, runs the board out and pays by itself, so the only input is the action of the
//! seat that [`Table::legal`] names.
//!
//! Where rule books leave room: the least raise adds the largest bet or raise of the round, at
//! least the least bet. A seat that has acted may raise again when what it faces is at least
//! the largest bet or raise of the round, and when it is not just the latest of a run of short
//! all-ins that has not added up to that much. The measure is what was bet in this round,
//! blinds not counted: where all before have checked or limped, a short all-in is itself the
//! largest bet. A blind that its poster cannot cover counts in full for everybody who still
//! plays with chips behind.

mod betting;
mod event;

use self::betting::Betting;
use super::action::{Action, Illegal, Legal};
use super::cards::card::{Card, DECK};
use super::cards::evaluator::evaluate;
use super::pots::{Pot, shares, split};
use super::stakes::{Stakes, StakesError};

pub use event::{HandEvent, Street};

/// The cards of a hand, known to the table from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deal {
    /// The cards of each seat. `None` for a seat that does not show at the showdown: it wins there
    /// only what no other contender shows a hand for.
    pub holes: Vec<Option<[Card; 2]>>,
    /// The board, as far as it will be run.
    pub board: [Card; 5],
}

/// A seat's chips and whether it still plays for the pot.
#[derive(Debug, Clone)]
struct Seat {
    stack: u64,
    /// What it bet in this round.
    bet: u64,
    /// What it bet in the rounds before and did not get back.
    paid: u64,
    folded: bool,
}

impl Seat {
    /// The most that its bet of this round can be.
    fn reach(&self) -> u64 {
        self.stack + self.bet
    }

    fn put(&mut self, chips: u64) -> u64 {
        let chips = chips.min(self.stack);
        self.stack -= chips;
        self.bet += chips;
        chips
    }
}

/// One hand from the forced bets to its payment, as a pure state machine.
#[derive(Debug, Clone)]
pub struct Table {
    seats: Vec<Seat>,
    deal: Deal,
    street: Street,
    betting: Betting,
    /// Antes that are no bets.
    dead: u64,
    events: Vec<HandEvent>,
}

impl Table {
    /// Posts antes and blinds. Where that leaves nobody to act, the hand is played to its end.
    ///
    /// # Errors
    /// When the stakes do not fit the stacks, or the deal has a card twice or not two for every stack.
    pub fn new(stakes: &Stakes, stacks: &[u64], deal: Deal) -> Result<Self, StakesError> {
        stakes.check(stacks)?;
        check_deal(&deal, stacks.len())?;
        let seat = |&stack: &u64| Seat { stack, bet: 0, paid: 0, folded: false };
        let mut table = Self {
            seats: stacks.iter().map(seat).collect(),
            deal,
            street: Street::Preflop,
            betting: Betting::new(stakes.min_bet),
            dead: 0,
            events: Vec::new(),
        };
        table.post_antes(stakes);
        for (seat, player) in table.seats.iter_mut().enumerate() {
            let chips = player.put(stakes.blind(seat));
            if chips > 0 {
                table.events.push(HandEvent::Blind { seat, chips });
            }
        }
        table.betting.open(&table.seats, Some(stakes));
        table.advance();
        Ok(table)
    }

    fn post_antes(&mut self, stakes: &Stakes) {
        for (seat, player) in self.seats.iter_mut().enumerate() {
            let chips = player.put(stakes.ante(seat));
            if chips > 0 {
                self.events.push(HandEvent::Ante { seat, chips });
            }
        }
        if stakes.trim_antes {
            self.collect();
        } else {
            self.dead = self.seats.iter_mut().map(|player| std::mem::take(&mut player.bet)).sum();
        }
    }

    /// What the seat to act may do; `None` when the hand is over.
    pub fn legal(&self) -> Option<Legal> {
        self.betting.legal(&self.seats)
    }

    /// Does what the seat to act decided, and everything that follows from it without a decision.
    ///
    /// # Errors
    /// When the rules do not allow the action; then nothing has changed.
    pub fn act(&mut self, action: Action) -> Result<(), Illegal> {
        let legal = self.legal().ok_or(Illegal::Over)?;
        let seat = legal.actor;
        let chips = match (action, legal.raise_to) {
            (Action::Fold, _) if !legal.can_fold => return Err(Illegal::FreeFold { seat }),
            (Action::Fold, _) => 0,
            (Action::Call, _) => legal.call,
            (Action::RaiseTo(_), None) => return Err(Illegal::NoRaise { seat }),
            (Action::RaiseTo(to), Some(range)) if !range.contains(&to) => {
                let (least, most) = range.into_inner();
                return Err(Illegal::RaiseSize { seat, to, least, most });
            }
            (Action::RaiseTo(to), Some(_)) => to - self.seats[seat].bet,
        };
        let price = self.betting.price(&self.seats, seat);
        let player = &mut self.seats[seat];
        player.put(chips);
        player.folded = action == Action::Fold;
        self.events.push(HandEvent::Acted { seat, action, chips });
        match action {
            Action::RaiseTo(to) => self.betting.raised(&self.seats, seat, to - price),
            Action::Fold | Action::Call => self.betting.passed(seat),
        }
        self.advance();
        Ok(())
    }

    /// Goes on until somebody has to decide or the hand is over.
    fn advance(&mut self) {
        while self.street != Street::Over {
            if self.contenders().count() > 1 && !self.betting.is_closed() {
                return;
            }
            self.collect();
            self.street = match self.contenders().count() {
                1 => Street::Over,
                _ => self.street.next(),
            };
            if self.street == Street::Over {
                self.pay();
                self.betting.close();
            } else {
                let cards = self.street.dealt().map(|index| self.deal.board[index]);
                self.events.push(HandEvent::Board { street: self.street, cards: cards.collect() });
                self.betting.open(&self.seats, None);
            }
        }
    }

    /// Ends a round: what nobody matched goes back, the rest is in the pot.
    fn collect(&mut self) {
        let mut bets: Vec<(u64, usize)> =
            self.seats.iter().enumerate().map(|(seat, player)| (player.bet, seat)).collect();
        bets.sort_unstable();
        if let [.., (second, _), (largest, seat)] = bets[..]
            && largest > second
        {
            let chips = largest - second;
            self.seats[seat].bet = second;
            self.seats[seat].stack += chips;
            self.events.push(HandEvent::Returned { seat, chips });
        }
        for player in &mut self.seats {
            player.paid += std::mem::take(&mut player.bet);
        }
    }

    fn contenders(&self) -> impl Iterator<Item = usize> {
        self.seats.iter().enumerate().filter(|(_, player)| !player.folded).map(|(seat, _)| seat)
    }

    /// Pays every pot, each split on its own. Hands that win nothing are out before that: pots
    /// whose contenders differ only in them are one pot, with one odd chip.
    fn pay(&mut self) {
        if self.contenders().count() > 1 {
            let shown = self.contenders().filter_map(|seat| self.deal.holes[seat].map(|cards| (seat, cards)));
            let shown: Vec<HandEvent> = shown.map(|(seat, cards)| HandEvent::Shown { seat, cards }).collect();
            self.events.extend(shown);
        }
        let paid: Vec<u64> = self.seats.iter().map(|player| player.paid).collect();
        let strengths: Vec<_> = (self.deal.holes.iter())
            .map(|hole| hole.map(|hole| evaluate(hole.into_iter().chain(self.deal.board))))
            .collect();
        let winners = |pot: &Pot| {
            let best = pot.eligible.iter().map(|&seat| strengths[seat]).max().flatten();
            let wins = |seat: &usize| strengths[*seat] == best;
            pot.eligible.iter().copied().filter(wins).collect::<Vec<_>>()
        };
        let folded: Vec<bool> = self.folded().collect();
        let mut out = vec![true; paid.len()];
        for seat in split(&paid, self.dead, &folded).iter().flat_map(winners) {
            out[seat] = false;
        }
        for (number, pot) in split(&paid, self.dead, &out).iter().enumerate() {
            for (seat, chips) in shares(pot.chips, &winners(pot)) {
                self.seats[seat].stack += chips;
                self.events.push(HandEvent::Won { seat, pot: number, chips });
            }
        }
        for player in &mut self.seats {
            player.paid = 0;
        }
        self.dead = 0;
    }

    /// Whether all is decided and paid.
    pub fn is_over(&self) -> bool {
        self.street == Street::Over
    }

    /// The round that is played.
    pub fn street(&self) -> Street {
        self.street
    }

    /// The open cards, as far as they are dealt.
    pub fn board(&self) -> impl Iterator<Item = Card> {
        let dealt =
            |event: &HandEvent| if let HandEvent::Board { cards, .. } = event { cards.len() } else { 0 };
        self.deal.board.into_iter().take(self.events.iter().map(dealt).sum())
    }

    /// The cards of a seat, as far as the deal tells them.
    pub fn hole(&self, seat: usize) -> Option<[Card; 2]> {
        self.deal.holes.get(seat).copied().flatten()
    }

    /// The chips behind each seat, which are the final stacks when the hand is over.
    pub fn stacks(&self) -> impl ExactSizeIterator<Item = u64> {
        self.seats.iter().map(|player| player.stack)
    }

    /// What each seat bet in this round.
    pub fn bets(&self) -> impl ExactSizeIterator<Item = u64> {
        self.seats.iter().map(|player| player.bet)
    }

    /// Which seats have folded.
    pub fn folded(&self) -> impl ExactSizeIterator<Item = bool> {
        self.seats.iter().map(|player| player.folded)
    }

    /// All chips that were put in and not paid out, those of this round included.
    pub fn pot(&self) -> u64 {
        self.dead + self.seats.iter().map(|player| player.paid + player.bet).sum::<u64>()
    }

    /// What happened, in order.
    pub fn events(&self) -> &[HandEvent] {
        &self.events
    }
}

fn check_deal(deal: &Deal, seats: usize) -> Result<(), StakesError> {
    if deal.holes.len() != seats {
        return Err(StakesError::Length { what: "hands", found: deal.holes.len(), seats });
    }
    let mut seen = [false; DECK];
    let cards = || deal.holes.iter().flatten().flatten().chain(&deal.board);
    for card in cards() {
        seen[card.index()] = true;
    }
    let (found, needed) = (seen.into_iter().filter(|&one| one).count(), cards().count());
    if found == needed { Ok(()) } else { Err(StakesError::Cards { found, needed }) }
}

#[cfg(test)]
mod tests;
