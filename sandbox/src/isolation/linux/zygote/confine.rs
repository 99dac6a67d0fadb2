//! What a run gives up for good: capabilities and access to files.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};

use super::super::failure_stage::{At, Stage, StageFailure};
use crate::isolation::WORK;

/// The version of Landlock that the rules are written for. Of an older one, what it knows is used.
const RULES: ABI = ABI::V6;

/// The highest number of a capability that any kernel may know.
const CAPABILITIES: u32 = 64;

/// Makes sure that no program started from here gains a capability, whatever it executes.
pub(super) fn drop_bounding_set() -> Result<(), StageFailure> {
    for number in 0..CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no more of them.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).at(Stage::Capabilities),
        }
    }
    clear_ambient_capability_set().at(Stage::Capabilities)
}

/// Drops all capabilities but these.
pub(super) fn keep_capabilities(kept: CapabilitySet) -> Result<(), StageFailure> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    set_capabilities(None, sets).at(Stage::Capabilities)
}

/// Forbids this process and its children all files but those of the root, to be read and executed,
/// and `/work`; all TCP; and signals and abstract sockets to the outside.
pub(super) fn landlock() -> Result<(), StageFailure> {
    let confine = || -> Result<RulesetStatus, RulesetError> {
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?
            .add_rules(path_beneath_rules(["/"], AccessFs::from_read(RULES)))?
            .add_rules(path_beneath_rules(["/dev"], AccessFs::from_file(RULES)))?
            .add_rules(path_beneath_rules([WORK], AccessFs::from_all(RULES)))?
            .restrict_self()?;
        Ok(status.ruleset)
    };
    match confine() {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Ok(RulesetStatus::NotEnforced) => Err(StageFailure { stage: Stage::Landlock, errno: libc::ENOSYS }),
        Err(_) => Err(StageFailure { stage: Stage::Landlock, errno: libc::ENOSYS }),
    }
}
