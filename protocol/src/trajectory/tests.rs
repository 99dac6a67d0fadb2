use super::*;
use crate::identity::NodeKey;
use crate::signed::Signed;

const FORM: Form = Form { group_size: 2, max_new_tokens: 4, vocabulary: 10 };

fn trajectory() -> Trajectory {
    Trajectory {
        response: vec![1, 2, 3],
        turns: Vec::new(),
        logprobs: vec![-0.5, -0.25, 0.0],
        versions: spans([2, 2, 4].map(PolicyVersion)),
        reward: 1.0,
        stopped: true,
        omega: Omega::from([
            ("moves".into(), MetaValue::Integer(3)),
            ("note".into(), MetaValue::Text("ok".into())),
        ]),
    }
}

fn group() -> TrajectoryGroup {
    let key = NodeKey::from_secret([9; 32]);
    let charter = Signed::sign(&crate::charter::tests::charter(&key), &key).unwrap();
    TrajectoryGroup {
        run: RunId::of(&charter),
        lease: LeaseId(1),
        counter: OrderCounter(7),
        node: key.public(),
        trajectories: vec![trajectory(), trajectory()],
    }
}

#[test]
fn travels_and_keeps_its_versions() {
    let key = NodeKey::from_secret([9; 32]);
    let signed = Signed::sign(&group(), &key).unwrap();
    let opened =
        Signed::<TrajectoryGroup>::from_bytes(&signed.to_bytes()).unwrap().open_from(&key.public()).unwrap();
    assert_eq!(opened, group());
    assert_eq!(opened.trajectories[0].token_versions().map(|v| v.0).collect::<Vec<_>>(), [2, 2, 4]);
    assert_eq!(
        (opened.oldest_version(), opened.newest_version()),
        (Some(PolicyVersion(2)), Some(PolicyVersion(4)))
    );
    assert_eq!(opened.check_form(&FORM), Ok(()));
}

#[test]
fn every_contradiction_is_found() {
    let broken: [fn(&mut Trajectory); 11] = [
        |t| t.response.clear(),
        |t| t.response.push(1),
        |t| t.response[0] = 10,
        |t| t.logprobs[1] = f32::NAN,
        |t| t.logprobs[1] = 0.5,
        |t| t.logprobs[1] = f32::NEG_INFINITY,
        |t| t.reward = 1.5,
        |t| t.reward = f32::NAN,
        |t| t.versions[0].tokens = 9,
        |t| t.versions.reverse(),
        |t| t.omega = (0..17).map(|i| (i.to_string(), MetaValue::Flag(true))).collect(),
    ];
    for (case, breaking) in broken.into_iter().enumerate() {
        let mut group = group();
        breaking(&mut group.trajectories[1]);
        assert!(group.check_form(&FORM).is_err(), "case {case} passed");
    }
    let mut short = group();
    short.trajectories.pop();
    assert!(short.check_form(&FORM).is_err());
}

#[test]
fn a_group_has_one_schedule_of_versions() {
    let form = Form { max_new_tokens: 5, group_size: 3, ..FORM };
    let found = |versions: [&[u64]; 3]| {
        let trajectories = versions.map(|versions| Trajectory {
            response: vec![1; versions.len()],
            logprobs: vec![-0.5; versions.len()],
            versions: spans(versions.iter().copied().map(PolicyVersion)),
            ..trajectory()
        });
        TrajectoryGroup { trajectories: trajectories.into(), ..group() }.check_form(&form)
    };
    // Some were over before the newer version came; none goes on in another way.
    assert_eq!(found([&[2, 2], &[2, 2, 2, 4, 6], &[2, 2, 2, 4]]), Ok(()));
    assert_eq!(found([&[4], &[4, 4, 4], &[4, 4, 4]]), Ok(()));
    let wrong: [([&[u64]; 3], usize); 4] = [
        ([&[2, 2, 2], &[2, 2, 4], &[2, 2, 4, 4]], 0),
        ([&[2, 2, 4], &[2, 4, 4], &[2, 2, 4, 4]], 1),
        ([&[2, 2, 4, 4], &[2, 2, 4], &[4, 4, 4]], 2),
        ([&[2, 2, 2], &[2], &[2, 6, 6, 6]], 0),
    ];
    for (versions, trajectory) in wrong {
        assert_eq!(found(versions), Err(SchemaError::Schedule { trajectory }), "{versions:?}");
    }
}

#[test]
fn turns_share_the_response_among_them() {
    let ranges = |turns: &[u32]| {
        let trajectory = Trajectory { turns: turns.to_vec(), ..trajectory() };
        trajectory.turn_ranges().collect::<Vec<_>>()
    };
    assert_eq!(ranges(&[]), std::slice::from_ref(&(0..3)));
    assert_eq!(ranges(&[2, 1]), [0..2, 2..3]);
    assert_eq!(ranges(&[1, 1, 1]), [0..1, 1..2, 2..3]);
    assert_eq!((turns(vec![3]), turns(vec![2, 1])), (vec![], vec![2, 1]));

    let form = |lengths: Vec<u32>| {
        let mut group = group();
        group.trajectories[1].turns = lengths;
        group.check_form(&FORM)
    };
    for right in [vec![], vec![2, 1], vec![1, 1, 1]] {
        assert_eq!(form(right), Ok(()));
    }
    let most = vec![1; MAX_TURNS + 1];
    for wrong in [vec![3], vec![1, 1], vec![3, 0], vec![2, 2], vec![u32::MAX, 4], most] {
        assert!(form(wrong.clone()).is_err(), "{wrong:?} passed");
    }
}

/// What nodes and databases of before there were turns hold.
#[derive(Serialize)]
struct OneTurn {
    response: Vec<u32>,
    logprobs: Vec<f32>,
    versions: Vec<VersionSpan>,
    reward: f32,
    stopped: bool,
    omega: Omega,
}

#[test]
fn one_turn_is_encoded_as_ever() {
    let Trajectory { response, logprobs, versions, reward, stopped, omega, .. } = trajectory();
    let old = OneTurn { response, logprobs, versions, reward, stopped, omega };
    let bytes = crate::codec::encode(&old, 1 << 10).unwrap();
    assert_eq!(crate::codec::encode(&trajectory(), 1 << 10).unwrap(), bytes);
    assert_eq!(crate::codec::decode::<Trajectory>(&bytes, 1 << 10).unwrap(), trajectory());
    let several = Trajectory { turns: vec![2, 1], ..trajectory() };
    let bytes = crate::codec::encode(&several, 1 << 10).unwrap();
    assert_eq!(crate::codec::decode::<Trajectory>(&bytes, 1 << 10).unwrap(), several);
}

#[test]
fn the_largest_allowed_group_fits_its_limit() {
    // 5 bytes is the longest CBOR form of a u32 and of an f32.
    assert!(MAX_GROUP_TOKENS * 10 + 512 * u64::from(crate::charter::MAX_GROUP_SIZE) < MAX_GROUP_BYTES as u64);
}
