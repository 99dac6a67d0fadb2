//! What the environment says of the Hub, in the variables of `huggingface_hub`.

use super::error::HubError;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::PathBuf;

/// Where the Hub is when nobody says otherwise.
const PUBLIC: &str = "https://huggingface.co";

/// Where the Hub is, where its files are kept on this machine, and who asks.
#[derive(Clone, PartialEq, Eq)]
pub struct HubEnvironment {
    /// Its address, without a slash at the end: `HF_ENDPOINT`.
    pub endpoint: String,
    /// The cache: `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    pub cache: PathBuf,
    /// The secret that says who asks: `HF_TOKEN`, or the file that `hf auth login` writes.
    pub token: Option<String>,
    /// Nothing is asked of the network: `HF_HUB_OFFLINE`.
    pub is_offline: bool,
}

/// Without the token.
impl fmt::Debug for HubEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubEnvironment")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("has_token", &self.token.is_some())
            .field("is_offline", &self.is_offline)
            .finish()
    }
}

impl HubEnvironment {
    /// What this process was started with.
    ///
    /// # Errors
    /// [`HubError::NoCache`] when there is neither a variable nor a home directory for the cache.
    pub fn read() -> Result<Self, HubError> {
        Self::of(|name| env::var_os(name).filter(|value| !value.is_empty()), env::home_dir())
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>, user: Option<PathBuf>) -> Result<Self, HubError> {
        let path = |name: &str| variable(name).map(PathBuf::from);
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let is_on = |name: &str| {
            text(name).is_some_and(|value| {
                ["1", "on", "yes", "true"].contains(&value.trim().to_ascii_lowercase().as_str())
            })
        };
        let home = path("HF_HOME").or_else(|| {
            let caches = path("XDG_CACHE_HOME").or_else(|| user.map(|user| user.join(".cache")));
            caches.map(|caches| caches.join("huggingface"))
        });
        let cache = path("HF_HUB_CACHE").or_else(|| home.as_ref().map(|home| home.join("hub")));
        let kept = path("HF_TOKEN_PATH").or_else(|| home.map(|home| home.join("token")));
        let clean = |token: String| Some(token.trim().to_owned()).filter(|token| !token.is_empty());
        let token = match is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
            true => None,
            false => {
                text("HF_TOKEN").and_then(clean).or_else(|| fs::read_to_string(kept?).ok().and_then(clean))
            }
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| PUBLIC.to_owned());
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: cache.ok_or(HubError::NoCache)?,
            token,
            is_offline: is_on("HF_HUB_OFFLINE"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], user: Option<&str>) -> HubEnvironment {
        let found = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        HubEnvironment::of(found, user.map(PathBuf::from)).unwrap()
    }

    #[test]
    fn the_variables_of_huggingface_hub_are_heeded() {
        let plain = of(&[], Some("/home/u"));
        assert_eq!(plain.endpoint, PUBLIC);
        assert_eq!(plain.cache, PathBuf::from("/home/u/.cache/huggingface/hub"));
        assert!(plain.token.is_none() && !plain.is_offline);
        let set = [
            ("HF_HOME", "/h"),
            ("HF_ENDPOINT", "http://m/"),
            ("HF_TOKEN", " t\n"),
            ("HF_HUB_OFFLINE", "True"),
        ];
        let set = of(&set, None);
        assert_eq!((set.endpoint.as_str(), set.cache), ("http://m", PathBuf::from("/h/hub")));
        assert_eq!((set.token.as_deref(), set.is_offline), (Some("t"), true));
        assert_eq!(of(&[("HF_HUB_CACHE", "/c")], None).cache, PathBuf::from("/c"));
        let silent = [("HF_TOKEN", "t"), ("HF_HUB_CACHE", "/c"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")];
        assert_eq!(of(&silent, None).token, None);
        assert!(matches!(HubEnvironment::of(|_| None, None), Err(HubError::NoCache)));
    }

    #[test]
    fn the_token_may_be_in_a_file_and_is_never_shown() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("token"), "hf_secret\n").unwrap();
        let found = of(&[("HF_HOME", home.path().to_str().unwrap())], None);
        assert_eq!(found.token.as_deref(), Some("hf_secret"));
        assert!(!format!("{found:?}").contains("secret"));
    }
}
