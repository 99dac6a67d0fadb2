//! `echo-learner plan`: for each staleness budget, what a run asks of its fleet, and what that costs.
//!
//! ```text
//! run file ─> figures of the run ─┐
//! fleet file ─> classes of nodes ─┼─> forecast (arithmetic) ─> show: table, cheapest safe S, what to change
//! measured ─> T_train, μ ─────────┘
//! ```

mod advice;
mod fleet_file;
mod forecast;
mod measured;
mod show;
#[cfg(test)]
mod testing;

use crate::commands::bench;
use crate::commands::run_file::RunFile;
use crate::commands::sources;
use crate::config::RunConfig;
use crate::fleet::UNKNOWN_UPLINK;
use crate::founding::examination::{RunFigures, examine};
use anyhow::{Context as _, ensure};
use clap::Args;
use echo_policy::model::config::ModelConfig;
use echo_protocol::program::output::{note, print};
use echo_protocol::run::staleness::StalenessMode;
use echo_protocol::wire::rate::BytesPerSec;
use fleet_file::{FleetClass, FleetFile};
use forecast::{NodeClass, PlanInputs, cheapest};
use measured::HardwareRates;
use show::{PlanReport, PlanSizes};
use std::path::PathBuf;

/// Deltas as a share of a publication, where the fleet file says nothing. Of SmolLM2 at 1e-6 one of an update
/// was 0.018 of it (docs/results.md); larger rates and more updates change more.
const DELTA_SHARE: f64 = 0.1;
/// Times the fluid bound that a broadcast takes, where the fleet file says nothing: races of 8 nodes took
/// 1.07, and of 32 with churn 1.2 (docs/results.md).
const OVERHEAD: f64 = 1.1;
/// Bytes of a response's token in a group: its id takes up to five, and its log-prob five.
const TOKEN_BYTES: f64 = 10.0;
/// Bytes of a trajectory besides: its share of the group's head and signature, reward and versions.
const TRAJECTORY_BYTES: f64 = 100.0;
/// Bytes of `echo-node` without a policy, most bytes of its caches, and orders that it makes at once: as its
/// preflight counts them.
const NODE_PROGRAM: u64 = 256 << 20;
const NODE_CACHE: u64 = 2 << 30;
const NODE_ORDERS: u64 = 4;
/// The class of a plan without a fleet file.
const HERE: &str = "this machine";
/// Nodes of that class that can be had.
const HERE_COUNT: u64 = 1_000;

/// What is planned, and from what.
#[derive(Args, Clone, Debug)]
pub struct FleetPlan {
    /// The run file.
    #[command(flatten)]
    pub config: RunFile,
    /// What nodes there are to be had, what they cost, and their links. Without it, as many as are needed of
    /// the kind that --measure finds this machine to be.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Measure what the fleet file leaves out: T_train by training steps on this machine, and μ by `echo-node
    /// hardware`, which has to lie beside this program or in PATH.
    #[arg(long)]
    pub measure: bool,
    /// One JSON object on standard output.
    #[arg(long)]
    pub json: bool,
}

/// No budget is safe, and it has been printed what to change: the program ends with code 2.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no staleness budget is safe with these nodes")]
pub struct NothingFits;

/// Plans, and prints what was found.
///
/// # Errors
/// When a file is wrong, or something is neither given nor measured; [`NothingFits`] after the report.
pub fn plan(plan: &FleetPlan) -> anyhow::Result<()> {
    let mut config = plan.config.load()?;
    sources::fetch(&mut config, plan.config.base())?;
    let file = plan.fleet.as_deref().map(FleetFile::read).transpose()?;
    let examined = examine(&config, None, false);
    let figures = examined.figures.with_context(|| {
        let problems = examined.problems.join("\n- ");
        format!("the run cannot be planned before these problems are mended:\n- {problems}")
    })?;
    let model = bench::model(&config)?;
    let given = Given { config: &config, figures: &figures, file: file.unwrap_or_default() };
    let (inputs, notes) = given.inputs(plan.measure, plan.fleet.is_some())?;
    let forecasts = inputs.forecasts();
    let report = PlanReport {
        cheapest: cheapest(&forecasts).map(|forecast| forecast.budget),
        advice: advice::advice(&inputs, &forecasts),
        sizes: sizes(&figures, &model, &inputs),
        inputs,
        forecasts,
        notes,
    };
    print(&if plan.json { report.json() } else { report.text() })?;
    report.cheapest.map(drop).ok_or_else(|| NothingFits.into())
}

/// Where the figures of a plan come from.
struct Given<'a> {
    config: &'a RunConfig,
    figures: &'a RunFigures,
    file: FleetFile,
}

impl Given<'_> {
    /// What the plan is made from, and what of it was assumed.
    fn inputs(&self, measure: bool, has_file: bool) -> anyhow::Result<(PlanInputs, Vec<String>)> {
        let Self { config, figures, file } = self;
        let staleness = config.staleness()?;
        let mut notes = Vec::new();
        if staleness.mode() != StalenessMode::Bounded {
            notes.push(
                "[staleness] mode is not bounded: these rows are of runs with a bounded staleness".to_owned(),
            );
        }
        let response_tokens = file.response_tokens.unwrap_or_else(|| {
            notes.push("responses are as long as they may be: set response_tokens".to_owned());
            f64::from(figures.max_new_tokens)
        });
        let prompt_tokens = file.prompt_tokens.unwrap_or(figures.longest_prompt as f64);
        let batch = figures.groups_per_update as f64 * f64::from(figures.group_size);
        let length = (prompt_tokens + response_tokens).clamp(2.0, figures.positions.max(2) as f64);
        let train_s = match file.train_s {
            Some(seconds) => seconds,
            None if measure => {
                note("measuring: training steps on this machine");
                measured::train_s(config, batch, length)?
            }
            None => anyhow::bail!(
                "T_train is not known: give train_s in the fleet file (--fleet), or have it measured on this machine (--measure)"
            ),
        };
        let delta_share = file.delta_share.unwrap_or_else(|| {
            notes.push(format!("deltas have {DELTA_SHARE} of a publication: set delta_share"));
            DELTA_SHARE
        });
        let uplink = file.uplink.or(config.network.max_upload).unwrap_or_else(|| {
            notes.push(format!("the learner's uplink is {UNKNOWN_UPLINK}: set uplink"));
            UNKNOWN_UPLINK
        });
        let classes = self.classes(measure, has_file, response_tokens, &mut notes)?;
        let full_bytes = figures.publication as f64;
        let inputs = PlanInputs {
            train_s,
            batch,
            updates: config.run.updates,
            period: config.staleness.period,
            gamma: config.fleet.gamma,
            learner_price: file.learner_price.unwrap_or(config.fleet.learner_price),
            uplink,
            mode: config.network.dissemination,
            full_bytes,
            delta_bytes: full_bytes * delta_share,
            overhead: file.overhead.unwrap_or(OVERHEAD),
            install_s: file.install_s.unwrap_or(0.0),
            rollout_bytes: TRAJECTORY_BYTES + TOKEN_BYTES * response_tokens,
            classes,
        };
        Ok((inputs, notes))
    }

    fn classes(
        &self,
        measure: bool,
        has_file: bool,
        response_tokens: f64,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Vec<NodeClass>> {
        let here = FleetClass {
            name: HERE.to_owned(),
            count: HERE_COUNT,
            price: None,
            rollouts_per_s: None,
            tokens_per_s: None,
            parameters: None,
            hardware: None,
            order_s: None,
            up: None,
            down: None,
        };
        let classes = if has_file { &self.file.classes[..] } else { std::slice::from_ref(&here) };
        ensure!(
            !classes.is_empty(),
            "the fleet file has no [[class]]: name the nodes that can be had, with name, count and rollouts_per_s"
        );
        if classes.iter().any(|class| class.up.is_none() || class.down.is_none()) {
            notes
                .push(format!("nodes without links in the fleet file have {}: set up and down", self.link()));
        }
        let mut measured: Option<HardwareRates> = None;
        let mut found = Vec::new();
        for class in classes {
            let rate = match self.rate(class, response_tokens)? {
                Some(rate) => rate,
                None if measure => {
                    if measured.is_none() {
                        note("measuring: echo-node hardware on this machine");
                        measured = Some(measured::this_machine(self.figures.parameters)?);
                    }
                    let rate =
                        measured.map(|rates| rates.rollouts_per_s(self.figures.parameters, response_tokens));
                    rate.context("nothing was measured")?
                }
                None => anyhow::bail!(
                    "class {:?} has no rate: give rollouts_per_s, tokens_per_s, or hardware = \"FILE\" with what `echo-node hardware \
                     --json` printed there, or have this machine measured in its place (--measure)",
                    class.name
                ),
            };
            found.push(self.class(class, rate));
        }
        Ok(found)
    }

    /// μ of a class by the fleet file; `None` where it says nothing.
    fn rate(&self, class: &FleetClass, response_tokens: f64) -> anyhow::Result<Option<f64>> {
        let parameters = self.figures.parameters;
        let rates = match (class.rollouts_per_s, class.tokens_per_s, &class.hardware) {
            (Some(rate), _, _) => return Ok(Some(rate)),
            (None, Some(batch_tok_s), _) => {
                HardwareRates { batch_tok_s, parameters: class.parameters.unwrap_or(parameters) }
            }
            (None, None, Some(path)) => measured::of_file(path)?,
            (None, None, None) => return Ok(None),
        };
        Ok(Some(rates.rollouts_per_s(parameters, response_tokens)))
    }

    fn class(&self, class: &FleetClass, rate: f64) -> NodeClass {
        let mut prices = self.config.fleet.prices.iter();
        let listed = || prices.find(|(name, _)| *name == class.name).map(|(_, price)| price);
        NodeClass {
            name: class.name.clone(),
            count: class.count,
            price: class.price.or_else(listed).unwrap_or(0.0),
            rate,
            order_s: class.order_s.unwrap_or(f64::from(self.figures.group_size) / rate),
            up: class.up.unwrap_or(self.link()),
            down: class.down.unwrap_or(self.link()),
        }
    }

    /// A node's link, where the fleet file says nothing.
    fn link(&self) -> BytesPerSec {
        self.config.fleet.node_uplink.unwrap_or(UNKNOWN_UPLINK)
    }
}

/// Memory and publications.
fn sizes(figures: &RunFigures, model: &ModelConfig, inputs: &PlanInputs) -> PlanSizes {
    // Of the orders that are generated together.
    let tokens = u64::from(figures.group_size) * NODE_ORDERS * u64::from(figures.max_new_tokens);
    let caches = model.key_value_bytes_per_token().saturating_mul(tokens).min(NODE_CACHE);
    PlanSizes {
        learner_memory: figures.memory.total(),
        learner_disk: figures.disk.total(),
        node_memory: figures.publication.saturating_add(caches + NODE_PROGRAM),
        publication: figures.publication,
        deltas: inputs.delta_bytes as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: FleetPlan,
    }

    /// Plans the tests' run with this fleet file.
    fn planned(fleet: &str, words: &[&str]) -> anyhow::Result<()> {
        let home = tempfile::tempdir().unwrap();
        let mut config = testing::run_config("run".into());
        config.buffer.max_bytes = 16 << 20;
        let (run, nodes) = (home.path().join("run.toml"), home.path().join("fleet.toml"));
        std::fs::write(&run, toml::to_string(&config).unwrap()).unwrap();
        std::fs::write(&nodes, fleet).unwrap();
        let line = ["plan", run.to_str().unwrap(), "--fleet", nodes.to_str().unwrap()];
        plan(&Line::parse_from([&line[..], words].concat()).plan)
    }

    const CLASS: &str = "[[class]]\nname = \"rented\"\ncount = 1000\nprice = 0.35\n";

    #[test]
    fn a_run_is_planned_as_text_and_as_json() {
        let fleet = format!("train_s = 10.0\n{CLASS}rollouts_per_s = 5.0\nup = \"100mbit\"\n");
        planned(&fleet, &[]).unwrap();
        planned(&fleet, &["--json"]).unwrap();
        let slow = format!("train_s = 10.0\nuplink = \"8bit\"\n{CLASS}rollouts_per_s = 5.0\n");
        assert!(planned(&slow, &[]).unwrap_err().is::<NothingFits>());
    }

    #[test]
    fn what_is_neither_given_nor_measured_is_asked_for() {
        let failed = |fleet: &str| format!("{:#}", planned(fleet, &[]).unwrap_err());
        let rated = format!("{CLASS}rollouts_per_s = 5.0\n");
        assert!(failed(&rated).contains("give train_s in the fleet file"));
        assert!(failed(&format!("train_s = 1.0\n{CLASS}")).contains("echo-node hardware"));
        assert!(failed("train_s = 1.0").contains("no [[class]]"));
        assert!(failed(&format!("train_s = 1.0\n{CLASS}hardware = \"none.json\"")).contains("none.json"));
    }

    #[test]
    fn figures_come_from_fleet_file_run_file_and_defaults() {
        let mut config = testing::run_config("run".into());
        config.fleet.prices = crate::fleet::capacity::Prices::new([("b".to_owned(), 2.0)]);
        let figures = examine(&config, None, false).figures.unwrap();
        let text = "train_s = 2.0\ndelta_share = 0.25\nresponse_tokens = 10.0\n\
            [[class]]\nname = \"a\"\ncount = 1\ntokens_per_s = 100.0\n\
            [[class]]\nname = \"b\"\ncount = 2\nrollouts_per_s = 4.0\norder_s = 9.0\n";
        let given = Given { config: &config, figures: &figures, file: toml::from_str(text).unwrap() };
        let (inputs, notes) = given.inputs(false, true).unwrap();
        let [a, b] = &inputs.classes[..] else { panic!("{inputs:?}") };
        // Ten rollouts a second of ten tokens, one order of G after the other.
        assert_eq!((a.rate, a.price, a.order_s), (10.0, 0.0, f64::from(figures.group_size) / 10.0));
        assert_eq!((b.rate, b.price, b.order_s), (4.0, 2.0, 9.0));
        assert_eq!((a.up, inputs.uplink), (UNKNOWN_UPLINK, UNKNOWN_UPLINK));
        assert_eq!(inputs.delta_bytes * 4.0, inputs.full_bytes);
        assert_eq!(inputs.rollout_bytes, 200.0);
        assert_eq!(notes.len(), 2, "{notes:?}");
    }
}
