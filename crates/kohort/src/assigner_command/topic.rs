//! `kohort assigner topic`: a topic as a group works on it, and how heavy its partitions are.

use assigner_client::proto;

use super::reach::{connect, failure};
use super::status::{render_topics, topics_of};
use crate::cli::OutputArgs;
use crate::cli::assigner::ReachArgs;
use crate::failure::{Failure, Kind};
use crate::output::{plain, show};

/// What becomes of a topic.
pub(super) struct Wish {
    pub(super) topic: String,
    pub(super) group: String,
    /// The weight of each partition; `None` leaves it as it is.
    pub(super) weight: Option<u32>,
    /// Weights of single partitions.
    pub(super) partition_weights: Vec<(u32, u32)>,
}

/// Sets what is to be set, and shows the topic.
pub(super) async fn run(wish: Wish, reach: &ReachArgs, output: OutputArgs) -> anyhow::Result<()> {
    let Wish { topic, group, weight, partition_weights } = wish;
    if weight.is_some() || !partition_weights.is_empty() {
        let request = proto::SetTopicRequest {
            topic: topic.clone(),
            group: group.clone(),
            weight: weight.unwrap_or(0),
            partition_weights: partition_weights.into_iter().collect(),
        };
        let mut admin = connect(reach).await?;
        let wish = format!("set the weights of {topic}");
        admin.set_topic(request).await.map_err(|status| failure(&wish, &status))?;
    }
    let mut topics = topics_of(&group, reach).await?;
    topics.retain(|known| known.topic == topic);
    if topics.is_empty() {
        let message =
            format!("the group does not work on topic {}; see `kohort assigner status`", plain(&topic));
        return Err(Failure::new(Kind::Absent, message).into());
    }
    Ok(show(output.output, &topics, |topics| render_topics(topics))?)
}
