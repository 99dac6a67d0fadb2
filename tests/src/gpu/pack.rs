//! `cargo lab gpu pack`: release programs with CUDA, and what they need, in one archive.
//!
//! The programs start on machines without CUDA too: its libraries are called through
//! stand-ins that look for them at the first call ([`deferred`]). That is checked before
//! anything is packed ([`programs`]).

mod archive;
mod deferred;
mod programs;
mod toolkit;

use super::kit::{ABOUT, CHECK, Kit, MODELS, reference_data};
use crate::harness::cargo;
use crate::harness::cargo::{BUILD_LIMIT, workspace_root};
use crate::harness::processes::{Process, ProcessOutput};
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolkit::Toolkit;

/// Most bytes of the archive: what is handed to a lent machine with the first call.
const MOST_BYTES: u64 = 40 << 20;
/// Where the kit is built, beside everything else.
const TARGET: &str = "target/gpu-kit";
/// The programs, as they are built and as they are packed.
const PROGRAMS: [(&str, &str); 4] = [
    ("echo-lab", CHECK),
    ("echo-node", "echo-node"),
    ("echo-learner", "echo-learner"),
    ("echo-bootstrap", "echo-bootstrap"),
];

/// What is never packed, and why.
const LEFT_OUT: [&str; 3] = [
    "cuBLAS, cuRAND: looked for on the target, in the system or an installed PyTorch",
    "weights: made from a seed on the target",
    "objectives, tokenizers, tasks: they run on the processor alone, and cargo lab vectors compares them",
];

/// Where the kit is written, and for which cards.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The archive that is written, a tar compressed by zstd.
    pub out: PathBuf,
    /// The compute capability that the learner's kernels are built for: 90 is an H100's.
    pub capability: u32,
}

/// Builds the programs with CUDA, checks that they start elsewhere, and packs them.
///
/// # Errors
/// When there is no compiler and none can be fetched, the build fails, a program would not start
/// elsewhere, or the archive cannot be written.
pub async fn run(pack: &Pack, console: &Console) -> anyhow::Result<CommandReport> {
    let target = workspace_root().join(TARGET);
    let toolkit = Toolkit::find_or_fetch(console).await?;
    console.say(format!("CUDA {} in {}", toolkit.release, toolkit.home.display()));
    let link = target.join("link");
    if deferred::make(&toolkit, &link).context("cannot make the stand-ins for CUDA's libraries")? {
        unlink(&target.join("release"))?;
    }
    build(pack, &toolkit, &link, &target, console).await?;

    let stage = target.join("kit");
    let kit = fill(&stage, &target, pack.capability, toolkit.release, console)?;
    let bytes = archive::write(&stage, &pack.out)?;
    for what in &kit.left_out {
        console.say(format!("left out: {what}"));
    }
    console.say(format!(
        "{}: {:.1} MiB. On the machine with the card: tar -xf FILE && cd echo-gpu-kit && ./{CHECK}",
        pack.out.display(),
        bytes as f64 / f64::from(1 << 20)
    ));
    let fits = bytes <= MOST_BYTES;
    let claims =
        [json!({"claim": format!("the archive has at most {} MiB", MOST_BYTES >> 20), "holds": fits})];
    Ok(CommandReport {
        passed: fits,
        json: json!({"passed": fits, "archive": pack.out, "bytes": bytes, "kit": kit, "claims": claims}),
    })
}

async fn build(
    pack: &Pack,
    toolkit: &Toolkit,
    link: &Path,
    target: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    let mut words = vec!["build", "--release", "--features", "echo-lab/cuda"];
    words.extend(PROGRAMS.iter().flat_map(|(name, _)| ["--package", name]));
    console.say(format!("building: cargo {}", words.join(" ")));
    let mut command = cargo::command(words);
    toolkit.pass_to(&mut command);
    command.arg("--target-dir").arg(target);
    command.env("CUDA_COMPUTE_CAP", pack.capability.to_string()).env("LIBRARY_PATH", link);
    // The first build is the only one.
    command.env("CARGO_INCREMENTAL", "0");
    let mut build =
        Process::start("cargo build", command, ProcessOutput::Inherit).context("cannot start cargo")?;
    let status = build.wait(BUILD_LIMIT).await?;
    ensure!(status.success(), "the build failed ({status}); see the compiler's messages above");
    Ok(())
}

/// Puts everything into a directory.
fn fill(
    stage: &Path,
    target: &Path,
    capability: u32,
    cuda: String,
    console: &Console,
) -> anyhow::Result<Kit> {
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    fs::create_dir_all(stage)?;
    let mut glibc = programs::Glibc::default();
    for (built, packed) in PROGRAMS {
        let program = stage.join(packed);
        fs::copy(target.join("release").join(built), &program)?;
        programs::strip(&program)?;
        let needs = programs::inspect(&program)?;
        console.say(format!("{packed}: {} MB, glibc {needs}", program.metadata()?.len() / 1_000_000));
        glibc = glibc.max(needs);
    }
    let mut left_out: Vec<String> = LEFT_OUT.map(str::to_owned).into();
    let models = reference_data().join(MODELS);
    if models.is_dir() {
        crate::harness::directory::copy(&models, &stage.join(MODELS))?;
    } else {
        let place = models.display();
        left_out.push(format!("reference models: {place} is not there; name it with ECHO_VECTORS"));
    }
    let kit = Kit { commit: commit(), capability, cuda, glibc: glibc.to_string(), left_out };
    fs::write(stage.join(ABOUT), serde_json::to_vec_pretty(&kit)?)?;
    Ok(kit)
}

/// Removes the programs of an earlier build, so that they are linked again.
fn unlink(release: &Path) -> anyhow::Result<()> {
    let deps = fs::read_dir(release.join("deps")).into_iter().flatten().flatten().map(|entry| entry.path());
    // As in echo_node-0123456789abcdef; what else begins so has an extension.
    let is_program = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ours = |built: &str| {
            name.strip_prefix(&built.replace('-', "_")).is_some_and(|rest| rest.starts_with('-'))
        };
        path.extension().is_none() && PROGRAMS.iter().any(|(built, _)| ours(built))
    };
    let linked = PROGRAMS.iter().map(|(built, _)| release.join(built)).filter(|path| path.exists());
    for path in deps.filter(is_program).chain(linked) {
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The commit of the tree; `unknown` where git does not tell.
fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").current_dir(workspace_root()).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|files| !files.is_empty());
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    commit + if changed { "-dirty" } else { "" }
}
