//! Who may do what, at work: ops are screened before they are carried out, and replies mended before they leave.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use coordination::access::{Judge, Screened, Topics, screen};
use coordination::catalog::Catalog;
use coordination::ids::{OrgId, TopicId};
use coordination::op::Op;
use coordination::reply::Reply;
use coordination::settings::{Settings, SuperUser};
use rail::{Answer, Carrier, SentRecords};

use crate::{Inner, fetch};

/// What does not change while the broker runs. The rules do, and are looked up in the catalog each time.
#[derive(Debug)]
pub(crate) struct Authorizer {
    /// The principals that may do everything, by the name of their organisation.
    super_users: BTreeMap<String, BTreeSet<String>>,
    everyone_if_no_rule: bool,
}

impl Authorizer {
    /// The authorizer that the settings ask for, if they do.
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        settings.has_authorizer().then(|| {
            let mut super_users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for SuperUser { org, principal } in settings.super_users() {
                super_users.entry(org).or_default().insert(principal);
            }
            Self { super_users, everyone_if_no_rule: settings.allow_everyone_if_no_acl_found() }
        })
    }

    /// Does what of the op is allowed, and refuses the rest. `sent` is what a fetch need not read again.
    pub(crate) fn call(
        &self,
        inner: &Arc<Inner>,
        carrier: &Carrier,
        op: Op,
        sent: Option<&SentRecords>,
    ) -> Answer {
        let topics = OrgTopics { inner, org: carrier.org() };
        let (asker, screened) = inner.admin.look(|catalog| {
            let asker = self.asker(catalog, carrier);
            let screened = screen(&asker.judge(catalog), op, &topics);
            (asker, screened)
        });
        let (op, mend) = match screened {
            Screened::Refused(reply) => return reply.into(),
            Screened::Fetch(op) => return fetch::handle_fetch(inner, carrier, Some(&asker), op, sent),
            Screened::Allowed(op, mend) => (op, mend),
        };
        let answer = inner.perform(carrier, op);
        if mend.is_nothing() {
            return answer;
        }
        let reply: Pin<Box<dyn Future<Output = Reply> + Send>> = match answer {
            Answer::Now(reply) => {
                return inner.admin.look(|catalog| mend.apply(&asker.judge(catalog), reply)).into();
            }
            Answer::Gated(reply) => Box::pin(reply),
            Answer::Later(reply) => reply,
            // The broker sends nothing on.
            sent @ (Answer::Owed(_) | Answer::Sent(_)) => return sent,
        };
        let inner = Arc::clone(inner);
        Answer::Later(Box::pin(async move {
            let reply = reply.await;
            inner.admin.look(|catalog| mend.apply(&asker.judge(catalog), reply))
        }))
    }

    /// Nothing is written down anew for it: this is asked with every op.
    fn asker(&self, catalog: &Catalog, carrier: &Carrier) -> Asker {
        let principal = Arc::clone(carrier.principal());
        let is_super = !self.super_users.is_empty()
            && catalog
                .org(carrier.org())
                .and_then(|org| self.super_users.get(&org.name))
                .is_some_and(|users| users.contains(&*principal));
        Asker {
            org: carrier.org(),
            principal,
            host: carrier.host().to_canonical(),
            is_super,
            everyone_if_no_rule: self.everyone_if_no_rule,
        }
    }
}

/// Who asks, as rules know it.
#[derive(Debug)]
pub(crate) struct Asker {
    org: OrgId,
    principal: Arc<str>,
    host: IpAddr,
    is_super: bool,
    everyone_if_no_rule: bool,
}

impl Asker {
    /// Who says what is allowed now.
    pub(crate) fn judge<'a>(&'a self, catalog: &'a Catalog) -> Judge<'a> {
        Judge {
            rules: catalog.rules(self.org),
            principal: &self.principal,
            host: self.host,
            is_super: self.is_super,
            everyone_if_no_rule: self.everyone_if_no_rule,
        }
    }
}

/// The topics of one organisation.
struct OrgTopics<'a> {
    inner: &'a Inner,
    org: OrgId,
}

impl Topics for OrgTopics<'_> {
    fn name(&self, id: TopicId) -> Option<Arc<str>> {
        self.inner.topics.by_id(self.org, id).map(|topic| Arc::clone(&topic.name))
    }

    fn exists(&self, name: &str) -> bool {
        self.inner.topics.by_name(self.org, name).is_some()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.inner.topics.names(self.org)
    }

    fn are_created_on_demand(&self) -> bool {
        self.inner.limits.settings().auto_create_topics()
    }
}
