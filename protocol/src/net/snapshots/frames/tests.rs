use super::*;
use futures::io::Cursor;
use proptest::prelude::*;

fn frame(header: &impl Serialize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_head(&mut bytes, header, payload.len()).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn hello() -> PullMessage {
    PullMessage::Hello { version: PolicyVersion(3), manifest: ContentId::from_bytes([7; 32]) }
}

/// Reading has a deadline, and so needs a clock to run.
fn read_back<H: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(H, Vec<u8>)>, WireError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let frame = runtime.block_on(async { read::<H>(&mut Cursor::new(bytes)).await })?;
    Ok(frame.map(|(header, payload)| (header, payload.to_vec())))
}

#[test]
fn the_largest_frames_fit_their_limits() {
    let news = vec![(PieceIndex(u32::MAX), BlockMask(u64::MAX)); MAX_NEWS];
    let have = frame(&ServeMessage::Have { news }, &[]);
    assert!(have.len() <= MAX_HEADER_BYTES);
    let block = ServeMessage::Block { piece: PieceIndex(u32::MAX), block: 63, leaves: 64 };
    let bytes = frame(&block, &vec![7; MAX_PAYLOAD_BYTES]);
    assert!(bytes.len() <= 4 + MAX_FRAME_BYTES);
    let (header, payload) = read_back::<ServeMessage>(&bytes).unwrap().unwrap();
    assert_eq!((header, payload.len()), (block, MAX_PAYLOAD_BYTES));
}

#[test]
fn what_is_too_long_is_refused_before_any_buffer_exists() {
    let error = read_back::<PullMessage>(&(MAX_FRAME_BYTES as u32 + 1).to_be_bytes()).unwrap_err();
    assert!(matches!(error, WireError::TooLarge { len } if len as usize == MAX_FRAME_BYTES + 1));
}

#[test]
fn the_end_is_clean_only_between_frames() {
    assert!(read_back::<PullMessage>(&[]).unwrap().is_none());
    let hello = frame(&hello(), &[]);
    for end in 1..hello.len() {
        assert!(matches!(read_back::<PullMessage>(&hello[..end]), Err(WireError::Io(_))), "{end}");
    }
}

/// A header that claims more bytes than the frame has, and one that is no header.
#[test]
fn nonsense_is_malformed() {
    for body in [&[][..], &[0], &[0, 9, 1], &[0, 1, 0xff]] {
        let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        assert!(matches!(read_back::<PullMessage>(&bytes), Err(WireError::Malformed(_))), "{body:?}");
    }
}

/// The bytes that docs/reference/protocol.md promises.
#[test]
fn a_hello_byte_by_byte() {
    let said = frame(&hello(), &[]);
    let mut header = b"\xa1\x65Hello\xa2\x67version\x03\x68manifest\x58\x20".to_vec();
    header.extend([7; 32]);
    let mut expected = vec![0, 0, 0, 0x3e, 0, 0x3c];
    expected.extend(header);
    assert_eq!(said, expected);
}

/// The names of fields and variants stay as they are, and say group for a block.
#[test]
fn requests_and_blocks_byte_by_byte() {
    let (piece, blocks) = (PieceIndex(5), BlockMask(3));
    let request = PullMessage::Request { piece, blocks, tree: true };
    let header = b"\xa1\x67Request\xa3\x65piece\x05\x66groups\x03\x64tree\xf5";
    assert_eq!(&frame(&request, &[])[6..], header);
    let cancel = PullMessage::Cancel { piece, blocks };
    assert_eq!(&frame(&cancel, &[])[6..], b"\xa1\x66Cancel\xa2\x65piece\x05\x66groups\x03");
    let block = ServeMessage::Block { piece, block: 1, leaves: 0 };
    let header = b"\xa1\x65Group\xa3\x65piece\x05\x65group\x01\x66leaves\x00";
    assert_eq!(&frame(&block, &[])[6..], header);
    let have = ServeMessage::Have { news: vec![(piece, blocks)] };
    assert_eq!(&frame(&have, &[])[6..], b"\xa1\x64Have\xa1\x64news\x81\x82\x05\x03");
    assert_eq!(&frame(&ServeMessage::Refused, &[])[6..], b"\x67Refused");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), plausible in any::<bool>()) {
        let mut bytes = bytes;
        if plausible && bytes.len() >= 6 {
            let rest = bytes.len() as u32 - 4;
            bytes[..4].copy_from_slice(&rest.to_be_bytes());
            bytes[4] = 0;
        }
        let _ = read_back::<ServeMessage>(&bytes);
        let _ = read_back::<PullMessage>(&bytes);
    }

    #[test]
    fn frames_come_back_as_they_were(piece in any::<u32>(), block in 0u32..64, payload in prop::collection::vec(any::<u8>(), 0..3000)) {
        let answer = ServeMessage::Block { piece: PieceIndex(piece), block, leaves: 0 };
        let bytes = frame(&answer, &payload);
        prop_assert_eq!(read_back::<ServeMessage>(&bytes).unwrap().unwrap(), (answer, payload));
    }
}
