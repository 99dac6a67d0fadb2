//! Playing a scenario.

use super::scenario::{Damage, Scenario, ScenarioStep};
use super::verdict::{self, ScenarioVerdict};
use crate::harness::binaries::Binaries;
use crate::harness::directory;
use crate::harness::network::{LearnerConfig, NetworkConfig, NetworkLayout, TestNetwork, TestNodeConfig};
use crate::harness::observation;
use crate::harness::processes::{Process, ProcessOutput};
use anyhow::{Context as _, bail, ensure};
use echo_protocol::program::atomic_file;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The first updates are made within this time, on a machine that plays several scenarios.
const START_LIMIT: Duration = Duration::from_secs(90);
/// What a step waits for comes within this time.
const STEP_LIMIT: Duration = Duration::from_secs(60);
/// Whoever is stopped ends within this time.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// A command ends within this time.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Fails where a command does not: what is only negated ends no shell.
const NOT: &str = r#"not() { if "$@"; then echo "not expected: $*" >&2; exit 1; fi; }"#;
/// Updates that every network makes before its trouble.
const UPDATES_BEFORE: u64 = 5;

/// Plays a scenario to its end. Everything that was started is gone when this returns.
pub(super) async fn play(scenario: &Scenario, binaries: Binaries, dir: &Path) -> ScenarioVerdict {
    let mut verdict = ScenarioVerdict::default();
    if let Err(error) = perform(scenario, binaries, dir, &mut verdict).await {
        verdict.failure = Some(format!("{error:#}"));
    }
    verdict
}

async fn perform(
    scenario: &Scenario,
    binaries: Binaries,
    dir: &Path,
    verdict: &mut ScenarioVerdict,
) -> anyhow::Result<()> {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir)?;
    let mut stage = TroubledNetwork::open(scenario, binaries, dir).await?;
    stage.begin().await?;
    for (number, step) in scenario.steps.iter().enumerate() {
        let name = || format!("step {} ({step:?})", number + 1);
        stage.step(step).await.with_context(name)?;
    }
    let after = Instant::now();
    let bound = Duration::from_secs(scenario.bound_s);
    stage.updates(scenario.updates_after, bound).await.context("after the trouble")?;
    verdict.back_after_s = Some(after.elapsed().as_secs_f64());
    verdict::close(&mut stage.network, verdict).await
}

/// A network in trouble.
pub(super) struct TroubledNetwork {
    pub(super) network: TestNetwork,
    /// How long the log of each process was when it was last started.
    started: BTreeMap<String, u64>,
    binaries: Binaries,
    dir: PathBuf,
}

impl TroubledNetwork {
    pub(super) async fn open(scenario: &Scenario, binaries: Binaries, dir: &Path) -> anyhow::Result<Self> {
        let mut nodes = TestNodeConfig::several(scenario.nodes + scenario.later);
        for node in &mut nodes {
            node.arguments.clone_from(&scenario.node_arguments);
            let clock = clock_file(dir, &node.name);
            node.environment.insert("ECHO_TEST_CLOCK".into(), clock.display().to_string());
        }
        let clock = clock_file(dir, "learner").display().to_string();
        let environment = [("ECHO_TEST_CLOCK".to_owned(), clock)].into();
        let config = NetworkConfig {
            binaries: binaries.clone(),
            dir: dir.to_owned(),
            network: "echo-trouble".into(),
            run: "trouble".into(),
            learner: LearnerConfig { settings: scenario.run_file(dir)?, environment },
            nodes: Vec::new(),
        };
        let mut network = TestNetwork::start(config).await?;
        for (number, node) in nodes.into_iter().enumerate() {
            let index = network.announce_node(node);
            if number < scenario.nodes {
                network.start_node(index)?;
            }
        }
        Ok(Self { network, started: BTreeMap::new(), binaries, dir: dir.to_owned() })
    }

    /// Waits until training is under way.
    pub(super) async fn begin(&mut self) -> anyhow::Result<()> {
        self.updates(UPDATES_BEFORE, START_LIMIT).await.context("before the trouble")
    }

    pub(super) fn layout(&self) -> &NetworkLayout {
        self.network.layout()
    }

    pub(super) async fn step(&mut self, step: &ScenarioStep) -> anyhow::Result<()> {
        match step {
            ScenarioStep::Updates(count) => self.updates(*count, STEP_LIMIT).await,
            ScenarioStep::Pause(seconds) => {
                tokio::time::sleep(Duration::from_secs_f64(*seconds)).await;
                Ok(())
            }
            ScenarioStep::Start(who) => {
                self.started.insert(who.clone(), observation::log_bytes(self.layout(), who));
                self.network.start_again(who).await
            }
            ScenarioStep::Kill(who) => self.network.kill(who).await,
            ScenarioStep::Stop(who) => self.stop(who).await,
            ScenarioStep::Freeze(who) => self.network.freeze(who, true),
            ScenarioStep::Thaw(who) => self.network.freeze(who, false),
            ScenarioStep::Ends { who, code } => {
                let status = self.network.ended(who, STEP_LIMIT).await?;
                ensure!(status.code() == Some(*code), "{who} ended with {status}, not {code}");
                Ok(())
            }
            ScenarioStep::Before { who, shell } => {
                let shell = (!shell.is_empty()).then(|| self.filled(shell));
                self.network.start_of(who).shell = shell;
                Ok(())
            }
            ScenarioStep::Version { who, name, becomes } => {
                self.network.start_of(who).program = self.patched(who, name, becomes)?;
                Ok(())
            }
            ScenarioStep::Shell(text) => self.shell(text).await,
            ScenarioStep::Clock { who, shift_s } => {
                // Nobody reads half a number.
                let text = (shift_s * 1_000).to_string();
                Ok(atomic_file::replace(&clock_file(&self.dir, who), text.as_bytes(), false)?)
            }
            ScenarioStep::Says { who, text } => self.says(who, text).await,
            ScenarioStep::NeverSays { who, text } => {
                let log = observation::log(self.layout(), who);
                let found = log.lines().find(|line| line.contains(text.as_str()));
                ensure!(found.is_none(), "{who} said: {}", found.unwrap_or_default());
                Ok(())
            }
            ScenarioStep::Quiet { who, seconds, bytes } => {
                let before = observation::log_bytes(self.layout(), who);
                tokio::time::sleep(Duration::from_secs_f64(*seconds)).await;
                let grown = observation::log_bytes(self.layout(), who).saturating_sub(before);
                ensure!(grown <= *bytes, "the log of {who} grew by {grown} bytes in {seconds} s");
                Ok(())
            }
            ScenarioStep::Copy { from, to } => copy(&last(&self.dir.join(from))?, &last(&self.dir.join(to))?),
            ScenarioStep::Remove(path) => remove(&last(&self.dir.join(path))?),
            ScenarioStep::Damage { file, how } => damage(&last(&self.dir.join(file))?, *how),
            ScenarioStep::Command { program, arguments, code, says } => {
                self.command(program, arguments, *code, says).await
            }
        }
    }

    /// Waits for further updates, counted from the first that is seen to come: a learner that was put back
    /// begins at an older one, and a file that was lost at none.
    pub(super) async fn updates(&mut self, count: u64, limit: Duration) -> anyhow::Result<()> {
        let (begun, mut before, mut from) = (Instant::now(), observation::updates(self.layout()), None);
        loop {
            let now = observation::updates(self.layout());
            if now != before && now > 0 {
                before = now;
                from = Some(now.min(from.unwrap_or(now)));
            }
            let made = from.map_or(0, |from| now.saturating_sub(from));
            if made >= count {
                return Ok(());
            }
            self.network.check()?;
            if begun.elapsed() > limit {
                bail!("{made} of {count} updates within {} s", limit.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn stop(&mut self, who: &str) -> anyhow::Result<()> {
        let status = self.network.stop_process(who, STOP_LIMIT).await?;
        ensure!(status.success(), "{who} ended with {status}");
        Ok(())
    }

    async fn says(&mut self, who: &str, text: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        let since = self.started.get(who).copied().unwrap_or_default();
        while !observation::log_since(self.layout(), who, since).contains(text) {
            ensure!(begun.elapsed() < STEP_LIMIT, "{who} does not say {text:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Has a shell do something in the network's directory.
    async fn shell(&self, text: &str) -> anyhow::Result<()> {
        let log = self.layout().log("shell");
        let mut command = Command::new("sh");
        command.arg("-ec").arg(format!("{NOT}\n{}", self.filled(text))).current_dir(&self.dir);
        let mut process = Process::start("sh", command, ProcessOutput::Log(log))?;
        let status = process.wait(COMMAND_LIMIT).await?;
        ensure!(status.success(), "the shell ended with {status}: {}", process.log_tail());
        Ok(())
    }

    /// A copy of somebody's program that has `becomes` in the place of `name`; none where they are the same.
    fn patched(&self, who: &str, name: &str, becomes: &str) -> anyhow::Result<Option<PathBuf>> {
        if name == becomes {
            return Ok(None);
        }
        ensure!(name.len() == becomes.len(), "{becomes} is not as long as {name}");
        let program = match who {
            "learner" => &self.binaries.learner,
            "bootstrap" => &self.binaries.bootstrap,
            _ => &self.binaries.node,
        };
        let mut bytes = fs::read(program)?;
        let found: Vec<usize> = memchr::memmem::find_iter(&bytes, name).collect();
        ensure!(!found.is_empty(), "{} does not say {name}", program.display());
        found.iter().for_each(|at| bytes[*at..at + name.len()].copy_from_slice(becomes.as_bytes()));
        let path = self.dir.join(format!("{who}.program"));
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::metadata(program)?.permissions())?;
        Ok(Some(path))
    }

    /// What stands for places is replaced by the places.
    fn filled(&self, text: &str) -> String {
        let layout = self.layout();
        let places = [
            ("{learner}", layout.run_dir()),
            ("{bootstrap}", layout.bootstrap_dir()),
            ("{node-1}", layout.node_dir("node-1")),
            ("{node-2}", layout.node_dir("node-2")),
            ("{list}", layout.list()),
            ("{run_file}", layout.run_config()),
            ("{dir}", self.dir.clone()),
            ("{echo-node}", self.binaries.node.clone()),
            ("{echo-learner}", self.binaries.learner.clone()),
            ("{echo-bootstrap}", self.binaries.bootstrap.clone()),
        ];
        let fill =
            |text: String, (name, path): &(&str, PathBuf)| text.replace(name, &path.display().to_string());
        places.iter().fold(text.to_owned(), fill)
    }

    async fn command(
        &self,
        program: &str,
        arguments: &[String],
        code: i32,
        says: &str,
    ) -> anyhow::Result<()> {
        let path = match program {
            "echo-node" => &self.binaries.node,
            "echo-learner" => &self.binaries.learner,
            "echo-bootstrap" => &self.binaries.bootstrap,
            other => bail!("{other} is no program of Echo"),
        };
        let mut command = Command::new(path);
        command.args(arguments.iter().map(|argument| self.filled(argument)));
        let layout = self.layout();
        let log = layout.log("command");
        let _ = fs::remove_file(&log);
        let mut process = Process::start(program, command, ProcessOutput::Log(log))?;
        let status = process.wait(COMMAND_LIMIT).await?;
        let said = observation::log(layout, "command");
        ensure!(status.code() == Some(code), "{program} ended with {status}, not {code}: {said}");
        ensure!(said.contains(says), "{program} does not say {says:?}: {said}");
        Ok(())
    }
}

impl Drop for TroubledNetwork {
    /// Scenarios may have put disks into the network's directory.
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| Path::new(place).starts_with(&self.dir)) {
            let _ = Command::new("umount").arg("--lazy").arg(place).status();
        }
    }
}

/// The path with the last name that is there in the place of `*`.
fn last(path: &Path) -> anyhow::Result<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() != "*" {
            found.push(part);
            continue;
        }
        let entries = fs::read_dir(&found).with_context(|| found.display().to_string())?;
        let names = entries.flatten().map(|entry| entry.path());
        found = names.max().with_context(|| format!("{} is empty", found.display()))?;
    }
    Ok(found)
}

/// Where the clock of a process is shifted.
fn clock_file(dir: &Path, who: &str) -> PathBuf {
    dir.join(format!("{who}.clock"))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    remove(to)?;
    match from.is_dir() {
        true => directory::copy(from, to),
        false => fs::copy(from, to).map(drop).with_context(|| from.display().to_string()),
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match (path.is_dir(), path.exists()) {
        (true, _) => fs::remove_dir_all(path).with_context(|| path.display().to_string()),
        (false, true) => fs::remove_file(path).with_context(|| path.display().to_string()),
        (false, false) => Ok(()),
    }
}

fn damage(path: &Path, how: Damage) -> anyhow::Result<()> {
    let mut bytes = fs::read(path).with_context(|| path.display().to_string())?;
    match how {
        Damage::Empty => bytes.clear(),
        Damage::Half => bytes.truncate(bytes.len() / 2),
        Damage::Zeros => bytes.fill(0),
        Damage::Garbled => bytes.iter_mut().step_by(3).for_each(|byte| *byte ^= 0x55),
    }
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_damaged_as_it_was_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (how, left) in [
            (Damage::Empty, vec![]),
            (Damage::Half, vec![1, 2]),
            (Damage::Zeros, vec![0; 4]),
            (Damage::Garbled, vec![1 ^ 0x55, 2, 3, 4 ^ 0x55]),
        ] {
            fs::write(&path, [1, 2, 3, 4]).unwrap();
            damage(&path, how).unwrap();
            assert_eq!(fs::read(&path).unwrap(), left, "{how:?}");
        }
        remove(&path).unwrap();
        assert!(!path.exists() && remove(&path).is_ok());
    }
}
