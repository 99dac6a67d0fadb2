use super::*;

use crate::tasks::holdem::opponent::{LooseAggressive, PotOdds};

/// The characters of the built-in tasks' tokenizer.
const ALPHABET: &str = "0123456789abcdefghijklmnopqrstuvwxyz +-*/=(),:;?._>\n";

fn start(config: EpisodeConfig, seed: u8) -> HoldemEpisode {
    HoldemEpisode::new(config, TaskSeed([seed; 32])).unwrap()
}

fn say(episode: &mut HoldemEpisode, text: &str) {
    episode.answer(&Response { text, finished: true }).unwrap();
}

/// Plays to the end; `answer` is given each question.
fn play(
    mut episode: HoldemEpisode,
    mut answer: impl FnMut(&HoldemEpisode) -> String,
) -> (HoldemEpisode, EpisodeOutcome) {
    while episode.ask().is_some() {
        let text = answer(&episode);
        say(&mut episode, &text);
    }
    let outcome = episode.outcome().unwrap();
    (episode, outcome)
}

/// Answers at random, one in five badly.
fn careless(draws: &mut Draws) -> impl FnMut(&HoldemEpisode) -> String {
    |episode| match draws.below(5) {
        0 => "i do not know".into(),
        1 => "action: raise 1".into(),
        2 => episode.advice(&LooseAggressive, draws).unwrap(),
        _ => episode.advice(&PotOdds, draws).unwrap(),
    }
}

#[test]
fn rewards_add_up_to_the_chips_and_the_penalties() {
    let mut draws = Draws::new([6; 32]);
    for seed in 0..60 {
        let config = EpisodeConfig {
            players: 2 + i64::from(seed % 5),
            hands: 1 + i64::from(seed % 3),
            ante: i64::from(seed % 2),
            opponent: i64::from(seed % 4),
            ..EpisodeConfig::default()
        };
        let (least, most) = config.returns();
        let (episode, outcome) = play(start(config.clone(), seed), careless(&mut draws));
        let log = episode.log();
        assert_eq!(log.total(), outcome.chips - outcome.penalty);
        assert_eq!(outcome.penalty, i64::from(outcome.faults) * config.penalty);
        assert!((least..=most).contains(&log.total()) && (0.0..=1.0).contains(&outcome.reward));
        assert!(!log.turns.is_empty() && log.turns.len() as i64 <= config.turns);
        assert_eq!(episode.hands, config.hands);
        assert_eq!(episode.first_cards().unwrap(), episode.first_cards.unwrap());
    }
}

#[test]
fn the_same_answers_give_the_same_episode() {
    let config = EpisodeConfig { players: 4, hands: 2, ..EpisodeConfig::default() };
    let once = |seed| play(start(config.clone(), seed), careless(&mut Draws::new([1; 32])));
    let ((one, first), (other, second)) = (once(3), once(3));
    assert_eq!((one.log(), first), (other.log(), second));
    assert_ne!(once(4).0.log(), one.log());
}

#[test]
fn everything_that_is_said_fits_the_character_tokenizer() {
    let config = EpisodeConfig { players: 6, hands: 3, ..EpisodeConfig::default() };
    let (episode, _) = play(start(config, 9), |episode| {
        let ask = episode.ask().unwrap();
        let odd =
            ask.messages.iter().flat_map(|message| message.content.chars()).find(|&c| !ALPHABET.contains(c));
        assert_eq!(odd, None);
        episode.advice(&PotOdds, &mut Draws::new([0; 32])).unwrap()
    });
    assert!(episode.log().turns.iter().all(|turn| turn.fault.is_none()));
}

#[test]
fn a_bad_answer_checks_or_folds_and_costs_the_penalty() {
    let config = EpisodeConfig { penalty: 7, opponent: 1, ..EpisodeConfig::default() };
    for (text, finished, fault) in [
        ("raise it", true, AnswerFault::Malformed),
        ("action: raise 3", true, AnswerFault::Illegal),
        ("action: call", false, AnswerFault::Cut),
    ] {
        let mut seen = (false, false);
        for seed in 0..20 {
            let mut episode = start(config.clone(), seed);
            let can_fold = episode.view().unwrap().legal.can_fold;
            episode.answer(&Response { text, finished }).unwrap();
            let turn = &episode.log().turns[0];
            assert_eq!(turn.fault, Some(fault));
            assert_eq!(turn.action, if can_fold { Action::Fold } else { Action::Call });
            if can_fold {
                seen.0 = true;
                // It posted a blind of 1 or 2 and gave it up.
                assert!((-9..=-8).contains(&turn.reward), "{turn:?}");
                assert_eq!(episode.outcome().unwrap().penalty, 7);
            } else {
                seen.1 = true;
            }
        }
        assert_eq!(seen, (true, true), "both a fold and a check have happened");
    }
}

#[test]
fn after_its_turns_the_policy_checks_and_folds_for_nothing() {
    let config = EpisodeConfig { turns: 1, hands: 5, opponent: 2, ..EpisodeConfig::default() };
    for seed in 0..20 {
        let mut episode = start(config.clone(), seed);
        say(&mut episode, "action: call");
        let outcome = episode.outcome().expect("one turn was allowed");
        assert_eq!((episode.log().turns.len(), episode.hands), (1, 1));
        assert_eq!(episode.log().total(), outcome.chips - outcome.penalty);
        assert_eq!(episode.answer(&Response { text: "action: call", finished: true }), Err(NotAsked));
    }
}

/// Folds whatever it can.
#[derive(Debug)]
struct Timid;

impl Opponent for Timid {
    fn name(&self) -> &'static str {
        "timid"
    }

    fn decide(&self, view: &TableView, _: &mut Draws) -> OpponentChoice {
        OpponentChoice::Act(if view.legal.can_fold { Action::Fold } else { Action::RaiseTo(1) })
    }
}

#[test]
fn hands_without_a_decision_do_not_count() {
    // Against one who folds its button, only the hands on the policy's button ask it anything.
    let config = EpisodeConfig { hands: 3, ..EpisodeConfig::default() };
    for seed in 0..10 {
        let episode =
            HoldemEpisode::against(vec![Arc::new(Timid)], config.clone(), TaskSeed([seed; 32])).unwrap();
        let (episode, outcome) = play(episode, |episode| {
            assert_eq!(episode.view().unwrap().legal.actor, 1);
            "action: raise 4".into()
        });
        // It wins a big blind a hand, and nothing for the hands in between.
        assert_eq!((outcome.chips, episode.log().turns.len()), (6, 3));
        let rewards: Vec<i64> = episode.log().turns.iter().map(|turn| turn.reward).collect();
        assert_eq!(rewards.iter().sum::<i64>(), 6);
    }
}

#[test]
fn an_opponent_that_is_a_model_sees_only_its_own_cards() {
    let config = EpisodeConfig { players: 3, opponent: 4, ..EpisodeConfig::default() };
    let mut asked = [0, 0];
    let (episode, _) = play(start(config, 5), |episode| {
        let (ask, view) = (episode.ask().unwrap(), episode.view().unwrap());
        let last = &ask.messages.last().unwrap().content;
        assert_eq!(last, &format!("state: {view}"));
        assert_eq!(Some(view.hole), episode.hand.table.hole(view.legal.actor));
        match ask.speaker {
            Speaker::Policy => {
                asked[0] += 1;
                assert_eq!(view.legal.actor, episode.hand.seat);
                assert_eq!(ask.messages.len(), 2 * asked[0]);
                "action: check".into()
            }
            Speaker::Opponent { seat } => {
                asked[1] += 1;
                assert_ne!(seat, episode.hand.seat);
                assert_eq!(ask.messages.len(), 2);
                "nonsense".into()
            }
        }
    });
    assert!(asked[0] > 0 && asked[1] > 0);
    // What opponents say is no part of the log, and their nonsense costs the policy nothing.
    assert_eq!(episode.log().turns.len(), asked[0]);
}

#[test]
fn a_long_answer_is_malformed_and_kept_in_part() {
    let mut episode = start(EpisodeConfig::default(), 1);
    say(&mut episode, &"é".repeat(MAX_ANSWER_BYTES));
    let turn = &episode.log().turns[0];
    assert_eq!((turn.fault, turn.answer.len()), (Some(AnswerFault::Malformed), MAX_ANSWER_BYTES));
}

#[test]
fn parameters_out_of_range_are_refused() {
    let fine = EpisodeConfig::default;
    for config in [
        EpisodeConfig { players: 1, ..fine() },
        EpisodeConfig { players: 11, ..fine() },
        EpisodeConfig { big_blind: 0, small_blind: 0, ..fine() },
        EpisodeConfig { small_blind: 3, ..fine() },
        EpisodeConfig { ante: -1, ..fine() },
        EpisodeConfig { stack: 3, ..fine() },
        EpisodeConfig { stack: 2001, ..fine() },
        EpisodeConfig { hands: 0, ..fine() },
        EpisodeConfig { turns: MAX_TURNS + 1, ..fine() },
        EpisodeConfig { penalty: 101, ..fine() },
        EpisodeConfig { opponent: 5, ..fine() },
        EpisodeConfig { big_blind: i64::MAX, ..fine() },
    ] {
        assert!(HoldemEpisode::new(config.clone(), TaskSeed([0; 32])).is_err(), "{config:?}");
    }
}
