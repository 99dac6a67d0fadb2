//! The filters as programs, and the tables they come from.

use std::collections::BTreeSet;

use super::{allowed, calls, compile};

/// The longest program that the kernel takes.
const MAX_INSTRUCTIONS: usize = 4096;

#[test]
fn filters_compile_and_fit() {
    for address_space_only in [false, true] {
        let filters = compile(address_space_only).unwrap();
        for program in [&filters.attacks, &filters.allowed] {
            assert!((1..MAX_INSTRUCTIONS).contains(&program.len()));
        }
    }
}

#[test]
fn nothing_is_both_allowed_and_an_attack() {
    let allowed = allowed(false).unwrap();
    let attacks = calls::ATTACKS.iter().collect::<BTreeSet<_>>();
    assert_eq!(attacks.len(), calls::ATTACKS.len());
    assert!(attacks.iter().all(|call| !allowed.contains_key(call)));
}

#[test]
fn what_must_be_filtered_by_argument_or_not_at_all_is_not_in_the_table() {
    let calls = [
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_ioctl,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_memfd_create,
    ];
    assert!(calls.iter().all(|call| !calls::ALLOWED.contains(call)));
}
