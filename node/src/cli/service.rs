//! `echo-node install-service`: a unit of the user's own systemd that keeps the node running.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::settings::{Config, SettingSource};

/// The unit's file name.
const UNIT: &str = "echo-node.service";
/// The first line of a unit that this command wrote.
const HEADER: &str = "# Written by `echo-node install-service`, which may write it anew.";

/// What `echo-node install-service` is asked.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct InstallService {
    /// Print the unit, and write nothing
    #[arg(long)]
    pub print: bool,
    /// As JSON: where the unit is, and its text
    #[arg(long)]
    pub json: bool,
}

/// A unit for systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUnit {
    /// Where systemd looks for it.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

impl ServiceUnit {
    /// A unit that runs this program with the flags that were given, `file` for settings among them, in the
    /// units of this user.
    ///
    /// # Errors
    /// On other systems than Linux, without a home directory, or where this program's own path is unknown.
    pub fn of(config: &Config, file: Option<&Path>) -> anyhow::Result<Self> {
        ensure!(
            cfg!(target_os = "linux"),
            "only systemd's units can be written, which Linux alone has; start `echo-node run` from your system's own list of programs to start"
        );
        let units =
            dirs::config_dir().context("this user has no directory for settings")?.join("systemd/user");
        let program = std::env::current_exe().context("this program does not know where it lies")?;
        Ok(Self { path: units.join(UNIT), text: text(&program, &flags(config, file)?)? })
    }

    /// Writes the unit; one of somebody else's making stays.
    ///
    /// # Errors
    /// When another unit of this name is there, or it cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let shown = self.path.display();
        match fs::read_to_string(&self.path) {
            Ok(held) => {
                ensure!(held.starts_with(HEADER), "{shown} was written by somebody else: move it away first");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| shown.to_string()),
        }
        let parent = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        fs::write(&self.path, &self.text).with_context(|| shown.to_string())
    }

    /// What was done, and what is left to do.
    pub fn summary(&self) -> String {
        format!(
            "wrote {}\n\
             start it now and at every login:\n  systemctl --user daemon-reload\n  systemctl --user enable --now {UNIT}\n\
             without a login too:\n  loginctl enable-linger\n\
             look at it:\n  echo-node status\n  journalctl --user -u {UNIT}\n",
            self.path.display()
        )
    }
}

/// The flags of the command line, with whole paths; the rest is found again where it was.
fn flags(config: &Config, file: Option<&Path>) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    if let Some(file) = file {
        words.extend(["--config".to_owned(), whole(&file.to_string_lossy())?]);
    }
    for row in config.report() {
        let SettingSource::Flag(flag) = row.source else { continue };
        let values = match row.value {
            serde_json::Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let is_path = matches!(row.key.as_str(), "data_dir" | "peers");
            words.extend([flag.clone(), if is_path { whole(&value)? } else { value }]);
        }
    }
    Ok(words)
}

fn whole(path: &str) -> anyhow::Result<String> {
    let whole = std::path::absolute(path).with_context(|| path.to_owned())?;
    whole.into_os_string().into_string().ok().with_context(|| format!("{path} is not UTF-8"))
}

fn text(program: &Path, flags: &[String]) -> anyhow::Result<String> {
    let program = program.to_str().context("this program's path is not UTF-8")?;
    let words = [program, "run"].into_iter().chain(flags.iter().map(String::as_str));
    let command: Vec<String> = words.map(quoted).collect();
    Ok(format!(
        "{HEADER}\n\
         [Unit]\n\
         Description=Echo node: works for a training run\n\
         After=network-online.target\n\n\
         [Service]\n\
         ExecStart={}\n\
         # A run that has ended ends the node with 0.\n\
         Restart=on-failure\n\
         RestartSec=60\n\
         # Other programs come first.\n\
         Nice=10\n\
         # Programs that are judged get control groups of their own.\n\
         Delegate=yes\n\n\
         [Install]\n\
         WantedBy=default.target\n",
        command.join(" ")
    ))
}

/// A word of a command line as systemd reads it.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Flags, Role};

    #[test]
    fn the_unit_runs_the_node_with_the_flags_that_were_given() {
        let flags_given = Flags {
            data_dir: Some("/home/you/my node".into()),
            peers: Some("echo.peers".into()),
            threads: Some(1),
            roles: Some(vec![Role::Rollout, Role::Relay]),
            ..Flags::default()
        };
        let variables = vec![("ECHO_NODE_RUN".into(), "sums".into())];
        let config = Config::load(&flags_given, variables).unwrap();
        let words = flags(&config, Some(Path::new("/etc/my.toml"))).unwrap();
        let text = text(Path::new("/opt/50%/echo-node"), &words).unwrap();
        let start = text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert!(start.starts_with("ExecStart=\"/opt/50%%/echo-node\" \"run\""), "{start}");
        let here = std::env::current_dir().unwrap();
        for part in [
            "\"--config\" \"/etc/my.toml\"",
            "\"--data-dir\" \"/home/you/my node\"",
            &format!("\"--peers\" \"{}/echo.peers\"", here.display()),
            "\"--threads\" \"1\"",
            "\"--role\" \"rollout\" \"--role\" \"relay\"",
        ] {
            assert!(start.contains(part), "{part} is missing in {start}");
        }
        assert!(!start.contains("sums"), "what the environment says is not written down");
        assert!(text.contains("\nDelegate=yes\n") && text.contains("\nWantedBy=default.target\n"), "{text}");
    }

    #[test]
    fn a_unit_of_somebody_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("units").join(UNIT);
        let unit = ServiceUnit { path: path.clone(), text: text(Path::new("/bin/echo-node"), &[]).unwrap() };
        unit.write().unwrap();
        unit.write().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), unit.text);
        assert!(unit.summary().contains("enable --now echo-node.service"));
        fs::write(&path, "[Unit]\n").unwrap();
        assert!(unit.write().unwrap_err().to_string().contains("somebody else"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "[Unit]\n");
    }
}
