//! Which figures are asked for: `docs/results/goals.toml`.

use super::figure::Figure;
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use std::collections::HashMap;
use toml::Spanned;

/// The file, below the root of the workspace.
pub(super) const FILE: &str = "docs/results/goals.toml";

/// What `goals.toml` says, in its order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalsFile {
    #[serde(rename = "machine")]
    pub(super) machines: Vec<MachineEntry>,
    #[serde(rename = "section")]
    pub(super) sections: Vec<SectionEntry>,
    #[serde(rename = "goal")]
    pub(super) goals: Vec<GoalEntry>,
}

/// A machine on which figures were measured. With `cpu` it is recognised; the others have to be named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineEntry {
    pub(super) id: Spanned<String>,
    pub(super) text: String,
    /// What the name of its processor contains.
    pub(super) cpu: Option<String>,
    /// How many virtual cores it has.
    pub(super) cores: Option<u64>,
    /// Features that its processor has, like `avx512f`; `development` is that profile of the lab.
    #[serde(default)]
    pub(super) has: Vec<String>,
    /// Features that it has not.
    #[serde(default)]
    pub(super) lacks: Vec<String>,
}

/// A part of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SectionEntry {
    pub(super) id: Spanned<String>,
    pub(super) title: String,
    pub(super) intro: String,
}

/// A figure that is asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalEntry {
    id: Spanned<String>,
    pub(super) section: String,
    pub(super) goal: String,
    /// The unit of the figure and of the bound; nothing for what is true or false.
    pub(super) unit: String,
    pub(super) better: Better,
    /// What the figure has to reach; none where nothing is asked of it.
    pub(super) bound: Option<f64>,
    /// Where the figure is in the JSON that its command prints, for `--record`: a
    /// [pointer](super::json_pointer), as all that follow.
    pub(super) at: Option<String>,
    /// Where the least of its runs is.
    pub(super) low_at: Option<String>,
    /// Where the greatest is.
    pub(super) high_at: Option<String>,
    /// Where it says how many runs there were.
    pub(super) runs_at: Option<String>,
    /// Where half of the figure's interval of 95 % is. Its runs are seeds then.
    pub(super) interval_at: Option<String>,
    /// Where it says whether the goal holds, if the bound alone does not decide that.
    pub(super) held_at: Option<String>,
    /// What is found is multiplied by this: 100 makes % of a share.
    pub(super) times: Option<f64>,
    /// Then this is added: -100 makes of that what is above 100 %.
    pub(super) plus: Option<f64>,
    /// The command that measures the figure first. Until it has, the goal is left off the page.
    pub(super) first: Option<String>,
    /// Whether the figure counts only when the command passes.
    #[serde(default)]
    pub(super) only_passed: bool,
}

/// Which figures are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    /// Small ones, and the bound itself.
    Lower,
    /// Great ones, and the bound itself.
    Higher,
    /// `true`, of what is true or false.
    Holds,
}

impl GoalEntry {
    /// The word by which records name it.
    pub(super) fn id(&self) -> &str {
        self.id.get_ref()
    }

    /// Whether anything is asked of the figure.
    pub(super) fn asks(&self) -> bool {
        self.better == Better::Holds || self.bound.is_some()
    }

    /// Whether the figure is as good as asked; nothing where nothing is asked or it is of another kind.
    pub(super) fn is_reached(&self, figure: Figure) -> Option<bool> {
        match (self.better, figure) {
            (Better::Holds, Figure::Holds(holds)) => Some(holds),
            (Better::Lower, Figure::Number(number)) => self.bound.map(|bound| number <= bound),
            (Better::Higher, Figure::Number(number)) => self.bound.map(|bound| number >= bound),
            _ => None,
        }
    }
}

impl GoalsFile {
    /// Reads the text of `goals.toml`. Fails when it is no such file, an id is there twice, a goal's
    /// section is unknown, or a section has no goal.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let file: Self = toml::from_str(text).context(FILE)?;
        unique(text, "machine", file.machines.iter().map(|machine| &machine.id))?;
        unique(text, "section", file.sections.iter().map(|section| &section.id))?;
        unique(text, "goal", file.goals.iter().map(|goal| &goal.id))?;
        for goal in &file.goals {
            goal.check(text, &file.sections)?;
        }
        for section in &file.sections {
            let id = section.id.get_ref();
            let used = file.goals.iter().any(|goal| goal.section == *id);
            ensure!(used, "{}: no goal belongs to section `{id}`", place(text, &section.id));
        }
        Ok(file)
    }
}

impl GoalEntry {
    fn check(&self, text: &str, sections: &[SectionEntry]) -> anyhow::Result<()> {
        let (id, section) = (self.id(), &self.section);
        let known = sections.iter().any(|known| known.id.get_ref() == section);
        ensure!(known, "{}: goal `{id}` is of section `{section}`, which is unknown", place(text, &self.id));
        let found = self.first.is_none() || self.at.is_some();
        ensure!(found, "{}: goal `{id}` is not measured yet, and has no `at`", place(text, &self.id));
        let bounded = self.better == Better::Holds && self.bound.is_some();
        ensure!(!bounded, "{}: goal `{id}` holds or does not, but has a bound", place(text, &self.id));
        self.check_pointers().with_context(|| format!("{}: goal `{id}`", place(text, &self.id)))
    }

    fn check_pointers(&self) -> anyhow::Result<()> {
        let Self { at, low_at, high_at, runs_at, interval_at, held_at, times, plus, .. } = self;
        let others = [low_at, high_at, runs_at, interval_at, held_at];
        let alone = others.iter().any(|pointer| pointer.is_some()) || times.or(*plus).is_some();
        ensure!(at.is_some() || !(alone || self.only_passed), "there is no `at` that the rest belongs to");
        for pointer in others.into_iter().chain([at]).flatten() {
            ensure!(pointer.starts_with('/'), "`{pointer}` is no JSON pointer: it has to begin with /");
        }
        ensure!(times.is_none_or(|times| times > 0.0), "`times` has to be above 0");
        if interval_at.is_some() {
            ensure!(runs_at.is_some(), "an interval is of seeds, which `runs_at` has to count");
            ensure!(
                low_at.is_none() && high_at.is_none(),
                "an interval takes the place of `low_at` and `high_at`"
            );
        }
        Ok(())
    }
}

/// Refuses an id that is there twice.
fn unique<'a>(text: &str, kind: &str, ids: impl Iterator<Item = &'a Spanned<String>>) -> anyhow::Result<()> {
    let mut seen = HashMap::new();
    for id in ids {
        if let Some(first) = seen.insert(id.get_ref(), id) {
            let (place, first) = (place(text, id), line(text, first));
            bail!("{place}: {kind} `{}` is there already, in line {first}", id.get_ref());
        }
    }
    Ok(())
}

fn place(text: &str, id: &Spanned<String>) -> String {
    format!("{FILE}, line {}", line(text, id))
}

/// The line of an id, from 1 on.
fn line(text: &str, id: &Spanned<String>) -> usize {
    1 + text.bytes().take(id.span().start).filter(|byte| *byte == b'\n').count()
}
