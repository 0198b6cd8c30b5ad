//! DescribeClientQuotas (48): shows what users, client ids and addresses are limited to.

use coordination::op::{self, Op};
use coordination::reply;

use crate::message::message;

message! {
    /// Whose quotas to show.
    pub struct DescribeClientQuotasRequest {
        components: Vec<ComponentData> [0+],
        strict: bool [0+],
    }

    /// What is asked of one part of an entity.
    pub struct ComponentData {
        entity_type: String [0+],
        match_type: i8 [0+],
        match_name: Option<String> [0+, null 0+] = Some(String::new()),
    }

    /// The quotas; null where none may be seen.
    pub struct DescribeClientQuotasResponse {
        throttle_time_ms: i32 [0+],
        error_code: i16 [0+],
        error_message: Option<String> [0+, null 0+] = Some(String::new()),
        entries: Option<Vec<EntryData>> [0+, null 0+],
    }

    /// The quotas of one entity.
    pub struct EntryData {
        entity: Vec<EntityData> [0+],
        values: Vec<ValueData> [0+],
    }

    /// One part of an entity; without a name it is the default of its type.
    pub struct EntityData {
        entity_type: String [0+],
        entity_name: Option<String> [0+, null 0+] = Some(String::new()),
    }

    /// One quota.
    pub struct ValueData {
        key: String [0+],
        value: f64 [0+],
    }
}

impl DescribeClientQuotasRequest {
    pub(crate) fn into_op(self) -> Op {
        let component = |component: ComponentData| op::QuotaComponent {
            entity_type: component.entity_type,
            match_type: component.match_type,
            name: component.match_name,
        };
        // Whether others may have parts besides makes no difference, since there are none.
        let components = self.components.into_iter().map(component).collect();
        Op::DescribeClientQuotas(op::DescribeClientQuotas { components })
    }
}

pub(crate) fn response(reply: reply::DescribeClientQuotas) -> DescribeClientQuotasResponse {
    match reply.error {
        None => DescribeClientQuotasResponse {
            entries: Some(Vec::new()),
            ..DescribeClientQuotasResponse::default()
        },
        Some(refusal) => DescribeClientQuotasResponse {
            error_code: refusal.code.number(),
            error_message: refusal.message,
            entries: None,
            ..DescribeClientQuotasResponse::default()
        },
    }
}
