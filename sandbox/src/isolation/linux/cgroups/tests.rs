//! Control groups as files: of both versions, in a directory that looks like theirs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{ControlGroup, Hierarchies, Version, field};
use crate::isolation::RunLimits;

const V1: &str = "30 25 0:26 / /groups/memory rw,relatime - cgroup cgroup rw,memory
31 25 0:27 / /groups/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 /outer /groups/pids rw - cgroup cgroup rw,pids
33 25 0:29 / /groups/unified rw - cgroup2 cgroup2 rw
34 25 0:30 / /proc rw - proc proc rw
";

const OWN: &str = "9:name=systemd:/
8:pids:/outer/inner
4:memory:/a/b:c
2:cpu,cpuacct:/
0::/service
";

#[test]
fn hierarchies_are_found_where_they_are_mounted() {
    let found = Hierarchies::parse(V1, OWN);
    let expected =
        ["/groups/memory/a/b:c", "/groups/pids/inner", "/groups/cpu,cpuacct/", "/groups/unified/service"];
    let places = found.places();
    expected
        .iter()
        .for_each(|place| assert!(places.iter().any(|found| found == Path::new(place)), "{places:?}"));
    assert_eq!(Hierarchies::parse("", ""), Hierarchies::default());
    assert_eq!(Hierarchies::parse("- \n1 2 - cgroup", "x\n::"), Hierarchies::default());
    // A group outside of what is mounted is not reached.
    let outside = Hierarchies::parse("32 25 0:28 /outer /pids rw - cgroup c rw,pids\n", "8:pids:/other\n");
    assert_eq!(outside, Hierarchies::default());
}

/// A hierarchy of version 2 in an ordinary directory. Its files are made by hand, as the kernel would.
fn fake_v2(dir: &Path) -> Hierarchies {
    let own = dir.join("service");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    fs::write(own.join("cgroup.subtree_control"), "memory pids\n").unwrap();
    Hierarchies::parse(&format!("33 25 0:29 / {} rw - cgroup2 cgroup2 rw\n", dir.display()), "0::/service\n")
}

#[test]
fn version_2_is_taken_where_it_has_the_controllers() {
    let dir = tempfile::tempdir().unwrap();
    let hierarchies = fake_v2(dir.path());
    let (version, [memory, pids, cpu]) = hierarchies.make("run").unwrap();
    assert_eq!(version, Version::V2);
    assert!(memory == pids && pids == cpu && memory == dir.path().join("service/run"));

    fs::remove_dir(&memory).unwrap();
    fs::write(dir.path().join("service/cgroup.controllers"), "cpu\n").unwrap();
    assert!(hierarchies.make("run").is_err());
    // Its parent will do: what a service manager delegates.
    for file in ["cgroup.controllers", "cgroup.subtree_control"] {
        fs::write(dir.path().join(file), "memory pids\n").unwrap();
    }
    assert_eq!(hierarchies.make("run").unwrap().1[0], dir.path().join("run"));
}

/// All three controllers of version 1, two of them mounted together.
fn fake_v1(dir: &Path) -> Hierarchies {
    let mounted = |number: u32, place: &str, controllers: &str| {
        let place = dir.join(place);
        fs::create_dir_all(&place).unwrap();
        format!("{number} 25 0:26 / {} rw - cgroup cgroup rw,{controllers}\n", place.display())
    };
    let mounts = [mounted(30, "memory", "memory"), mounted(31, "both", "pids,cpuacct")].concat();
    Hierarchies::parse(&mounts, "4:memory:/\n2:pids,cpuacct:/\n")
}

#[test]
fn groups_of_a_process_that_was_killed_are_made_anew() {
    for fake in [fake_v1, fake_v2] {
        let dir = tempfile::tempdir().unwrap();
        let hierarchies = fake(dir.path());
        let (_, left) = hierarchies.make("run").unwrap();
        assert_eq!(hierarchies.make("run").unwrap().1, left);
        // One of them alone is enough to be in the way.
        fs::remove_dir(&left[0]).unwrap();
        assert_eq!(hierarchies.make("run").unwrap().1, left);
        assert!(left.iter().all(|dir| dir.is_dir()));
        // What cannot be removed is in use, and nothing else is left of the try.
        fs::create_dir(left[2].join("process")).unwrap();
        assert!(hierarchies.make("run").is_err());
        assert_eq!(left[0].is_dir(), left[0] == left[2]);
    }
}

#[test]
fn version_2_is_limited_and_counted_by_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let write = |file: &str, text: &str| fs::write(run.join(file), text).unwrap();
    fs::create_dir(&run).unwrap();
    for file in ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max"] {
        write(file, "");
    }
    write("memory.current", "0\n");
    write("cpu.stat", "usage_usec 1000\nuser_usec 900\n");
    write("memory.events", "low 0\noom 3\noom_kill 2\n");
    let mut group = ControlGroup::open(Version::V2, [run.clone(), run.clone(), run.clone()]).unwrap();
    group.begin(&RunLimits::run()).unwrap();
    assert_eq!(fs::read_to_string(run.join("memory.max")).unwrap(), (256u64 << 20).to_string());
    assert_eq!(fs::read_to_string(run.join("memory.swap.max")).unwrap(), "0");
    assert_eq!(fs::read_to_string(run.join("pids.max")).unwrap(), "17");
    assert!(!group.out_of_memory().unwrap());
    write("cpu.stat", "usage_usec 6000\nuser_usec 900\n");
    write("memory.events", "low 0\noom 3\noom_kill 3\n");
    assert_eq!(group.cpu().unwrap(), Duration::from_millis(5));
    assert!(group.out_of_memory().unwrap());
}

#[test]
fn counters_are_found_by_their_whole_name() {
    assert_eq!(field("oom 3\noom_kill 2\n", "oom_kill").unwrap(), 2);
    assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", "oom_kill").unwrap(), 5);
    assert!(field("oom_kill many\n", "oom_kill").is_err());
}
