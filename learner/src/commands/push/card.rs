//! The card of a policy: what the Hub shows of it.

use crate::founding::FoundedRun;
use crate::storage::hub::HubName;
use crate::telemetry::summary::RunSummary;
use anyhow::{Context as _, bail};
use echo_protocol::program::version::version;
use echo_protocol::run::version::PolicyVersion;
use std::fmt::Write as _;
use std::fs;

/// What a card says.
#[derive(Debug, Default)]
pub(super) struct Card {
    pub(super) license: Option<String>,
    /// The model that it was trained from, on the Hub.
    pub(super) base: Option<HubName>,
    /// The data sets of its tasks on the Hub.
    pub(super) data: Vec<HubName>,
    /// Rows of a table: what, and how much.
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) version: Option<PolicyVersion>,
}

/// A licence as the Hub writes it: small letters, digits, dots and dashes.
pub(super) fn license(text: &str) -> Result<String, String> {
    let is_taken = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
    match !text.is_empty() && text.chars().all(is_taken) {
        true => Ok(text.to_owned()),
        false => Err("a licence is written as in apache-2.0, mit, llama3.2 or other".to_owned()),
    }
}

impl Card {
    /// What a run says of its policy.
    pub(super) fn of(run: &FoundedRun) -> anyhow::Result<Self> {
        let mut card = Self::default();
        for pin in &run.config.pins {
            // Pins are written by Echo, and name what was got.
            let name: HubName = pin.name.parse()?;
            if run.config.model.path.as_deref().is_some_and(|path| pin.is_meant_by(path)) {
                card.license = pin.license.as_deref().and_then(|text| license(text).ok());
                card.base = Some(name);
            } else {
                card.data.push(name);
            }
        }
        let charter = &run.workload.charter;
        let tasks: Vec<&str> = charter.tasks.iter().map(|task| task.name.as_str()).collect();
        card.facts.push(("tasks", tasks.join(", ")));
        card.facts.push(("responses to each prompt", charter.group_size.to_string()));
        card.facts.push(("temperature", charter.sampling.temperature.to_string()));
        card.facts.push(("longest response, in tokens", charter.sampling.max_new_tokens.to_string()));
        let path = run.dir.summary();
        if path.exists() {
            let summary =
                serde_json::from_slice(&fs::read(&path)?).with_context(|| path.display().to_string())?;
            card.results(&summary);
        }
        Ok(card)
    }

    fn results(&mut self, summary: &RunSummary) {
        self.facts.push(("updates", summary.updates.to_string()));
        let accuracies = [
            ("held-out accuracy before", summary.accuracy_before),
            ("held-out accuracy after", summary.accuracy_after),
        ];
        let known = accuracies.into_iter().filter_map(|(what, value)| Some((what, format!("{:.3}", value?))));
        self.facts.extend(known);
        self.facts.push(("held-out orders of each evaluation", summary.evaluation_orders.to_string()));
        self.facts.push(("responses trained on", summary.trained.to_string()));
        self.facts.push(("largest staleness, in updates", summary.max_staleness.to_string()));
    }

    /// Refuses a policy that nobody knows the licence of.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.license.is_none() {
            bail!("the policy's licence is not known: name it as in --license apache-2.0");
        }
        Ok(())
    }

    /// The card as the Hub reads it: a head in YAML, and text. All that is in the head has been checked.
    pub(super) fn text(&self, name: &HubName) -> String {
        let mut text = "---\nlibrary_name: transformers\npipeline_tag: text-generation\n".to_owned();
        // Writing to a text never fails.
        let _ = self.head(&mut text).and_then(|()| self.body(&mut text, name));
        text
    }

    fn head(&self, text: &mut String) -> std::fmt::Result {
        if let Some(license) = &self.license {
            writeln!(text, "license: {license}")?;
        }
        if let Some(base) = &self.base {
            writeln!(text, "base_model: {}", base.repository)?;
        }
        if !self.data.is_empty() {
            writeln!(text, "datasets:")?;
            self.data.iter().try_for_each(|name| writeln!(text, "- {}", name.repository))?;
        }
        writeln!(text, "tags:\n- echo\n- reinforcement-learning\n---\n")
    }

    fn body(&self, text: &mut String, name: &HubName) -> std::fmt::Result {
        let echo = version(env!("CARGO_PKG_VERSION"), option_env!("ECHO_COMMIT"), None);
        writeln!(text, "# {}\n", name.repository)?;
        write!(text, "A policy that was post-trained with reinforcement learning by Echo {}", echo.trim())?;
        match &self.version {
            Some(version) => writeln!(text, ", {version} of its run.\n")?,
            None => writeln!(text, ".\n")?,
        }
        for (what, source) in self
            .base
            .iter()
            .map(|base| ("It was trained from", base))
            .chain(self.data.iter().map(|data| ("Its prompts come from", data)))
        {
            writeln!(text, "{what} `{source}`.\n")?;
        }
        if !self.facts.is_empty() {
            writeln!(text, "| what | how much |\n|---|---|")?;
            self.facts.iter().try_for_each(|(what, value)| writeln!(text, "| {what} | {value} |"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_where_the_policy_comes_from_and_what_it_came_to() {
        let mut card = Card {
            license: Some("apache-2.0".into()),
            base: Some("hf:Qwen/Qwen3-0.6B@c0ffee".parse().unwrap()),
            data: vec!["hf:openai/gsm8k@c0ffee:main/train".parse().unwrap()],
            version: Some(PolicyVersion(12)),
            ..Card::default()
        };
        let summary = RunSummary { updates: 12, accuracy_after: Some(0.5), ..RunSummary::default() };
        card.results(&summary);
        card.check().unwrap();
        let text = card.text(&"hf:o/n".parse().unwrap());
        assert!(text.starts_with("---\n"), "{text}");
        for part in [
            "license: apache-2.0\n",
            "base_model: Qwen/Qwen3-0.6B\n",
            "- openai/gsm8k\n",
            "# o/n\n",
            "v12 of its run",
            "`hf:Qwen/Qwen3-0.6B@c0ffee`",
            "| held-out accuracy after | 0.500 |",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("accuracy before"), "{text}");
        assert!(Card::default().check().is_err());
        assert!(license("apache-2.0").is_ok() && license("a\nb").is_err() && license("").is_err());
    }
}
