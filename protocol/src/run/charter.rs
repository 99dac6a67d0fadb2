//! The charter: what a run is. Its signed bytes name the run.

use crate::run::precision::{MAX_PRECISIONS, PrecisionName};
use crate::run::prompt::{MAX_END_TOKENS, MAX_PROMPT_BYTES, PromptSpec};
use crate::run::staleness::Staleness;
use crate::run::tensor_type::TensorType;
use crate::wire::content_id::ContentId;
use crate::wire::identity::PublicKey;
use crate::wire::signed::{Signable, Signed};
use crate::wire::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Longest charter, in bytes.
pub const MAX_CHARTER_BYTES: usize = 32 << 10;
/// Most trajectories in a group (G).
pub const MAX_GROUP_SIZE: u32 = 256;
/// Most tokens in a response.
pub const MAX_RESPONSE_TOKENS: u32 = 1 << 17;
/// Most response tokens in all trajectories of a group together.
pub const MAX_GROUP_TOKENS: u64 = 1 << 19;
/// Most tasks in a mix.
pub const MAX_TASKS: usize = 64;
/// Longest name of a run, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// Smallest and largest chunk of a snapshot, in bytes.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u32> = (16 << 10)..=(4 << 20);

/// A run's name: BLAKE3 of its signed charter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(ContentId);

/// Everything about a run that never changes. Signed by the learner's key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Charter {
    /// The run's name for people.
    pub name: String,
    /// Key of the run: it signs manifests and leases, and is the learner's address on the network.
    pub learner: PublicKey,
    /// When the run was chartered; also makes two runs with equal settings distinct.
    pub created: UnixMillis,
    /// The model's `config.json` in Hugging Face's form.
    pub model: String,
    /// How text becomes tokens.
    pub tokenizer: TokenizerSpec,
    /// The task mix: 1 to [`MAX_TASKS`] tasks with their weights.
    pub tasks: Vec<TaskSpec>,
    /// G: trajectories per work order.
    pub group_size: u32,
    /// How tokens are sampled.
    pub sampling: Sampling,
    /// The staleness budget and the publication period.
    pub staleness: Staleness,
    /// Element type of published tensors.
    pub snapshot_type: TensorType,
    /// Size of a snapshot's chunks, in bytes.
    pub chunk_bytes: u32,
    /// In what nodes may compute, f32 among them: a node of before there was a choice knows nothing else.
    #[serde(
        default = "PrecisionName::only_default",
        skip_serializing_if = "PrecisionName::are_only_default"
    )]
    pub precisions: Vec<PrecisionName>,
    /// What a node does with the samples that it is generating when a newer policy is installed.
    #[serde(default, skip_serializing_if = "Takeover::is_default")]
    pub takeover: Takeover,
    /// How prompts are put, and which part of a response is judged.
    #[serde(default, skip_serializing_if = "PromptSpec::is_default")]
    pub prompt: PromptSpec,
}

/// How a newer policy takes over from the one under which a node is generating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Takeover {
    /// Between two tokens, and caches are computed anew.
    #[default]
    Recompute,
    /// Between two tokens, and caches may be kept; a group says whether they were.
    Keep,
    /// When the samples that are being generated have come to their ends. Only asked for: a group
    /// of several versions is taken all the same.
    Wait,
}

impl Takeover {
    /// Whether it goes without saying.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a run's tokenizer comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenizerSpec {
    /// The built-in character tokenizer over this alphabet (its own default when empty).
    Characters {
        /// Characters in token order, after the special tokens.
        alphabet: String,
    },
    /// `tokenizer.json` and its companions travel as files of the snapshot.
    Snapshot,
    /// The same; and prompts, and what environments say, are messages of the chat template among them.
    Chat,
}

impl TokenizerSpec {
    /// Whether the tokenizer's files travel with snapshots.
    pub fn travels(&self) -> bool {
        matches!(self, Self::Snapshot | Self::Chat)
    }
}

/// One workload of a mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The task's name in the sandbox's registry.
    pub name: String,
    /// Its share of the orders, relative to the other tasks'.
    #[serde(default = "one")]
    pub weight: u32,
    /// The task's own parameters.
    #[serde(default)]
    pub params: BTreeMap<String, i64>,
    /// The file that the task is made of, a data set or a module. It travels with snapshots, under
    /// the name that [`task_file_name`] gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ContentId>,
}

impl TaskSpec {
    /// The task of this name with weight 1, its own defaults and no file.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), weight: 1, params: BTreeMap::new(), data: None }
    }

    /// The same with a parameter set.
    #[must_use]
    pub fn with(mut self, param: &str, value: i64) -> Self {
        self.params.insert(param.to_owned(), value);
        self
    }
}

/// What a task's file is called among the files of a snapshot.
pub fn task_file_name(content: &ContentId) -> String {
    format!("task-{content}")
}

fn one() -> u32 {
    1
}

/// By which rule a draw's number chooses a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawRule {
    /// By the interval that it falls into: the rule of charters that name none.
    #[default]
    Intervals,
    /// By a race of all tokens.
    Race,
}

/// How tokens are drawn from the policy's distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "SamplingForm", into = "SamplingForm")]
pub struct Sampling {
    /// Softmax temperature; 0 takes the most likely token.
    pub temperature: f32,
    /// Nucleus mass in (0, 1]; 1 is off.
    pub top_p: f32,
    /// Most likely tokens kept; 0 is off.
    pub top_k: u32,
    /// Longest response, in tokens.
    pub max_new_tokens: u32,
    /// How a draw's number chooses among the tokens.
    pub draw: DrawRule,
}

/// [`Sampling`] as it is written. A program from before there were races draws by intervals, and
/// would be taken for a liar. So the temperature of a race has a name of its own: without
/// `temperature`, such a program refuses the charter.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SamplingForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    top_p: f32,
    top_k: u32,
    max_new_tokens: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    race_temperature: Option<f32>,
}

impl From<SamplingForm> for Sampling {
    fn from(form: SamplingForm) -> Self {
        let SamplingForm { temperature, top_p, top_k, max_new_tokens, race_temperature } = form;
        let draw = if race_temperature.is_some() { DrawRule::Race } else { DrawRule::Intervals };
        // A charter with neither, or with both, has no temperature: it is out of range.
        let temperature = temperature.xor(race_temperature).unwrap_or(f32::NAN);
        Self { temperature, top_p, top_k, max_new_tokens, draw }
    }
}

impl From<Sampling> for SamplingForm {
    fn from(sampling: Sampling) -> Self {
        let Sampling { temperature, top_p, top_k, max_new_tokens, draw } = sampling;
        let (temperature, race_temperature) = match draw {
            DrawRule::Intervals => (Some(temperature), None),
            DrawRule::Race => (None, Some(temperature)),
        };
        Self { temperature, top_p, top_k, max_new_tokens, race_temperature }
    }
}

impl Sampling {
    /// Whether tokens are drawn from the policy's own distribution, so that log-probabilities under
    /// the two are the same.
    pub fn is_raw(&self) -> bool {
        self.temperature == 1.0 && self.top_p >= 1.0 && self.top_k == 0
    }
}

/// A charter that no node should work for.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CharterError {
    /// A number or text outside its limits.
    #[error("the charter's {field} is {found}; allowed: {allowed}")]
    OutOfRange {
        /// The field, in the words of the message.
        field: &'static str,
        /// The refused value, written out.
        found: String,
        /// What it may say.
        allowed: String,
    },
    /// Signed by another key than the one it names as its learner.
    #[error("the charter names {named} as its learner but is signed by {signer}")]
    NotTheLearner {
        /// The key in the charter.
        named: PublicKey,
        /// The key that signed.
        signer: PublicKey,
    },
    /// The signature or the encoding is wrong.
    #[error("the charter does not open: {0}")]
    Signed(String),
}

impl Signable for Charter {
    const CONTEXT: &'static str = "echo charter 1";
    const MAX_BYTES: usize = MAX_CHARTER_BYTES;
}

impl Charter {
    /// Opens a signed charter: signature, signer and every limit.
    pub fn open(signed: &Signed<Charter>) -> Result<(RunId, Charter), CharterError> {
        let charter = signed.open().map_err(|e| CharterError::Signed(e.to_string()))?;
        if charter.learner != signed.key() {
            return Err(CharterError::NotTheLearner { named: charter.learner, signer: signed.key() });
        }
        charter.validate()?;
        Ok((RunId::of(signed), charter))
    }

    /// Checks every limit; the error names the first field that breaks one.
    pub fn validate(&self) -> Result<(), CharterError> {
        let s = &self.sampling;
        let per_group = u64::from(self.group_size) * u64::from(s.max_new_tokens);
        check("name", &self.name, (1..=MAX_NAME_BYTES).contains(&self.name.len()), "1 to 64 bytes")?;
        check("task count", self.tasks.len(), (1..=MAX_TASKS).contains(&self.tasks.len()), "1 to 64")?;
        check("group size", self.group_size, (1..=MAX_GROUP_SIZE).contains(&self.group_size), "1 to 256")?;
        check("temperature", s.temperature, (0.0..=10.0).contains(&s.temperature), "0 to 10")?;
        check("top_p", s.top_p, s.top_p > 0.0 && s.top_p <= 1.0, "above 0, at most 1")?;
        let tokens = 1..=MAX_RESPONSE_TOKENS;
        check("max_new_tokens", s.max_new_tokens, tokens.contains(&s.max_new_tokens), "1 to 131072")?;
        check("tokens in a group", per_group, per_group <= MAX_GROUP_TOKENS, "at most 524288")?;
        check("chunk_bytes", self.chunk_bytes, CHUNK_BYTES.contains(&self.chunk_bytes), "16384 to 4194304")?;
        let distinct: BTreeSet<&PrecisionName> = self.precisions.iter().collect();
        let listed = distinct.len() == self.precisions.len()
            && distinct.len() <= MAX_PRECISIONS
            && distinct.iter().any(|name| name.is_default());
        let found = self.precisions.iter().map(PrecisionName::as_str).collect::<Vec<_>>().join(", ");
        check("precisions", found, listed, "at most 8, each once, f32 among them")?;
        let (bytes, ends) = (self.prompt.bytes(), self.prompt.end_tokens.len());
        check("prompt", bytes, bytes <= MAX_PROMPT_BYTES, "at most 12288 bytes")?;
        check("end tokens", ends, ends <= MAX_END_TOKENS, "at most 16")?;
        let template = self.prompt.template.as_deref().unwrap_or_default();
        check("prompt template", template, self.prompt.asks_once(), "a text with one {question}")
    }
}

fn check(field: &'static str, found: impl fmt::Display, ok: bool, allowed: &str) -> Result<(), CharterError> {
    if ok {
        Ok(())
    } else {
        Err(CharterError::OutOfRange { field, found: found.to_string(), allowed: allowed.to_owned() })
    }
}

impl RunId {
    /// The name of the run that `charter` founds.
    pub fn of(charter: &Signed<Charter>) -> Self {
        Self(ContentId::of(&charter.to_bytes()))
    }

    /// The 32 bytes of the name.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// The first eight hexadecimal digits, for status lines.
    pub fn short(&self) -> String {
        hex::encode(&self.as_bytes()[..4])
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({})", self.short())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::codec::{decode, encode};
    use crate::wire::identity::NodeKey;

    pub(crate) fn charter(learner: &NodeKey) -> Charter {
        Charter {
            name: "addition".into(),
            learner: learner.public(),
            created: UnixMillis(1_700_000_000_000),
            model: "{}".into(),
            tokenizer: TokenizerSpec::Characters { alphabet: String::new() },
            tasks: vec![TaskSpec::new("chain_sum")],
            group_size: 4,
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_new_tokens: 8,
                draw: DrawRule::Intervals,
            },
            staleness: Staleness::new(3, None).unwrap(),
            snapshot_type: TensorType::F32,
            chunk_bytes: 16 << 10,
            precisions: PrecisionName::only_default(),
            takeover: Takeover::Recompute,
            prompt: PromptSpec::default(),
        }
    }

    /// The bytes of [`charter`] as they were before prompts could be put in other ways.
    #[test]
    fn the_bytes_of_a_plain_charter_never_change() {
        let learner = NodeKey::from_secret([1; 32]);
        let bytes = encode(&charter(&learner), MAX_CHARTER_BYTES).unwrap();
        let text = |words: &str| [vec![0x60 + words.len() as u8], words.as_bytes().to_vec()].concat();
        // A map of eleven fields, the last of which is the size of chunks.
        assert_eq!(bytes[0], 0xab);
        let last = [text("chunk_bytes"), vec![0x19, 0x40, 0x00]].concat();
        assert!(bytes.ends_with(&last), "{:?}", String::from_utf8_lossy(&bytes));
        assert_eq!(decode::<Charter>(&bytes, MAX_CHARTER_BYTES).unwrap().prompt, PromptSpec::default());
    }

    #[test]
    fn a_race_is_refused_by_programs_that_know_none() {
        #[derive(Debug, Deserialize)]
        struct Before {
            sampling: SamplingBefore,
        }
        #[derive(Debug, Deserialize)]
        struct SamplingBefore {
            temperature: f32,
        }
        let plain = charter(&NodeKey::from_secret([1; 32]));
        let race = Charter { sampling: Sampling { draw: DrawRule::Race, ..plain.sampling }, ..plain.clone() };
        for (charter, is_read) in [(plain, true), (race, false)] {
            let bytes = encode(&charter, MAX_CHARTER_BYTES).unwrap();
            assert_eq!(decode::<Charter>(&bytes, MAX_CHARTER_BYTES).unwrap(), charter);
            assert_eq!(charter.validate(), Ok(()));
            let before = decode::<Before>(&bytes, MAX_CHARTER_BYTES).ok();
            assert_eq!(before.map(|before| before.sampling.temperature), is_read.then_some(1.0));
        }
        let both = r#"{"temperature":1.0,"top_p":1.0,"top_k":0,"max_new_tokens":8,"race_temperature":1.0}"#;
        for wrong in [both, r#"{"top_p":1.0,"top_k":0,"max_new_tokens":8}"#] {
            let sampling: Sampling = serde_json::from_str(wrong).unwrap();
            let charter = Charter { sampling, ..charter(&NodeKey::from_secret([1; 32])) };
            let refused = charter.validate();
            assert!(
                matches!(refused, Err(CharterError::OutOfRange { field: "temperature", .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn prompts_stay_within_their_limits() {
        let learner = NodeKey::from_secret([1; 32]);
        let validated = |prompt: PromptSpec| Charter { prompt, ..charter(&learner) }.validate();
        let text = |bytes: usize| Some("x".repeat(bytes));
        let template = Some("Q: {question}".to_owned());
        assert_eq!(validated(PromptSpec { template, system: text(12_275), ..PromptSpec::default() }), Ok(()));
        for (wrong, field) in [
            (PromptSpec { system: text(MAX_PROMPT_BYTES + 1), ..PromptSpec::default() }, "prompt"),
            (PromptSpec { end_tokens: vec![1; 17], ..PromptSpec::default() }, "end tokens"),
            (PromptSpec { template: text(3), ..PromptSpec::default() }, "prompt template"),
        ] {
            let refused = validated(wrong);
            assert!(
                matches!(&refused, Err(CharterError::OutOfRange { field: named, .. }) if *named == field),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn names_the_run_and_opens() {
        let learner = NodeKey::from_secret([1; 32]);
        let signed = Signed::sign(&charter(&learner), &learner).unwrap();
        let (run, opened) = Charter::open(&signed).unwrap();
        assert_eq!(opened, charter(&learner));
        assert_eq!(run, RunId::of(&Signed::from_bytes(&signed.to_bytes()).unwrap()));
    }

    #[test]
    fn refuses_a_foreign_signer_and_numbers_out_of_range() {
        let learner = NodeKey::from_secret([1; 32]);
        let signed = Signed::sign(&charter(&learner), &NodeKey::from_secret([2; 32])).unwrap();
        assert!(matches!(Charter::open(&signed), Err(CharterError::NotTheLearner { .. })));

        let mut bad = charter(&learner);
        bad.sampling.temperature = f32::NAN;
        assert!(matches!(bad.validate(), Err(CharterError::OutOfRange { field: "temperature", .. })));
        let mut bad = charter(&learner);
        bad.group_size = 256;
        bad.sampling.max_new_tokens = MAX_RESPONSE_TOKENS;
        assert!(matches!(bad.validate(), Err(CharterError::OutOfRange { field: "tokens in a group", .. })));
    }

    #[test]
    fn f32_is_always_taken_and_no_precision_twice() {
        let learner = NodeKey::from_secret([1; 32]);
        let validated = |names: &[&str]| {
            let precisions = names.iter().map(|name| PrecisionName::try_from((*name).to_owned()).unwrap());
            Charter { precisions: precisions.collect(), ..charter(&learner) }.validate()
        };
        assert_eq!(validated(&["bf16", "f32", "fp8"]), Ok(()));
        let nine = ["f32", "a", "b", "c", "d", "e", "f", "g", "h"];
        for wrong in [vec![], vec!["bf16"], vec!["f32", "f32"], nine.to_vec()] {
            let refused = validated(&wrong);
            assert!(
                matches!(refused, Err(CharterError::OutOfRange { field: "precisions", .. })),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn what_goes_without_saying_is_not_said() {
        let plain = charter(&NodeKey::from_secret([1; 32]));
        let bytes = encode(&plain, MAX_CHARTER_BYTES).unwrap();
        let contains = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|at| at == word.as_bytes());
        assert!(!contains(&bytes, "precisions") && !contains(&bytes, "takeover"));
        assert_eq!(decode::<Charter>(&bytes, MAX_CHARTER_BYTES).unwrap(), plain);
        let precisions = vec![PrecisionName::default(), PrecisionName::try_from("bf16".to_owned()).unwrap()];
        for takeover in [Takeover::Recompute, Takeover::Keep, Takeover::Wait] {
            let chosen = Charter { precisions: precisions.clone(), takeover, ..plain.clone() };
            let bytes = encode(&chosen, MAX_CHARTER_BYTES).unwrap();
            assert_eq!(contains(&bytes, "takeover"), takeover != Takeover::Recompute);
            assert_eq!(decode::<Charter>(&bytes, MAX_CHARTER_BYTES).unwrap(), chosen);
        }
    }
}
