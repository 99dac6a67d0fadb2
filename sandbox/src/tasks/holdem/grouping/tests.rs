use super::*;

use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::episode::{Log, Role, Turn};
use crate::tasks::holdem::turns::{broadcast, response_mask, shifted};

fn hand(text: &str) -> [Card; 2] {
    let cards: Vec<Card> = Card::parse_run(text).unwrap().into_iter().flatten().collect();
    [cards[0], cards[1]]
}

fn log(rewards: &[i64]) -> Log {
    let turn = |&reward: &i64| Turn {
        state: "hand: (ah, kd)".into(),
        answer: "action: call".into(),
        action: Action::Call,
        fault: None,
        reward,
    };
    Log { rules: "rules".into(), turns: rewards.iter().map(turn).collect() }
}

const START: u32 = 1;

/// A token for the start of every message, one for its role, and one a word; what a chat template would do.
fn tokens(log: &Log) -> Vec<u32> {
    let mut tokens = Vec::new();
    for message in log.messages() {
        tokens.extend([START, 10 + message.role as u32]);
        tokens.extend(message.content.split(' ').map(|_| 20));
    }
    tokens
}

/// Eq. 15 to 22 of ECHO-2, appendix F, computed by hand.
#[test]
fn a_worked_example_of_the_papers_equations() {
    let logs = [log(&[-2, 10]), log(&[-4]), log(&[6, -5, -5])];
    // Eq. 15, 16: the rules, then a state and an answer a turn.
    let messages = logs[0].messages();
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User, Role::Assistant]);
    assert_eq!(messages[1].content, "state: hand: (ah, kd)");
    // Eq. 17 to 19: messages 3 and 5 count; "action: call" is two words after the start and the role.
    let x = tokens(&logs[0]);
    assert_eq!(x.len(), 3 + 6 + 4 + 6 + 4);
    let mask = response_mask(&x, START);
    let expected: Vec<bool> = (0..23).map(|t| (9..13).contains(&t) || (19..23).contains(&t)).collect();
    assert_eq!(mask, expected);
    // y_t = x_{t+1}: the prediction of the first answer token is made one place before it.
    assert_eq!(shifted(&mask), &expected[1..]);
    assert_eq!(shifted(&[]), &[] as &[bool]);
    // Eq. 20.
    let returns: Vec<f64> = logs.iter().map(|log| log.total() as f64).collect();
    assert_eq!(returns, [8.0, -4.0, -4.0]);
    // Eq. 21: mean 0, squares 64 + 16 + 16 over 2, so the deviation is √48.
    let advantages = advantages(&returns, &[GroupKey::Batch; 3]);
    let std = 48_f64.sqrt();
    for (got, want) in advantages.iter().zip([8.0 / std, -4.0 / std, -4.0 / std]) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
    // Eq. 22.
    let spread = broadcast(advantages[0], &mask);
    assert!(spread.iter().zip(&mask).all(|(&a, &m)| a == if m { advantages[0] } else { 0.0 }));
    assert!((spread.iter().sum::<f64>() - 8.0 * advantages[0]).abs() < 1e-9);
}

#[test]
fn hands_of_a_kind_are_a_group_whatever_their_suits() {
    let kind = |text| StartingHand::of(hand(text));
    assert_eq!(kind("AhKh"), kind("KsAs"));
    assert_ne!(kind("AhKh"), kind("AhKd"));
    assert_eq!(kind("7c7d"), kind("7h7s"));
    let names = ["KsAs", "7s2h", "ThTc"].map(|text| kind(text).to_string());
    assert_eq!(names, ["AKs", "72o", "TT"]);
    let all: Vec<Card> = Card::all().collect();
    let pairs = all.iter().flat_map(|&one| all.iter().map(move |&other| [one, other]));
    let kinds: std::collections::BTreeSet<_> =
        pairs.filter(|pair| pair[0] != pair[1]).map(StartingHand::of).collect();
    assert_eq!(kinds.len(), 169);
}

#[test]
fn episodes_are_compared_within_their_group() {
    let (one, other) = (TaskSeed([1; 32]), TaskSeed([2; 32]));
    let (aces, trash) = (hand("AhAd"), hand("7s2h"));
    let episodes = [(one, aces), (one, aces), (other, aces), (other, trash)];
    let returns = [4.0, 2.0, 6.0, 0.0];
    let under = |grouping: Grouping| {
        let keys: Vec<GroupKey> = episodes.iter().map(|&(seed, cards)| grouping.key(seed, cards)).collect();
        advantages(&returns, &keys)
    };
    let tags = [Grouping::Prompt, Grouping::PrivateHand, Grouping::Batch]
        .map(|grouping| grouping.key(TaskSeed([0xab; 32]), aces).to_string());
    assert_eq!(tags, [format!("prompt {}", "ab".repeat(32)), "hand AA".into(), "batch".into()]);
    let near = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-5);
    let half = 0.5_f64.sqrt();
    assert!(near(&under(Grouping::Prompt), &[half, -half, half, -half]));
    assert!(near(&under(Grouping::PrivateHand), &[0.0, -1.0, 1.0, 0.0]));
    let std = (20.0_f64 / 3.0).sqrt();
    assert!(near(&under(Grouping::Batch), &[1.0 / std, -1.0 / std, 3.0 / std, -3.0 / std]));
}

#[test]
fn a_group_without_differences_has_no_advantages() {
    assert_eq!(advantages(&[5.0, 5.0], &[GroupKey::Batch; 2]), [0.0, 0.0]);
    assert_eq!(advantages(&[5.0], &[GroupKey::Batch]), [0.0]);
    assert_eq!(advantages(&[], &[]), [] as [f64; 0]);
}
