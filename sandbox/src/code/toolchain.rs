//! What is installed to build and run programs with.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::language::Language;
use crate::isolate::{Bound, Lack, Mount, Report, Source};

/// Where the sandbox shows a toolchain that is not among the system's directories.
const PLACE: &str = "/toolchain";

/// One language's compiler or interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    /// The program's path in the sandbox.
    pub(super) program: PathBuf,
    /// Where its toolchain lies on the host, if that is to be shown.
    root: Option<PathBuf>,
    /// The environment it is started with.
    pub(super) env: Vec<(OsString, OsString)>,
}

impl Tool {
    /// What to show of the host.
    pub(super) fn mounts(&self) -> Vec<Mount<'_>> {
        let mount = |root| Mount { source: Source::Path(root), target: Path::new(PLACE) };
        self.root.as_deref().map(mount).into_iter().collect()
    }
}

/// The toolchains of this machine, found once.
#[derive(Debug)]
pub struct Toolchains {
    tools: BTreeMap<Language, Tool>,
    lacks: Vec<(Language, Lack)>,
}

impl Toolchains {
    /// Looks for all languages: among the system's directories first, because nothing has to be mounted for those,
    /// then along `PATH`. Some toolchains are asked where they lie, so this starts them, outside of the sandbox.
    pub fn find(report: &Report) -> Self {
        let mut tools = BTreeMap::new();
        let mut lacks = Vec::new();
        for language in Language::ALL {
            match find(language, report) {
                Ok(tool) => drop(tools.insert(language, tool)),
                Err(lack) => lacks.push((language, lack)),
            }
        }
        Self { tools, lacks }
    }

    /// The languages that can be judged here.
    pub fn languages(&self) -> impl Iterator<Item = Language> {
        self.tools.keys().copied()
    }

    /// The languages that cannot, each with what to do about it.
    pub fn lacks(&self) -> &[(Language, Lack)] {
        &self.lacks
    }

    /// A language's tool.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn tool(&self, language: Language) -> Result<&Tool, &Lack> {
        let lack = || self.lacks.iter().find(|(lacking, _)| *lacking == language).map(|(_, lack)| lack);
        self.tools.get(&language).ok_or_else(|| lack().expect("a language is either found or lacking"))
    }
}

fn find(language: Language, report: &Report) -> Result<Tool, Lack> {
    let recipe = language.recipe();
    if language == Language::Go && report.memory == Bound::Rlimits {
        // Its runtime reserves more address space than any limit on that allows.
        return Err(Lack {
            what: "go cannot run where memory is bounded by address space".into(),
            mend: "let this process use a control group for memory".into(),
        });
    }
    let missing = |what: String| Lack { what, mend: recipe.mend.into() };
    let mut env: Vec<_> = recipe.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let system = Path::new("/usr/bin").join(recipe.tool);
    if system.exists() {
        return Ok(Tool { program: system, root: None, env });
    }
    let found = on_path(recipe.tool).ok_or_else(|| {
        missing(format!("{language}: there is no {} in /usr/bin or along PATH", recipe.tool))
    })?;
    let (program, root) = locate(language, &found).ok_or_else(|| {
        missing(format!("{language}: {} does not say where its toolchain lies", found.display()))
    })?;
    if language == Language::Python {
        env.push(("LD_LIBRARY_PATH".into(), Path::new(PLACE).join("lib").into()));
    }
    let inside = program.strip_prefix(&root).map(|inside| Path::new(PLACE).join(inside));
    let program =
        inside.map_err(|_| missing(format!("{language}: {} is not in its toolchain", program.display())))?;
    Ok(Tool { program, root: Some(root), env })
}

fn on_path(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(tool)).find(|program| program.is_file())
}

/// The real program behind one that may be a version manager's, and the directory that holds all it needs.
fn locate(language: Language, found: &Path) -> Option<(PathBuf, PathBuf)> {
    match language {
        Language::Python => {
            let lines = ask(
                found,
                &["-I", "-S", "-c", "import sys; print(sys.executable, sys.base_prefix, sep='\\n')"],
            )?;
            let (program, root) = lines.split_once('\n')?;
            Some((Path::new(program).canonicalize().ok()?, root.into()))
        }
        Language::Rust => {
            let root = PathBuf::from(ask(found, &["--print", "sysroot"])?);
            Some((root.join("bin/rustc"), root))
        }
        Language::Go => {
            let root = PathBuf::from(ask(found, &["env", "GOROOT"])?);
            Some((root.join("bin/go"), root))
        }
        // Compilers of C++ need the system's headers and linker.
        Language::Cpp17 | Language::Cpp20 => None,
    }
}

fn ask(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).current_dir("/").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
