//! Members whose names, protocols and records are as large as a request can carry.

use std::io::{Read, Write};

use bytes::Bytes;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::api::sync_group::SyncGroupRequest;
use wire::{ApiKey, RequestMessage, decode_response, encode_request};

use crate::groups::{AT_ONCE, ONE_SHARD, attacked, loaded};
use crate::support::Connection;
use crate::support::member::{JOIN, Member, NONE, SYNC};
use crate::victim::{AT_REST, framed, header, read_to_the_end};

/// As long as a text can be that Kafka's older versions and its records can write.
const LONGEST: usize = coordination::group::KAFKA_TEXT_MAX;

/// Asks under another client id than the usual one.
fn ask_as<R: RequestMessage>(
    connection: &mut Connection,
    client_id: &str,
    request: &R,
    version: i16,
) -> R::Response {
    let frame = encode_request(request, version, 1, Some(client_id)).into_bytes();
    connection.stream.write_all(&frame).unwrap();
    let mut size = [0; 4];
    connection.stream.read_exact(&mut size).expect("it is answered");
    let mut frame = vec![0; usize::try_from(u32::from_be_bytes(size)).unwrap()];
    connection.stream.read_exact(&mut frame).unwrap();
    decode_response::<R>(frame.into(), version).unwrap().1
}

#[test]
fn the_longest_names_come_back_whole_and_survive_a_restart() {
    let (mut victim, address) = attacked(40, &[AT_ONCE, ONE_SHARD]);
    let mut witness = Member::alone(&address, "witness");
    let long = "n".repeat(LONGEST);
    let mut groups = Vec::new();
    for version in [0, 3, 5, 7, 9] {
        for what in 0..5 {
            let mut connection = Connection::open(&address);
            let group = format!("long-{version}-{what}");
            let mut member = Member::on(connection, &group);
            let mut request = member.join_request();
            let mut client_id = "c".to_owned();
            match what {
                0 => client_id.clone_from(&long),
                1 => request.group_instance_id = (version >= 5).then(|| long.clone()),
                2 => request.protocol_type.clone_from(&long),
                3 => request.protocols[0].name.clone_from(&long),
                _ => request.reason = (version >= 8).then(|| long.clone()),
            }
            let mut answer = ask_as(&mut member.connection, &client_id, &request, version);
            if answer.error_code == 79 {
                request.member_id = answer.member_id;
                answer = ask_as(&mut member.connection, &client_id, &request, version);
            }
            assert_eq!(answer.error_code, NONE, "version {version}, {what}");
            let sync = SyncGroupRequest {
                group_id: group.clone(),
                generation_id: answer.generation_id,
                member_id: answer.member_id.clone(),
                group_instance_id: request.group_instance_id.clone(),
                protocol_type: Some(request.protocol_type.clone()),
                protocol_name: Some(request.protocols[0].name.clone()),
                ..Default::default()
            };
            let synced = ask_as(&mut member.connection, &client_id, &sync, SYNC);
            assert_eq!(synced.error_code, NONE, "version {version}, {what}");
            connection = member.connection;
            groups.push((group.clone(), connection.described(&group)));
        }
    }
    // From version 6 on a length can be told that is larger. As in Kafka nobody may: 32,768, and one for null.
    let mut too_long = header(ApiKey::JoinGroup, JOIN);
    too_long.extend([0x81, 0x80, 0x02]);
    too_long.extend(vec![b'n'; LONGEST + 100]);
    let mut stream = Connection::open(&address).stream;
    stream.write_all(&framed(&too_long)).unwrap();
    assert_eq!(read_to_the_end(&mut stream), Ok(0), "it is not answered");
    assert_eq!((witness.heartbeat().unwrap(), witness.commit(0, 1).unwrap()), (NONE, NONE));
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    loaded(&address);
    let mut connection = Connection::open(&address);
    for (group, before) in groups {
        assert!(connection.described(&group) == before, "{group} is another after the restart");
    }
    witness.connection = connection;
    assert_eq!((witness.heartbeat().unwrap(), witness.commit(0, 2).unwrap()), (NONE, NONE));
    victim.is_well(AT_REST + (64 << 20));
}

#[test]
fn a_hundred_thousand_protocols_are_counted_once() {
    const PROTOCOLS: usize = 100_000;
    let (mut victim, address) = attacked(41, &[AT_ONCE, ONE_SHARD]);
    let mut witness = Member::alone(&address, "witness");
    let protocols: Vec<_> = (0..PROTOCOLS)
        .map(|number| JoinGroupRequestProtocol { name: format!("p{number}"), metadata: Bytes::new() })
        .collect();
    let mut members: Vec<Member> = (0..5).map(|_| Member::new(&address, "undecided")).collect();
    let mut holder = Member::new(&address, "undecided");
    let mut request = JoinGroupRequest { protocols: protocols.clone(), ..holder.join_request() };
    request.member_id = holder.connection.ask(&request, JOIN).member_id;
    assert_eq!(holder.connection.ask(&request, JOIN).error_code, NONE);
    for member in &mut members {
        let mut request = JoinGroupRequest { protocols: protocols.clone(), ..member.join_request() };
        // Each likes others best.
        request.protocols.rotate_left(PROTOCOLS / 3);
        request.member_id = member.connection.ask(&request, JOIN).member_id;
        member.connection.send(&request, JOIN).unwrap();
        assert_eq!((witness.heartbeat().unwrap(), witness.commit(0, 1).unwrap()), (NONE, NONE));
    }
    let chosen = holder.connection.ask(&request, JOIN);
    assert_eq!(chosen.error_code, NONE);
    for member in &mut members {
        let answer = member.connection.receive::<JoinGroupRequest>(JOIN).unwrap();
        assert_eq!((answer.error_code, &answer.protocol_name), (NONE, &chosen.protocol_name));
    }
    assert_eq!(witness.heartbeat().unwrap(), NONE);
    victim.is_well(AT_REST + (512 << 20));
}

#[test]
fn a_group_of_hundreds_of_megabytes_is_written_and_read_back() {
    let (mut victim, address) = attacked(42, &[AT_ONCE, ONE_SHARD]);
    let mut witness = Member::alone(&address, "witness");
    let mut heavy = Member::new(&address, "heavy");
    heavy.metadata = Bytes::from(vec![7; 90 << 20]);
    assert_eq!(heavy.join().unwrap(), NONE);
    let mut request = heavy.sync_request();
    request.assignments[0].assignment = Bytes::from(vec![8; 90 << 20]);
    let answer = heavy.connection.ask(&request, SYNC);
    println!("error {}, {} bytes", answer.error_code, answer.assignment.len());
    assert_eq!((answer.error_code, answer.assignment.len()), (NONE, 90 << 20));
    assert_eq!((witness.heartbeat().unwrap(), witness.commit(0, 1).unwrap()), (NONE, NONE));
    victim.kohort.kill().unwrap();
    victim.kohort.restart().unwrap();
    loaded(&address);
    heavy.connection = Connection::open(&address);
    witness.connection = Connection::open(&address);
    assert_eq!((heavy.heartbeat().unwrap(), heavy.commit(0, 1).unwrap()), (NONE, NONE));
    assert_eq!((witness.heartbeat().unwrap(), witness.commit(0, 2).unwrap()), (NONE, NONE));
    victim.is_well(AT_REST + (1 << 30));
}
