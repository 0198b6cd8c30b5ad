//! What consumers and operators send, checked, and what they are told.

use assigner_client::proto;
use assigner_client::proto::assignment_command::Command as Sent;
use coordination::handoff::{
    Ack, Command, ConsumerName, Epoch, GroupName, HandoffId, NameError, SessionId, TopicName, TopicPartition,
};
use tonic::Status;
use ulid::Ulid;

use crate::groups::GroupId;
use crate::settings::millis;

use super::limits::SHOWN_MAX;
use super::register::Lease;

/// From this version on clients have sessions, say that they live by themselves, and know the command Cancel.
pub(super) const VERSION_WITH_SESSIONS: u32 = 2;

/// Reads the name of a group; an empty one stands for the group that has none.
pub(super) fn group(text: &str) -> Result<GroupId, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse::<GroupName>().map(Some).map_err(|error| illegal_name("group", &error))
}

/// Reads the name of a consumer.
pub(super) fn consumer(field: &str, text: &str) -> Result<ConsumerName, Status> {
    text.parse().map_err(|error| illegal_name(field, &error))
}

/// Reads the name of a topic.
pub(super) fn topic(field: &str, text: &str) -> Result<TopicName, Status> {
    text.parse().map_err(|error| illegal_name(field, &error))
}

/// Reads a partition, which must be there.
pub(super) fn partition(
    field: &str,
    message: Option<&proto::TopicPartition>,
) -> Result<TopicPartition, Status> {
    let Some(message) = message else {
        return Err(Status::invalid_argument(format!("{field}: it is missing")));
    };
    Ok(TopicPartition {
        topic: topic(&format!("{field}.topic"), &message.topic)?,
        partition: message.partition,
    })
}

/// Reads a session, which clients of the original contract leave out: they speak for those without one, and for nobody
/// else.
pub(super) fn speaker(text: &str) -> Result<SessionId, Status> {
    Ok(session(text)?.unwrap_or(SessionId::NIL))
}

/// Reads a session, if there is one.
pub(super) fn session(text: &str) -> Result<Option<SessionId>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let illegal = |rule: &str| Status::invalid_argument(format!("session: `{}` {rule}", shown(text)));
    match Ulid::from_string(text) {
        Ok(ulid) if SessionId::from(ulid) == SessionId::NIL => Err(illegal("stands for no session")),
        // A ULID has more bits of text than of value; what is spelled otherwise would be two sessions in one.
        Ok(ulid) if ulid.to_string().eq_ignore_ascii_case(text) => Ok(Some(ulid.into())),
        _ => Err(illegal("is not the 26 characters of a ULID")),
    }
}

/// Reads the id of a handoff, which clients of the original contract leave out.
pub(super) fn handoff(text: &str) -> Result<Option<HandoffId>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let illegal =
        |_| Status::invalid_argument(format!("handoff_id: `{}` is not of the form hnd_<ULID>", shown(text)));
    text.parse().map(Some).map_err(illegal)
}

/// What all acknowledgements say.
pub(super) struct Said<'a> {
    pub(super) consumer_name: &'a str,
    pub(super) session: &'a str,
    pub(super) partition: Option<&'a proto::TopicPartition>,
    pub(super) handoff_id: &'a str,
    pub(super) epoch: u64,
}

/// The messages that say it differ in nothing but their names.
macro_rules! says {
    ($($message:ident),*) => {$(
        impl<'a> From<&'a proto::$message> for Said<'a> {
            fn from(message: &'a proto::$message) -> Self {
                Self {
                    consumer_name: &message.consumer_name,
                    session: &message.session,
                    partition: message.partition.as_ref(),
                    handoff_id: &message.handoff_id,
                    epoch: message.epoch,
                }
            }
        }
    )*};
}

says!(PartitionReadyRequest, PartitionReleasedRequest, WarmProgressRequest);

/// Reads an acknowledgement.
pub(super) fn ack(said: &Said<'_>) -> Result<Ack, Status> {
    Ok(Ack {
        caller: consumer("consumer_name", said.consumer_name)?,
        session: speaker(said.session)?,
        partition: partition("partition", said.partition)?,
        handoff: handoff(said.handoff_id)?,
        epoch: (said.epoch != 0).then_some(Epoch(said.epoch)),
    })
}

/// Writes a command for a client of this version. `lease` is what a snapshot says of the consumer's lease.
pub(super) fn command(command: &Command, protocol_version: u32, lease: &Lease) -> proto::AssignmentCommand {
    let sent = match command {
        Command::Assignment { assigned, unassigned, is_snapshot } => Sent::Assignment(proto::Assignment {
            assigned: assigned.iter().map(|assigned| place(&assigned.partition)).collect(),
            unassigned: unassigned.iter().map(place).collect(),
            epochs: assigned.iter().map(|assigned| assigned.epoch.0).collect(),
            is_snapshot: *is_snapshot,
            lease_ttl_ms: if *is_snapshot { millis(lease.ttl) } else { 0 },
            keep_alive_interval_ms: if *is_snapshot { millis(lease.keep_alive_interval) } else { 0 },
        }),
        Command::Warm { partition, current_owner, handoff, epoch } => Sent::Warm(proto::Warm {
            partition: Some(place(partition)),
            current_owner: current_owner.to_string(),
            handoff_id: handoff.to_string(),
            epoch: epoch.0,
        }),
        Command::Release { partition, new_owner, handoff, epoch } => Sent::Release(proto::Release {
            partition: Some(place(partition)),
            new_owner: new_owner.to_string(),
            handoff_id: handoff.to_string(),
            epoch: epoch.0,
        }),
        Command::Cancel { partition, handoff } if protocol_version >= VERSION_WITH_SESSIONS => {
            Sent::Cancel(proto::Cancel { partition: Some(place(partition)), handoff_id: handoff.to_string() })
        }
        Command::Cancel { partition, .. } => Sent::Assignment(proto::Assignment {
            unassigned: vec![place(partition)],
            ..proto::Assignment::default()
        }),
    };
    proto::AssignmentCommand { command: Some(sent) }
}

/// A partition as it travels.
pub(super) fn place(place: &TopicPartition) -> proto::TopicPartition {
    proto::TopicPartition { topic: place.topic.to_string(), partition: place.partition }
}

/// A group as it travels.
pub(super) fn group_text(group: &GroupId) -> String {
    group.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// As much of a client's text as is repeated to it.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

fn illegal_name(field: &str, error: &NameError) -> Status {
    Status::invalid_argument(format!("{field}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use coordination::handoff::Assigned;
    use tonic::Code;

    use super::*;

    fn lease() -> Lease {
        Lease { id: 1, ttl: Duration::from_secs(30), keep_alive_interval: Duration::from_secs(5) }
    }

    fn sent(told: &Command, protocol_version: u32) -> Sent {
        command(told, protocol_version, &lease()).command.unwrap()
    }

    fn place_of(partition: u32) -> TopicPartition {
        TopicPartition { topic: "t".parse().unwrap(), partition }
    }

    fn refused<T: std::fmt::Debug>(read: Result<T, Status>) -> String {
        let status = read.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message().to_owned()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field_its_value_and_the_rule() {
        assert_eq!(
            refused(consumer("consumer_name", "a b")),
            "consumer_name: `a b` is no name of a consumer: only ASCII letters and digits, '.', '_' and '-' are allowed"
        );
        assert_eq!(
            refused(group("handoffs")),
            "group: `handoffs` is no name of a group: the word is reserved"
        );
        assert_eq!(refused(partition("partition", None)), "partition: it is missing");
        let nameless = proto::TopicPartition { topic: String::new(), partition: 0 };
        assert_eq!(
            refused(partition("partition", Some(&nameless))),
            "partition.topic: `` is no name of a topic: it is empty"
        );
        assert_eq!(refused(session("x")), "session: `x` is not the 26 characters of a ULID");
        assert_eq!(refused(handoff("7")), "handoff_id: `7` is not of the form hnd_<ULID>");
    }

    #[test]
    fn a_long_text_is_not_repeated_in_full() {
        assert!(refused(session(&"z".repeat(100_000))).len() < 200);
        assert!(refused(handoff(&"ä".repeat(100_000))).len() < 300);
        assert!(refused(consumer("consumer_name", &"a".repeat(100_000))).len() < 500);
    }

    #[test]
    fn sessions_are_ulids_in_either_case_and_never_the_one_of_those_who_have_none() {
        let text = "01KTB7WM5JVKBFGPZVFNK3KQQB";
        let read = session(text).unwrap().unwrap();
        assert_eq!(session(&text.to_ascii_lowercase()).unwrap(), Some(read));
        assert_eq!(read.to_string(), format!("ses_{}", text.to_ascii_lowercase()));
        assert_eq!(session("").unwrap(), None);
        assert!(session("00000000000000000000000000").is_err());
        // The first character has bits that a ULID has no room for.
        assert!(session("81KTB7WM5JVKBFGPZVFNK3KQQB").is_err());
        assert!(session(&format!("ses_{text}")).is_err());
    }

    #[test]
    fn what_clients_of_the_original_contract_do_not_say_is_left_open() {
        let partition = proto::TopicPartition { topic: "t".to_owned(), partition: 3 };
        let said =
            Said { consumer_name: "a", session: "", partition: Some(&partition), handoff_id: "", epoch: 0 };
        let read = ack(&said).unwrap();
        assert_eq!((read.session, read.handoff, read.epoch), (SessionId::NIL, None, None));
        assert_eq!((read.caller.as_str(), read.partition), ("a", place_of(3)));
        let id = HandoffId::from_u128(9);
        let read = ack(&Said { handoff_id: &id.to_string(), epoch: 4, ..said }).unwrap();
        assert_eq!((read.handoff, read.epoch), (Some(id), Some(Epoch(4))));
    }

    #[test]
    fn a_snapshot_tells_the_times_of_the_lease_and_a_change_does_not() {
        let told = |is_snapshot| Command::Assignment {
            assigned: vec![Assigned { partition: place_of(1), epoch: Epoch(7) }],
            unassigned: vec![place_of(2)],
            is_snapshot,
        };
        let Sent::Assignment(snapshot) = sent(&told(true), 0) else { panic!("an assignment") };
        assert_eq!((snapshot.lease_ttl_ms, snapshot.keep_alive_interval_ms), (30_000, 5_000));
        assert_eq!((snapshot.assigned.len(), snapshot.epochs), (1, vec![7]));
        let Sent::Assignment(change) = sent(&told(false), 0) else { panic!("an assignment") };
        assert_eq!((change.lease_ttl_ms, change.is_snapshot), (0, false));
        assert_eq!(change.unassigned, [place(&place_of(2))]);
    }

    #[test]
    fn only_those_who_know_it_are_told_to_cancel() {
        let told = Command::Cancel { partition: place_of(1), handoff: HandoffId::from_u128(9) };
        for version in [2, 3] {
            let Sent::Cancel(cancel) = sent(&told, version) else { panic!("a cancel") };
            assert_eq!(cancel.handoff_id, HandoffId::from_u128(9).to_string());
        }
        for version in [0, 1] {
            let Sent::Assignment(change) = sent(&told, version) else { panic!("an assignment") };
            assert_eq!((change.assigned.len(), change.is_snapshot), (0, false));
            assert_eq!(change.unassigned, [place(&place_of(1))]);
        }
    }

    #[test]
    fn warm_and_release_carry_their_handoff() {
        let (partition, handoff, epoch) = (place_of(1), HandoffId::from_u128(9), Epoch(5));
        let owner: ConsumerName = "b".parse().unwrap();
        let told =
            Command::Warm { partition: partition.clone(), current_owner: owner.clone(), handoff, epoch };
        let Sent::Warm(warm) = sent(&told, 0) else { panic!("a warm") };
        assert_eq!((warm.current_owner.as_str(), warm.epoch), ("b", 5));
        assert_eq!(warm.handoff_id, handoff.to_string());
        let told = Command::Release { partition, new_owner: owner, handoff, epoch };
        let Sent::Release(release) = sent(&told, 0) else { panic!("a release") };
        assert_eq!((release.new_owner.as_str(), release.epoch), ("b", 5));
        assert_eq!(release.partition, Some(place(&place_of(1))));
    }
}
