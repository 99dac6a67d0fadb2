//! The node's settings: flag over environment over file over default, and where each came from.
//!
//! A setting that nobody knows is an error with the nearest name. May import `state`.
//!
//! ```text
//! defaults ─┐
//! node.toml ┼─ layers, each over the one above ── Config ─┬─ Settings (role, range) ── preflight
//! ECHO_NODE_┤                                             └─ report (`echo-node config`)
//! flags ────┘
//! ```

mod layers;
mod limits;
pub(crate) mod range;
mod report;
mod role;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use echo_policy::generation::DeviceChoice;
use echo_policy::model::precision::Precision;
use echo_protocol::control::heartbeat::Offer;
use echo_protocol::wire::price::Price;
use echo_protocol::wire::rate::BytesPerSec;
use figment::providers::{Format, Toml};
use figment::{Figment, Metadata, Provider};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::state::data_dir::DataDir;
use crate::state::shown_path::located;
use layers::SettingsLayer;

pub use layers::Flags;
pub use limits::{Hours, NoHours, NoSize, OnBattery, Size};
pub use range::OutOfRange;
pub use report::{Reported, SettingSource};
pub use role::Role;

/// Prefix of the environment variables: `ECHO_NODE_THREADS` is the setting `threads`.
pub const ENV_PREFIX: &str = "ECHO_NODE_";
/// The data directory's name within the user's local data directory.
const NAME: &str = "echo-node";
/// The settings file within the data directory.
pub const FILE_NAME: &str = "node.toml";
/// Longest settings file, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 10;
/// Fewest orders that a node may hold at once: one being worked on, one waiting.
pub const MIN_ORDERS: u32 = 2;
/// Most orders that a node may hold at once.
pub const MAX_ORDERS: u32 = 1024;

/// What is logged unless the owner says otherwise. Gossip would warn of every message that a silent
/// peer does not take, and Kademlia of a table that is empty at first.
const LOG: &str =
    "warn,libp2p_kad::behaviour=error,libp2p_gossipsub::behaviour=error,echo_node=info,echo_protocol=info";
/// What is logged of other parts where a level below `info` stands alone: it is meant for Echo's own.
const OTHERS: &str = "warn,libp2p_kad::behaviour=error,libp2p_gossipsub::behaviour=error";

/// What a node runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the node keeps everything ([`DataDir`]).
    pub data_dir: PathBuf,
    /// The signed peer list.
    pub peers: Option<PathBuf>,
    /// The list keeper's key, 64 hexadecimal digits; the first keeper seen is trusted when absent.
    pub list_key: Option<String>,
    /// Which run of the list to join: its name, or its learner's key. Needed only if the list has several.
    pub run: Option<String>,
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Processor threads for generating.
    pub threads: usize,
    /// On what to generate ([`crate::devices::fallback`]).
    pub device: DeviceChoice,
    /// In which numbers to generate; the charter's first when absent ([`crate::devices::precision`]).
    pub precision: Option<Precision>,
    /// Most orders that are leased to this node at once: half of them being worked on, half waiting.
    pub max_orders: u32,
    /// What this node does for the run: at least one role.
    pub roles: BTreeSet<Role>,
    /// Most that this node sends, over everything it does.
    pub max_upload: Option<BytesPerSec>,
    /// Most that this node receives, over everything it does.
    pub max_download: Option<BytesPerSec>,
    /// Hours of the day, in local time, in which this node takes work; always when absent.
    pub hours: Option<Hours>,
    /// What this node does while the machine runs on its battery.
    pub on_battery: OnBattery,
    /// Most disk that this node may take for a run; a run that needs more is not joined.
    pub max_disk: Option<Size>,
    /// A name by which the operator knows what this node costs, such as that of a group of rented machines.
    pub label: Option<String>,
    /// What this node costs its owner in dollars an hour; nothing when absent.
    pub price: Option<Price>,
    /// What to log: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,echo_node=debug`.
    pub log: String,
    /// Seconds between two status lines.
    pub status_every_s: u64,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// There is no such setting.
    #[error("{key:?} ({place}) is no setting of echo-node; {advice}")]
    Unknown {
        /// The key as it was found, as in the file.
        key: String,
        /// The layer that has it: a file's path, a flag or a variable.
        place: String,
        /// The nearest setting, or all of them.
        advice: String,
    },
    /// A value of the wrong type, or a file that is not TOML.
    #[error("{0}")]
    Value(Box<figment::Error>),
    /// A variable that has to be a number.
    #[error("{variable}={text:?} in the environment is no whole number: write one, as in {variable}=2")]
    Number {
        /// The variable's name, with its prefix.
        variable: String,
        /// Its value, which is no whole number.
        text: String,
    },
    /// A value that settings cannot hold.
    #[error("{place} is {value:?}, which is not UTF-8: settings are text, so choose another name")]
    NotText {
        /// Where it was found.
        place: String,
        /// The value, as the system gave it.
        value: OsString,
    },
    /// Nobody says where the node's data lies, and this user has no home directory.
    #[error("this user has no home directory for the node's data: name a directory with --data-dir")]
    NoHome,
    /// The settings file cannot be read.
    #[error("settings file {}: {what}", located(.path))]
    File {
        /// The settings file, as it was named.
        path: PathBuf,
        /// The system's reason, or that it is too long.
        what: String,
    },
}

impl From<figment::Error> for SettingsError {
    /// Names a setting as it is written where it was found; there are no profiles, which figment
    /// would put before it.
    fn from(mut error: figment::Error) -> Self {
        error.metadata = error.metadata.map(|place| {
            let found = place.clone();
            place.interpolater(move |_, keys| {
                let key = keys.join(".");
                if let SettingSource::Env(variable) = SettingSource::of(&found, &key) {
                    variable
                } else {
                    key
                }
            })
        });
        Self::Value(Box::new(error))
    }
}

/// Effective settings and their sources.
#[derive(Clone, Debug)]
pub struct Config {
    /// The values that the node runs with.
    pub settings: Settings,
    sources: BTreeMap<String, SettingSource>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: default_data_dir().unwrap_or_else(|| NAME.into()),
            peers: None,
            list_key: None,
            run: None,
            listen: ["/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0"].map(str::to_owned).to_vec(),
            // Half: the computer belongs to somebody who is using it.
            threads: (range::cores() / 2).max(1),
            device: DeviceChoice::Auto,
            precision: None,
            max_orders: 8,
            roles: Role::DEFAULT.into(),
            max_upload: None,
            max_download: None,
            hours: None,
            on_battery: OnBattery::Pause,
            max_disk: None,
            label: None,
            price: None,
            log: LOG.to_owned(),
            status_every_s: 5,
        }
    }
}

impl Settings {
    /// The data directory, with the paths of everything in it.
    pub fn data(&self) -> DataDir {
        DataDir::new(&self.data_dir)
    }

    /// Whether the node generates rollouts.
    pub fn generates(&self) -> bool {
        self.roles.contains(&Role::Rollout)
    }

    /// Whether the node passes snapshots on to others.
    pub fn relays(&self) -> bool {
        self.roles.contains(&Role::Relay)
    }

    /// Whether the node checks what others have generated.
    pub fn verifies(&self) -> bool {
        self.roles.contains(&Role::Verifier)
    }

    /// What the learner hears of this node's price.
    pub fn offer(&self) -> Offer {
        let micro_usd_per_hour = self.price.map(|price| price.0);
        Offer { label: self.label.clone(), class: None, micro_usd_per_hour }
    }

    /// The time between two status lines, at least a second.
    pub fn status_every(&self) -> Duration {
        Duration::from_secs(self.status_every_s.max(1))
    }

    /// The filter of the log, from the setting `log`.
    ///
    /// # Errors
    /// What is wrong with the filter. A word that is no level would be taken for the name of a part, and
    /// switch off all others.
    pub fn log_filter(&self) -> Result<EnvFilter, String> {
        let is_level = |part: &str| part.is_empty() || part.parse::<LevelFilter>().is_ok();
        let parts: Vec<&str> = self.log.split(',').map(str::trim).collect();
        if let [level] = parts.as_slice()
            && level.parse::<LevelFilter>().is_ok_and(|level| level > LevelFilter::INFO)
        {
            // The network's libraries would add the names of their types: lines of thousands of characters.
            return EnvFilter::try_new(format!("{OTHERS},echo={level}")).map_err(|error| error.to_string());
        }
        match parts.iter().find(|part| !part.contains(['=', '[']) && !is_level(part)) {
            Some(part) => Err(format!("{part:?} is no level")),
            None => EnvFilter::try_new(parts.join(",")).map_err(|error| error.to_string()),
        }
    }

    fn keys() -> impl Iterator<Item = String> {
        Self::defaults().values.into_keys().chain(SettingsLayer::NULLABLE.map(str::to_owned))
    }

    /// The defaults, with an empty data directory: that of a user may be no text.
    fn defaults() -> SettingsLayer {
        SettingsLayer::of("default", &Self { data_dir: PathBuf::new(), ..Self::default() })
    }
}

impl Config {
    /// Puts the layers together: `flags` over `env` (all variables of the process) over the
    /// settings file over the defaults.
    ///
    /// The file is the one that `--config` or `ECHO_NODE_CONFIG` names, which must exist. Otherwise it is
    /// `node.toml` in the data directory, which need not exist.
    ///
    /// # Errors
    /// [`SettingsError`]: an unknown key, a wrong type, no text, or a file that can't be read.
    pub fn load(
        flags: &Flags,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        Self::load_below(default_data_dir(), flags, env)
    }

    /// [`Config::load`], with `home` as the data directory that nobody has to name.
    fn load_below(
        home: Option<PathBuf>,
        flags: &Flags,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let env = layers::environment(env)?;
        let named = flags.config.clone().or_else(|| env.config.clone());
        let mut defaults = Settings::defaults();
        defaults.put_path("data_dir", home.as_deref());
        let flags = flags.layer()?;
        let above = Figment::from(defaults.clone()).merge(env.layer.clone()).merge(flags.clone());

        let mut figment = Figment::from(defaults);
        if let Some(path) = named {
            figment = figment.merge(file_layer(path)?);
        } else if let Ok(data_dir) = above.extract_inner::<PathBuf>("data_dir")
            && data_dir.join(FILE_NAME).exists()
        {
            figment = figment.merge(file_layer(data_dir.join(FILE_NAME))?);
        }
        let figment = figment.merge(env.layer).merge(flags);
        if !figment.contains("data_dir") {
            return Err(home.map_or(SettingsError::NoHome, |home| SettingsError::NotText {
                place: "the default data directory".to_owned(),
                value: home.into(),
            }));
        }
        let found: figment::value::Dict = figment.extract()?;
        let known: Vec<String> = Settings::keys().collect();
        if let Some(key) = found.keys().find(|key| !known.contains(key)) {
            let place = figment.find_metadata(key).map(place).unwrap_or_default();
            return Err(SettingsError::Unknown { key: key.clone(), place, advice: advice(key, &known) });
        }
        let settings = figment.extract()?;
        let source = |key: &String| {
            figment.find_metadata(key).map_or(SettingSource::Default, |m| SettingSource::of(m, key))
        };
        let sources = known.iter().map(|key| (key.clone(), source(key))).collect();
        Ok(Self { settings, sources })
    }
}

/// Where a node's data lies if nobody says where; `None` for a user without a home directory.
fn default_data_dir() -> Option<PathBuf> {
    Some(dirs::data_local_dir()?.join(NAME))
}

fn file_layer(path: PathBuf) -> Result<impl Provider, SettingsError> {
    let fail = |what: String| SettingsError::File { path: path.clone(), what };
    let length = std::fs::metadata(&path).map_err(|e| fail(e.to_string()))?.len();
    if length > MAX_FILE_BYTES {
        return Err(fail(format!("{length} bytes are more than the {MAX_FILE_BYTES} that settings have")));
    }
    Ok(Toml::file_exact(path))
}

fn place(metadata: &Metadata) -> String {
    match &metadata.source {
        Some(source) => source.to_string(),
        None => metadata.name.to_string(),
    }
}

fn advice(key: &str, known: &[String]) -> String {
    // Jaro-Winkler: 1 is equal. Below this, a suggestion would confuse more than it helps.
    const SIMILAR: f64 = 0.8;
    let likeness = |name: &String| strsim::jaro_winkler(key, name);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) >= SIMILAR) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("there are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests;
