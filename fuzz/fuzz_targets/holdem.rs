//! Actions, answers and records from strangers must neither panic nor make or lose a chip.
#![no_main]

use echo_protocol::draw::Draws;
use echo_sandbox::task::Response;
use echo_sandbox::tasks::holdem::action::Action;
use echo_sandbox::tasks::holdem::answer;
use echo_sandbox::tasks::holdem::card::Deck;
use echo_sandbox::tasks::holdem::replay::{Record, replay};
use echo_sandbox::tasks::holdem::stakes::Stakes;
use echo_sandbox::tasks::holdem::table::{Deal, Table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 8], Vec<u16>, Vec<u16>, Vec<(u8, u16)>, &str)| {
    let (seed, stacks, forced, moves, text) = input;
    let chips = |list: &[u16]| list.iter().map(|&chips| u64::from(chips)).collect::<Vec<_>>();
    let (stacks, forced) = (chips(&stacks), chips(&forced));
    let (antes, blinds) = forced.split_at(forced.len() / 2);
    let stakes = Stakes {
        antes: antes.to_vec(),
        blinds: blinds.to_vec(),
        min_bet: u64::from(seed[0]),
        trim_antes: seed[1] % 2 == 0,
    };

    let mut draws = Draws::new(std::array::from_fn(|index| seed[index % seed.len()]));
    let mut deck = Deck::shuffled(&mut draws);
    let mut cards = std::iter::from_fn(|| deck.deal());
    let board = std::array::from_fn(|_| cards.next().expect("five of 52 cards"));
    let holes = stacks.iter().map(|_| Some([cards.next()?, cards.next()?])).collect();
    if let Ok(mut table) = Table::new(&stakes, &stacks, Deal { holes, board }) {
        let total: u64 = stacks.iter().sum();
        for (kind, size) in moves {
            let Some(legal) = table.legal() else { break };
            let said = answer::read(&Response { text, finished: true }, &legal);
            let action = match kind % 4 {
                0 => Action::Fold,
                1 => Action::RaiseTo(u64::from(size)),
                2 => said.unwrap_or(legal.check_or_fold()),
                _ => Action::Call,
            };
            let done = table.act(action);
            assert!(
                done.is_ok() || kind % 4 < 2,
                "a call, a check or fold and a read answer are legal: {done:?}"
            );
            assert_eq!(table.pot() + table.stacks().sum::<u64>(), total);
        }
    }

    let actions = text.lines().map(str::to_owned).collect();
    let Stakes { antes, blinds, min_bet, trim_antes } = stakes;
    let total: u64 = stacks.iter().sum();
    let record = Record { antes, blinds, min_bet, trim_antes, starting_stacks: stacks, actions };
    if let Ok(table) = replay(&record, |_, table| assert!(table.legal().is_some())) {
        assert_eq!(table.stacks().sum::<u64>(), total);
    }
});
