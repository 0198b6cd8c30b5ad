//! Bytes that nobody who keeps to the format sends.

use bytes::Bytes;
use proptest::prelude::*;
use rail::format::{
    self, FormatError, FromBroker, FromGateway, Head, Inlet, KeptRecords, SentRecords, Version,
};
use rail::{FRAME_MAX, MESSAGE_MAX, UNFINISHED_MAX};

use crate::golden::{brokers_words, every_op, every_reply, gateways_words, say_to_broker, say_to_gateway};

/// Who says a message, and in which version.
type Side = (bool, Version);

fn messages() -> Vec<(Side, Bytes)> {
    let head = Head { id: 1, carrier: 2, trace: None };
    let mut messages = Vec::new();
    for &version in Version::ALL {
        let ops = every_op(5).into_iter().map(|op| FromGateway::Request(head, op));
        let from_gateway = ops.chain(gateways_words(version));
        messages.extend(from_gateway.map(|said| ((true, version), say_to_broker(version, said))));
        let replies = every_reply(5).into_iter().map(|reply| FromBroker::Reply(1, reply));
        let from_broker = replies.chain(brokers_words(version));
        let mut sent = SentRecords::default();
        messages.extend(from_broker.map(|said| ((false, version), say_to_gateway(version, said, &mut sent))));
    }
    messages
}

fn decode((is_from_gateway, version): Side, message: &Bytes) -> Result<(), FormatError> {
    if is_from_gateway {
        format::decode_from_gateway(version, message).map(drop)
    } else {
        format::decode_from_broker(version, message, &mut KeptRecords::new(1 << 20)).map(drop)
    }
}

/// Both sides in both versions.
fn sides() -> impl Iterator<Item = Side> {
    Version::ALL.iter().flat_map(|&version| [(true, version), (false, version)])
}

#[test]
fn a_message_that_is_cut_short_is_an_error() {
    for (side, message) in messages() {
        for end in 0..message.len() {
            assert!(decode(side, &message.slice(..end)).is_err(), "{end} of {message:?}");
        }
    }
}

#[test]
fn a_message_with_more_behind_it_is_an_error() {
    for (side, message) in messages() {
        let longer = Bytes::from([&message[..], &[0]].concat());
        assert!(decode(side, &longer).is_err(), "{message:?}");
    }
}

#[test]
fn a_byte_that_was_changed_is_an_error_or_another_message() {
    for (side, message) in messages() {
        for place in 0..message.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = message.to_vec();
                changed[place] ^= change;
                let _ = decode(side, &changed.into());
            }
        }
    }
}

#[test]
fn codes_that_no_message_has_are_named() {
    for code in [0x00, 0x7f, 0xef, 0xfa] {
        let message = Bytes::from(vec![code, 0, 0, 0, 0, 0]);
        let expected = format!("no message has the code {code:#04x}");
        for side in sides() {
            assert_eq!(decode(side, &message).expect_err("no such code").to_string(), expected);
        }
    }
    // A part that was not put together is none either.
    assert_eq!(decode((true, Version::Three), &Bytes::from_static(&[0xff, 0])), Err(FormatError::Code(0xff)));
}

#[test]
fn lengths_of_records_beyond_the_message_are_errors() {
    // Produce, id, carrier, no trace, no transactional id, acks, zstd, one topic `t` with one partition 0 and null for
    // its records, which follow.
    let head = [0x02, 0, 0, 0, 0, 1, 1, 1, 0, 1, b't', 1, 0, 0];
    let with_length = |length: &[u8]| Bytes::from([&head[..], length, b"xyz"].concat());
    assert!(decode((true, Version::Two), &with_length(&[4])).is_ok(), "three bytes of records");
    for length in [&[3][..], &[5], &[0], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0xff; 10]] {
        assert!(decode((true, Version::Two), &with_length(length)).is_err(), "{length:?}");
    }
}

#[test]
fn ids_beyond_their_bound_are_errors() {
    for code in [0xf1, 0xf2] {
        let message = Bytes::from(vec![code, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(matches!(decode((true, Version::Two), &message), Err(FormatError::Bound(..))));
    }
}

fn frame(body: &[u8]) -> Bytes {
    let length = u32::try_from(body.len()).expect("short");
    Bytes::from([&length.to_le_bytes()[..], body].concat())
}

#[test]
fn a_frame_of_no_or_too_many_bytes_is_an_error_before_its_bytes_are_there() {
    for length in [0, FRAME_MAX + 1, u32::MAX as usize] {
        let mut inlet = Inlet::default();
        inlet.feed(Bytes::copy_from_slice(&u32::try_from(length).expect("32 bits").to_le_bytes()));
        assert_eq!(inlet.next_message(), Err(FormatError::FrameSize(length)));
    }
    let mut inlet = Inlet::default();
    inlet.feed(Bytes::copy_from_slice(&u32::try_from(FRAME_MAX).expect("32 bits").to_le_bytes()));
    assert_eq!(inlet.next_message(), Ok(None));
}

#[test]
fn a_message_that_never_ends_is_cut_off() {
    let part = frame(&[&[0xfe, 1][..], &vec![0; FRAME_MAX - 2]].concat());
    let mut inlet = Inlet::default();
    let mut fed = 0;
    let error = loop {
        inlet.feed(part.clone());
        fed += part.len();
        match inlet.next_message() {
            Ok(message) => assert_eq!(message, None),
            Err(error) => break error,
        }
    };
    assert_eq!(error, FormatError::TooLarge(MESSAGE_MAX));
    assert!(fed <= MESSAGE_MAX + FRAME_MAX + 1024 * 8, "{fed}");
}

#[test]
fn many_messages_that_never_end_are_cut_off_together() {
    let mut inlet = Inlet::default();
    let mut fed = 0;
    let error = (0..).find_map(|id: u8| {
        let part = frame(&[&[0xfe, id % 100][..], &vec![0; FRAME_MAX - 2]].concat());
        fed += part.len();
        inlet.feed(part);
        inlet.next_message().err()
    });
    assert_eq!(error, Some(FormatError::TooLarge(UNFINISHED_MAX)));
    assert!(fed <= UNFINISHED_MAX + 2 * FRAME_MAX);

    let mut inlet = Inlet::default();
    let error = (0..100_000_u32).find_map(|id| {
        let id = [
            0xfe,
            0x80 | u8::try_from(id & 0x7f).expect("seven bits"),
            0x80 | u8::try_from(id >> 7 & 0x7f).expect("seven bits"),
            u8::try_from(id >> 14).expect("few"),
        ];
        inlet.feed(frame(&id));
        inlet.next_message().err()
    });
    assert_eq!(error, Some(FormatError::TooManyParts));
}

#[test]
fn parts_within_parts_and_parts_of_nothing_are_errors() {
    let mut inlet = Inlet::default();
    inlet.feed(frame(&[0xff, 1, 0xff, 1, 0x08]));
    assert_eq!(inlet.next_message(), Err(FormatError::Code(0xff)));
    let mut inlet = Inlet::default();
    inlet.feed(frame(&[0xff, 1]));
    assert_eq!(inlet.next_message(), Err(FormatError::FrameSize(0)));
    let mut inlet = Inlet::default();
    inlet.feed(frame(&[0xff]));
    assert!(inlet.next_message().is_err(), "a part without an id");
}

proptest! {
    #[test]
    fn garbage_is_never_more_than_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), code in 0..0x24_u8) {
        let mut inlet = Inlet::default();
        inlet.feed(Bytes::from(bytes.clone()));
        while let Ok(Some(message)) = inlet.next_message() {
            for side in sides() {
                let _ = decode(side, &message);
            }
        }
        let message = Bytes::from([&[code, 1, 0, 0][..], &bytes].concat());
        for side in sides() {
            let _ = decode(side, &message);
        }
    }
}
