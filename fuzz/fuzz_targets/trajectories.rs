//! Trajectories from strangers, whose form was checked: judged again they come to what the
//! rules of sampling make of their tokens alone, or to nothing; and log-probabilities that are
//! none pass no audit.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use echo_policy::audit::{ClaimedSample, SampleFinding, Tolerance, examine};
use echo_policy::generation::{Completion, EngineError, Generation, Policy, SampleRequest};
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use echo_policy::text::tokenizer::{CHARACTER_VOCABULARY, CharTokenizer, Tokenizer};
use echo_protocol::run::charter::{RunId, TaskSpec};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec::{decode, encode};
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory;
use echo_protocol::work::trajectory::{Form, MAX_TURNS, Trajectory, TrajectoryGroup, VersionSpan};
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::rollout::judge::{REWARD_TOLERANCE, judge};
use echo_sandbox::rollout::replay::{ReplayError, TextDecoder, heard, interleave, replay};
use echo_sandbox::task::episode::EpisodeStep;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::{Response, Task, TaskSeed, Verdict};
use echo_sandbox::tasks::registry;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// The policy that is audited, with this many tokens a response.
const VERSION: u64 = 3;
const TOKENS: u32 = 12;
const SAMPLES: u32 = 3;
const PROMPT: [u32; 3] = [5, 9, 12];
const SEED: [u8; 32] = [7; 32];
/// Further off than any audit at temperature 1 allows.
const FAR: f32 = 0.05;

#[derive(Debug, Arbitrary)]
enum Input<'a> {
    /// An episode, and what a stranger makes of it.
    Episode {
        task: u8,
        seed: [u8; 8],
        limit: u8,
        said: Vec<Said<'a>>,
        edits: Vec<Edit>,
        claimed: Option<f32>,
    },
    /// A sample of a policy, and what a stranger says of its tokens.
    Sample { index: u8, tokens: Vec<(u8, u32)>, logprobs: Vec<(u8, f32)>, fewer: u8 },
}

/// What the policy says in a turn.
#[derive(Debug, Arbitrary)]
enum Said<'a> {
    /// What a good player would say.
    Advice,
    /// A text of the fuzzer's, as the whole turn.
    Text(&'a str),
}

/// What is changed in a trajectory.
#[derive(Debug, Arbitrary)]
enum Edit {
    Token(u8, u8),
    Insert(u8, u8),
    Remove(u8),
    Cut(u8),
    /// A turn ends so much later, and the next one begins later.
    Border(u8, i8),
    Join(u8),
    Split(u8, u8),
    NoTurns,
    /// Turns end where end tokens are.
    TurnsByEnds,
    Stopped,
}

fuzz_target!(|input: Input<'_>| {
    match input {
        Input::Episode { task, seed, limit, said, edits, claimed } => {
            let tasks = tasks();
            let seed = TaskSeed(std::array::from_fn(|index| seed[index % seed.len()]));
            let assignment = Assignment::new(&*tasks[usize::from(task) % tasks.len()], seed);
            let limit = usize::from(limit) + 1;
            let honest = played(&assignment, limit, &said);
            let judged =
                judge(&assignment, &honest, limit, &Characters).expect("an honest episode is judged");
            assert_eq!((judged.reward, &judged.metadata), (honest.reward, &honest.omega));
            check(&assignment, &honest, limit);

            let mut edited = edits.into_iter().fold(honest, Edit::apply);
            edited.reward = claimed.unwrap_or(edited.reward);
            if has_form(&edited, limit) {
                check(&assignment, &edited, limit);
            }
        }
        Input::Sample { index, tokens, logprobs, fewer } => audit(index, &tokens, &logprobs, fewer),
    }
});

/// One token a character.
struct Characters;

impl TextDecoder for Characters {
    fn decode(&self, ids: &[u32]) -> Result<String, String> {
        tokenizer().decode(ids, false).map_err(|error| error.to_string())
    }

    fn is_end(&self, id: u32) -> bool {
        id == CharTokenizer::EOS
    }

    fn vocabulary(&self) -> u32 {
        CHARACTER_VOCABULARY as u32
    }
}

fn tokenizer() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| CharTokenizer::default().into())
}

fn tasks() -> &'static [Box<dyn Task>] {
    static TASKS: OnceLock<Vec<Box<dyn Task>>> = OnceLock::new();
    let build = |name| registry::build(&TaskSpec::new(name), &TaskFiles::none()).expect("defaults are sound");
    TASKS.get_or_init(|| registry::procedural().map(build).collect())
}

/// A text's tokens. Characters without a token are left out.
fn tokens_of(text: &str) -> Vec<u32> {
    text.chars()
        .filter_map(|character| tokenizer().encode(character.encode_utf8(&mut [0; 4])).ok())
        .flatten()
        .collect()
}

/// What an honest node makes of an episode in which the policy says this, and nothing after it.
fn played(assignment: &Assignment<'_>, limit: usize, said: &[Said<'_>]) -> Trajectory {
    let mut play = assignment.play();
    let (mut response, mut turns, mut said) = (Vec::new(), Vec::new(), said.iter());
    loop {
        let mut turn = match said.next() {
            Some(Said::Advice) => tokens_of(&play.suggestion()),
            Some(Said::Text(text)) => tokens_of(text),
            None => Vec::new(),
        };
        turn.push(CharTokenizer::EOS);
        turn.truncate(limit - response.len());
        let ended = turn.split_last().filter(|(last, _)| **last == CharTokenizer::EOS);
        let (words, finished) = ended.map_or((&*turn, false), |(_, words)| (words, true));
        let text = Characters.decode(words).expect("tokens of a text are one");
        response.extend(&turn);
        turns.push(turn.len() as u32);
        let step = play.turn(&Response { text: &text, finished }, limit - response.len());
        if let EpisodeStep::Over { verdict, finished } = step.expect("an environment keeps to its own bounds")
        {
            let turns = trajectory::turns(turns);
            let (reward, omega) = (verdict.reward, verdict.metadata);
            return filled(Trajectory {
                response,
                turns,
                logprobs: Vec::new(),
                versions: Vec::new(),
                reward,
                stopped: finished,
                omega,
                raw_logprobs: Vec::new(),
            });
        }
    }
}

/// With as many log-probabilities and versions as tokens.
fn filled(mut trajectory: Trajectory) -> Trajectory {
    let tokens = trajectory.response.len();
    trajectory.logprobs = vec![-1.0; tokens];
    trajectory.versions = vec![VersionSpan { version: PolicyVersion(VERSION), tokens: tokens as u32 }];
    trajectory
}

impl Edit {
    fn apply(mut edited: Trajectory, edit: Self) -> Trajectory {
        let Trajectory { response, turns, stopped, .. } = &mut edited;
        let token = |at: u8| usize::from(at) % (response.len() + 1);
        match edit {
            Self::Token(at, id) => {
                let at = token(at);
                drop(response.splice(at..(at + 1).min(response.len()), [id.into()]));
            }
            Self::Insert(at, id) => {
                let at = token(at);
                response.insert(at, id.into());
            }
            Self::Remove(at) if !response.is_empty() => {
                response.remove(usize::from(at) % response.len());
            }
            Self::Cut(at) => {
                let at = token(at);
                response.truncate(at);
            }
            Self::Border(at, by) if turns.len() > 1 => {
                let at = usize::from(at) % (turns.len() - 1);
                turns[at] = turns[at].wrapping_add_signed(by.into());
                turns[at + 1] = turns[at + 1].wrapping_sub(i32::from(by) as u32);
            }
            Self::Join(at) if turns.len() > 1 => {
                let at = usize::from(at) % (turns.len() - 1);
                let joined = turns.remove(at);
                turns[at] = turns[at].wrapping_add(joined);
            }
            Self::Split(at, tokens) => {
                if turns.is_empty() {
                    turns.push(response.len() as u32);
                }
                let at = usize::from(at) % turns.len();
                turns[at] = turns[at].wrapping_sub(tokens.into());
                turns.insert(at, tokens.into());
            }
            Self::NoTurns => turns.clear(),
            Self::TurnsByEnds => {
                let ended = response.split_inclusive(|id| *id == CharTokenizer::EOS);
                *turns = trajectory::turns(ended.map(|turn| turn.len() as u32).collect());
            }
            Self::Stopped => *stopped = !*stopped,
            Self::Remove(_) | Self::Border(..) | Self::Join(_) => {}
        }
        filled(edited)
    }
}

fn has_form(trajectory: &Trajectory, limit: usize) -> bool {
    let run: RunId =
        decode(&encode(&ContentId::of(b"run"), 64).expect("an id is short"), 64).expect("a run has an id");
    let group = TrajectoryGroup {
        run,
        lease: LeaseId(3),
        counter: OrderCounter(65),
        node: NodeKey::from_secret([1; 32]).public(),
        trajectories: vec![trajectory.clone()],
        precision: Default::default(),
        caches: Default::default(),
        recomputed: Vec::new(),
    };
    let form = Form {
        group_size: 1,
        max_new_tokens: limit as u32,
        vocabulary: Characters.vocabulary(),
        precisions: vec![Default::default()],
        keeps_caches: false,
        is_raw: true,
    };
    group.check_form(&form).is_ok()
}

/// What tokens come to by the rules of sampling, which also say where turns end.
struct Drawn {
    turns: Vec<u32>,
    stopped: bool,
    verdict: Verdict,
    heard: Vec<String>,
}

/// `None` where no sampling gives these tokens.
fn drawn(assignment: &Assignment<'_>, response: &[u32], limit: usize) -> Option<Drawn> {
    let mut play = assignment.play();
    let (mut at, mut turns, mut heard) = (0, Vec::new(), Vec::new());
    loop {
        let rest = response.get(at..).filter(|rest| !rest.is_empty())?;
        let end = rest.iter().position(|id| *id == CharTokenizer::EOS);
        let words = &rest[..end.unwrap_or(rest.len())];
        let said = words.len() + usize::from(end.is_some());
        at += said;
        turns.push(said as u32);
        if end.is_none() && at != limit {
            return None;
        }
        let text = Characters.decode(words).ok()?;
        let response_now = Response { text: &text, finished: end.is_some() };
        match play.turn(&response_now, limit - at).expect("an environment keeps to its own bounds") {
            EpisodeStep::Heard(text) => heard.push(text),
            EpisodeStep::Over { verdict, finished } => {
                let turns = trajectory::turns(turns);
                return (at == response.len()).then_some(Drawn { turns, stopped: finished, verdict, heard });
            }
        }
    }
}

/// Replaying and judging a trajectory whose form was checked, against what its tokens come to.
fn check(assignment: &Assignment<'_>, trajectory: &Trajectory, limit: usize) {
    let is_stated = |drawn: &Drawn| drawn.turns == trajectory.turns && drawn.stopped == trajectory.stopped;
    let drawn = drawn(assignment, &trajectory.response, limit).filter(is_stated);
    let replayed = replay(assignment.play(), trajectory, limit, &Characters);
    let judged = judge(assignment, trajectory, limit, &Characters);
    let Some(drawn) = drawn else {
        assert!(matches!(replayed, Err(ReplayError::Rules(_))), "{replayed:?}");
        assert!(judged.expect_err("what cannot be replayed is not judged").reason().is_some());
        return;
    };
    let replayed = replayed.expect("what sampling gives is replayed");
    assert_eq!((&replayed.verdict, &replayed.heard), (&drawn.verdict, &drawn.heard));
    let is_earned = (trajectory.reward - drawn.verdict.reward).abs() <= REWARD_TOLERANCE;
    assert_eq!(judged.ok(), is_earned.then_some(drawn.verdict));
    check_heard(assignment, trajectory, limit, &drawn.heard);
}

/// What was heard stands between the turns, and nothing is lost.
fn check_heard(assignment: &Assignment<'_>, trajectory: &Trajectory, limit: usize, texts: &[String]) {
    let encode = |text: &str| Ok::<_, ReplayError>(text.chars().map(u32::from).collect());
    let heard = heard(assignment.play(), trajectory, limit, &Characters, encode).expect("it was replayed");
    assert!(heard.len() == texts.len() && heard.len() < MAX_TURNS);
    let all: Vec<(u32, bool)> = interleave(&trajectory.response, &heard).collect();
    let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, own)| *own);
    assert!(own.iter().map(|(token, _)| *token).eq(trajectory.response.iter().copied()));
    assert!(
        others.iter().map(|(token, _)| *token).eq(texts.iter().flat_map(|text| text.chars().map(u32::from)))
    );
    let borders = all.windows(2).filter(|pair| pair[0] == (CharTokenizer::EOS, true) && !pair[1].1).count();
    assert_eq!(borders, texts.iter().filter(|text| !text.is_empty()).count());
}

/// A policy, and samples that are honestly drawn from it.
fn samples() -> &'static (Arc<Policy>, Vec<Completion>) {
    static DRAWN: OnceLock<(Arc<Policy>, Vec<Completion>)> = OnceLock::new();
    DRAWN.get_or_init(|| {
        let config = ModelConfig::tiny_qwen3(TinySizes {
            vocab: CHARACTER_VOCABULARY,
            hidden: 8,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            intermediate: 16,
            positions: 64,
        });
        let config = config.expect("the sizes fit");
        let policy = Policy::load(VERSION, &config, &Weights::random(&config, 1)).expect("the weights fit");
        let policy = Arc::new(policy);
        let request = SampleRequest {
            prompt: PROMPT.to_vec(),
            seed: SEED,
            samples: SAMPLES,
            stop_ids: vec![],
            stop_strings: None,
            limits: vec![],
            max_heard: 0,
            params: SamplingParams::unbiased(TOKENS),
        };
        let drawn = Generation::start(policy.clone(), vec![request]).and_then(Generation::run);
        (policy, drawn.expect("a short request fits").remove(0))
    })
}

/// Some claims about a sample, of which `fewer` are left out at the end.
fn audit(index: u8, tokens: &[(u8, u32)], logprobs: &[(u8, f32)], fewer: u8) {
    let index = u32::from(index) % SAMPLES;
    let honest = &samples().1[index as usize];
    let mut claimed = honest.clone();
    for (at, token) in tokens {
        claimed.tokens[usize::from(*at) % TOKENS as usize] = *token;
    }
    let changed: BTreeMap<usize, f32> =
        logprobs.iter().map(|(at, logprob)| (usize::from(*at) % TOKENS as usize, *logprob)).collect();
    for (at, logprob) in &changed {
        claimed.logprobs[*at] = *logprob;
    }
    let looked_at = TOKENS as usize - usize::from(fewer) % TOKENS as usize;
    claimed.logprobs.truncate(looked_at);
    let found = examined(index, &claimed);
    // An id that is no token ends the audit; a token that was not drawn may be as good.
    if claimed.tokens != honest.tokens {
        return;
    }
    let found = found.expect("tokens of the vocabulary are looked at");
    let is_far = |(at, logprob): (&usize, &f32)| {
        let off = (logprob - honest.logprobs[*at]).abs();
        *at < looked_at && (off.is_nan() || off > FAR)
    };
    if changed.iter().any(is_far) {
        assert!(found.fault.is_some(), "{claimed:?}");
    }
    if changed.range(..looked_at).all(|(at, logprob)| *logprob == honest.logprobs[*at]) {
        assert_eq!(found, SampleFinding::default());
    }
}

fn examined(index: u32, claimed: &Completion) -> Result<SampleFinding, EngineError> {
    let (policy, params) = (samples().0.clone(), SamplingParams::unbiased(TOKENS));
    let tokens = claimed.tokens.iter().map(|token| (*token, true));
    let sample = ClaimedSample::new(index, tokens, &claimed.logprobs, claimed.versions.iter().copied());
    examine(&[policy], &PROMPT, &SEED, &params, [sample], &Tolerance::f32(params.temperature))
}
