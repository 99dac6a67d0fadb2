//! Whether there is memory for auditing in every precision that a run takes.

use crate::common::workload::{Workload, dtype};
use crate::intake::admission::options::AdmissionSection;
use crate::verification::sampling_audit::MAX_POLICIES;
use echo_policy::generation::CpuBackend;
use echo_policy::model::precision::Precision;
use echo_protocol::run::charter::Takeover;

/// Groups of a precision would all be refused, or many of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "admission.max_copy_bytes = {limit}: to audit what nodes compute in {precision} as they do takes {needed} bytes of memory, for as many versions of the policy as have to be \
     there at once ({versions}): allow so many, leave {precision} out of admission.precisions, or set admission.audit = false"
)]
pub struct NoRoom {
    precision: Precision,
    /// Whose policies have to be there at once.
    versions: usize,
    /// Bytes of memory that all of these take.
    needed: u64,
    /// `[admission] max_copy_bytes`, as the run file has it.
    limit: u64,
}

/// Checks that groups of `workload` can be audited in whatever precision they may come. A group is
/// asked about version by version; but where nodes may keep caches from one version to the next,
/// all that it names have to be there together.
///
/// # Errors
/// The first precision for which there is too little memory.
pub fn check_room(admission: &AdmissionSection, workload: &Workload) -> Result<(), NoRoom> {
    let charter = &workload.charter;
    let fresh = charter.staleness.budget() / charter.staleness.period();
    let versions = match charter.takeover {
        Takeover::Keep => MAX_POLICIES.min(usize::try_from(fresh).unwrap_or(MAX_POLICIES).saturating_add(1)),
        Takeover::Recompute | Takeover::Wait => 1,
    };
    let (stored, limit) = (dtype(charter.snapshot_type), admission.max_copy_bytes);
    let taken = admission.precisions.iter().filter(|_| admission.audit);
    for precision in taken.filter_map(|name| name.as_str().parse::<Precision>().ok()) {
        let copy = CpuBackend::copied_bytes(&workload.model, stored, precision);
        let needed = copy.saturating_mul(versions) as u64;
        if needed > limit {
            return Err(NoRoom { precision, versions, needed, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use echo_protocol::run::precision::PrecisionName;
    use echo_protocol::run::staleness::Staleness;

    #[test]
    fn memory_has_to_do_for_what_a_group_may_name_at_once() {
        let (mut workload, _) = testing::workload();
        let precisions = ["f32", "int8"].map(|name| PrecisionName::try_from(name.to_owned()).unwrap());
        let copy =
            CpuBackend::copied_bytes(&workload.model, dtype(workload.charter.snapshot_type), Precision::Int8);
        let section = |max_copy_bytes| AdmissionSection {
            max_copy_bytes,
            precisions: precisions.to_vec(),
            ..AdmissionSection::default()
        };
        // Of S updates with a publication every κ.
        for (takeover, budget, period, versions) in [
            (Takeover::Recompute, 3, 1, 1),
            (Takeover::Wait, 3, 1, 1),
            (Takeover::Keep, 0, 1, 1),
            (Takeover::Keep, 3, 2, 2),
            (Takeover::Keep, 3, 1, 4),
            (Takeover::Keep, u64::MAX, 1, MAX_POLICIES),
        ] {
            workload.charter.takeover = takeover;
            workload.charter.staleness = Staleness::new(budget, Some(period)).unwrap();
            let needed = (versions * copy) as u64;
            check_room(&section(needed), &workload).unwrap();
            let refused = check_room(&section(needed - 1), &workload).unwrap_err();
            let limit = needed - 1;
            assert_eq!(refused, NoRoom { precision: Precision::Int8, versions, needed, limit });
            for part in ["admission.max_copy_bytes", "int8", "audit = false", &needed.to_string()] {
                assert!(refused.to_string().contains(part), "{refused}");
            }
            check_room(&AdmissionSection { audit: false, ..section(0) }, &workload).unwrap();
            check_room(&AdmissionSection { max_copy_bytes: 0, ..AdmissionSection::default() }, &workload)
                .unwrap();
        }
    }
}
