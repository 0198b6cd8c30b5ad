//! The rules of one organisation, kept so that a check is a few look-ups.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Bound;

use super::{Acl, Operation, PatternType, Permission, Resource, ResourceType};

/// The principal that stands for everybody.
pub(super) const EVERYBODY: &str = "User:*";

/// The host that stands for every address.
const ANYWHERE: &str = "*";

/// All ACLs of one organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    kinds: BTreeMap<ResourceType, OfKind>,
    len: usize,
}

/// The rules about one kind of resource. A name is there only as long as there are rules for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfKind {
    literal: BTreeMap<String, OfName>,
    prefixed: BTreeMap<String, OfName>,
}

/// The rules for one name, by principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfName(BTreeMap<String, BTreeSet<Entry>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    host: String,
    /// What the host means.
    from: From,
    operation: Operation,
    permission: Permission,
}

/// One rule where it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule<'a> {
    pub(super) kind: ResourceType,
    pub(super) pattern: PatternType,
    pub(super) name: &'a str,
    pub(super) principal: &'a str,
    pub(super) host: &'a str,
    pub(super) operation: Operation,
    pub(super) permission: Permission,
}

/// From where a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Anywhere,
    Address(IpAddr),
    /// The host is no address: nobody comes from there.
    Nowhere,
}

/// Whom a check is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who<'a> {
    pub(super) principal: &'a str,
    pub(super) host: IpAddr,
}

/// What the rules say to one user about one resource, for all operations at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    allowed: u32,
    denied: u32,
    /// Whether any rule is about the resource, even if it is about somebody else.
    pub(super) has_rules: bool,
}

impl Verdict {
    /// Whether a rule allows the operation and none denies it.
    pub(super) fn allows(self, operation: Operation) -> bool {
        bit(operation) & self.allowed & !self.denied != 0
    }
}

impl Rules {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a rule; false when it was there.
    pub fn insert(&mut self, acl: Acl) -> bool {
        let Resource { kind, name, pattern } = acl.resource;
        let names = self.kinds.entry(kind).or_default().names_mut(pattern);
        let entries = names.entry(name).or_default().0.entry(acl.principal).or_default();
        let is_new = entries.insert(Entry::new(acl.host, acl.operation, acl.permission));
        self.len += usize::from(is_new);
        is_new
    }

    /// Takes a rule away; false when it was not there.
    pub fn remove(&mut self, acl: &Acl) -> bool {
        let Some(of_kind) = self.kinds.get_mut(&acl.resource.kind) else { return false };
        let names = of_kind.names_mut(acl.resource.pattern);
        let Some(of_name) = names.get_mut(&acl.resource.name) else { return false };
        let Some(entries) = of_name.0.get_mut(&acl.principal) else { return false };
        if !entries.remove(&Entry::of(acl)) {
            return false;
        }
        self.len -= 1;
        // A name without rules would still count as one that has some.
        if entries.is_empty() {
            of_name.0.remove(&acl.principal);
        }
        if of_name.0.is_empty() {
            names.remove(&acl.resource.name);
        }
        if of_kind.literal.is_empty() && of_kind.prefixed.is_empty() {
            self.kinds.remove(&acl.resource.kind);
        }
        true
    }

    /// Whether the rule is there.
    pub fn contains(&self, acl: &Acl) -> bool {
        let names = self.kinds.get(&acl.resource.kind).map(|of_kind| of_kind.names(acl.resource.pattern));
        let of_name = names.and_then(|names| names.get(&acl.resource.name));
        let entries = of_name.and_then(|of_name| of_name.0.get(&acl.principal));
        entries.is_some_and(|entries| entries.contains(&Entry::of(acl)))
    }

    /// All rules, by resource and principal.
    pub fn iter(&self) -> impl Iterator<Item = Acl> {
        self.each().map(Rule::to_acl)
    }

    /// The same where they are kept: whoever looks for a few copies only those.
    pub(super) fn each(&self) -> impl Iterator<Item = Rule<'_>> {
        let patterns = self.kinds.iter().flat_map(|(&kind, of_kind)| {
            PatternType::ALL.iter().map(move |&pattern| (kind, pattern, of_kind.names(pattern)))
        });
        let names = patterns.flat_map(|(kind, pattern, names)| {
            names.iter().map(move |(name, of_name)| (kind, pattern, name, of_name))
        });
        names.flat_map(|(kind, pattern, name, of_name)| {
            of_name.0.iter().flat_map(move |(principal, entries)| {
                entries.iter().map(move |entry| Rule {
                    kind,
                    pattern,
                    name,
                    principal,
                    host: &entry.host,
                    operation: entry.operation,
                    permission: entry.permission,
                })
            })
        })
    }

    /// What the rules say to `who` about a resource.
    pub(super) fn verdict(&self, who: Who<'_>, kind: ResourceType, name: &str) -> Verdict {
        let mut verdict = Verdict::default();
        let Some(of_kind) = self.kinds.get(&kind) else { return verdict };
        if let Some(of_name) = of_kind.literal.get(name) {
            of_name.add_to(&mut verdict, who);
        }
        if name != Resource::ANY
            && let Some(of_any) = of_kind.literal.get(Resource::ANY)
        {
            of_any.add_to(&mut verdict, who);
        }
        of_kind.each_prefix(name, |of_prefix| of_prefix.add_to(&mut verdict, who));
        verdict
    }

    /// Whether `who` may do this with any resource of the kind, whatever its name: some rule allows it and no rule
    /// denies all that this rule allows. What Kafka says of `*` comes before: one that denies it denies all, one that
    /// allows it allows some.
    pub(super) fn allows_any(&self, who: Who<'_>, kind: ResourceType, operation: Operation) -> bool {
        let Some(of_kind) = self.kinds.get(&kind) else { return false };
        // Kafka asks here for the operation itself: READ does not imply DESCRIBE.
        let says = |of_name: &OfName, permission| {
            of_name
                .entries_for(who)
                .any(|entry| entry.permission == permission && covered(entry.operation) & bit(operation) != 0)
        };
        if let Some(of_any) = of_kind.literal.get(Resource::ANY) {
            if says(of_any, Permission::Deny) {
                return false;
            }
            if says(of_any, Permission::Allow) {
                return true;
            }
        }
        let denied_by_prefix = |name: &str| {
            let mut denied = false;
            of_kind.each_prefix(name, |of_prefix| denied |= says(of_prefix, Permission::Deny));
            denied
        };
        let literal = of_kind.literal.iter().any(|(name, of_name)| {
            says(of_name, Permission::Allow) && !says(of_name, Permission::Deny) && !denied_by_prefix(name)
        });
        let prefixed = || {
            let mut names = of_kind.prefixed.iter();
            names.any(|(name, of_name)| says(of_name, Permission::Allow) && !denied_by_prefix(name))
        };
        literal || prefixed()
    }
}

impl OfKind {
    fn names(&self, pattern: PatternType) -> &BTreeMap<String, OfName> {
        match pattern {
            PatternType::Literal => &self.literal,
            PatternType::Prefixed => &self.prefixed,
        }
    }

    fn names_mut(&mut self, pattern: PatternType) -> &mut BTreeMap<String, OfName> {
        match pattern {
            PatternType::Literal => &mut self.literal,
            PatternType::Prefixed => &mut self.prefixed,
        }
    }

    /// Calls `found` with each prefix that the name begins with, the longest first.
    ///
    /// Prefixes of the name lie below it in order. Where the next one below is none, all that are must be as short as
    /// what the two have in common, so each step ends at a prefix or shortens the search.
    fn each_prefix<'a>(&'a self, name: &str, mut found: impl FnMut(&'a OfName)) {
        let mut below = Bound::Included(name);
        while let Some((prefix, of_prefix)) =
            self.prefixed.range::<str, _>((Bound::Unbounded, below)).next_back()
        {
            let common = common_len(prefix, name);
            if common == prefix.len() {
                found(of_prefix);
                below = Bound::Excluded(&name[..common]);
            } else {
                below = Bound::Included(&name[..common]);
            }
        }
    }
}

impl OfName {
    fn entries_for<'a>(&'a self, who: Who<'a>) -> impl Iterator<Item = &'a Entry> {
        let own = self.0.get(who.principal);
        let everybodys = if who.principal == EVERYBODY { None } else { self.0.get(EVERYBODY) };
        let entries = own.into_iter().chain(everybodys).flatten();
        entries.filter(move |entry| entry.from == From::Anywhere || entry.from == From::Address(who.host))
    }

    fn add_to(&self, verdict: &mut Verdict, who: Who<'_>) {
        verdict.has_rules = true;
        for entry in self.entries_for(who) {
            match entry.permission {
                Permission::Allow => verdict.allowed |= implied(entry.operation),
                Permission::Deny => verdict.denied |= covered(entry.operation),
            }
        }
    }
}

impl Rule<'_> {
    pub(super) fn to_acl(self) -> Acl {
        let Self { kind, pattern, name, principal, host, operation, permission } = self;
        Acl {
            resource: Resource { kind, name: name.to_owned(), pattern },
            principal: principal.to_owned(),
            host: host.to_owned(),
            operation,
            permission,
        }
    }
}

impl From {
    /// Java writes `0:0:0:0:0:0:0:1` where others write `::1`, so addresses are compared, not texts.
    fn host(host: &str) -> Self {
        match host.parse::<IpAddr>() {
            _ if host == ANYWHERE => Self::Anywhere,
            Ok(address) => Self::Address(address.to_canonical()),
            Err(_) => Self::Nowhere,
        }
    }
}

impl Entry {
    fn new(host: String, operation: Operation, permission: Permission) -> Self {
        let from = From::host(&host);
        Self { host, from, operation, permission }
    }

    fn of(acl: &Acl) -> Self {
        Self::new(acl.host.clone(), acl.operation, acl.permission)
    }
}

const fn bit(operation: Operation) -> u32 {
    1 << operation.number()
}

/// What a rule that names the operation covers.
const fn covered(operation: Operation) -> u32 {
    match operation {
        Operation::All => u32::MAX,
        other => bit(other),
    }
}

/// What a rule that allows the operation allows: whoever may change a thing may see it.
const fn implied(operation: Operation) -> u32 {
    match operation {
        Operation::Read | Operation::Write | Operation::Delete | Operation::Alter => {
            bit(operation) | bit(Operation::Describe)
        }
        Operation::AlterConfigs => bit(operation) | bit(Operation::DescribeConfigs),
        other => covered(other),
    }
}

/// How many bytes two texts have in common at their beginning, whole characters only.
fn common_len(one: &str, other: &str) -> usize {
    let bytes = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    other.floor_char_boundary(bytes)
}
