//! A whole network on this machine: the demo's task, with the learner on the card, and a node each
//! on CUDA, wgpu and the processor.

use super::{GpuStepOutcome, StepOptions};
use crate::demo::{self, Demo, DemoFaults, STALENESS_BUDGET};
use crate::harness::network::{TestNetwork, TestNodeConfig, section};
use crate::output::console::Console;
use anyhow::Context as _;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::summary::RunSummary;
use echo_policy::generation::device::DeviceChoice;
use serde_json::json;
use std::collections::BTreeMap;
use toml::Value;

/// Updates of the run; of a rehearsal, `SMALL`.
const FULL: u64 = 200;
const SMALL: u64 = 12;
/// Supervised updates of a rehearsal: it shows that everything runs, not that anything is learned.
const SMALL_WARM_UP: i64 = 20;
/// Least gain of accuracy over 200 updates, of held-out orders; the demo's own gain over 600 is 0.4.
const LEAST_GAIN: f64 = 0.15;

pub(super) async fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    let cuda = options.cuda()?;
    let wgpu = options.vulkan().ok().map(|found| found.choice());
    let wgpu = wgpu.filter(|_| !options.rehearse || options.software);
    let devices: Vec<DeviceChoice> =
        [cuda.choice()].into_iter().chain(wgpu).chain([DeviceChoice::Cpu]).collect();
    let updates = if options.rehearse { SMALL } else { FULL };
    let demo = Demo {
        nodes: devices.len(),
        updates,
        dir: options.dir.join("network"),
        faults: DemoFaults::default(),
        build: false,
    };
    let mut config = demo::network(&demo)?;
    let settings = &mut config.learner.settings;
    section(settings, "train")?.insert("device".into(), if options.rehearse { "cpu" } else { "cuda" }.into());
    if options.rehearse {
        let warm_up = section(settings, "warmup")?;
        warm_up.insert("updates".into(), Value::Integer(SMALL_WARM_UP));
        warm_up.remove("until_accuracy");
        section(settings, "evaluation")?.insert("orders".into(), Value::Integer(64));
    }
    config.nodes = devices.iter().zip(1..).map(|(device, number)| node(device, number)).collect();
    let network = TestNetwork::start(config).await?;
    let layout = network.layout().clone();
    let driven = demo::drive(&demo, network, &Console::new(true)).await;
    // Also when somebody did not end as they should: what was learned by then is there.
    outcome.part("the network", driven.map(drop));
    let path = RunDir::new(&layout.run_dir()).summary();
    let text = std::fs::read(&path).context("the learner has not come to its end")?;
    let summary: RunSummary = serde_json::from_slice(&text)?;

    let groups: BTreeMap<String, _> = (devices.iter().zip(1..))
        .map(|(device, number)| {
            let status = layout.node_status(&name(device, number)).unwrap_or_default();
            let figures = json!({
                "accepted": status["accepted"], "refused": status["refused"],
                "device": status["device"], "lost_devices": status["lost_devices"],
            });
            (name(device, number), figures)
        })
        .collect();
    outcome.figure("nodes", &groups);
    outcome.figure("summary", &summary);
    outcome.claim(&format!("{updates} updates"), summary.updates == updates);
    outcome.claim("nothing older than S is trained on", summary.max_staleness <= STALENESS_BUDGET);
    let kept = groups.values().all(|figures| figures["lost_devices"] == json!([]));
    outcome.claim("no node loses its device", kept);
    let all = groups.values().all(|figures| figures["accepted"].as_u64() > Some(0));
    outcome.claim("groups of every device pass the audit", all);
    let honest = ["stale", "lease", "duplicate"];
    let rejected = summary.trajectories_rejected.keys().filter(|reason| !honest.contains(&reason.as_str()));
    outcome.claim("no group is refused but for coming late", rejected.count() == 0);
    if !options.rehearse {
        let gain = summary.accuracy_after.zip(summary.accuracy_before).map(|(after, before)| after - before);
        let rises = gain.is_some_and(|gain| gain >= LEAST_GAIN);
        outcome.claim(&format!("held-out accuracy rises by {LEAST_GAIN} and more"), rises);
    }
    Ok(())
}

fn name(device: &DeviceChoice, number: usize) -> String {
    let kind = device.to_string();
    format!("node-{number}-{}", kind.split(':').next().unwrap_or_default())
}

fn node(device: &DeviceChoice, number: usize) -> TestNodeConfig {
    TestNodeConfig {
        name: name(device, number),
        threads: 1,
        device: device.clone(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
    }
}
