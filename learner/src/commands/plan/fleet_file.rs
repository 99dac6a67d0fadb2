//! The fleet file of a plan: what nodes there are to be had, what they cost, and how they are connected.

use anyhow::Context as _;
use echo_protocol::net::limits::HUB_INCOMING;
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A fleet file, as read. What is left out comes from the run file, from a measurement, or from a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FleetFile {
    /// T_train: seconds of an update.
    pub(super) train_s: Option<f64>,
    /// What the learner's machine costs, in dollars an hour.
    pub(super) learner_price: Option<f64>,
    /// B0: the learner's uplink.
    pub(super) uplink: Option<BytesPerSec>,
    /// Bytes of a publication as deltas, as a share of those in full.
    pub(super) delta_share: Option<f64>,
    /// How many times the fluid bound a broadcast takes.
    pub(super) overhead: Option<f64>,
    /// Seconds from the last byte of a version to the first order under it.
    pub(super) install_s: Option<f64>,
    /// Tokens of a prompt and of a response, on average.
    pub(super) prompt_tokens: Option<f64>,
    pub(super) response_tokens: Option<f64>,
    /// Kinds of nodes.
    #[serde(rename = "class")]
    pub(super) classes: Vec<FleetClass>,
}

/// `[[class]]`: nodes of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetClass {
    /// Its name; under that of `[fleet] prices`, it has that price.
    pub(super) name: String,
    /// Nodes that can be had.
    pub(super) count: u64,
    /// Dollars an hour.
    pub(super) price: Option<f64>,
    /// μ: rollouts a second of one node.
    pub(super) rollouts_per_s: Option<f64>,
    /// Tokens a second of one node, as `echo-node hardware` prints them.
    pub(super) tokens_per_s: Option<f64>,
    /// Parameters of the model that these tokens are of; left out, those of the run's model.
    pub(super) parameters: Option<u64>,
    /// What `echo-node hardware --json` printed on such a node.
    pub(super) hardware: Option<PathBuf>,
    /// Seconds of one order; left out, as for a node that makes one after the other.
    pub(super) order_s: Option<f64>,
    /// Links.
    pub(super) up: Option<BytesPerSec>,
    pub(super) down: Option<BytesPerSec>,
}

/// Most nodes of a class: as many as can be connected with a learner.
const MOST_NODES: u64 = HUB_INCOMING as u64;

impl FleetFile {
    /// Reads a file; its paths are relative to it.
    ///
    /// # Errors
    /// When it cannot be read, has unknown keys, or figures outside their domains: all of them together.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("fleet file {}", path.display()))?;
        let mut file: Self =
            toml::from_str(&text).with_context(|| format!("fleet file {}", path.display()))?;
        let problems = file.problems();
        anyhow::ensure!(problems.is_empty(), "fleet file {}: {}", path.display(), problems.join("; "));
        let base = path.parent().unwrap_or(Path::new(""));
        for class in &mut file.classes {
            class.hardware = class.hardware.take().map(|hardware| base.join(hardware));
        }
        Ok(file)
    }

    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut number = |name: &str, figure: Option<f64>, least: f64, most: f64| {
            if let Some(figure) = figure.filter(|figure| !(least..=most).contains(figure)) {
                found.push(format!("{name} = {figure}: it has to be from {least} to {most}"));
            }
        };
        number("train_s", self.train_s, 1e-6, 1e7);
        number("learner_price", self.learner_price, 0.0, 1e6);
        number("delta_share", self.delta_share, 1e-6, 1.0);
        number("overhead", self.overhead, 1.0, 100.0);
        number("install_s", self.install_s, 0.0, 1e6);
        number("prompt_tokens", self.prompt_tokens, 0.0, 1e7);
        number("response_tokens", self.response_tokens, 1.0, 1e7);
        for class in &self.classes {
            let name = |key: &str| format!("class {:?}: {key}", class.name);
            number(&name("count"), Some(class.count as f64), 1.0, MOST_NODES as f64);
            number(&name("price"), class.price, 0.0, 1e6);
            number(&name("rollouts_per_s"), class.rollouts_per_s, 1e-9, 1e9);
            number(&name("tokens_per_s"), class.tokens_per_s, 1e-6, 1e9);
            number(&name("parameters"), class.parameters.map(|count| count as f64), 1.0, 1e15);
            number(&name("order_s"), class.order_s, 0.0, 1e7);
        }
        for (place, class) in self.classes.iter().enumerate() {
            if self.classes[..place].iter().any(|other| other.name == class.name) {
                found.push(format!(
                    "class {:?} is there twice: add up their counts, or give another name",
                    class.name
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FleetFile, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet.toml");
        std::fs::write(&path, text).unwrap();
        let read = FleetFile::read(&path).map_err(|error| format!("{error:#}"));
        read.map(|mut file| {
            for class in &mut file.classes {
                class.hardware =
                    class.hardware.take().map(|at| at.strip_prefix(dir.path()).unwrap().to_owned());
            }
            file
        })
    }

    #[test]
    fn a_fleet_file_is_read() {
        let file = read(
            "train_s = 12.5\nuplink = \"300mbit\"\n[[class]]\nname = \"a\"\ncount = 3\nhardware = \"a.json\"",
        )
        .unwrap();
        assert_eq!((file.train_s, file.uplink), (Some(12.5), Some(BytesPerSec(37_500_000))));
        assert_eq!(file.classes[0].hardware.as_deref(), Some(Path::new("a.json")));
        assert_eq!(read("").unwrap(), FleetFile::default());
    }

    #[test]
    fn all_wrong_figures_are_named_together() {
        let class = "[[class]]\nname = \"a\"\ncount = 0\nprice = -1.0\n";
        let wrong = read(&format!("overhead = 0.5\ndelta_share = nan\n{class}{class}")).unwrap_err();
        for part in
            ["overhead = 0.5", "delta_share = NaN", "\"a\": count = 0", "price = -1", "is there twice"]
        {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        assert!(read("traain_s = 1.0").unwrap_err().contains("traain_s"));
        let of = |count: u64| read(&format!("[[class]]\nname = \"a\"\ncount = {count}"));
        assert_eq!(of(MOST_NODES).unwrap().classes[0].count, MOST_NODES);
        let most = format!("it has to be from 1 to {HUB_INCOMING}");
        assert!(of(MOST_NODES + 1).unwrap_err().contains(&most));
    }

    /// The page that describes the file.
    const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/fleet-file.md"));

    #[test]
    fn the_page_has_every_key_and_its_example_is_read() {
        let example = PAGE.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let file: FleetFile = toml::from_str(example).unwrap();
        assert_eq!((file.problems(), file.classes.len()), (Vec::new(), 2));
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().filter(|key| *key != "class").cloned().collect()
        };
        let json = serde_json::to_value(&file).unwrap();
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let expected = [keys(&json), keys(&json["class"][0])].concat();
        assert_eq!(rows.map(str::to_owned).collect::<Vec<_>>(), expected);
    }
}
