//! Everything that is wrong with a run file's settings, as far as it shows without opening anything.

use super::{RunConfig, RunFileError};
use crate::common::option_error::{OptionError, above_zero, setting};
use crate::intake::buffer::{MAX_BATCH_GROUPS, MAX_JOURNALED_BATCHES};
use crate::training::batch::MAX_SEQUENCES;
use crate::training::trainer::MIN_TEMPERATURE;
use echo_sandbox::tasks::registry::from_files;
use echo_sandbox::tasks::wasm;

/// Highest temperature that a charter takes.
const MAX_TEMPERATURE: f32 = 10.0;

/// What was found so far.
#[derive(Default)]
struct Found(Vec<RunFileError>);

impl Found {
    fn take<T, E: Into<RunFileError>>(&mut self, looked: Result<T, E>) {
        self.0.extend(looked.err().map(Into::into));
    }

    fn take_all<E: Into<RunFileError>>(&mut self, found: Vec<E>) {
        self.0.extend(found.into_iter().map(Into::into));
    }
}

impl RunConfig {
    /// Checks everything that can be checked without opening the model.
    ///
    /// # Errors
    /// The first of [`RunConfig::problems`].
    pub fn validate(&self) -> Result<(), RunFileError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// All settings that are outside their domains or contradict each other; none where the run
    /// file is sound.
    #[must_use]
    pub fn problems(&self) -> Vec<RunFileError> {
        let mut found = Found::default();
        if self.model.path.is_some() == self.model.tiny.is_some() {
            found.0.push(RunFileError::Model);
        }
        self.unused(&mut found);
        self.of_prompts(&mut found);
        found.take(self.staleness());
        self.of_training(&mut found);
        found.take_all(self.network.problems());
        found.take(self.watch.validate());
        found.take_all(self.record.problems());
        found.take_all(self.verify.problems());
        found.take(above_zero("run.updates", self.run.updates));
        found.take_all(self.evaluation.problems());
        self.of_sampling(&mut found);
        found.take(self.admission.validate(self.sampling.temperature));
        found.take_all(self.buffer.problems(self.train.groups_per_update));
        found.take(self.snapshot.validate());
        found.take(self.checkpoints.validate());
        found.take(self.journal());
        found.take_all(self.fleet.problems());
        found.take_all(self.warmup.as_ref().map(|warmup| warmup.problems()).unwrap_or_default());
        found.0
    }

    /// `[prompt]`, and what `[model]` says of it.
    fn of_prompts(&self, found: &mut Found) {
        let mut refuse = |chat: bool, rule| {
            let (field, value) = ("prompt.chat", chat.to_string());
            found.0.push(OptionError::Setting { field, found: value, rule }.into());
        };
        let is_tiny = self.model.tiny.is_some();
        match (self.prompt.chat, self.model.chat) {
            (Some(chat), Some(other)) if chat != other => {
                refuse(chat, "[model] chat says otherwise: leave one of the two out");
            }
            (Some(true), _) if is_tiny => {
                refuse(true, "a model of [model.tiny] has no chat template: leave it out");
            }
            _ => {}
        }
        found.take(self.prompt.validate(if is_tiny { Some(false) } else { self.chat() }));
    }

    /// `[train]`, and how large a batch is.
    fn of_training(&self, found: &mut Found) {
        let train = &self.train;
        found.take_all(train.objective.objective.problems());
        found.take(train.schedule.validate());
        found.take(train.guard.validate());
        found.take(train.filter.validate());
        found.take_all(train.precision_weight.problems());
        found.take(above_zero("train.groups_per_update", train.groups_per_update as u64));
        found.take(above_zero("train.minibatches", train.minibatches as u64));
        found.take(above_zero("train.micro_batch_tokens", train.micro_batch_tokens as u64));
        found.take(above_zero("train.max_skipped", u64::from(train.max_skipped)));
        let (norm, decay) = (train.max_grad_norm, train.weight_decay);
        let rule = "it has to be above 0; inf does not clip";
        found.take(setting("train.max_grad_norm", norm, norm > 0.0, rule));
        let decays = decay >= 0.0 && decay.is_finite();
        found.take(setting("train.weight_decay", decay, decays, "it has to be 0 or above, and finite"));
        let (groups, responses) = (train.groups_per_update, self.sampling.group_size as usize);
        if groups > MAX_BATCH_GROUPS || groups.saturating_mul(responses) > MAX_SEQUENCES {
            let (field, found_groups) = ("train.groups_per_update", groups as u64);
            let rule = "at most 16384, and at most 65536 responses in a batch";
            found.0.push(OptionError::Number { field, found: found_groups, rule }.into());
        }
    }

    /// `[sampling]`, and what the audit makes of it.
    fn of_sampling(&self, found: &mut Found) {
        if !(MIN_TEMPERATURE..=MAX_TEMPERATURE).contains(&self.sampling.temperature) {
            let (field, temperature) = ("sampling.temperature", self.sampling.temperature.to_string());
            let rule = "it has to be 0.01 to 10; where responses are all the likeliest one there is nothing to compare";
            found.0.push(OptionError::Setting { field, found: temperature, rule }.into());
        }
        let cut = self.sampling.top_p < 1.0 || self.sampling.top_k > 0;
        if self.admission.audit && cut {
            let field = "admission.audit";
            let rule = "with top_p below 1 or top_k above 0 draws at the cut differ between machines, and honest nodes would be refused: leave both as they are, or set it to false";
            found.0.push(OptionError::Setting { field, found: "true".to_owned(), rule }.into());
        }
    }

    /// Refuses more batches than the journal keeps.
    fn journal(&self) -> Result<(), OptionError> {
        // Wrong numbers of [staleness] are reported as such.
        let Ok(staleness) = self.staleness() else { return Ok(()) };
        let updates = staleness.period().saturating_mul(self.checkpoints.keep as u64 + 1);
        if updates <= MAX_JOURNALED_BATCHES as u64 {
            return Ok(());
        }
        let (field, found) = ("checkpoints.keep", self.checkpoints.keep as u64);
        let rule = "(keep + 1) times the period of [staleness], one checkpoint each, has to be 4096 updates or fewer: their batches are kept to go on from the oldest of them";
        Err(OptionError::Number { field, found, rule })
    }

    /// Refuses what would be looked at by nobody.
    fn unused(&self, found: &mut Found) {
        if self.model.tiny.is_some() && self.model.chat.is_some() {
            let chat = self.model.chat.unwrap_or_default().to_string();
            let rule = "a model of [model.tiny] has no chat template: leave it out";
            found.0.push(OptionError::Setting { field: "model.chat", found: chat, rule }.into());
        }
        let is_made_of_file =
            |name: &str| wasm::asks_for_module(name) || from_files().any(|task| task == name);
        for name in self.data.keys().filter(|name| !is_made_of_file(name)) {
            let known = from_files().collect::<Vec<_>>().join(", ");
            found.0.push(RunFileError::Data { name: name.clone(), known });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use echo_protocol::wire::rate::BytesPerSec;
    use std::path::Path;

    #[test]
    fn all_problems_are_found_and_the_first_of_them_is_refused() {
        let mut config = testing::run_config("run".into());
        assert!(config.problems().is_empty());
        config.validate().unwrap();
        config.run.updates = 0;
        config.train.groups_per_update = 0;
        config.train.schedule.peak = -1.0;
        config.train.precision_weight.int8 = 2.0;
        config.train.precision_weight.int4 = -1.0;
        config.sampling.temperature = 0.0;
        config.sampling.top_p = 0.5;
        config.network.listen = vec!["foo".into(), "bar".into()];
        config.network.list_key = Some("ab".into());
        config.network.max_upload = Some(BytesPerSec(5));
        config.network.max_download = Some(BytesPerSec(999));
        config.verify.n = 17;
        config.verify.within_s = 0;
        config.fleet.lease_s = 0;
        config.fleet.orders_per_node = 0;
        config.fleet.gamma = 0.9;
        config.fleet.learner_price = -1.0;
        config.staleness.budget = Some(1);
        config.staleness.period = Some(9);
        config.data.insert("maths".into(), "rows.jsonl".into());
        config.model.tiny = None;
        let found: Vec<String> = config.problems().iter().map(ToString::to_string).collect();
        for part in [
            "run.updates",
            "train.groups_per_update",
            "[train.schedule]",
            "precision_weight.int8",
            "precision_weight.int4",
            "sampling.temperature",
            "admission.audit",
            "\"foo\"",
            "\"bar\"",
            "network.list_key",
            "network.max_upload is 5B/s, and below 8kbit nothing gets through; write a unit",
            "network.max_download is 999B/s",
            "verify.n",
            "verify.within_s",
            "fleet.lease_s",
            "fleet.orders_per_node",
            "fleet.gamma",
            "fleet.learner_price",
            "[staleness]",
            "[data] maths",
            "[model]",
        ] {
            assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:#?}");
        }
        assert_eq!(config.validate().unwrap_err().to_string(), found[0]);

        let all = RunFileError::all(Path::new("run.toml"), config.problems()).unwrap_err().to_string();
        let heading = format!("run file run.toml has {} problems:", found.len());
        assert!(all.starts_with(&heading) && all.lines().count() == found.len() + 1, "{all}");
    }
}
