//! Frames that are none, or lie.

use std::io::Write;
use std::net::TcpStream;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wire::ApiKey;

use crate::support::ANSWER_WITHIN;
use crate::victim::{AT_REST, ATTACKERS, FRAME_MAX, Victim, framed, header, in_parallel, read_to_the_end};

#[test]
fn random_bytes_get_no_further_than_their_connection() {
    let mut victim = Victim::start(1);
    let seed = victim.seed;
    in_parallel(|attacker| {
        let mut random = StdRng::seed_from_u64(seed ^ attacker as u64);
        for _ in 0..250 {
            let mut bytes = vec![0; random.random_range(0..3000)];
            random.fill(&mut bytes[..]);
            match random.random_range(0..4) {
                0 => {}
                1 => bytes = framed(&bytes),
                // An API and a version that there are, so that the nonsense reaches their decoder.
                _ => {
                    let api = ApiKey::ANSWERED[random.random_range(0..ApiKey::ANSWERED.len())];
                    let version = random.random_range(api.versions());
                    bytes = framed(&[&header(api, version)[..], &bytes].concat());
                }
            }
            victim.throw(&bytes);
        }
    });
    victim.is_well(AT_REST);
}

#[test]
fn requests_of_real_clients_may_be_cut_and_changed_anywhere() {
    let mut victim = Victim::start(2);
    let seed = victim.seed;
    let frames = victim.golden_requests();
    assert!(frames.len() > 100, "there are recorded requests");
    in_parallel(|attacker| {
        let mut random = StdRng::seed_from_u64(seed ^ attacker as u64);
        for frame in frames.iter().skip(attacker).step_by(ATTACKERS) {
            assert!(victim.answers(frame), "a sound request is answered: {frame:02x?}");
            for _ in 0..12 {
                victim.throw(&mutated(frame, &mut random));
            }
        }
    });
    // Changed requests may have made topics of thousands of partitions, which is nothing to forbid.
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn a_small_frame_that_announces_huge_arrays_and_strings_gets_no_memory_for_them() {
    let mut victim = Victim::start(3);
    let seed = victim.seed;
    let frames = victim.golden_requests();
    // As plain numbers and as the variable-length ones of newer versions.
    let lies: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x00, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0x7f],
        &[0x7f, 0xff],
    ];
    in_parallel(|attacker| {
        let mut random = StdRng::seed_from_u64(seed ^ attacker as u64);
        for frame in frames.iter().skip(attacker).step_by(ATTACKERS) {
            for _ in 0..10 {
                let lie = lies[random.random_range(0..lies.len())];
                let mut frame = frame.to_vec();
                // Behind the API's number and version, which say what is to be read.
                let at = random.random_range(8..frame.len().max(9));
                let end = frame.len().min(at + lie.len());
                if at < end {
                    frame.splice(at..end, lie.iter().copied());
                }
                victim.throw(&framed(&frame));
            }
        }
        for &api in ApiKey::ANSWERED {
            for version in api.versions().skip(attacker).step_by(ATTACKERS) {
                for lie in lies {
                    let body = lie.repeat(64);
                    victim.throw(&framed(&[&header(api, version)[..], &body].concat()));
                }
            }
        }
    });
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn announced_sizes_cost_nothing_until_the_bytes_are_there() {
    let mut victim = Victim::start(4);
    for size in [0, -1, i32::MIN, i32::MAX, i32::try_from(FRAME_MAX).unwrap() + 1] {
        let mut stream = TcpStream::connect(victim.kohort.bootstrap()).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream.write_all(&size.to_be_bytes()).unwrap();
        assert_eq!(read_to_the_end(&mut stream), Ok(0), "a frame of {size} bytes closes the connection");
    }
    // A hundred megabytes from each of three hundred clients would be thirty gigabytes.
    let mut liars = Vec::new();
    for number in 0_usize..300 {
        let mut stream = TcpStream::connect(victim.kohort.bootstrap()).unwrap();
        stream.write_all(&i32::try_from(FRAME_MAX).unwrap().to_be_bytes()).unwrap();
        stream.write_all(&header(ApiKey::Produce, 9)[..]).unwrap();
        if number.is_multiple_of(3) {
            stream.write_all(&[0; 10_000]).unwrap();
        }
        liars.push(stream);
    }
    victim.is_well(AT_REST);
    drop(liars);

    // One that keeps its word is heard out, and costs what it sent.
    let mut honest = TcpStream::connect(victim.kohort.bootstrap()).unwrap();
    honest.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
    let mut frame = header(ApiKey::Produce, 9);
    frame.resize(FRAME_MAX, 0xff);
    // It may be refused before its last byte is taken.
    let _ = honest.write_all(&framed(&frame));
    read_to_the_end(&mut honest).unwrap();
    victim.is_well(FRAME_MAX + FRAME_MAX / 8 + AT_REST);
}

/// A frame with something wrong in it, size included.
fn mutated(frame: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    match random.random_range(0..7) {
        // Cut, with the size of the whole: the rest never comes.
        0 => {
            let mut bytes = framed(&bytes);
            bytes.truncate(random.random_range(0..bytes.len()));
            return bytes;
        }
        // Cut, with the size of what is left.
        1 => bytes.truncate(random.random_range(0..bytes.len())),
        // A few bytes are others.
        2 | 3 => {
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
        }
        // A number is at an end of its range.
        4 => {
            let at = random.random_range(0..bytes.len());
            let extreme: &[u8] = match random.random_range(0..4) {
                0 => &[0x7f, 0xff, 0xff, 0xff],
                1 => &[0x80, 0, 0, 0],
                2 => &[0xff; 8],
                _ => &[0; 8],
            };
            for (byte, new) in bytes[at..].iter_mut().zip(extreme) {
                *byte = *new;
            }
        }
        // A piece is missing, or is there twice.
        5 => {
            let at = random.random_range(0..bytes.len());
            let end = random.random_range(at..bytes.len().min(at + 20) + 1).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let at = random.random_range(0..bytes.len());
            let end = bytes.len().min(at + 20);
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
    }
    // A size that lies a little.
    let mut bytes = framed(&bytes);
    if random.random_bool(0.1) {
        bytes[3] = random.random();
    }
    bytes
}
