//! Task specs from charters and answers from strangers: rewards stay within [0, 1], metadata and
//! texts within their limits, and a played episode is worth the same when it is played again.
#![no_main]

use echo_protocol::run::charter::TaskSpec;
use echo_protocol::work::trajectory::{MAX_OMEGA_ENTRIES, MAX_OMEGA_TEXT, MetaValue};
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::episode::{EpisodeStep, Play};
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::{Response, Task, TaskSeed, Verdict};
use echo_sandbox::tasks::holdem;
use echo_sandbox::tasks::registry;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Names of parameters, those of hold'em last.
const PARAMS: [&str; 20] = [
    "digits",
    "terms",
    "steps",
    "count",
    "largest",
    "target",
    "numbers",
    "turns",
    "shortest",
    "longest",
    "players",
    "small_blind",
    "big_blind",
    "ante",
    "stack",
    "hands",
    "penalty",
    "opponent",
    "terse",
    "no such parameter",
];

/// What the policy says in a turn.
#[derive(Debug, Arbitrary)]
enum Said<'a> {
    /// What a good player would say.
    Advice,
    /// A good answer, followed by some text.
    AdviceAnd(&'a str),
    /// A text of the fuzzer's, as the whole turn.
    Text(&'a str),
    /// The budget of tokens ends within this.
    Cut(&'a str),
    /// The budget of tokens ends after this.
    Last(&'a str),
}

/// A parameter by its place in [`PARAMS`], and its value, which is mostly small.
type Param = (u8, i16, bool);

fuzz_target!(|input: (u8, [u8; 8], Vec<Param>, u32, Vec<Said<'_>>)| {
    let (name, seed, params, weight, turns) = input;
    let names: Vec<&str> = registry::procedural().collect();
    let spec = params.into_iter().fold(
        TaskSpec::new(names[usize::from(name) % names.len()]),
        |spec, (param, value, far)| {
            let value = if far { i64::from(value) << 47 } else { value.into() };
            spec.with(PARAMS[usize::from(param) % PARAMS.len()], value)
        },
    );
    let spec = TaskSpec { weight, ..spec };
    let Ok(mix) = TaskMix::new(std::slice::from_ref(&spec), &TaskFiles::none()) else {
        assert!(weight == 0 || registry::build(&spec, &TaskFiles::none()).is_err());
        return;
    };
    let task = mix.tasks().next().expect("a mix has a task");
    let seed = TaskSeed(std::array::from_fn(|index| seed[index % seed.len()]));
    let prompt = task.prompt(seed).text;
    assert!(prompt.len() <= task.longest_prompt() && task.prompt(seed).text == prompt);
    assert!(task.solution(seed).len() <= task.longest_response());

    let played = play(task, seed, &turns);
    check(&played);
    assert_eq!(play(task, seed, &turns), played);
    let first = turns.first().map_or("", |said| said.text());
    check(&task.reward(seed, &Response { text: first, finished: true }).expect("procedural tasks judge all"));
    // At cards nobody knows what is best.
    if task.max_turns() == 1 && task.name() != holdem::NAME {
        let solution = task.solution(seed);
        let verdict = task.reward(seed, &Response { text: &solution, finished: true });
        assert_eq!(verdict.map(|verdict| verdict.reward), Ok(1.0));
    }
});

impl<'a> Said<'a> {
    fn text(&self) -> &'a str {
        match self {
            Self::Advice => "",
            Self::AdviceAnd(text) | Self::Text(text) | Self::Cut(text) | Self::Last(text) => text,
        }
    }
}

/// Plays an episode to its end; after the last turn everything is cut.
fn play(task: &dyn Task, seed: TaskSeed, turns: &[Said<'_>]) -> Verdict {
    let mut play = Play::new(task, seed);
    let mut heard = 0;
    let mut turns = turns.iter();
    loop {
        assert!(play.turns_left() > 0 && play.turns_left() <= task.max_turns());
        let said = turns.next().unwrap_or(&Said::Cut(""));
        let text = match said {
            Said::Advice => play.suggestion(),
            Said::AdviceAnd(text) => play.suggestion() + text,
            Said::Text(text) | Said::Cut(text) | Said::Last(text) => (*text).to_owned(),
        };
        let response = Response { text: &text, finished: !matches!(said, Said::Cut(_)) };
        let left = if matches!(said, Said::Last(_)) { 0 } else { 100 };
        match play.turn(&response, left).expect("an environment keeps to its own bounds") {
            EpisodeStep::Over { verdict, .. } => return verdict,
            EpisodeStep::Heard(text) => {
                heard += text.len();
                assert!(heard <= task.longest_heard());
            }
        }
    }
}

fn check(verdict: &Verdict) {
    assert!((0.0..=1.0).contains(&verdict.reward));
    assert!(verdict.metadata.len() <= MAX_OMEGA_ENTRIES);
    for (key, value) in &verdict.metadata {
        let text = if let MetaValue::Text(text) = value { text.len() } else { 0 };
        assert!(key.len() <= MAX_OMEGA_TEXT && text <= MAX_OMEGA_TEXT);
    }
}
