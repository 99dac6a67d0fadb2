//! What the tests need of a machine beyond Rust, and how it gets there.

mod nvrtc;

use crate::harness::processes::{Process, ProcessOutput, runs, succeeds};
use crate::output::console::Console;
use anyhow::{Context as _, bail};
use echo_policy::generation::wgpu::adapters;
use std::env;
use std::process::Command;
use std::time::Duration;

/// Installing through apt ends within this time.
const INSTALL_LIMIT: Duration = Duration::from_secs(900);

/// Something that has to be on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// Its name for people, such as `Go (go)`.
    pub name: &'static str,
    /// What goes wrong without it.
    pub why: &'static str,
    /// Without it, do the tests still run (and skip what needs it)?
    pub optional: bool,
    /// The packages that bring it on Debian and Ubuntu.
    pub apt: &'static [&'static str],
    /// Whether it is there.
    pub probe: fn() -> bool,
}

/// Everything that the tests need.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "a C compiler (cc)",
        why: "some dependencies build C code",
        optional: false,
        apt: &["gcc", "libc6-dev"],
        probe: has_c_compiler,
    },
    Requirement {
        name: "Python 3 (python3)",
        why: "tests of the sandbox run programs of this language",
        optional: false,
        apt: &["python3"],
        probe: || has_language("python3"),
    },
    Requirement {
        name: "a C++ compiler (g++)",
        why: "tests of the sandbox compile and run programs of this language, and one of the CUDA backend its kernels",
        optional: false,
        apt: &["g++"],
        probe: || has_language("g++"),
    },
    Requirement {
        name: "Go (go)",
        why: "tests of the sandbox compile and run programs of this language",
        optional: false,
        apt: &["golang-go"],
        probe: || has_language("go"),
    },
    Requirement {
        name: "pip (python3 -m pip)",
        why: "it fetches NVIDIA's compiler, with which tests compile kernels for GPUs",
        optional: true,
        apt: &["python3-pip"],
        probe: || {
            !cfg!(target_os = "linux") || succeeds(Command::new("python3").args(["-m", "pip", "--version"]))
        },
    },
    Requirement {
        name: "a Vulkan adapter",
        why: "tests of the wgpu backend compute on one; Mesa's, in software, will do",
        optional: true,
        apt: &["mesa-vulkan-drivers", "libvulkan1"],
        probe: || !cfg!(target_os = "linux") || !adapters().is_empty(),
    },
    Requirement {
        name: "ip, tc and nft",
        why: "as root, tests of broadcasts put nodes behind real links",
        optional: true,
        apt: &["iproute2", "nftables"],
        probe: has_network_tools,
    },
];

/// What is to be done about what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// Run these commands, one after the other.
    Install(Vec<Vec<&'static str>>),
    /// Ask the user to run this line.
    Ask(String),
}

/// Checks the machine, and installs what is missing if that is allowed: as root, where apt is.
///
/// # Errors
/// When something is missing that the tests cannot do without; the text holds the command that brings it.
pub async fn prepare(console: &Console) -> anyhow::Result<()> {
    let missing: Vec<_> = REQUIREMENTS.iter().filter(|requirement| !(requirement.probe)()).collect();
    for Requirement { name, why, .. } in &missing {
        console.say(format!("missing: {name}: {why}"));
    }
    match plan(&missing, is_root(), runs("apt-get")) {
        Plan::Nothing => {}
        Plan::Install(commands) => {
            for words in commands {
                console.say(format!("running: {}", words.join(" ")));
                install(&words).await?;
            }
        }
        Plan::Ask(line) if missing.iter().all(|requirement| requirement.optional) => {
            console.say(format!("tests that need it are skipped; to have them run: {line}"));
        }
        Plan::Ask(line) => bail!("the tests need what is missing; install it with: {line}"),
    }
    if let Some(lost) = missing.iter().find(|requirement| !requirement.optional && !(requirement.probe)()) {
        bail!("{} is still missing after the installation: {}", lost.name, lost.why);
    }
    nvrtc::fetch(console).await;
    Ok(())
}

fn plan(missing: &[&Requirement], root: bool, apt: bool) -> Plan {
    let packages: Vec<&'static str> =
        missing.iter().flat_map(|requirement| requirement.apt).copied().collect();
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let install = [&["apt-get", "install", "-y", "--no-install-recommends"], packages.as_slice()].concat();
    if !apt {
        let names: Vec<_> = missing.iter().map(|requirement| requirement.name).collect();
        let names = names.join(", ");
        return Plan::Ask(if cfg!(target_os = "macos") {
            format!("xcode-select --install   (for {names})")
        } else {
            format!("your package manager: {names} (on Debian or Ubuntu: {})", packages.join(" "))
        });
    }
    if root {
        // A fresh machine knows no packages before the first update.
        return Plan::Install(vec![vec!["apt-get", "update"], install]);
    }
    Plan::Ask(format!("sudo apt-get update && sudo {}", install.join(" ")))
}

async fn install(words: &[&'static str]) -> anyhow::Result<()> {
    let (program, rest) = words.split_first().context("an installation has a command")?;
    let mut command = Command::new(program);
    command.args(rest).env("DEBIAN_FRONTEND", "noninteractive");
    let status = Process::start(program, command, ProcessOutput::Inherit)?.wait(INSTALL_LIMIT).await?;
    if !status.success() {
        bail!("`{}` failed ({status}); run it by hand to see why", words.join(" "));
    }
    Ok(())
}

fn has_c_compiler() -> bool {
    // On Windows it is found through the registry, and this very program was built with it.
    cfg!(windows) || runs(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Elsewhere than on Linux there is no sandbox, and nothing to run in it.
fn has_language(tool: &str) -> bool {
    // Go does not know `--version`.
    !cfg!(target_os = "linux")
        || succeeds(Command::new(tool).arg(if tool == "go" { "version" } else { "--version" }))
}

/// Elsewhere than on Linux, and without root, there is no use for them.
fn has_network_tools() -> bool {
    !cfg!(target_os = "linux") || !is_root() || crate::harness::netns::obstacle(true).is_none()
}

fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Requirement =
        Requirement { name: "x", why: "y", optional: false, apt: &["x1", "x2"], probe: || false };

    #[test]
    fn installs_only_where_it_may_and_else_says_how() {
        assert_eq!(plan(&[], true, true), Plan::Nothing);
        let Plan::Install(commands) = plan(&[&ABSENT], true, true) else { panic!("not installed") };
        assert!(commands.last().unwrap().ends_with(&["x1", "x2"]));
        assert_eq!(
            plan(&[&ABSENT], false, true),
            Plan::Ask("sudo apt-get update && sudo apt-get install -y --no-install-recommends x1 x2".into())
        );
        assert!(matches!(plan(&[&ABSENT], true, false), Plan::Ask(_)));
    }

    #[test]
    fn probes_tell_what_is_there() {
        assert!(has_c_compiler(), "this test was built with one");
        assert!(!runs("no-such-program-anywhere"));
    }
}
