//! Organisations: who shares the broker, and how much of it each may use.

use super::{Catalog, Decision, Minted, TOPIC_NAME_OF_OFFSETS};
use crate::error_code::ErrorCode;
use crate::ids::OrgId;
use crate::limits::{ORG_NAME_MAX, ORGS_MAX};
use crate::record::{GroupConfigs, Org, OrgLimits, Record};
use crate::reply::Refusal;

/// The name of the organisation that is always there.
pub const ORG_NAME_OF_DEFAULT: &str = "default";

/// Why something about organisations, users or gateways was not done. The sentence is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// What was named does not exist.
    #[error("{0}")]
    Unknown(String),
    /// It does not fit what is there.
    #[error("{0}")]
    Conflict(String),
    /// It can never be done.
    #[error("{0}")]
    Invalid(String),
}

/// An organisation to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrg {
    /// Its id, newly minted.
    pub id: OrgId,
    /// Its name.
    pub name: String,
    /// How much it may use.
    pub limits: OrgLimits,
}

impl Catalog {
    /// The organisation of this id.
    pub fn org(&self, id: OrgId) -> Option<&Org> {
        self.orgs.get(&id)
    }

    /// The organisation of this name.
    pub fn org_named(&self, name: &str) -> Option<&Org> {
        self.orgs.get(self.org_names.get(name)?)
    }

    /// The organisation of this name, or a sentence that says that there is none.
    ///
    /// # Errors
    /// When there is none.
    pub fn known_org(&self, name: &str) -> Result<&Org, AdminError> {
        self.org_named(name)
            .ok_or_else(|| AdminError::Unknown(format!("There is no organisation named {name}.")))
    }

    /// All organisations, by name.
    pub fn orgs(&self) -> impl Iterator<Item = &Org> {
        self.org_names.values().filter_map(|id| self.orgs.get(id))
    }

    /// How much the organisation may use.
    pub fn org_limits(&self, id: OrgId) -> OrgLimits {
        self.orgs.get(&id).map(|org| org.limits).unwrap_or_default()
    }

    /// How many topics the organisation has, without the one that it was given for its groups, and how many partitions
    /// those have together.
    pub fn org_usage(&self, id: OrgId) -> (u64, u64) {
        let own = self.topics_of(id).filter(|topic| topic.name != TOPIC_NAME_OF_OFFSETS);
        own.fold((0, 0), |(topics, partitions), topic| (topics + 1, partitions + u64::from(topic.partitions)))
    }

    /// Makes an organisation and the topic that its groups are kept in, for which it takes the first minted topic id.
    pub fn handle_create_org(&self, new: NewOrg, minted: Minted<'_>) -> Decision<Result<Org, AdminError>> {
        let org = Org { id: new.id, name: new.name, limits: new.limits, created_ms: minted.now_ms };
        if let Err(error) = self.check_new_org(&org) {
            return Decision { records: Vec::new(), reply: Err(error) };
        }
        let mut records = vec![Record::Org(org.clone())];
        records.extend(self.handle_start_of_groups(org.id, minted));
        Decision { records, reply: Ok(org) }
    }

    /// Removes an organisation that has neither topics nor users any more, with its groups, their settings and its
    /// rules.
    pub fn handle_delete_org(&self, name: &str) -> Decision<Result<Org, AdminError>> {
        let org = match self.deletable_org(name) {
            Ok(org) => org.clone(),
            Err(error) => return Decision { records: Vec::new(), reply: Err(error) },
        };
        let groups = self.groups_with_configs(org.id).map(|group| {
            let configs = std::collections::BTreeMap::new();
            Record::GroupConfigs(GroupConfigs { org: org.id, group: group.to_owned(), configs })
        });
        let mut records: Vec<Record> = groups.collect();
        records.extend(self.acls_of(org.id).map(|acl| Record::AclDeleted { org: org.id, acl }));
        // Only the topic of its groups is left, and what that holds belongs to nobody then.
        records.extend(self.topics_of(org.id).map(|topic| Record::TopicDeleted(topic.id)));
        records.push(Record::OrgDeleted(org.id));
        Decision { records, reply: Ok(org) }
    }

    /// Sets and lifts limits of an organisation. What it uses already stays, even if it is more.
    pub fn handle_set_limits(
        &self,
        name: &str,
        changes: &[(String, Option<u64>)],
    ) -> Decision<Result<Org, AdminError>> {
        let changed = self.known_org(name).cloned().and_then(|mut org| {
            for (limit, value) in changes {
                if !org.limits.set(limit, *value) {
                    return Err(AdminError::Invalid(unknown_limit(limit)));
                }
            }
            check_limits(&org.limits)?;
            Ok(org)
        });
        let records = changed.iter().map(|org| Record::Org(org.clone())).collect();
        Decision { records, reply: changed }
    }

    /// How much more the organisation may have, for one request.
    pub(super) fn room(&self, org: OrgId) -> Room<'_> {
        let limits = self.org_limits(org);
        let is_limited = limits.topics.is_some() || limits.partitions.is_some();
        let (topics, partitions) = if is_limited { self.org_usage(org) } else { (0, 0) };
        let name = self.orgs.get(&org).map_or("", |org| org.name.as_str());
        Room { org: name, limits, topics, partitions }
    }

    fn check_new_org(&self, org: &Org) -> Result<(), AdminError> {
        check_org_name(&org.name)?;
        check_limits(&org.limits)?;
        if self.org_named(&org.name).is_some() {
            return Err(AdminError::Conflict(format!(
                "There is an organisation named {} already.",
                org.name
            )));
        }
        if self.orgs.len() >= ORGS_MAX {
            return Err(AdminError::Conflict(format!(
                "There are {ORGS_MAX} organisations; no more are kept."
            )));
        }
        Ok(())
    }

    fn deletable_org(&self, name: &str) -> Result<&Org, AdminError> {
        let org = self.known_org(name)?;
        let conflict = |why: String| Err(AdminError::Conflict(why));
        if org.id == OrgId::DEFAULT {
            return conflict(format!("The organisation {name} is always there and cannot be deleted."));
        }
        let (topics, _) = self.org_usage(org.id);
        if topics > 0 {
            return conflict(format!("The organisation {name} has {topics} topics; delete them first."));
        }
        let users = self.user_count(org.id);
        if users > 0 {
            return conflict(format!("The organisation {name} has {users} users; delete them first."));
        }
        Ok(org)
    }
}

/// How much more an organisation may have.
pub(super) struct Room<'a> {
    org: &'a str,
    limits: OrgLimits,
    /// What it has, with what was taken so far.
    topics: u64,
    partitions: u64,
}

impl Room<'_> {
    /// Takes so much of it, or says why that is too much.
    pub(super) fn take(&mut self, topics: u64, partitions: u64) -> Result<(), Refusal> {
        self.check("topics", "max.topics", self.limits.topics, (self.topics, topics))?;
        self.check("partitions", "max.partitions", self.limits.partitions, (self.partitions, partitions))?;
        self.topics = self.topics.saturating_add(topics);
        self.partitions = self.partitions.saturating_add(partitions);
        Ok(())
    }

    fn check(
        &self,
        what: &str,
        name: &str,
        limit: Option<u64>,
        (has, more): (u64, u64),
    ) -> Result<(), Refusal> {
        match limit {
            // Who is beyond a limit already can still do what takes no more.
            Some(limit) if more > 0 && has.saturating_add(more) > limit => {
                let org = self.org;
                let message = format!(
                    "The organisation {org} may have at most {limit} {what} ({name}); it has {has} and {more} more \
                     would be too many."
                );
                Err(Refusal::new(ErrorCode::PolicyViolation, message))
            }
            _ => Ok(()),
        }
    }
}

/// Says why an organisation cannot have this name: it stands before the names of users and in locators, so it is a word
/// as in a host name.
///
/// # Errors
/// When it cannot.
pub fn check_org_name(name: &str) -> Result<(), AdminError> {
    let legal = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_name = (1..=ORG_NAME_MAX).contains(&name.len())
        && name.chars().all(legal)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_name {
        return Ok(());
    }
    Err(AdminError::Invalid(format!(
        "`{name}` cannot name an organisation: a name has 1 to {ORG_NAME_MAX} small letters, digits and hyphens, and \
         no hyphen at its ends."
    )))
}

/// What is said of a limit that there is not.
pub fn unknown_limit(name: &str) -> String {
    format!("There is no limit named {name}; there are {}.", OrgLimits::NAMES.join(", "))
}

fn check_limits(limits: &OrgLimits) -> Result<(), AdminError> {
    if limits.bytes_per_second == Some(0) {
        let message = "max.bytes.per.second must be at least 1; without records an organisation has no use.";
        return Err(AdminError::Invalid(message.to_owned()));
    }
    Ok(())
}
