//! How many files a process may have open: a connection over TCP is one.
//!
//! Shells and service managers start programs with a soft limit of 1,024 or even 256, and let them raise it
//! to a hard limit that is far higher. A learner at the soft limit would have no descriptor left for its
//! checkpoint when a thousand nodes are connected.

/// What is asked for: a fleet of 10,000 nodes, and room.
const WANTED: u64 = 65_536;
/// What systems grant that say the hard limit were none, macOS among them.
const GRANTED_EVERYWHERE: u64 = 10_240;

/// Raises the limit of open files as far as the system allows, up to what the largest fleet needs. Returns
/// the limit that holds now.
#[cfg(unix)]
pub fn raise() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let before = getrlimit(Resource::Nofile);
    let soft = before.current.unwrap_or(u64::MAX);
    let hard = before.maximum.unwrap_or(u64::MAX);
    for wanted in [WANTED.min(hard), GRANTED_EVERYWHERE.min(hard)] {
        let raised = Rlimit { current: Some(wanted), maximum: before.maximum };
        if wanted > soft && setrlimit(Resource::Nofile, raised).is_ok() {
            return wanted;
        }
    }
    soft
}

/// Other systems have no such limit for sockets.
#[cfg(not(unix))]
pub fn raise() -> u64 {
    WANTED
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn the_soft_limit_is_raised_and_stays() {
        use rustix::process::{Resource, getrlimit};

        let raised = super::raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current.unwrap_or(u64::MAX), raised);
        let most = now.maximum.unwrap_or(u64::MAX).min(super::WANTED);
        assert!(raised >= most || cfg!(target_os = "macos"), "{raised} of {most}");
        assert_eq!(super::raise(), raised);
    }
}
