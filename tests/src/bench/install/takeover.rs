//! A newer version is installed while responses are generated under the one before, and takes
//! over between two tokens.

use super::run_dirs::Home;
use crate::bench::memory::ProcessMemory;
use crate::models::random_weights;
use anyhow::ensure;
use echo_node::snapshots::install::Installed;
use echo_policy::generation::{
    AnyBackend, Generation, GenerationLimits, PolicyTakeover, SampleRequest, Ticket,
};
use echo_policy::sampling::SamplingParams;
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::wire::signed::Signed;
use serde::Serialize;
use std::fmt;
use std::thread;
use std::time::Instant;

/// Tokens of each response before the newer version comes, and after it has taken over.
const AROUND: usize = 8;

/// What is generated meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenerationLoad {
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// Responses to that prompt, generated together.
    pub(super) samples: usize,
}

/// What one installation took in time and memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Swap {
    /// From the manifest to the policy, with the generation beside it, in seconds.
    pub(super) install_s: f64,
    /// The longest time between two tokens of a response before, in seconds.
    pub(super) undisturbed_s: f64,
    /// The same while the newer version is installed.
    pub(super) beside_s: f64,
    /// The longest time between two tokens of a response from then on, until all go on under the newer one.
    pub(super) takeover_s: f64,
    /// Until then, in seconds.
    pub(super) settled_s: f64,
    /// Tokens that each response had by then.
    tokens: usize,
    /// The most memory that there was while it was installed and when it had taken over, beyond
    /// what there was before, in MB.
    pub(super) growth: ProcessMemory,
    /// The most memory that there was, in MB.
    pub(super) most: ProcessMemory,
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s; longest gaps {:.0} ms before, {:.0} ms meanwhile, {:.0} ms at the change with {} tokens each, over after {:.2} s; \
             {:+.0} MB at the most, {:+.0} MB of its own",
            self.install_s,
            self.undisturbed_s * 1e3,
            self.beside_s * 1e3,
            self.takeover_s * 1e3,
            self.tokens,
            self.settled_s,
            self.growth.resident,
            self.growth.own,
        )
    }
}

/// Replaces `installed` by the version that `newer` describes.
pub(super) fn swap(
    home: &Home,
    installed: Installed,
    newer: &Signed<Manifest>,
    takeover: PolicyTakeover,
    load: GenerationLoad,
) -> anyhow::Result<(Installed, Swap)> {
    let config = installed.policy.config().clone();
    // As long as there is room for: nobody comes to an end.
    let longest = config.max_position_embeddings - load.prompt;
    let request = SampleRequest {
        prompt: random_weights::tokens(0, load.prompt, config.vocab_size),
        seed: [7; 32],
        samples: load.samples as u32,
        stop_ids: Vec::new(),
        stop_strings: None,
        limits: Vec::new(),
        max_heard: 0,
        params: SamplingParams::unbiased(longest as u32),
    };
    // Nobody but the generation has the older version.
    let Installed { policy, weights, .. } = installed;
    drop(weights);
    let mut generation = Generation::new(policy, GenerationLimits::default(), takeover);
    generation.submit(Ticket(0), request)?;
    let mut clock = Clock { generation: &mut generation, samples: load.samples, last: None, drawn: 0 };
    // Filling the cache is no gap.
    clock.token()?;
    let undisturbed_s = clock.tokens(AROUND)?;
    let before = ProcessMemory::now()?;
    let (timed, most) = ProcessMemory::watch(|| {
        let (newer, beside_s, install_s) = thread::scope(|scope| {
            let installing = scope.spawn(|| {
                let since = Instant::now();
                home.install(newer).map(|installed| (installed, since.elapsed().as_secs_f64()))
            });
            let mut beside_s = 0.0f64;
            while !installing.is_finished() {
                beside_s = beside_s.max(clock.token()?);
            }
            let joined = installing.join().map_err(|_| anyhow::anyhow!("installing panicked"))?;
            let (newer, install_s) = joined?;
            anyhow::Ok((newer, beside_s, install_s))
        })?;
        let tokens = clock.drawn;
        // The older version has no other user and goes with the last response that draws from it.
        let since = Instant::now();
        clock.generation.install(newer.policy.clone())?;
        let mut takeover_s = clock.token()?;
        while clock.generation.lingering() > 0 {
            takeover_s = takeover_s.max(clock.token()?);
        }
        let settled_s = since.elapsed().as_secs_f64();
        ensure!(clock.generation.policy().version() == newer.policy.version(), "the newer version took over");
        clock.tokens(AROUND)?;
        anyhow::Ok((newer, install_s, beside_s, takeover_s, settled_s, tokens))
    })?;
    let (newer, install_s, beside_s, takeover_s, settled_s, tokens) = timed?;
    let growth = most.beyond(before);
    Ok((newer, Swap { install_s, undisturbed_s, beside_s, takeover_s, settled_s, tokens, growth, most }))
}

/// Steps a generation token by token, and times each.
struct Clock<'g> {
    generation: &'g mut Generation<AnyBackend>,
    samples: usize,
    /// When the last one was drawn.
    last: Option<Instant>,
    /// Tokens of each response.
    drawn: usize,
}

impl Clock<'_> {
    /// Goes on until every response has one token more, and says for how many seconds it had none.
    fn token(&mut self) -> anyhow::Result<f64> {
        self.drawn += 1;
        while self.generation.tally().drawn < (self.drawn * self.samples) as u64 {
            ensure!(!self.generation.step()?, "the model has too few positions for responses of that length");
        }
        let now = Instant::now();
        let last = self.last.replace(now);
        Ok(last.map_or(0.0, |last| now.duration_since(last).as_secs_f64()))
    }

    /// The longest gap before one of the next `count` tokens.
    fn tokens(&mut self, count: usize) -> anyhow::Result<f64> {
        (0..count).try_fold(0.0f64, |longest, _| Ok(longest.max(self.token()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_policy::generation::Backend as _;
    use echo_policy::model::config::{ModelConfig, TinySizes};
    use echo_policy::model::precision::Precision;
    use echo_policy::model::weights::{DType, Weights};

    #[test]
    fn a_newer_version_takes_over_in_the_midst_and_every_gap_is_told() {
        let sizes = TinySizes {
            vocab: 64,
            hidden: 32,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            head_dim: 16,
            intermediate: 96,
            positions: 1 << 15,
        };
        let model = ModelConfig::tiny_qwen3(sizes).unwrap();
        for precision in [Precision::F32, Precision::Bf16] {
            let dir = tempfile::tempdir().unwrap();
            let home = Home::found(dir.path(), &model, precision, 1, 1).unwrap();
            let first = home.publish(1, &Weights::random(&model, 1).to_dtype(DType::BF16)).unwrap();
            let second = home.publish_again(&first, 2).unwrap();
            let load = GenerationLoad { prompt: 4, samples: 2 };
            for takeover in [PolicyTakeover::Keep, PolicyTakeover::Recompute] {
                let installed = home.install(&first).unwrap();
                assert_eq!(installed.policy.backend().precision(), precision);
                let (newer, swap) = swap(&home, installed, &second, takeover, load).unwrap();
                assert_eq!(newer.policy.version(), 2);
                assert!(swap.tokens > AROUND && swap.undisturbed_s > 0.0 && swap.takeover_s > 0.0, "{swap}");
                assert!(swap.settled_s > 0.0, "{swap}");
                assert!(swap.most.own > 0.0 && swap.most.resident > swap.most.own, "{swap}");
            }
        }
    }
}
