//! `[watch]`

use crate::common::option_error::OptionError;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// `[watch]`: where the run's metrics can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchSection {
    /// Where Prometheus finds `GET /metrics`, as in `"127.0.0.1:9464"`; left out, nothing listens.
    pub listen: Option<SocketAddr>,
    /// Whether event files for TensorBoard are written, in `tensorboard/` of the run directory.
    pub tensorboard: bool,
    /// FLOP/s that the learner's machine can do at most, at the precision that it trains in; left
    /// out, there is no MFU.
    pub peak_flops: Option<f64>,
    /// Whether the run's first policy scores every batch, for `kl_reference`, where the objective
    /// does not ask for it: a forward pass more an update, and memory for the weights once more.
    pub reference: bool,
    /// Groups of an update that `samples.jsonl` and TensorBoard show; of an evaluation, twice as many
    /// answers. 0: none.
    pub samples: u32,
    /// Every how many updates samples are taken; 0: never.
    pub samples_every: u64,
}

/// Most groups of an update that are shown. A group is up to 16 responses of up to 32 KiB.
const MAX_SAMPLES: u32 = 64;

impl Default for WatchSection {
    fn default() -> Self {
        Self {
            listen: None,
            tensorboard: true,
            peak_flops: None,
            reference: false,
            samples: 2,
            samples_every: 1,
        }
    }
}

impl WatchSection {
    pub(crate) fn validate(&self) -> Result<(), OptionError> {
        if self.samples > MAX_SAMPLES {
            let (field, found) = ("watch.samples", u64::from(self.samples));
            return Err(OptionError::Number { field, found, rule: "at most 64; 0 shows none" });
        }
        match self.peak_flops {
            Some(peak) if !(peak.is_finite() && peak > 0.0) => {
                let (field, found) = ("watch.peak_flops", peak.to_string());
                Err(OptionError::Setting { field, found, rule: "above 0, such as 9.9e14" })
            }
            _ => Ok(()),
        }
    }
}
