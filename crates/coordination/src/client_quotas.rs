//! DescribeClientQuotas. Kohort limits organisations instead of users and client ids, so there are no quotas to see; who asks in
//! the wrong way is told so, as by Kafka.

use std::collections::BTreeSet;

use crate::error_code::ErrorCode;
use crate::op;
use crate::reply::{self, Refusal};

/// What Kafka has quotas for.
const ENTITY_TYPES: [&str; 3] = ["user", "client-id", ADDRESS];

const ADDRESS: &str = "ip";

/// Answers who asks for quotas.
pub fn describe_client_quotas(op: &op::DescribeClientQuotas) -> reply::DescribeClientQuotas {
    reply::DescribeClientQuotas { error: check(&op.components).err() }
}

fn check(components: &[op::QuotaComponent]) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    let mut types = BTreeSet::new();
    for component in components {
        let entity_type = component.entity_type.as_str();
        if entity_type.is_empty() {
            return invalid("Invalid empty entity type.");
        }
        if !types.insert(entity_type) {
            return invalid(&format!(
                "Entity type {entity_type} cannot appear more than once in the filter."
            ));
        }
        if !ENTITY_TYPES.contains(&entity_type) {
            let message = format!("Unsupported entity type {entity_type}");
            return Err(Refusal::new(ErrorCode::UnsupportedVersion, message));
        }
        match (component.match_type, &component.name) {
            (0, Some(_)) | (1 | 2, None) => {}
            (0, None) => {
                return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.");
            }
            (1, Some(_)) => {
                return invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.");
            }
            (2, Some(_)) => {
                return invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.");
            }
            (other, _) => return invalid(&format!("Unknown match type {other}")),
        }
    }
    if types.contains(ADDRESS) && types.len() > 1 {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or \
             clientId filter component.",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of the error for these parts: type, kind of match, name.
    fn error(components: &[(&str, i8, Option<&str>)]) -> Option<i16> {
        let component = |&(entity_type, match_type, name): &(&str, i8, Option<&str>)| op::QuotaComponent {
            entity_type: entity_type.to_owned(),
            match_type,
            name: name.map(str::to_owned),
        };
        let op = op::DescribeClientQuotas { components: components.iter().map(component).collect() };
        describe_client_quotas(&op).error.map(|refusal| refusal.code.number())
    }

    /// The numbers are those of a live Kafka 4.3, which the differential test compares with, words and all.
    #[test]
    fn who_asks_rightly_is_told_that_there_are_none_and_others_what_is_wrong() {
        assert_eq!(error(&[]), None);
        assert_eq!(error(&[("user", 0, Some("bob")), ("client-id", 2, None)]), None);
        assert_eq!(error(&[("ip", 1, None)]), None);
        assert_eq!(error(&[("", 0, Some("bob"))]), Some(42));
        assert_eq!(error(&[("group", 0, Some("bob"))]), Some(35));
        assert_eq!(error(&[("user", 2, None), ("user", 2, None)]), Some(42));
        for wrong in [(0, None), (1, Some("bob")), (2, Some("bob")), (3, None), (-1, Some("bob"))] {
            assert_eq!(error(&[("user", wrong.0, wrong.1)]), Some(42), "{wrong:?}");
        }
        assert_eq!(error(&[("ip", 2, None), ("user", 2, None)]), Some(42));
    }
}
