use super::*;
use crate::wire::identity::NodeKey;
use crate::wire::signed::Signed;

/// Of groups that are computed in f32 at temperature 1.
fn form() -> Form {
    Form {
        group_size: 2,
        max_new_tokens: 4,
        vocabulary: 10,
        precisions: PrecisionName::only_default(),
        keeps_caches: false,
        is_raw: true,
    }
}

fn precision(name: &str) -> PrecisionName {
    PrecisionName::try_from(name.to_owned()).unwrap()
}

fn trajectory() -> Trajectory {
    Trajectory {
        response: vec![1, 2, 3],
        turns: Vec::new(),
        logprobs: vec![-0.5, -0.25, 0.0],
        raw_logprobs: Vec::new(),
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
    let charter = Signed::sign(&crate::run::charter::tests::charter(&key), &key).unwrap();
    TrajectoryGroup {
        run: RunId::of(&charter),
        lease: LeaseId(1),
        counter: OrderCounter(7),
        node: key.public(),
        trajectories: vec![trajectory(), trajectory()],
        precision: PrecisionName::default(),
        caches: Caches::Recomputed,
        recomputed: Vec::new(),
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
    assert_eq!(opened.check_form(&form()), Ok(()));
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
        assert!(group.check_form(&form()).is_err(), "case {case} passed");
    }
    let mut short = group();
    short.trajectories.pop();
    assert!(short.check_form(&form()).is_err());
}

#[test]
fn a_group_has_one_schedule_of_versions() {
    let form = Form { max_new_tokens: 5, group_size: 3, ..form() };
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

    let found = |lengths: Vec<u32>| {
        let mut group = group();
        group.trajectories[1].turns = lengths;
        group.check_form(&form())
    };
    for right in [vec![], vec![2, 1], vec![1, 1, 1]] {
        assert_eq!(found(right), Ok(()));
    }
    let most = vec![1; MAX_TURNS + 1];
    for wrong in [vec![3], vec![1, 1], vec![3, 0], vec![2, 2], vec![u32::MAX, 4], most] {
        assert!(found(wrong.clone()).is_err(), "{wrong:?} passed");
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
    let bytes = crate::wire::codec::encode(&old, 1 << 10).unwrap();
    assert_eq!(crate::wire::codec::encode(&trajectory(), 1 << 10).unwrap(), bytes);
    assert_eq!(crate::wire::codec::decode::<Trajectory>(&bytes, 1 << 10).unwrap(), trajectory());
    let several = Trajectory { turns: vec![2, 1], ..trajectory() };
    let bytes = crate::wire::codec::encode(&several, 1 << 10).unwrap();
    assert_eq!(crate::wire::codec::decode::<Trajectory>(&bytes, 1 << 10).unwrap(), several);
}

#[test]
fn the_largest_allowed_group_fits_its_limit() {
    // 5 bytes is the longest CBOR form of a u32 and of an f32.
    assert!(
        crate::run::charter::MAX_GROUP_TOKENS * 15 + 512 * u64::from(crate::run::charter::MAX_GROUP_SIZE)
            < MAX_GROUP_BYTES as u64
    );
}

/// `plain()` as programs of before precisions were declared write it.
const PLAIN: &str = concat!(
    "a56372756e58200101010101010101010101010101010101010101010101010101010101010101656c65617365016763",
    "6f756e74657207646e6f6465582002020202020202020202020202020202020202020202020202020202020202026c74",
    "72616a6563746f7269657381a668726573706f6e736583010203686c6f6770726f627383f9b800f9b400f90000687665",
    "7273696f6e7382a26776657273696f6e0266746f6b656e7302a26776657273696f6e0466746f6b656e73016672657761",
    "7264f93c006773746f70706564f5656f6d656761a2656d6f76657303646e6f7465626f6b",
);

/// A group without anything that follows from keys.
fn plain() -> TrajectoryGroup {
    let run = crate::wire::codec::encode(&PublicKey::from_bytes([1; 32]), 64).unwrap();
    TrajectoryGroup {
        run: crate::wire::codec::decode(&run, 64).unwrap(),
        node: PublicKey::from_bytes([2; 32]),
        trajectories: vec![trajectory()],
        ..group()
    }
}

fn hexed(group: &TrajectoryGroup) -> String {
    hex::encode(crate::wire::codec::encode(group, 1 << 10).unwrap())
}

#[test]
fn a_group_of_f32_is_encoded_as_ever() {
    assert_eq!(hexed(&plain()), PLAIN);
    let bytes = hex::decode(PLAIN).unwrap();
    assert_eq!(crate::wire::codec::decode::<TrajectoryGroup>(&bytes, 1 << 10).unwrap(), plain());
}

#[test]
fn what_is_declared_travels() {
    let precision = precision("bf16");
    let mut declared = TrajectoryGroup { precision, caches: Caches::Kept, recomputed: vec![3], ..plain() };
    declared.trajectories[0].raw_logprobs = vec![-0.5, -0.75, -1.0];
    let bytes = crate::wire::codec::encode(&declared, 1 << 10).unwrap();
    assert_eq!(crate::wire::codec::decode::<TrajectoryGroup>(&bytes, 1 << 10).unwrap(), declared);
    assert_eq!(ciborium::from_reader::<TrajectoryGroup, _>(bytes.as_slice()).unwrap(), declared);
    let behind = "69707265636973696f6e 6462663136 66636163686573 646b657074 6a7265636f6d7075746564 8103"
        .replace(' ', "");
    assert!(hexed(&declared).ends_with(&behind), "{}", hexed(&declared));
}

#[test]
fn only_what_the_charter_lists_may_be_declared() {
    let of_both = Form { precisions: vec![precision("f32"), precision("bf16")], ..form() };
    let declared =
        |name, form: &Form| TrajectoryGroup { precision: precision(name), ..group() }.check_form(form);
    assert_eq!(declared("f32", &form()), Ok(()));
    assert_eq!(declared("bf16", &of_both), Ok(()));
    let refused = declared("int8", &of_both).unwrap_err();
    assert_eq!(refused.to_string(), "computed in int8: the run takes f32, bf16");
    assert!(declared("bf16", &form()).is_err());
}

#[test]
fn caches_are_kept_where_the_charter_allows_it_and_there_is_something_to_keep() {
    let keeps = Form { keeps_caches: true, ..form() };
    let kept = TrajectoryGroup { caches: Caches::Kept, ..group() };
    assert_eq!(kept.check_form(&keeps), Ok(()));
    assert!(matches!(kept.check_form(&form()), Err(SchemaError::Caches(_))));
    assert_eq!(group().check_form(&keeps), Ok(()), "nobody has to");
    let with = |recomputed: &[u32]| {
        TrajectoryGroup { recomputed: recomputed.to_vec(), ..kept.clone() }.check_form(&keeps)
    };
    assert_eq!(with(&[1]), Ok(()));
    // The only change of version is before token 2, and there are three tokens.
    for wrong in [&[2][..], &[1, 2], &[1, 1], &[0], &[3]] {
        assert!(matches!(with(wrong), Err(SchemaError::Caches(_))), "{wrong:?}");
    }
    let recomputed = TrajectoryGroup { recomputed: vec![1], ..group() };
    assert!(matches!(recomputed.check_form(&keeps), Err(SchemaError::Caches(_))));
    let mut one = kept.clone();
    one.trajectories.iter_mut().for_each(|t| t.versions = spans([2, 2, 2].map(PolicyVersion)));
    assert!(matches!(one.check_form(&keeps), Err(SchemaError::Caches(_))));
}

#[test]
fn no_more_positions_are_named_than_versions_change() {
    let keeps = Form { keeps_caches: true, ..form() };
    let trajectory = Trajectory {
        response: vec![1; 4],
        logprobs: vec![-0.5; 4],
        versions: spans([2, 2, 2, 4].map(PolicyVersion)),
        ..trajectory()
    };
    let with = |recomputed: &[u32]| {
        let trajectories = vec![trajectory.clone(); 2];
        let recomputed = recomputed.to_vec();
        TrajectoryGroup { trajectories, caches: Caches::Kept, recomputed, ..group() }.check_form(&keeps)
    };
    assert_eq!(with(&[1]), Ok(()));
    assert_eq!(with(&[1, 2]), Err(SchemaError::Caches("more positions than versions change")));
}

/// As many as a frame of 8 MB holds. Where each change is searched for among all positions, this takes
/// minutes.
#[test]
fn half_a_million_positions_are_checked_in_no_time() {
    let changes = 500_000u32;
    let tokens = changes as usize + 1;
    let trajectory = Trajectory {
        response: vec![1; tokens],
        logprobs: vec![-0.5; tokens],
        versions: spans((0..=u64::from(changes)).map(PolicyVersion)),
        ..trajectory()
    };
    let group = TrajectoryGroup {
        trajectories: vec![trajectory],
        caches: Caches::Kept,
        recomputed: (1..=changes).collect(),
        ..group()
    };
    let form = Form { group_size: 1, max_new_tokens: changes + 1, keeps_caches: true, ..form() };
    let begun = std::time::Instant::now();
    assert_eq!(
        group.check_form(&form),
        Err(SchemaError::Caches("nothing was kept at any change of version"))
    );
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn raw_logprobs_are_those_of_all_tokens_and_none_of_another_distribution() {
    let cold = Form { is_raw: false, ..form() };
    let found = |raw: &[f32], form: &Form| {
        let mut group = group();
        group.trajectories[1].raw_logprobs = raw.to_vec();
        group.check_form(form)
    };
    assert_eq!((found(&[], &form()), found(&[], &cold)), (Ok(()), Ok(())));
    assert_eq!(found(&[-1.0, -2.0, -3.0], &cold), Ok(()));
    assert!(found(&[-1.0, -2.0, -3.0], &form()).is_err(), "they are the others");
    for wrong in [vec![-1.0], vec![-1.0; 4], vec![-1.0, f32::NAN, -1.0], vec![-1.0, 0.5, -1.0]] {
        assert!(found(&wrong, &cold).is_err(), "{wrong:?}");
    }
}

#[test]
fn the_form_is_the_charters() {
    let key = NodeKey::from_secret([9; 32]);
    let plain = crate::run::charter::tests::charter(&key);
    assert_eq!(Form::of(&plain, 10), Form { group_size: 4, max_new_tokens: 8, ..form() });
    let mut other = crate::run::charter::Charter { takeover: Takeover::Keep, ..plain };
    other.precisions.push(precision("int8"));
    other.sampling.top_k = 5;
    let form = Form::of(&other, 10);
    assert_eq!((form.precisions, form.keeps_caches, form.is_raw), (other.precisions, true, false));
    other.takeover = Takeover::Wait;
    assert!(!Form::of(&crate::run::charter::Charter { precisions: vec![], ..other }, 10).keeps_caches);
}
