//! The layers that settings come in.

use std::path::PathBuf;

use clap::Args;
use echo_policy::engine::DeviceChoice;
use echo_policy::precision::Precision;
use echo_protocol::rate::BytesPerSec;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use serde::Serialize;

use super::{ConfigError, ENV_PREFIX, Role};

/// Names and values from one place. Values that are absent leave the layer below as it is.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    name: &'static str,
    pub(super) values: Dict,
}

impl Layer {
    /// Settings whose default is that there is none; a layer never lists what is absent.
    pub(super) const NULLABLE: [&str; 6] =
        ["peers", "list_key", "run", "precision", "max_upload", "max_download"];

    /// The fields of `values` that are not absent.
    pub(super) fn of(name: &'static str, values: &impl Serialize) -> Self {
        let value = Value::serialize(values).ok().and_then(Value::into_dict).unwrap_or_default();
        let present = value.into_iter().filter(|(_, v)| !matches!(v, Value::Empty(..)));
        Self { name, values: present.collect() }
    }
}

impl Provider for Layer {
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
    /// Signed peer list, from the run's keeper
    #[arg(long, global = true, value_name = "FILE")]
    pub peers: Option<PathBuf>,
    /// Key of the list's keeper, 64 hex digits [default: the first keeper seen is trusted from then on]
    #[arg(long, global = true, value_name = "KEY")]
    pub list_key: Option<String>,
    /// Run to join, by name or by its learner's key; needed only if the list has several
    #[arg(long, global = true, value_name = "RUN")]
    pub run: Option<String>,
    /// Address to listen on, may be repeated; port 0 lets the system choose, a port that your router forwards lets others connect
    #[arg(long, global = true, value_name = "MULTIADDR")]
    pub listen: Option<Vec<String>>,
    /// Processor threads for generating [default: half of the cores]
    #[arg(long, global = true, value_name = "N")]
    pub threads: Option<usize>,
    /// What to generate on: auto, cpu, cuda, cuda:NUMBER, wgpu, wgpu:NUMBER, wgpu:NAME; `echo-node hardware` lists what there is [default: auto]
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Numbers to generate in, of those that the run takes: f32, bf16, int8, int4 [default: the first that the run's charter lists]
    #[arg(long, global = true, value_name = "NAME")]
    pub precision: Option<Precision>,
    /// Most orders leased to this node at once: more keeps a fast node busy, fewer keeps its rollouts fresh [default: 8]
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
    /// Log level or filter: error, warn, info, debug, trace, or per part [default: warn,libp2p_gossipsub::behaviour=error,echo_node=info,echo_protocol=info]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log: Option<String>,
    /// Seconds between two status lines [default: 5]
    #[arg(long, global = true, value_name = "SECONDS")]
    pub status_every_s: Option<u64>,
}

impl Flags {
    pub(super) fn layer(&self) -> Layer {
        Layer::of("flag", self)
    }
}

/// What the environment says.
pub(super) struct Environment {
    pub(super) config: Option<PathBuf>,
    pub(super) layer: Layer,
}

/// Picks the variables with our prefix. Texts stay texts even where they look like numbers; a list is split at commas.
pub(super) fn environment(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Environment, ConfigError> {
    let (mut config, mut values) = (None, Dict::new());
    for (name, text) in variables {
        let Some(key) = name.strip_prefix(ENV_PREFIX).map(str::to_ascii_lowercase) else { continue };
        let value = match key.as_str() {
            "config" => {
                config = Some(PathBuf::from(text));
                continue;
            }
            "threads" | "max_orders" | "status_every_s" => {
                let number = text.trim().parse::<u64>();
                Value::from(number.map_err(|_| ConfigError::Number { variable: name, text })?)
            }
            "listen" | "roles" => {
                Value::from(text.split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>())
            }
            _ => Value::from(text),
        };
        values.insert(key, value);
    }
    Ok(Environment { config, layer: Layer { name: "environment", values } })
}
