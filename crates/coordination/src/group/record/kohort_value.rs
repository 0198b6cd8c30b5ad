//! Keys and values in `__kohort`.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{GroupRecord, Identity};
use crate::ids::GroupId;
use crate::record::RecordError;

const GROUP: &str = "group/";
const EVENT: &str = "group-event/";

pub(super) fn put_group_key(key: &mut Vec<u8>, id: GroupId) {
    write!(key, "{GROUP}{id}").expect("a vector takes all that is written");
}

pub(super) fn put_event_key(key: &mut Vec<u8>, id: GroupId, slot: u32) {
    write!(key, "{EVENT}{id}/{slot}").expect("a vector takes all that is written");
}

pub(super) fn put_json(value: &mut Vec<u8>, what: &impl Serialize) {
    serde_json::to_writer(value, what).expect("texts, numbers and lists are always JSON");
}

pub(super) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<GroupRecord, RecordError> {
    let unknown = || RecordError::UnknownKey { key: String::from_utf8_lossy(key).into_owned() };
    let text = std::str::from_utf8(key).map_err(|_| unknown())?;
    if let Some(id) = text.strip_prefix(GROUP) {
        let id: GroupId = id.parse().map_err(|_| unknown())?;
        let Some(value) = value else { return Ok(GroupRecord::IdentityDeleted(id)) };
        let identity: Identity = parse(text, value)?;
        if identity.id != id {
            let reason = format!("it speaks of {}", identity.id);
            return Err(RecordError::Value { key: text.to_owned(), reason });
        }
        return Ok(GroupRecord::Identity(identity));
    }
    let (id, slot) = text.strip_prefix(EVENT).and_then(|place| place.split_once('/')).ok_or_else(unknown)?;
    let id = id.parse().map_err(|_| unknown())?;
    let number: u32 = slot.parse().map_err(|_| unknown())?;
    if number.to_string() != slot {
        return Err(unknown());
    }
    let event = value.map(|value| parse(text, value)).transpose()?;
    Ok(GroupRecord::Event { id, slot: number, event: event.map(Box::new) })
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, RecordError> {
    serde_json::from_slice(value)
        .map_err(|error| RecordError::Value { key: key.to_owned(), reason: error.to_string() })
}
