//! Actions, answers and records from strangers must neither panic nor make or lose a chip, and
//! what was played replays.
#![no_main]

use echo_protocol::wire::rng::Draws;
use echo_sandbox::task::Response;
use echo_sandbox::tasks::holdem::action::Action;
use echo_sandbox::tasks::holdem::answer;
use echo_sandbox::tasks::holdem::cards::card::{Card, Deck};
use echo_sandbox::tasks::holdem::replay::{HandRecord, replay};
use echo_sandbox::tasks::holdem::stakes::Stakes;
use echo_sandbox::tasks::holdem::table::{Deal, HandEvent, Table};
use libfuzzer_sys::fuzz_target;

/// Stacks of a hand: one more than a table seats.
const MAX_STACKS: usize = 11;

fn run(cards: &[Card]) -> String {
    cards.iter().map(Card::to_string).collect()
}

/// What was played, in the notation of records.
fn written(table: &Table, seats: usize) -> Vec<String> {
    let holes = (0..seats).filter_map(|seat| Some(format!("d dh p{} {}", seat + 1, run(&table.hole(seat)?))));
    let events = table.events().iter().filter_map(|event| match event {
        HandEvent::Board { cards, .. } => Some(format!("d db {}", run(cards))),
        HandEvent::Acted { seat, action, .. } => Some(match action {
            Action::Fold => format!("p{} f", seat + 1),
            Action::Call => format!("p{} cc", seat + 1),
            Action::RaiseTo(to) => format!("p{} cbr {to}", seat + 1),
        }),
        _ => None,
    });
    holes.chain(events).collect()
}

fuzz_target!(|input: ([u8; 8], Vec<u16>, Vec<u16>, Vec<(u8, u16)>, &str)| {
    let (seed, stacks, forced, moves, text) = input;
    let stacks: Vec<u64> = stacks.into_iter().take(MAX_STACKS).map(u64::from).collect();
    let posted =
        |from| (from..from + stacks.len()).map(|at| forced.get(at).map_or(0, |&chips| u64::from(chips)));
    let stakes = Stakes {
        antes: posted(0).collect(),
        blinds: posted(stacks.len()).collect(),
        min_bet: u64::from(seed[0]),
        trim_antes: seed[1] % 2 == 0,
    };
    let mut deck = Deck::shuffled(&mut Draws::new(std::array::from_fn(|index| seed[index % seed.len()])));
    let mut cards = std::iter::from_fn(|| deck.deal());
    let board = std::array::from_fn(|_| cards.next().expect("five of 52 cards"));
    let holes = stacks.iter().map(|_| Some([cards.next()?, cards.next()?])).collect();
    let Ok(mut table) = Table::new(&stakes, &stacks, Deal { holes, board }) else { return };

    let total: u64 = stacks.iter().sum();
    for (kind, size) in moves {
        let Some(legal) = table.legal() else { break };
        let action = match kind % 4 {
            0 => Action::Fold,
            1 => Action::RaiseTo(u64::from(size)),
            2 => answer::read(&Response { text, finished: true }, &legal).unwrap_or(legal.check_or_fold()),
            _ => Action::Call,
        };
        let done = table.act(action);
        assert!(done.is_ok() || kind % 4 < 2, "calls, checks or folds and read answers are legal: {done:?}");
        assert_eq!(table.pot() + table.stacks().sum::<u64>(), total);
    }
    while let Some(legal) = table.legal() {
        table.act(legal.check_or_fold()).expect("a check or fold is legal");
    }
    assert_eq!(table.stacks().sum::<u64>(), total);

    let Stakes { antes, blinds, min_bet, trim_antes } = stakes;
    let actions = written(&table, stacks.len());
    let mut record = HandRecord { antes, blinds, min_bet, trim_antes, starting_stacks: stacks, actions };
    let again =
        replay(&record, |_, table| assert!(table.legal().is_some())).expect("what was played replays");
    assert!(again.stacks().eq(table.stacks()));
    let at = usize::from(seed[2]) % (record.actions.len() + 1);
    record.actions.splice(at..at, text.lines().map(str::to_owned));
    if let Ok(other) = replay(&record, |_, _| {}) {
        assert_eq!(other.stacks().sum::<u64>(), total);
    }
});
