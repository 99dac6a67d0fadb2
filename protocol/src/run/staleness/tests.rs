use super::*;
use serde::Serialize;

fn v(version: u64) -> PolicyVersion {
    PolicyVersion(version)
}

#[test]
fn views_agree() {
    let policy = Staleness::new(3, None).unwrap();
    assert_eq!((policy.period(), policy.admission(), policy.mode()), (2, 1, StalenessMode::Bounded));
    assert_eq!(policy.reload_and_acceptance(), (2, 4));
    assert_eq!(Staleness::rlax(2, 4).unwrap(), policy);
    assert!(policy.admits(v(4), v(7)));
    assert!(!policy.admits(v(3), v(7)));
    assert!(!policy.admits(v(8), v(7)), "a version from the future");
    assert!(policy.publishes(v(4)) && !policy.publishes(v(5)));
}

#[test]
fn the_modes_of_rlax_have_its_numbers() {
    assert_eq!(Staleness::on_policy().reload_and_acceptance(), (1, 1));
    assert_eq!(Staleness::rlax(1, 1).unwrap(), Staleness::on_policy());
    assert_eq!(Staleness::one_step().reload_and_acceptance(), (1, 2));
    assert_eq!(Staleness::unbounded(5).unwrap().reload_and_acceptance(), (5, u64::MAX));
    // Its own runs: (16, 16), where only the newest publication is fresh enough, and (16, 32).
    assert_eq!(Staleness::rlax(16, 16).unwrap().admission(), 0);
    assert_eq!(Staleness::rlax(16, 32).unwrap().admission(), 15);
    let modes =
        [Staleness::on_policy(), Staleness::one_step(), Staleness::unbounded(1).unwrap()].map(|p| p.mode());
    assert_eq!(modes, [StalenessMode::OnPolicy, StalenessMode::OneStep, StalenessMode::Unbounded]);
    assert_eq!(Staleness::new(0, None), Ok(Staleness::on_policy()));
}

#[test]
fn room_is_exactly_the_papers_rule() {
    for eta in 0..4u64 {
        let policy = Staleness::new(eta + 1, Some(1)).unwrap();
        for (version, batch) in [(0u64, 1u64), (0, 16), (5, 16), (9, 7)] {
            let mut issued = 0;
            // Hand out one unit at a time as long as the rule as printed allows it.
            while issued / batch <= version + eta {
                issued += 1;
            }
            assert_eq!(policy.room(v(version), 0, batch), issued);
            assert_eq!(policy.room(v(version), issued, batch), 0);
        }
    }
    assert!(Staleness::unbounded(1).unwrap().room(v(1 << 40), 1 << 50, 1 << 14) > 1 << 60);
}

#[test]
fn some_node_is_served_until_the_batch_at_hand_is_there() {
    let policies = [
        Staleness::on_policy(),
        Staleness::one_step(),
        Staleness::new(3, None).unwrap(),
        Staleness::new(3, Some(4)).unwrap(),
        Staleness::unbounded(7).unwrap(),
    ];
    for policy in policies {
        for current in (0..20).map(v) {
            let newest = v(current.0 / policy.period() * policy.period());
            assert!(policy.serves(newest, current), "{policy:?} at {current} stands still");
            assert!(policy.admits(newest, current));
            // What the current batch still lacks may always be leased.
            assert!(policy.room(current, current.0 * 8 + 7, 8) > 0);
        }
    }
    let on_policy = Staleness::on_policy();
    assert!(!on_policy.serves(v(4), v(5)) && !on_policy.admits(v(4), v(5)));
    assert_eq!(on_policy.room(v(5), 6 * 8, 8), 0, "nothing is generated that the next policy could not use");
    assert!(Staleness::one_step().room(v(5), 6 * 8, 8) == 8, "the next batch is generated meanwhile");
}

#[test]
fn a_bounded_policy_leases_by_lag_unless_its_eta_is_set() {
    let bounded = Staleness::new(3, None).unwrap();
    let set = bounded.with_admission(bounded.admission()).unwrap();
    assert!(bounded.is_by_lag() && !set.is_by_lag());
    for policy in [Staleness::on_policy(), Staleness::one_step(), Staleness::unbounded(2).unwrap()] {
        assert!(!policy.is_by_lag(), "{policy:?}");
    }
    // It travels, also where the number is the one that follows from S and κ.
    for policy in [bounded, set] {
        let wire = crate::wire::codec::encode(&policy, 100).unwrap();
        assert_eq!(crate::wire::codec::decode::<Staleness>(&wire, 100).unwrap(), policy);
    }
}

#[test]
fn refuses_impossible_numbers_also_from_the_wire() {
    assert_eq!(Staleness::new(1, None).unwrap().period(), 1);
    assert!(Staleness::new(3, Some(5)).is_err() && Staleness::new(3, Some(0)).is_err());
    let policy = Staleness::new(3, None).unwrap();
    assert_eq!(policy.with_admission(4), Err(StalenessError::Admission { admission: 4, budget: 3 }));
    let decode = |numbers: Numbers| {
        let wire = crate::wire::codec::encode(&numbers, 100).unwrap();
        crate::wire::codec::decode::<Staleness>(&wire, 100)
    };
    let numbers = Numbers { budget: 2, period: 2, admission: None, order: None };
    assert!(decode(numbers).is_ok());
    assert!(decode(Numbers { period: 9, ..numbers }).is_err());
    assert!(decode(Numbers { admission: Some(3), ..numbers }).is_err());
}

#[test]
fn charters_of_earlier_releases_are_read_and_written_as_before() {
    #[derive(Serialize)]
    struct Earlier {
        budget: u64,
        period: u64,
    }
    let before = crate::wire::codec::encode(&Earlier { budget: 3, period: 2 }, 100).unwrap();
    let policy = Staleness::new(3, None).unwrap();
    assert_eq!(crate::wire::codec::encode(&policy, 100).unwrap(), before);
    assert_eq!(crate::wire::codec::decode::<Staleness>(&before, 100).unwrap(), policy);
    let newest = BatchOrder::NewestFirst;
    for policy in [Staleness::one_step(), Staleness::unbounded(2).unwrap(), policy.with_order(newest)] {
        let wire = crate::wire::codec::encode(&policy, 100).unwrap();
        assert_eq!(crate::wire::codec::decode::<Staleness>(&wire, 100).unwrap(), policy);
    }
}
