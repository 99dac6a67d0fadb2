//! Devices that are lost, and such as have no room.

use super::*;

/// A card that is lost at its `nth` call.
fn lost_at(nth: usize) -> Device {
    let calls = AtomicUsize::new(0);
    card("Card", move |call| {
        let gone = matches!(call, Call::Feed(_)) && calls.fetch_add(1, Relaxed) + 1 >= nth;
        gone.then(|| EngineError::DeviceLost { device: "Card".into(), why: "unplugged".into() })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_device_is_lost_the_next_one_goes_on_and_no_token_is_lost() {
    let mut undisturbed = fixture();
    (10..16).for_each(|counter| undisturbed.order(counter, UnixMillis(u64::MAX)));
    undisturbed.install(3);
    undisturbed.wait_for(6).await;
    let expected = groups(&undisturbed, 10..16);
    undisturbed.end().await;
    // In the first prompt, in the midst of several responses, and again on the next device.
    for devices in [vec![lost_at(1)], vec![lost_at(40)], vec![lost_at(30), lost_at(20)]] {
        let lost = devices.len();
        let mut fixture =
            fixture_on(devices.into_iter().chain([Device::cpu()]).collect(), testing::workload());
        (10..16).for_each(|counter| fixture.order(counter, UnixMillis(u64::MAX)));
        fixture.install(3);
        fixture.wait_for(6).await;
        assert_eq!(groups(&fixture, 10..16), expected);
        let facts = fixture.node_state.facts(clock::now());
        assert_eq!((facts.device.as_deref(), facts.lost_devices.len()), (Some("CPU"), lost), "{facts:?}");
        assert!(facts.lost_devices[0].why.contains("unplugged"));
        // The next version does not go there either.
        fixture.install(4);
        fixture.order(20, UnixMillis(u64::MAX));
        fixture.wait_for(7).await;
        assert_eq!(fixture.node_state.facts(clock::now()).device.as_deref(), Some("CPU"));
        fixture.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_came_to_a_device_just_before_it_was_lost_is_loaded_anew() {
    let mut fixture = fixture_on(vec![lost_at(usize::MAX), Device::cpu()], testing::workload());
    fixture.install(3);
    // As when the driver has told it already, and nobody has called it since.
    let installed = fixture.policy.borrow().clone().unwrap();
    assert_eq!(installed.device.name(), "Card");
    let why = EngineError::DeviceLost { device: "Card".into(), why: "unplugged".into() };
    fixture.fallback.lost(&installed.device, &why);
    let again = installed.reload(&fixture.fallback).unwrap();
    assert_eq!((again.device.name(), again.version(), again.precision()), ("CPU", 3, Precision::F32));
    fixture.order(1, UnixMillis(u64::MAX));
    fixture.wait_for(1).await;
    fixture.end().await;
}

#[test]
fn a_policy_that_waits_to_take_over_moves_with_the_one_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = ChunkStore::open(&dir.path().join("chunks")).unwrap();
    let workload = workload_with(|charter| charter.takeover = Takeover::Wait);
    let fallback = DeviceFallback::of(vec![lost_at(60), Device::cpu()], Arc::default());
    let load = |version| Arc::new(testing::installed_on(&fallback, &store, version, &workload));
    let (first, second) = (load(1), load(2));
    let mut flight = OrdersInFlight::new(&workload, first.clone(), ALL);
    (0..8).for_each(|counter| flight.begin(order(counter), &first.tokenizer).unwrap());
    flight.step(&first.tokenizer, || false).unwrap();
    flight.install(second.clone()).unwrap();
    let (mut landed, mut moved) = (Vec::new(), 0);
    while !flight.is_empty() {
        if let Err(error) = flight.step(&first.tokenizer, || false) {
            assert!(matches!(error, EngineError::DeviceLost { .. }), "{error}");
            let newest = flight.move_on(&fallback, &error).unwrap();
            assert_eq!((newest.version(), newest.device.name()), (2, "CPU"));
            moved += 1;
        }
        landed.extend(flight.landed(&key()));
        // The ninth begins when the eight are done, under the second.
        if flight.is_empty() && landed.len() == 8 {
            flight.begin(order(8), &first.tokenizer).unwrap();
        }
    }
    assert_eq!((moved, landed.len()), (1, 9));
    for (HeldOrder { counter, .. }, group) in landed {
        let group: TrajectoryGroup = Signed::from_bytes(&group.unwrap()).unwrap().open().unwrap();
        group.check_form(workload.form()).unwrap();
        let versions: Vec<_> =
            group.trajectories.iter().flat_map(|t| &t.versions).map(|s| s.version.0).collect();
        assert!(
            versions.iter().all(|version| *version == if counter.0 == 8 { 2 } else { 1 }),
            "{versions:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_the_device_has_no_room_for_is_given_up_alone() {
    let workload = testing::workload();
    let tokenizer = workload.tokenizer(&[]).unwrap();
    let prompt = |counter| workload.request(OrderCounter(counter), &tokenizer).unwrap().prompt;
    let poison = prompt(12);
    assert!((10..16).all(|counter| counter == 12 || !prompt(counter).starts_with(&poison)));
    let small = card("Card", move |call| match call {
        Call::Feed(tokens) if tokens.starts_with(&poison) => Some(EngineError::Memory { wanted: 9, free: 1 }),
        _ => None,
    });
    let mut fixture = fixture_on(vec![small, Device::cpu()], workload);
    (10..16).for_each(|counter| fixture.order(counter, UnixMillis(u64::MAX)));
    fixture.install(3);
    fixture.wait_for(5).await;
    fixture.order(20, UnixMillis(u64::MAX));
    fixture.wait_for(6).await;
    for counter in 10..16 {
        assert_eq!(fixture.outbox.contains(OrderCounter(counter)).unwrap(), counter != 12);
    }
    let facts = fixture.node_state.facts(clock::now());
    assert_ne!(facts.state, NodeActivity::PolicyUnusable);
    assert_eq!((facts.device.as_deref(), facts.lost_devices.len()), (Some("Card"), 0), "{facts:?}");
    fixture.end().await;
}
