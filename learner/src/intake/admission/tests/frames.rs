//! Bytes that arrive: their size, form, signature and sender.

use echo_protocol::wire::signed::Signable;
use serde::{Deserialize, Serialize};

use super::*;

#[test]
fn a_frame_of_a_gigabyte_is_refused_before_it_is_read() {
    let mut world = World::new();
    let refused = world.admission.check_frame(1 << 30).unwrap_err();
    assert_eq!((refused.reason, refused.counter), (RefuseReason::FrameTooLarge, None));
    let longest = world.admission.longest_frame() as u64;
    assert!(longest < MAX_FRAME_BYTES as u64, "short responses need short frames");
    assert!(
        world.admission.check_frame(longest).is_ok() && world.admission.check_frame(longest + 1).is_err()
    );
    assert_eq!(reason(world.submit(&vec![0; MAX_FRAME_BYTES + 1])), RefuseReason::FrameTooLarge);
}

/// Nested arrays, as the body of a rightly signed message.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Nested(Vec<Nested>);

impl Signable for Nested {
    const CONTEXT: &'static str = TrajectoryGroup::CONTEXT;
    const MAX_BYTES: usize = TrajectoryGroup::MAX_BYTES;
}

#[test]
fn bytes_that_are_no_group_are_malformed() {
    let mut world = World::new();
    let mut deep = vec![0x81; 10_000];
    deep.push(0);
    let nested = (0..10_000).fold(Nested(Vec::new()), |inner, _| Nested(vec![inner]));
    let signed = Signed::sign(&nested, &world.node).unwrap().to_bytes();
    // Dropped layer by layer: dropping 10,000 at once would exhaust the test's own stack.
    let mut rest = nested;
    while let Some(inner) = rest.0.pop() {
        rest = inner;
    }
    for frame in [&deep[..], &signed, &[], &[0xff; 100], b"GET / HTTP/1.1\r\n"] {
        assert_eq!(reason(world.submit(frame)), RefuseReason::Malformed);
    }
    let honest = Signed::sign(&world.group(0), &world.node).unwrap().to_bytes();
    assert_eq!(reason(world.submit(&honest[..honest.len() - 1])), RefuseReason::Malformed);
}

#[test]
fn an_altered_response_or_a_forged_signature_is_noticed() {
    let mut world = World::new();
    let group = world.group(0);
    let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
    let body = codec::encode(&group, MAX_GROUP_BYTES).unwrap();
    let at = frame.windows(body.len()).position(|window| window == body).unwrap();
    // A token of the first response, one digit off.
    let name = b"hresponse";
    let token = at + body.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 1;
    let mut altered = frame.clone();
    altered[token] ^= 1;
    assert!(codec::decode::<TrajectoryGroup>(&altered[at..at + body.len()], MAX_GROUP_BYTES).is_ok());
    assert_eq!(reason(world.submit(&altered)), RefuseReason::Signature);

    // Signed by somebody else, posing as the node.
    let thief = NodeKey::from_secret([9; 32]);
    let forged = Signed::sign(&group, &thief).unwrap().to_bytes();
    let replace = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
        [&bytes[..at], to, &bytes[at + from.len()..]].concat()
    };
    let forged = replace(&forged, thief.public().as_bytes(), world.node.public().as_bytes());
    assert_eq!(reason(world.submit(&forged)), RefuseReason::Signature);
}

#[test]
fn nobody_delivers_with_somebody_elses_key_or_name() {
    let mut world = World::new();
    let other = NodeKey::from_secret([3; 32]);
    // Somebody else's work, stolen and sent as it is.
    let mut theirs = world.group(0);
    theirs.node = other.public();
    let stolen = Signed::sign(&theirs, &other).unwrap().to_bytes();
    assert_eq!(reason(world.submit(&stolen)), RefuseReason::Identity);
    // One's own work under another's key.
    let mut borrowed = Signed::sign(&world.group(0), &world.node).unwrap().to_bytes();
    let mine = *world.node.public().as_bytes();
    let at = borrowed.windows(mine.len()).rposition(|window| window == mine).unwrap();
    borrowed[at..at + mine.len()].copy_from_slice(other.public().as_bytes());
    assert_eq!(reason(world.submit(&borrowed)), RefuseReason::Identity);
    // One's own signature under another's name.
    assert_eq!(reason(world.send(&theirs)), RefuseReason::Identity);
}

#[test]
fn groups_of_another_run_are_refused() {
    let mut world = World::new();
    let other = run_of(&world.learner, 2);
    assert_eq!(reason(world.lie(|group| group.run = other)), RefuseReason::Run);
}

#[test]
fn who_is_heard_is_decided_from_the_head_of_a_frame() {
    let world = World::new();
    let (me, group) = (world.node.public(), world.group(0));
    let frame = Signed::sign(&group, &world.node).unwrap().to_bytes();
    let head = world.admission.read_head(&frame, &me).unwrap();
    assert_eq!(head, group.head());
    let look_up = |head: &echo_protocol::work::trajectory::GroupHead| {
        world.admission.check_lease(&head.node, head.lease, head.counter, &world.book, &world.buffer)
    };
    assert_eq!(look_up(&head), Ok(()));
    // An order that nobody leased, and somebody else's group: nothing behind the head is looked at.
    let unleased = Signed::sign(&world.group(99), &world.node).unwrap().to_bytes();
    let head = world.admission.read_head(&unleased, &me).unwrap();
    let refused = look_up(&head);
    assert!(
        matches!(&refused, Err(Rejection::Refused(refusal)) if refusal.reason == RefuseReason::Lease),
        "{refused:?}"
    );
    let other = NodeKey::from_secret([9; 32]);
    let foreign = world.admission.read_head(&frame, &other.public()).unwrap_err();
    assert_eq!(foreign.reason, RefuseReason::Identity);
    // A frame whose body is no group at all.
    let nonsense = world.admission.read_head(&frame[..40], &me).unwrap_err();
    assert_eq!(nonsense.reason, RefuseReason::Malformed);
}
