use super::*;

use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::episode::{EpisodeLog, LoggedTurn, MessageRole};

fn log(rewards: &[i64]) -> EpisodeLog {
    let turn = |&reward: &i64| LoggedTurn {
        state: "hand: (ah, kd)".into(),
        answer: "action: call".into(),
        action: Action::Call,
        fault: None,
        reward,
    };
    EpisodeLog { rules: "rules".into(), turns: rewards.iter().map(turn).collect() }
}

const START: u32 = 1;

/// A token for the start of every message, one for its role, and one a word; what a chat template would do.
fn tokens(log: &EpisodeLog) -> Vec<u32> {
    let mut tokens = Vec::new();
    for message in log.messages() {
        tokens.extend([START, 10 + message.role as u32]);
        tokens.extend(message.content.split(' ').map(|_| 20));
    }
    tokens
}

/// Eq. 15 to 20 and 22 of ECHO-2, appendix F, computed by hand. Eq. 21 is the learner's.
#[test]
fn a_worked_example_of_the_papers_equations() {
    let logs = [log(&[-2, 10]), log(&[-4]), log(&[6, -5, -5])];
    // Eq. 15, 16: the rules, then a state and an answer a turn.
    let messages = logs[0].messages();
    let roles: Vec<MessageRole> = messages.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [
            MessageRole::System,
            MessageRole::User,
            MessageRole::Assistant,
            MessageRole::User,
            MessageRole::Assistant
        ]
    );
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
    assert_eq!(logs.each_ref().map(EpisodeLog::total), [8, -4, -4]);
    // Eq. 22, with eq. 21 by hand: mean 0, squares 64 + 16 + 16 over 2, so the deviation is √48.
    let advantage = 8.0 / 48_f64.sqrt();
    let spread = broadcast(advantage, &mask);
    assert!(spread.iter().zip(&mask).all(|(&a, &m)| a == if m { advantage } else { 0.0 }));
    assert!((spread.iter().sum::<f64>() - 8.0 * advantage).abs() < 1e-9);
}
