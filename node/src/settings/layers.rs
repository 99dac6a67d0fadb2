//! The layers that settings come in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use echo_policy::generation::DeviceChoice;
use echo_policy::model::precision::Precision;
use echo_protocol::wire::price::Price;
use echo_protocol::wire::rate::BytesPerSec;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use serde::Serialize;

use super::{ENV_PREFIX, Hours, OnBattery, Role, SettingSource, SettingsError, Size};

/// Names and values from one place. Values that are absent leave the layer below as it is.
#[derive(Clone, Debug)]
pub(super) struct SettingsLayer {
    name: &'static str,
    pub(super) values: Dict,
}

impl SettingsLayer {
    /// Settings whose default is that there is none; a layer never lists what is absent.
    pub(super) const NULLABLE: [&str; 10] = [
        "peers",
        "list_key",
        "run",
        "precision",
        "max_upload",
        "max_download",
        "hours",
        "max_disk",
        "label",
        "price",
    ];

    /// The fields of `values` that are not absent. Their paths are text.
    pub(super) fn of(name: &'static str, values: &impl Serialize) -> Self {
        let value = Value::serialize(values).expect("settings are text and numbers");
        let value = value.into_dict().expect("settings have names");
        let present = value.into_iter().filter(|(_, v)| !matches!(v, Value::Empty(..)));
        Self { name, values: present.collect() }
    }

    /// Sets `key` to `path`, or to nothing where that is absent or no text.
    pub(super) fn put_path(&mut self, key: &str, path: Option<&Path>) {
        match path.and_then(Path::to_str) {
            Some(text) => self.values.insert(key.to_owned(), Value::from(text)),
            None => self.values.remove(key),
        };
    }
}

impl Provider for SettingsLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// Settings given as flags; each wins over every other place.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[command(next_help_heading = "Settings, of `run` most of them")]
pub struct Flags {
    /// Settings file (TOML) [default: node.toml in the data directory, if there]
    #[arg(long, global = true, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Where the node keeps its identity, chunks and outbox; each node needs its own
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Signed peer list, from the run's keeper [default: the one that was used here last]
    #[arg(long, global = true, value_name = "FILE")]
    pub peers: Option<PathBuf>,
    /// Key of the list's keeper, 64 hex digits [default: the first keeper seen is trusted from then on]
    #[arg(long, global = true, value_name = "KEY")]
    pub list_key: Option<String>,
    /// Run to join, by name or by its learner's key; needed only if the list has several
    #[arg(long, global = true, value_name = "RUN")]
    pub run: Option<String>,
    /// Address to listen on, may be repeated; port 0 lets the system choose, a port that your
    /// router forwards lets others connect
    #[arg(long, global = true, value_name = "MULTIADDR")]
    pub listen: Option<Vec<String>>,
    /// Processor threads for generating [default: half of the cores]
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// What to generate on: auto, cpu, cuda, cuda:NUMBER, wgpu, wgpu:NUMBER, wgpu:NAME;
    /// `echo-node hardware` lists what there is [default: auto]
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Numbers to generate in, of those that the run takes: f32, bf16, int8, int4
    /// [default: the first that the run's charter lists]
    #[arg(long, global = true, value_name = "NAME")]
    pub precision: Option<Precision>,
    /// Most orders leased to this node at once: more keeps a fast node busy, fewer keeps its
    /// rollouts fresh [default: 8]
    #[arg(long, global = true, value_name = "N")]
    pub max_orders: Option<u32>,
    /// What to do for the run, may be repeated [default: rollout and relay]
    #[arg(long = "role", global = true, value_name = "ROLE")]
    pub roles: Option<Vec<Role>>,
    /// Most to send, over everything: 40mbit, 5MB/s [default: no limit]
    #[arg(long, global = true, value_name = "RATE")]
    pub max_upload: Option<BytesPerSec>,
    /// Most to receive, over everything: 100mbit, 12MB/s [default: no limit]
    #[arg(long, global = true, value_name = "RATE")]
    pub max_download: Option<BytesPerSec>,
    /// Hours of the day, in local time, in which to take work, such as 22:00-07:00 [default: all]
    #[arg(long, global = true, value_name = "HOURS")]
    pub hours: Option<Hours>,
    /// What to do on battery: pause or work [default: pause]
    #[arg(long, global = true, value_name = "WHAT", hide_possible_values = true)]
    pub on_battery: Option<OnBattery>,
    /// Most disk to take for a run, such as 20GB; a run that needs more is not joined [default: no limit]
    #[arg(long, global = true, value_name = "SIZE")]
    pub max_disk: Option<Size>,
    /// Name by which the operator knows what this node costs, such as that of a group of rented machines
    #[arg(long, global = true, value_name = "NAME")]
    pub label: Option<String>,
    /// What this node costs in dollars an hour, such as 0.35 [default: nothing]
    #[arg(long, global = true, value_name = "USD")]
    pub price: Option<Price>,
    /// Log level or filter: error, warn, info, debug, trace, or per part [default:
    /// warn,libp2p_kad::behaviour=error,libp2p_gossipsub::behaviour=error,echo_node=info,echo_protocol=info]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Seconds between two status lines [default: 5]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub status_every_s: Option<u64>,
}

impl Flags {
    /// # Errors
    /// [`SettingsError::NotText`] when a path is not UTF-8.
    pub(super) fn layer(&self) -> Result<SettingsLayer, SettingsError> {
        for (flag, path) in [("--data-dir", &self.data_dir), ("--peers", &self.peers)] {
            if let Some(path) = path.as_ref().filter(|path| path.to_str().is_none()) {
                let (place, value) = (SettingSource::Flag(flag.to_owned()).to_string(), path.clone().into());
                return Err(SettingsError::NotText { place, value });
            }
        }
        Ok(SettingsLayer::of("flag", self))
    }
}

/// What the environment says.
pub(super) struct Environment {
    pub(super) config: Option<PathBuf>,
    pub(super) layer: SettingsLayer,
}

/// Picks the variables with our prefix. Texts stay texts even where they look like numbers; a list
/// is split at commas.
///
/// # Errors
/// [`SettingsError::NotText`] for what is not UTF-8, [`SettingsError::Number`] for a wrong number.
pub(super) fn environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Environment, SettingsError> {
    let (mut config, mut values) = (None, Dict::new());
    for (name, value) in variables {
        // A name that is no text is not ours.
        let Some(name) = name.to_str() else { continue };
        let Some(key) = name.strip_prefix(ENV_PREFIX).map(str::to_ascii_lowercase) else { continue };
        if key == "config" {
            config = Some(PathBuf::from(value));
            continue;
        }
        let place = || SettingSource::Env(name.to_owned()).to_string();
        let not_text = |value| SettingsError::NotText { place: place(), value };
        let text = value.into_string().map_err(not_text)?;
        let value = match key.as_str() {
            "threads" | "max_orders" | "status_every_s" => {
                let number = text.trim().parse::<u64>();
                Value::from(number.map_err(|_| SettingsError::Number { variable: name.to_owned(), text })?)
            }
            "listen" | "roles" => {
                Value::from(text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>())
            }
            _ => Value::from(text),
        };
        values.insert(key, value);
    }
    Ok(Environment { config, layer: SettingsLayer { name: "environment", values } })
}
