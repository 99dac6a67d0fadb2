//! Threads of a whole process, so in a process of its own.

use echo_policy::generation;
use echo_policy::generation::device::Survey;

#[test]
fn who_has_looked_for_devices_may_still_say_how_many_threads_there_shall_be() {
    assert!(!Survey::take().found.is_empty());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    generation::set_threads((cores / 2).max(1)).unwrap();
}
