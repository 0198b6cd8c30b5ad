//! Splits the parts of an op into what is allowed and what is refused.

use std::collections::BTreeSet;

use crate::access::{Judge, Operation};
use crate::op::TopicRef;

use super::Topics;

/// What is answered for parts that were taken out of an op, each with its place in the request.
pub(in crate::access) type Refused<T> = Vec<(usize, T)>;

/// Takes out of `parts` what may not be done. Where all may be done, nothing is moved or allocated.
pub(super) fn take_refused<T, R>(
    parts: &mut Vec<T>,
    may: impl Fn(&T) -> bool,
    refuse: impl Fn(T) -> R,
) -> Refused<R> {
    let Some(first) = parts.iter().position(|part| !may(part)) else { return Vec::new() };
    let rest = parts.split_off(first);
    let mut refused = Vec::new();
    for (at, part) in (first..).zip(rest) {
        if at != first && may(&part) {
            parts.push(part);
        } else {
            refused.push((at, refuse(part)));
        }
    }
    refused
}

/// Puts what was refused back between the others, in the request's order.
pub(in crate::access) fn merged<T>(allowed: Vec<T>, refused: Refused<T>) -> Vec<T> {
    if refused.is_empty() {
        return allowed;
    }
    let mut all = Vec::with_capacity(allowed.len() + refused.len());
    let mut allowed = allowed.into_iter();
    for (at, part) in refused {
        // Some replies have fewer parts than their op, since they answer what is asked twice only once.
        let missing = at.saturating_sub(all.len());
        all.extend(allowed.by_ref().take(missing));
        all.push(part);
    }
    all.extend(allowed);
    all
}

/// Splits an op of which every part is allowed or refused on its own. Where nothing is left, that is the answer.
macro_rules! split {
    ($kind:ident, $op:ident . $parts:ident, $may:expr, $refuse:expr $(, $field:ident: $value:expr)?) => {{
        let refused = $crate::access::screen::split::take_refused(&mut $op.$parts, $may, $refuse);
        if refused.is_empty() {
            Screened::untouched(Op::$kind($op))
        } else if $op.$parts.is_empty() {
            let $parts = $crate::access::screen::split::merged(Vec::new(), refused);
            Screened::Refused(Reply::$kind(reply::$kind { $parts $(, $field: $value)? }))
        } else {
            Screened::Allowed(Op::$kind($op), Mend(Repair::$kind(refused)))
        }
    }};
}

pub(super) use split;

/// Whether the user may do this with the topic. An id that no topic has is not refused here: whoever looks for it
/// says so.
pub(super) fn may_topic(
    judge: &Judge<'_>,
    operation: Operation,
    topic: &TopicRef,
    topics: &dyn Topics,
) -> bool {
    match topic {
        TopicRef::Name(name) => judge.may_topic(operation, name),
        TopicRef::Id(id) => topics.name(*id).is_none_or(|name| judge.may_topic(operation, &name)),
    }
}

/// What is named more than once, if anything may have to be refused. Kafka refuses it for that and asks no further.
pub(super) fn named_twice<T: Ord + Clone>(names: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
}
