use super::*;
use crate::common::testing::{key, network};

mod world;

const WITHIN: u64 = 10_000;

fn group(number: u64) -> ContentId {
    ContentId::of(&number.to_le_bytes())
}

fn at(millis: u64) -> UnixMillis {
    UnixMillis(millis)
}

fn offer(capacity: u32) -> Offer {
    Offer { capacity, held: vec![PolicyVersion(2), PolicyVersion(4)] }
}

fn question(number: u64) -> Question {
    let versions = [PolicyVersion(4)].into();
    let (group, producer) = (group(number), key(900));
    Question { group, producer, network: network(200), versions, fresh_until: None, bytes: 10 }
}

/// A panel of two of three among these many verifiers, each in a network of its own.
fn panel(verifiers: u64) -> Panel {
    let mut panel = Panel::new(PanelConfig::default(), [7; 32]);
    for number in 0..verifiers {
        assert!(panel.offer(key(number), network(number as u8), &offer(4)));
    }
    panel
}

#[test]
fn nobody_is_asked_where_too_few_could_vouch() {
    for verifiers in 0..2 {
        assert_eq!(panel(verifiers).ask(at(0), &question(1)), None);
    }
    assert_eq!(panel(2).ask(at(0), &question(1)).map(|chosen| chosen.len()), Some(2));
    assert_eq!(panel(9).ask(at(0), &question(1)).map(|chosen| chosen.len()), Some(3));
    let mut off = Panel::new(PanelConfig { n: 0, ..PanelConfig::default() }, [7; 32]);
    (0..5).for_each(|n| assert!(off.offer(key(n), network(n as u8), &offer(4))));
    assert_eq!(off.ask(at(0), &question(1)), None);
}

#[test]
fn too_few_owners_are_told_from_too_few_with_time() {
    assert_eq!(panel(0).shortage(&question(1)), Some((0, 2)));
    let mut one_owner = panel(0);
    // On one machine no network says anything, and the producer is of the same owner.
    (0..5).for_each(|n| assert!(one_owner.offer(key(n), None, &offer(4))));
    assert_eq!(one_owner.shortage(&question(1)), Some((1, 2)));
    assert_eq!(one_owner.shortage(&Question { network: None, ..question(1) }), Some((0, 2)));
    let mut busy = panel(2);
    assert!(busy.ask(at(0), &question(1)).is_some());
    assert_eq!((busy.ask(at(0), &question(2)), busy.shortage(&question(2))), (None, None));
    let config = PanelConfig { owners: Owners::Key, ..PanelConfig::default() };
    let mut by_key = Panel::new(config, [7; 32]);
    (0..2).for_each(|n| assert!(by_key.offer(key(n), None, &offer(4))));
    assert_eq!(by_key.shortage(&Question { network: None, ..question(1) }), None);
    let off = Panel::new(PanelConfig { n: 0, ..PanelConfig::default() }, [7; 32]);
    assert_eq!(off.shortage(&question(1)), None);
}

#[test]
fn owners_differ_from_each_other_and_from_the_producers() {
    let mut panel = panel(0);
    // Twenty keys of one owner, one of another, one of the producer's network, and the producer.
    (0..20).for_each(|n| assert!(panel.offer(key(n), network(1), &offer(4))));
    assert!(panel.offer(key(30), network(2), &offer(4)));
    assert!(panel.offer(key(40), network(200), &offer(4)));
    assert!(panel.offer(key(900), network(3), &offer(4)));
    let mut of_many = BTreeSet::new();
    for n in 0..16 {
        let chosen = panel.ask(at(0), &question(n)).unwrap();
        panel.dismiss(&group(n));
        assert_eq!(chosen.len(), 2);
        assert!(chosen.contains(&key(30)), "{chosen:?}");
        for key in &chosen {
            assert_eq!(panel.report(key, &group(n), Said::Unable), ReportOutcome::Noted);
        }
        of_many.extend(chosen.into_iter().filter(|chosen| *chosen != key(30)));
    }
    assert!(of_many.len() > 5, "whose work goes round: {of_many:?}");
    // Whose network is not known are one owner, and so is a producer of whom none is known.
    let mut unknown = Panel::new(PanelConfig::default(), [7; 32]);
    (0..9).for_each(|n| assert!(unknown.offer(key(n), None, &offer(4))));
    assert_eq!(unknown.ask(at(0), &question(1)), None);
    let config = PanelConfig { owners: Owners::Key, ..PanelConfig::default() };
    let mut known = Panel::new(config, [7; 32]);
    (0..9).for_each(|n| assert!(known.offer(key(n), None, &offer(4))));
    assert_eq!(known.ask(at(0), &question(1)).map(|chosen| chosen.len()), Some(3));
}

#[test]
fn who_may_be_any_owner_is_asked_only_where_nothing_is_known_of_all() {
    let mut panel = panel(2);
    (10..20).for_each(|n| assert!(panel.offer(key(n), None, &offer(64))));
    for n in 0..16 {
        let chosen = panel.ask(at(0), &question(n)).unwrap();
        panel.dismiss(&group(n));
        chosen
            .iter()
            .for_each(|key| assert_eq!(panel.report(key, &group(n), Said::Unable), ReportOutcome::Noted));
        assert_eq!(BTreeSet::from_iter(chosen), [0, 1].map(key).into());
    }
    let mut panel = self::panel(1);
    (10..20).for_each(|n| assert!(panel.offer(key(n), None, &offer(64))));
    assert_eq!(panel.ask(at(0), &question(1)), None, "one that is known, and others that may be the same");
    // One of them turns out to be another.
    panel.moved(&key(10), network(10));
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(BTreeSet::from_iter(chosen), [0, 10].map(key).into());
    // Where each key is an owner, networks say nothing.
    let config = PanelConfig { owners: Owners::Key, ..PanelConfig::default() };
    let mut keys = Panel::new(config, [7; 32]);
    assert!(keys.offer(key(0), network(0), &offer(4)));
    (1..3).for_each(|n| assert!(keys.offer(key(n), None, &offer(4))));
    assert_eq!(keys.ask(at(0), &question(1)).map(|chosen| chosen.len()), Some(3));
}

#[test]
fn an_owner_with_many_keys_is_drawn_no_more_often() {
    let mut often = 0;
    for n in 0..300 {
        let mut panel = Panel::new(PanelConfig { n: 2, ..PanelConfig::default() }, [7; 32]);
        (0..50).for_each(|n| assert!(panel.offer(key(n), network(0), &offer(4))));
        (1..8u8).for_each(|n| assert!(panel.offer(key(100 + u64::from(n)), network(n), &offer(4))));
        let chosen = panel.ask(at(0), &question(n)).unwrap();
        often += usize::from(chosen.iter().any(|chosen| *chosen < key(100)));
    }
    assert!((45..105).contains(&often), "{often} of 300 at a share of 1/4");
}

#[test]
fn fresh_keys_bring_an_owner_that_never_answers_no_further_group() {
    let mut panel = panel(0);
    // Fifty keys of one owner, and two honest verifiers.
    (0..50).for_each(|n| assert!(panel.offer(key(n), network(1), &offer(4))));
    let honest = [(100, 2), (101, 3)].map(|(n, of)| (key(n), network(of)));
    honest.iter().for_each(|(key, network)| assert!(panel.offer(*key, *network, &offer(4))));
    let is_mute = |key: &&PublicKey| honest.iter().all(|(honest, _)| honest != *key);
    // How many of the mute are asked about a group, which the honest vouch for.
    let asked = |panel: &mut Panel, now, n| {
        let chosen = panel.ask(at(now), &question(n)).unwrap();
        honest.iter().for_each(|(key, _)| drop(panel.report(key, &group(n), Said::Sound)));
        chosen.iter().filter(is_mute).count()
    };
    assert_eq!((0..20).map(|n| asked(&mut panel, 0, n)).sum::<usize>(), 1);
    assert_eq!(panel.expired(at(WITHIN)).len(), 1, "and one group waits");
    // Nor do all go and others come.
    for n in 0..50 {
        panel.gone(&key(n));
        assert!(panel.offer(key(200 + n), network(1), &offer(4)));
    }
    let until = WITHIN + DEBT_MS;
    assert_eq!((20..40).map(|n| asked(&mut panel, until - 1, n)).sum::<usize>(), 0);
    assert_eq!((40..60).map(|n| asked(&mut panel, until, n)).sum::<usize>(), 1, "one in a minute");
}

#[test]
fn fresh_keys_bring_an_owner_that_cannot_tell_no_further_group() {
    let mut panel = panel(0);
    // Fifty keys of one owner, and two honest verifiers.
    (0..50).for_each(|n| assert!(panel.offer(key(n), network(1), &offer(4))));
    (2..4u8).for_each(|n| assert!(panel.offer(key(100 + u64::from(n)), network(n), &offer(4))));
    // How many of the shy are asked about a group, which the honest vouch for.
    let asked = |panel: &mut Panel, now, n| {
        let chosen = panel.ask(at(now), &question(n)).unwrap();
        let (shy, honest): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|chosen| *chosen < key(50));
        honest.iter().for_each(|key| drop(panel.report(key, &group(n), Said::Sound)));
        shy.iter().for_each(|key| drop(panel.report(key, &group(n), Said::Unable)));
        shy.len()
    };
    assert_eq!((0..20).map(|n| asked(&mut panel, 0, n)).sum::<usize>(), 1, "until the learner has looked");
    panel.settle(&group(0), true);
    assert_eq!((20..40).map(|n| asked(&mut panel, WITHIN - 1, n)).sum::<usize>(), 0);
    assert_eq!((40..60).map(|n| asked(&mut panel, WITHIN, n)).sum::<usize>(), 1);
}

#[test]
fn who_moves_while_it_owes_a_report_leaves_the_debt_behind() {
    let mut panel = panel(2);
    assert!(panel.ask(at(0), &question(1)).is_some());
    assert_eq!(panel.report(&key(1), &group(1), Said::Sound), ReportOutcome::Noted);
    panel.moved(&key(0), network(7));
    assert!(panel.offer(key(10), network(0), &offer(4)));
    assert_eq!(panel.ask(at(DEBT_MS - 1), &question(2)), None, "a fresh key where it was");
    let chosen = panel.ask(at(DEBT_MS), &question(3)).unwrap();
    assert_eq!(BTreeSet::from_iter(chosen), [1, 10].map(key).into());
    // Whose place becomes known only now has not moved.
    let mut unknown = Panel::new(PanelConfig { n: 1, k: 1, ..PanelConfig::default() }, [7; 32]);
    assert!(unknown.offer(key(0), None, &offer(4)));
    assert_eq!(unknown.ask(at(0), &question(1)), Some(vec![key(0)]));
    unknown.moved(&key(0), network(0));
    assert!(matches!(unknown.report(&key(0), &group(1), Said::Sound), ReportOutcome::Ruled(_)));
    assert_eq!(unknown.ask(at(0), &question(2)), Some(vec![key(0)]));
}

#[test]
fn an_owners_machines_share_what_they_have_earned() {
    let config = PanelConfig { n: 1, k: 1, ..PanelConfig::default() };
    let mut panel = Panel::new(config, [7; 32]);
    (0..3).for_each(|n| assert!(panel.offer(key(n), network(1), &offer(4))));
    let first = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.ask(at(0), &question(2)), None);
    assert!(matches!(panel.report(&first[0], &group(1), Said::Sound), ReportOutcome::Ruled(_)));
    assert!(panel.ask(at(0), &question(3)).is_some() && panel.ask(at(0), &question(4)).is_some());
    assert_eq!(panel.ask(at(0), &question(5)), None, "two after one report in time");
}

#[test]
fn no_group_waits_until_it_is_too_old() {
    let mut panel = panel(3);
    panel.at(at(0), PolicyVersion(3));
    panel.at(at(1_000), PolicyVersion(4));
    let fresh_until =
        |version, number| Question { fresh_until: Some(PolicyVersion(version)), ..question(number) };
    assert_eq!(panel.ask(at(1_000), &fresh_until(3, 1)), None, "it is too old already");
    // Too old at 3,000, if updates go on as they do.
    assert!(panel.ask(at(1_000), &fresh_until(5, 2)).is_some());
    assert_eq!(panel.expired(at(2_499)), []);
    assert_eq!(panel.expired(at(2_500)), [(group(2), Ruling::Open)]);
}

#[test]
fn who_lacks_a_policy_is_not_asked() {
    let mut panel = panel(3);
    let newer = Question { versions: [PolicyVersion(2), PolicyVersion(6)].into(), ..question(1) };
    assert_eq!(panel.ask(at(0), &newer), None);
    for n in 0..3 {
        let held = vec![PolicyVersion(2), PolicyVersion(6)];
        assert!(panel.offer(key(n), network(n as u8), &Offer { capacity: 4, held }));
    }
    assert!(panel.ask(at(0), &newer).is_some());
}

#[test]
fn all_are_waited_for_and_one_who_denounces_is_enough() {
    let mut panel = panel(3);
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.ask(at(0), &question(1)), None, "the same again");
    assert_eq!(panel.report(&chosen[0], &group(1), Said::Sound), ReportOutcome::Noted);
    assert_eq!(panel.report(&chosen[1], &group(1), Said::Sound), ReportOutcome::Noted, "two of two so far");
    assert_eq!(panel.report(&chosen[2], &group(1), Said::Lie), ReportOutcome::Ruled(Ruling::Open));
    let mut verdicts = panel.settle(&group(1), false);
    verdicts.sort();
    let mut expected = vec![(chosen[0], false), (chosen[1], false), (chosen[2], true)];
    expected.sort();
    assert_eq!(verdicts, expected);
    assert_eq!(panel.report(&chosen[0], &group(1), Said::Lie), ReportOutcome::Unasked, "one word a verifier");
    assert_eq!(panel.report(&key(50), &group(1), Said::Lie), ReportOutcome::Unasked);
}

#[test]
fn enough_who_vouch_decide_with_the_last_word_or_the_deadline() {
    let mut panel = panel(3);
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.report(&chosen[0], &group(1), Said::Sound), ReportOutcome::Noted);
    assert_eq!(panel.report(&chosen[1], &group(1), Said::Sound), ReportOutcome::Noted);
    let mut vouched = chosen.clone();
    vouched.sort();
    assert_eq!(
        panel.report(&chosen[2], &group(1), Said::Sound),
        ReportOutcome::Ruled(Ruling::Vouched(vouched))
    );
    panel.dismiss(&group(1));

    let chosen = panel.ask(at(0), &question(2)).unwrap();
    for voucher in &chosen[..2] {
        assert_eq!(panel.report(voucher, &group(2), Said::Sound), ReportOutcome::Noted);
    }
    assert_eq!(panel.expired(at(WITHIN - 1)), []);
    let mut vouched = chosen[..2].to_vec();
    vouched.sort();
    assert_eq!(panel.expired(at(WITHIN)), [(group(2), Ruling::Vouched(vouched))]);
    assert_eq!(panel.expired(at(WITHIN)), [], "once");
    panel.dismiss(&group(2));
    assert_eq!(panel.report(&chosen[2], &group(2), Said::Lie), ReportOutcome::Noted, "nobody looks any more");
}

#[test]
fn too_few_in_time_leave_it_open_and_are_compared_when_they_come() {
    let mut panel = panel(3);
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.report(&chosen[0], &group(1), Said::Sound), ReportOutcome::Noted);
    assert_eq!(panel.expired(at(WITHIN)), [(group(1), Ruling::Open)]);
    // Before the learner has looked, and after.
    assert_eq!(panel.report(&chosen[1], &group(1), Said::Lie), ReportOutcome::Noted);
    let mut verdicts = panel.settle(&group(1), true);
    verdicts.sort();
    let mut expected = vec![(chosen[0], true), (chosen[1], false)];
    expected.sort();
    assert_eq!(verdicts, expected);
    assert_eq!(panel.report(&chosen[2], &group(1), Said::Lie), ReportOutcome::Judged(false));
    assert_eq!(panel.report(&chosen[2], &group(1), Said::Lie), ReportOutcome::Unasked);
}

#[test]
fn who_cannot_tell_has_the_learner_look_and_is_late_where_that_one_can_tell() {
    let mut panel = panel(3);
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    let (shy, others) = (chosen[0], [chosen[1], chosen[2]]);
    let rest_vouch = |panel: &mut Panel, number| {
        others.iter().for_each(|other| drop(panel.report(other, &group(number), Said::Sound)));
    };
    let is_asked = |panel: &mut Panel, now, number| {
        panel.ask(at(now), &question(number)).is_some_and(|chosen| chosen.contains(&shy))
    };
    assert_eq!(panel.report(&others[0], &group(1), Said::Sound), ReportOutcome::Noted);
    let ruled = panel.report(&shy, &group(1), Said::Unable);
    assert_eq!(ruled, ReportOutcome::Ruled(Ruling::Open), "though two of three may vouch");
    assert_eq!(panel.report(&shy, &group(1), Said::Unable), ReportOutcome::Unasked, "one word a verifier");
    assert_eq!(panel.report(&others[1], &group(1), Said::Sound), ReportOutcome::Noted);
    // Until the learner has looked, the group is one that it owes, and no other takes its place.
    assert!(!is_asked(&mut panel, 0, 2));
    rest_vouch(&mut panel, 2);
    panel.dismiss(&group(2));
    let mut verdicts = panel.settle(&group(1), false);
    verdicts.sort();
    let mut expected = others.map(|other| (other, false));
    expected.sort();
    assert_eq!(verdicts, expected, "who could not tell has not lied");
    // It could be told, so it is asked as seldom as who says nothing.
    assert!(!is_asked(&mut panel, WITHIN - 1, 3));
    rest_vouch(&mut panel, 3);
    panel.dismiss(&group(3));
    assert!(is_asked(&mut panel, WITHIN, 4));
    // What nobody can tell is no debt.
    rest_vouch(&mut panel, 4);
    assert_eq!(panel.report(&shy, &group(4), Said::Unable), ReportOutcome::Ruled(Ruling::Open));
    panel.dismiss(&group(4));
    assert!(is_asked(&mut panel, WITHIN, 5));
    // Nor does it help to go and come back before the learner has looked.
    assert_eq!(panel.report(&shy, &group(5), Said::Unable), ReportOutcome::Ruled(Ruling::Open));
    rest_vouch(&mut panel, 5);
    assert_eq!(panel.gone(&shy), []);
    assert!(panel.offer(shy, network(100), &offer(4)));
    assert!(!is_asked(&mut panel, WITHIN, 6));
}

#[test]
fn who_goes_says_nothing_and_leaves_no_group_waiting() {
    let mut panel = panel(3);
    let chosen = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.gone(&chosen[0]), [], "two can still vouch");
    assert_eq!(panel.gone(&chosen[1]), [(group(1), Ruling::Open)]);
    assert_eq!(panel.settle(&group(1), true), []);
    assert_eq!(panel.verifiers(), 1);
}

#[test]
fn who_never_answers_is_not_asked_again() {
    let mut panel = panel(3);
    let mute = panel.ask(at(0), &question(1)).unwrap();
    assert_eq!(panel.expired(at(WITHIN)), [(group(1), Ruling::Open)]);
    panel.settle(&group(1), true);
    assert_eq!(panel.ask(at(WITHIN), &question(2)), None, "each has one that it owes");
    // One report in time earns a second place, lateness takes it away.
    for verifier in &mute {
        assert_eq!(panel.report(verifier, &group(1), Said::Sound), ReportOutcome::Judged(true));
    }
    let chosen = panel.ask(at(WITHIN), &question(2)).unwrap();
    chosen.iter().for_each(|verifier| drop(panel.report(verifier, &group(2), Said::Sound)));
    panel.dismiss(&group(2));
    assert!(panel.ask(at(WITHIN), &question(3)).is_some() && panel.ask(at(WITHIN), &question(4)).is_some());
    assert_eq!(panel.ask(at(WITHIN), &question(5)), None);
    assert_eq!(panel.expired(at(2 * WITHIN)).len(), 2);
    for n in 3..5 {
        panel.settle(&group(n), true);
        chosen.iter().for_each(|verifier| drop(panel.report(verifier, &group(n), Said::Sound)));
    }
    assert!(panel.ask(at(2 * WITHIN), &question(6)).is_some());
    assert_eq!(panel.ask(at(2 * WITHIN), &question(7)), None);
}

#[test]
fn who_goes_while_it_owes_a_report_is_not_asked_for_a_while() {
    let mut panel = panel(3);
    assert!(panel.ask(at(0), &question(1)).is_some());
    let come_back = |panel: &mut Panel| {
        for n in 0..3 {
            panel.gone(&key(n));
            assert!(panel.offer(key(n), network(n as u8), &offer(4)));
        }
    };
    come_back(&mut panel);
    for (now, number) in [(0, 2), (DEBT_MS - 1, 3)] {
        assert_eq!(panel.ask(at(now), &question(number)), None, "each has one that it owes");
        // It owes nothing more, so going again makes it no longer.
        come_back(&mut panel);
    }
    let chosen = panel.ask(at(DEBT_MS), &question(4)).unwrap();
    chosen.iter().for_each(|verifier| drop(panel.report(verifier, &group(4), Said::Sound)));
    panel.dismiss(&group(4));
    come_back(&mut panel);
    assert!(panel.ask(at(DEBT_MS), &question(5)).is_some(), "who has reported may go");
}

#[test]
fn debtors_are_forgotten_in_the_end_and_never_too_many() {
    let config = PanelConfig { owners: Owners::Key, n: 1, k: 1, ..PanelConfig::default() };
    let mut panel = Panel::new(config, [7; 32]);
    for n in 1_000..1_001 + MAX_DEBTORS as u64 {
        assert!(panel.offer(key(n), None, &offer(4)));
        assert_eq!(panel.ask(at(0), &question(n)), Some(vec![key(n)]));
        panel.gone(&key(n));
        panel.dismiss(&group(n));
    }
    assert_eq!(panel.debtors.len(), MAX_DEBTORS);
    panel.expired(at(DEBT_MS));
    assert!(panel.debtors.is_empty());
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let config = PanelConfig { owners: Owners::Key, n: 2, k: 1, ..PanelConfig::default() };
    let mut panel = Panel::new(config, [7; 32]);
    let taken = (0..2 * MAX_VERIFIERS as u64).filter(|n| panel.offer(key(*n), None, &offer(16))).count();
    assert_eq!((taken, panel.verifiers()), (MAX_VERIFIERS, MAX_VERIFIERS));
    let asked = (0..2 * MAX_CASES as u64).filter(|n| panel.ask(at(0), &question(*n)).is_some()).count();
    assert_eq!(asked, MAX_CASES);
    // What nobody settles is forgotten at last.
    assert_eq!(panel.expired(at(WITHIN)).len(), MAX_CASES);
    assert_eq!(panel.expired(at(WITHIN + FORGOTTEN_AFTER_MS + 1)), []);
    assert_eq!((panel.cases.len(), panel.bytes), (0, 0));
    let large = Question { bytes: MAX_CASE_BYTES + 1, ..question(9_999) };
    assert_eq!(panel.ask(at(0), &large), None);
    // Nor is what is owed remembered for ever.
    let mut settled = Settled::default();
    (0..2 * MAX_SETTLED as u64).for_each(|n| settled.remember(group(n), true, [key(1)].into()));
    assert_eq!(settled.len(), MAX_SETTLED);
}
