//! What is installed to build and run programs with.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::language::Language;
use crate::isolation::{IsolationReport, Lack, LimitEnforcer, Mount, MountSource};

/// Where the sandbox shows a toolchain that is not among the system's directories.
const PLACE: &str = "/toolchain";

/// One language's compiler or interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    /// The program's path in the sandbox.
    pub(super) program: PathBuf,
    /// What of its toolchain is to be shown: where it lies on the host, and where in the sandbox.
    shown: Vec<(PathBuf, PathBuf)>,
    /// The environment it is started with.
    pub(super) env: Vec<(OsString, OsString)>,
}

impl Tool {
    /// What to show of the host.
    pub(super) fn mounts(&self) -> Vec<Mount<'_>> {
        self.shown
            .iter()
            .map(|(source, target)| Mount { source: MountSource::Path(source), target })
            .collect()
    }
}

/// The toolchains of this machine, found once.
#[derive(Debug)]
pub struct Toolchains {
    tools: BTreeMap<Language, Tool>,
    lacks: Vec<(Language, Lack)>,
}

impl Toolchains {
    /// Looks for all languages: among the system's directories first, because nothing has to be
    /// mounted for those, then along `PATH`. Some toolchains are asked where they lie, so this
    /// starts them, outside of the sandbox.
    pub fn find(report: &IsolationReport) -> Self {
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

    /// The compiler or interpreter of a language.
    ///
    /// # Errors
    /// What of the language is missing here, with its mend.
    pub(super) fn tool(&self, language: Language) -> Result<&Tool, &Lack> {
        let lack = || self.lacks.iter().find(|(lacking, _)| *lacking == language).map(|(_, lack)| lack);
        self.tools.get(&language).ok_or_else(|| lack().expect("a language is either found or lacking"))
    }
}

fn find(language: Language, report: &IsolationReport) -> Result<Tool, Lack> {
    let recipe = language.recipe();
    if language == Language::Go && report.memory == LimitEnforcer::Rlimits {
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
        return Ok(Tool { program: system, shown: Vec::new(), env });
    }
    let found = on_path(recipe.tool).ok_or_else(|| {
        missing(format!("{language}: there is no {} in /usr/bin or along PATH", recipe.tool))
    })?;
    let (program, root) = locate(language, &found).ok_or_else(|| {
        missing(format!("{language}: {} does not say where its toolchain lies", found.display()))
    })?;
    if holds_home(&root, env::home_dir().as_deref()) {
        return Err(missing(format!(
            "{language}: {} has its toolchain in {}, which is a home directory or holds one",
            found.display(),
            root.display()
        )));
    }
    if language == Language::Python {
        env.push(("LD_LIBRARY_PATH".into(), Path::new(PLACE).join("lib").into()));
    }
    let shown = shown(language, &program, &root);
    let program = shown.first().map(|(_, inside)| inside.clone());
    let program =
        program.ok_or_else(|| missing(format!("{language}: {} is not in its toolchain", found.display())))?;
    Ok(Tool { program, shown, env })
}

/// What a tool needs of its toolchain's directory besides itself. Nothing else of it is shown: the
/// directory may be shared with other things, as `~/.local` is.
fn parts(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["lib", "lib64"],
        Language::Rust => &["lib"],
        Language::Go => &["VERSION", "go.env", "lib", "pkg", "src"],
        Language::Cpp17 | Language::Cpp20 => &[],
    }
}

/// The program, and the parts of its toolchain that are there, each with its place in the sandbox;
/// nothing when the program is not in `root`.
fn shown(language: Language, program: &Path, root: &Path) -> Vec<(PathBuf, PathBuf)> {
    let Ok(inside) = program.strip_prefix(root) else { return Vec::new() };
    let parts = parts(language).iter().map(Path::new).filter(|part| root.join(part).exists());
    let place = |part: &Path| (root.join(part), Path::new(PLACE).join(part));
    [inside].into_iter().chain(parts).map(place).collect()
}

/// Whether what belongs to the user, or to everybody, lies beside the toolchain.
fn holds_home(root: &Path, home: Option<&Path>) -> bool {
    home.and_then(|home| home.canonicalize().ok()).is_some_and(|home| home.starts_with(root))
}

fn on_path(tool: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(tool)).find(|program| program.is_file())
}

/// The real program behind one that may be a version manager's, and the directory that holds all it
/// needs, without symbolic links.
fn locate(language: Language, found: &Path) -> Option<(PathBuf, PathBuf)> {
    match language {
        Language::Python => {
            let lines = ask(
                found,
                &["-I", "-S", "-c", "import sys; print(sys.executable, sys.base_prefix, sep='\\n')"],
            )?;
            let (program, root) = lines.split_once('\n')?;
            Some((Path::new(program).canonicalize().ok()?, Path::new(root).canonicalize().ok()?))
        }
        Language::Rust => {
            let root = Path::new(&ask(found, &["--print", "sysroot"])?).canonicalize().ok()?;
            Some((root.join("bin/rustc"), root))
        }
        Language::Go => {
            let root = Path::new(&ask(found, &["env", "GOROOT"])?).canonicalize().ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn of_a_directory_that_is_shared_only_the_toolchain_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for part in ["bin", "lib/python3.11", "share/keys"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        let program = root.join("bin/python3.11");
        for file in [&program, &root.join("bin/other"), &root.join("notes")] {
            fs::write(file, "").unwrap();
        }
        let shown = shown(Language::Python, &program, &root);
        let place = |part: &str| (root.join(part), Path::new(PLACE).join(part));
        assert_eq!(shown, [place("bin/python3.11"), place("lib")]);
        assert!(super::shown(Language::Python, Path::new("/elsewhere/python3"), &root).is_empty());
    }

    #[test]
    fn no_toolchain_is_a_home() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = root.join("home");
        fs::create_dir_all(home.join(".local")).unwrap();
        for (toolchain, refused) in [(&root, true), (&home, true), (&home.join(".local"), false)] {
            assert_eq!(holds_home(toolchain, Some(&home)), refused, "{}", toolchain.display());
        }
        assert!(!holds_home(&root, None));
    }
}
