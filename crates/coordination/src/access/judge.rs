//! Says what one user may do.

use std::net::IpAddr;

use super::rules::Who;
use super::{Operation, Operations, Resource, ResourceType, Rules};

/// One user at one address, and the rules of its organisation.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The organisation's rules.
    pub rules: &'a Rules,
    /// `User:alice`, or `User:ANONYMOUS`.
    pub principal: &'a str,
    /// The user's address; one of version 4 is written as one of version 4.
    pub host: IpAddr,
    /// Whether the user is one of `super.users`, who may do everything whatever the rules say.
    pub is_super: bool,
    /// `allow.everyone.if.no.acl.found`: whether everybody may do everything with what no rule is about.
    pub everyone_if_no_rule: bool,
}

impl Judge<'_> {
    /// Whether the user may do this with the thing of this kind and name.
    pub fn may(&self, operation: Operation, kind: ResourceType, name: &str) -> bool {
        if self.is_super {
            return true;
        }
        let verdict = self.rules.verdict(self.who(), kind, name);
        verdict.allows(operation) || (self.everyone_if_no_rule && !verdict.has_rules)
    }

    /// Whether the user may do this with a topic.
    pub fn may_topic(&self, operation: Operation, name: &str) -> bool {
        self.may(operation, ResourceType::Topic, name)
    }

    /// Whether the user may do this with a group.
    pub fn may_group(&self, operation: Operation, name: &str) -> bool {
        self.may(operation, ResourceType::Group, name)
    }

    /// Whether the user may do this with the cluster.
    pub fn may_cluster(&self, operation: Operation) -> bool {
        self.may(operation, ResourceType::Cluster, Resource::CLUSTER)
    }

    /// Whether the user may read records of a topic. [`screen`](super::screen) leaves this to whoever knows what a
    /// fetch session holds: every fetch asks again for every topic that it reads, since rules change while a session
    /// goes on. What is not allowed is answered with TOPIC_AUTHORIZATION_FAILED for each of its partitions, whether
    /// the topic is named or given by its id.
    pub fn may_read(&self, topic: &str) -> bool {
        self.may_topic(Operation::Read, topic)
    }

    /// Whether there may be a thing of this kind with which the user may do this.
    pub fn may_any(&self, operation: Operation, kind: ResourceType) -> bool {
        // Kafka asks for a thing of this name first; so whoever may do it with whatever has no rule may do it.
        self.may(operation, kind, "hardcode") || self.rules.allows_any(self.who(), kind, operation)
    }

    /// What of `all` the user may do with the thing of this kind and name.
    pub fn operations(&self, all: Operations, kind: ResourceType, name: &str) -> Operations {
        if self.is_super {
            return all;
        }
        let verdict = self.rules.verdict(self.who(), kind, name);
        if self.everyone_if_no_rule && !verdict.has_rules {
            return all;
        }
        all.allowed(|operation| verdict.allows(operation))
    }

    /// What the user may do with the cluster, which is told only to those who may see it.
    pub fn cluster_operations(&self) -> Operations {
        if self.may_cluster(Operation::Describe) {
            self.operations(Operations::OF_CLUSTER, ResourceType::Cluster, Resource::CLUSTER)
        } else {
            Operations::NONE
        }
    }

    /// What the user may do with a topic.
    pub fn topic_operations(&self, name: &str) -> Operations {
        self.operations(Operations::OF_TOPIC, ResourceType::Topic, name)
    }

    /// What the user may do with a group.
    pub fn group_operations(&self, name: &str) -> Operations {
        self.operations(Operations::OF_GROUP, ResourceType::Group, name)
    }

    fn who(&self) -> Who<'_> {
        Who { principal: self.principal, host: self.host }
    }
}
