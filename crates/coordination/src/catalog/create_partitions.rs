//! CreatePartitions.

use super::{Catalog, Decision, TOPIC_NAME_OF_OFFSETS, repeated};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::limits::{PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX};
use crate::op::{self, MorePartitions};
use crate::record::{Record, Topic};
use crate::reply::{self, Refusal};

impl Catalog {
    /// Gives topics more partitions.
    pub fn handle_create_partitions(
        &self,
        org: OrgId,
        op: &op::CreatePartitions,
    ) -> Decision<reply::CreatePartitions> {
        let twice = repeated(op.topics.iter().map(|topic| topic.name.as_str()));
        let mut records = Vec::new();
        // Kafka answers these first.
        let refusal = || Some(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."));
        let mut topics: Vec<_> = twice.iter().map(|name| ((*name).to_owned(), refusal())).collect();
        let mut left = PARTITIONS_PER_REQUEST_MAX.unsigned_abs();
        let mut room = self.room(org);
        for more in op.topics.iter().filter(|topic| !twice.contains(topic.name.as_str())) {
            let grown = self.grown(org, more, &mut left).and_then(|topic| {
                let has = self.topics.get(&topic.id).map_or(0, |topic| topic.partitions);
                room.take(0, u64::from(topic.partitions - has))?;
                Ok(topic)
            });
            let error = match grown {
                Ok(topic) => {
                    if !op.validate_only {
                        records.push(Record::Topic(topic));
                    }
                    None
                }
                Err(refusal) => Some(refusal),
            };
            topics.push((more.name.clone(), error));
        }
        Decision { records, reply: reply::CreatePartitions { topics } }
    }

    /// The topic with as many partitions as asked for; `left` is how many this request may still add.
    fn grown(&self, org: OrgId, more: &MorePartitions, left: &mut u32) -> Result<Topic, Refusal> {
        let Some(topic) = self.topic_named(org, &more.name) else {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        };
        if topic.name == TOPIC_NAME_OF_OFFSETS {
            // Kafka would add them, and find no group again after its next start: a group's partition follows from its
            // name and their number.
            let message = format!("The partitions of the internal topic {TOPIC_NAME_OF_OFFSETS} are fixed.");
            return Err(Refusal::new(ErrorCode::InvalidTopic, message));
        }
        let (has, wanted) = (topic.partitions, more.count);
        let added = match u32::try_from(wanted).ok().and_then(|wanted| wanted.checked_sub(has)) {
            Some(0) => {
                let message = format!("Topic already has {has} partition(s).");
                return Err(Refusal::new(ErrorCode::InvalidPartitions, message));
            }
            Some(added) => added,
            None => {
                let name = &more.name;
                let message = format!(
                    "The topic {name} currently has {has} partition(s); {wanted} would not be an increase."
                );
                return Err(Refusal::new(ErrorCode::InvalidPartitions, message));
            }
        };
        if let Some(assignments) = &more.assignments {
            if u32::try_from(assignments.len()) != Ok(added) {
                let message = format!(
                    "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
                    assignments.len()
                );
                return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
            }
            for nodes in assignments {
                self.check_nodes(nodes)?;
            }
        }
        if wanted > PARTITIONS_PER_TOPIC_MAX {
            let message = format!("A topic can have at most {PARTITIONS_PER_TOPIC_MAX} partitions.");
            return Err(Refusal::new(ErrorCode::InvalidPartitions, message));
        }
        // Kafka, too, has no better answer to this than that something failed.
        *left = left.checked_sub(added).ok_or(ErrorCode::UnknownServerError)?;
        Ok(Topic { partitions: has + added, ..topic.clone() })
    }
}
