//! Where this process's control groups are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The controllers that a run needs, in the order memory, processes, processor time.
const V1_CONTROLLERS: [&str; 3] = ["memory", "pids", "cpuacct"];

/// The version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// The directories of this process's own groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    /// For each of [`V1_CONTROLLERS`], where it is mounted as version 1.
    v1: [Option<PathBuf>; 3],
    /// The own group of version 2, and where its hierarchy is mounted.
    v2: Option<(PathBuf, PathBuf)>,
}

impl Hierarchies {
    /// Reads where they are.
    pub(crate) fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// What the two files of `/proc/self` say.
    pub(crate) fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let own = |wanted: &dyn Fn(&str, &str) -> bool| {
            cgroup.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                wanted(number, controllers).then_some(path)
            })
        };
        let mut found = Self::default();
        for line in mountinfo.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let mut fields = before.split(' ').skip(3);
            let (Some(root), Some(place)) = (fields.next(), fields.next()) else { continue };
            let mut fields = after.split(' ');
            let (kind, options) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
            // A group outside of what is mounted here cannot be reached.
            let below = |own: &str| {
                let inside = Path::new(own).strip_prefix(root).ok()?.to_path_buf();
                Some(Path::new(place).join(inside))
            };
            match kind {
                "cgroup" => {
                    for (index, controller) in V1_CONTROLLERS.iter().enumerate() {
                        if options.split(',').any(|option| option == *controller) {
                            let is_own =
                                |_: &str, names: &str| names.split(',').any(|name| name == *controller);
                            let dir = own(&is_own).and_then(below);
                            found.v1[index] = found.v1[index].take().or(dir);
                        }
                    }
                }
                "cgroup2" => {
                    let dir = own(&|number, names| number == "0" && names.is_empty()).and_then(below);
                    found.v2 = found.v2.take().or(dir.map(|dir| (dir, PathBuf::from(place))));
                }
                _ => {}
            }
        }
        found
    }

    /// All directories in which a group may have been made.
    pub(crate) fn places(&self) -> Vec<PathBuf> {
        let v2 = self.v2.iter().flat_map(|(own, _)| [Some(own.clone()), own.parent().map(Path::to_path_buf)]);
        self.v1.iter().cloned().chain(v2).flatten().collect()
    }

    /// Makes a group: of version 2 where it has all controllers, else of version 1. Returns its
    /// directories for memory, processes and processor time.
    pub(crate) fn make(&self, name: &str) -> io::Result<(Version, [PathBuf; 3])> {
        let missing =
            || io::Error::other("no hierarchy has the controllers memory, pids and cpuacct (or cpu)");
        let mut failure = None;
        if let Some((own, top)) = &self.v2 {
            match make_v2(own, top, name) {
                Ok(dir) => return Ok((Version::V2, [dir.clone(), dir.clone(), dir])),
                Err(error) => failure = Some(error),
            }
        }
        let [Some(memory), Some(pids), Some(cpu)] = &self.v1 else {
            return Err(failure.unwrap_or_else(missing));
        };
        let dirs = [memory, pids, cpu].map(|own| own.join(name));
        for (index, dir) in dirs.iter().enumerate() {
            // Controllers that are mounted together share a directory.
            if dirs[..index].contains(dir) {
                continue;
            }
            if let Err(error) = create(dir) {
                dirs[..index].iter().for_each(|dir| drop(fs::remove_dir(dir)));
                return Err(error);
            }
        }
        Ok((Version::V1, dirs))
    }
}

/// A group of version 2 has children with controllers only while it has no processes itself. Ours
/// has one, so its parent is tried as well: a service manager that delegates hands over a subtree.
fn make_v2(own: &Path, top: &Path, name: &str) -> io::Result<PathBuf> {
    let parent = own.parent().filter(|parent| parent.starts_with(top));
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for place in [Some(own), parent].into_iter().flatten() {
        match make_v2_in(place, name) {
            Ok(dir) => return Ok(dir),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn make_v2_in(place: &Path, name: &str) -> io::Result<PathBuf> {
    let has = |file: &str| -> io::Result<bool> {
        let text = fs::read_to_string(place.join(file))?;
        Ok(["memory", "pids"].iter().all(|wanted| text.split_whitespace().any(|given| given == *wanted)))
    };
    if !has("cgroup.controllers")? {
        return Err(io::Error::other("version 2 has no controllers memory and pids here"));
    }
    if !has("cgroup.subtree_control")? {
        fs::write(place.join("cgroup.subtree_control"), "+memory +pids")?;
    }
    let dir = place.join(name);
    create(&dir)?;
    Ok(dir)
}

/// Makes the directory of a group. One that is there was left behind by a process that was killed
/// and had the same number as this one; the kernel removes none in which something runs.
fn create(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(dir)?;
            fs::create_dir(dir)
        }
        made => made,
    }
}
