//! Frames from strangers: no length makes a reader hold more than its cap, and what is written is
//! read as it was.
#![no_main]

use std::sync::OnceLock;

use bytes::Bytes;
use echo_fuzz::{Edit, edited};
use echo_protocol::net::snapshots::frames;
use echo_protocol::net::snapshots::frames::{MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES, PullMessage, ServeMessage};
use echo_protocol::net::{read_frame, write_frame};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::blocks::{BlockMask, MAX_BLOCKS};
use echo_protocol::snapshot::manifest::PieceIndex;
use echo_protocol::snapshot::piece_set::{Holdings, MAX_PIECES, PieceSet};
use echo_protocol::wire::content_id::ContentId;
use futures::executor::block_on;
use futures::io::Cursor;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

/// Bytes in front of a frame's header: the length of all, and that of the header.
const LENGTHS: usize = 4 + 2;

fuzz_target!(|input: (u8, u8, u16, Vec<Edit>, &[u8])| {
    let (kind, sample, cap, edits, stream) = input;
    let samples = samples();
    let made = edited(&samples[usize::from(sample) % samples.len()], &edits);
    let stream = if stream.is_empty() { &made } else { stream };
    match kind % 3 {
        0 => read_plain(stream, cap.into()),
        1 => {
            let mut wanted = PieceSet::default();
            for (ask, _) in read_wire::<PullMessage>(stream) {
                if let PullMessage::Request { piece, .. } = ask {
                    let fresh = (piece.0 as usize) < MAX_PIECES && !wanted.contains(piece);
                    assert_eq!(wanted.insert(piece), fresh);
                }
            }
            assert_eq!(wanted.iter().count(), wanted.len() as usize);
        }
        _ => {
            let mut held = Holdings::default();
            for (answer, _) in read_wire::<ServeMessage>(stream) {
                if let ServeMessage::Have { news } = answer {
                    news.into_iter().for_each(|(piece, blocks)| hold(&mut held, piece, blocks));
                }
            }
        }
    }
});

fn read_plain(stream: &[u8], cap: usize) {
    let mut wire = Cursor::new(stream);
    let mut bodies = Vec::new();
    while let Ok(Some(body)) = block_on(read_frame(&mut wire, cap)) {
        assert!(body.len() <= cap);
        bodies.push(body);
    }
    let mut written = Vec::new();
    for body in &bodies {
        block_on(write_frame(&mut written, body, cap)).expect("what was read is within the cap");
    }
    assert!(stream.starts_with(&written), "frames have one form");
}

/// The next frame; reading one takes a clock.
fn next<H: DeserializeOwned>(stream: &mut Cursor<&[u8]>) -> Option<(H, Bytes)> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let clock =
        RUNTIME.get_or_init(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
    clock.block_on(frames::read(stream)).ok()?
}

/// The frames that a stream begins with.
fn read_wire<H: Serialize + DeserializeOwned>(stream: &[u8]) -> Vec<(H, Bytes)> {
    let mut stream = Cursor::new(stream);
    let mut frames = Vec::new();
    while let Some((header, payload)) = next::<H>(&mut stream) {
        assert!(payload.len() <= MAX_FRAME_BYTES);
        check_frame(&header, &payload);
        frames.push((header, payload));
    }
    frames
}

fn check_frame<H: Serialize + DeserializeOwned>(header: &H, payload: &[u8]) {
    let mut frame = Vec::new();
    if payload.len() > MAX_PAYLOAD_BYTES || frames::put_head(&mut frame, header, payload.len()).is_err() {
        return;
    }
    let head = frame.len();
    frame.extend_from_slice(payload);
    assert!(head > LENGTHS && frame.len() <= 4 + MAX_FRAME_BYTES);
    let (again, kept) = next::<H>(&mut Cursor::new(&frame)).expect("what was written is read");
    let mut second = Vec::new();
    frames::put_head(&mut second, &again, kept.len()).expect("what was written is written again");
    assert!(frame.starts_with(&second) && kept == payload);
}

fn hold(held: &mut Holdings, piece: PieceIndex, blocks: BlockMask) {
    let before = held.get(piece);
    let fresh = held.insert(piece, blocks);
    assert!(fresh.intersect(before).is_empty() && fresh.minus(blocks).is_empty());
    if (piece.0 as usize) < MAX_PIECES {
        assert_eq!(held.get(piece), before.union(blocks));
    }
    assert!(held.get(piece).len() as usize <= MAX_BLOCKS);
}

fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let (piece, blocks) = (PieceIndex(5), BlockMask(0b1011));
        let asks = [
            PullMessage::Hello { version: PolicyVersion(3), manifest: ContentId::of(b"manifest") },
            PullMessage::Request { piece, blocks, tree: true },
            PullMessage::Cancel { piece, blocks },
        ];
        let answers = [
            (ServeMessage::Have { news: vec![(piece, blocks), (PieceIndex(6), BlockMask(1))] }, 0),
            (ServeMessage::Block { piece, block: 1, leaves: 2 }, 70),
            (ServeMessage::Refused, 0),
        ];
        vec![
            [&[0, 0, 0, 3][..], b"abc", &[0; 4]].concat(),
            asks.iter().flat_map(|ask| framed(ask, 0)).collect(),
            answers.iter().flat_map(|(answer, payload)| framed(answer, *payload)).collect(),
        ]
    })
}

fn framed<H: Serialize>(header: &H, payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    frames::put_head(&mut frame, header, payload).expect("samples are short");
    frame.resize(frame.len() + payload, 7);
    frame
}
