//! One instance of the assigner, from its start to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coordination::handoff::Key;
use etcd::{Candidacy, Election, Etcd, EtcdError, Leadership};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::groups::Groups;
use crate::leader;
use crate::service;
use crate::settings::{SettingProblem, Settings};
use crate::topics::Topics;

/// How long to wait before a task that ended by a bug is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked at whether this instance can lead.
const FITNESS_INTERVAL: Duration = Duration::from_secs(1);

/// How long leaving the leadership to another may hold up the end.
const RESIGN_MAX: Duration = Duration::from_secs(2);

/// An instance that serves. Dropped, it ends at once; [`Self::stop`] ends it in order.
#[derive(Debug)]
pub struct Assigner {
    instance: Arc<Instance>,
    address: SocketAddr,
    election: Election,
    tasks: JoinSet<()>,
    serving: Serving,
    stop: watch::Sender<bool>,
}

/// The task that serves gRPC.
#[derive(Debug)]
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the tasks of an instance share.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) settings: Settings,
    /// What this instance calls itself.
    pub(crate) name: String,
    pub(crate) groups: Groups,
    pub(crate) topics: Topics,
    /// Who leads.
    pub(crate) leadership: watch::Receiver<Leadership>,
}

/// Why an instance does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings are wrong.
    #[error("{}", list(.0))]
    Settings(Vec<SettingProblem>),
    /// The address cannot be served.
    #[error("serve gRPC on {address}")]
    Bind {
        /// The address.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// What is served with cannot be used.
    #[error("serve gRPC over TLS: {problem}")]
    Tls {
        /// What is wrong.
        problem: String,
    },
    /// etcd cannot be asked with these settings.
    #[error("reach etcd")]
    Etcd(#[from] EtcdError),
}

fn list(problems: &[SettingProblem]) -> String {
    problems.iter().map(SettingProblem::to_string).collect::<Vec<_>>().join("; ")
}

/// What lies under the leader's key.
#[derive(Debug, Serialize, Deserialize)]
struct Leader {
    version: u32,
    name: String,
}

impl Assigner {
    /// Starts an instance. It serves when this returns, though it is not ready before it has read etcd; if etcd is not
    /// there yet, it goes on trying.
    ///
    /// # Errors
    /// When the settings are wrong or the address is taken.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let problems = settings.check();
        if !problems.is_empty() {
            return Err(StartError::Settings(problems));
        }
        if !settings.tokens.is_empty() && settings.tls.is_none() {
            tracing::warn!("tokens are asked for, but without TLS they can be read on their way");
        }
        let (listener, address) = bind(&settings).await?;
        let etcd = Etcd::new(settings.etcd_options())?;
        let name =
            if settings.assigner_name.is_empty() { default_name() } else { settings.assigner_name.clone() };
        let election = Election::start(&etcd, candidacy(&settings, &name));
        let instance = Arc::new(Instance {
            groups: Groups::new(etcd, settings.etcd_prefix.clone()),
            topics: Topics::new(&settings),
            leadership: election.leadership(),
            name,
            settings,
        });
        let (stop, stopping) = watch::channel(false);
        let serving = Serving(tokio::spawn(service::serve(Arc::clone(&instance), listener, stopping)?));
        let mut tasks = JoinSet::new();
        let groups = instance.groups.clone();
        tasks.spawn(keep_running("mirror", move || groups.clone().follow()));
        let leading = Arc::clone(&instance);
        tasks.spawn(keep_running("leader", move || leader::take_part(Arc::clone(&leading))));
        tasks.spawn(watch_fitness(Arc::clone(&instance), election.fitness()));
        tracing::info!(name = instance.name, %address, "the assigner serves");
        Ok(Self { instance, address, election, tasks, serving, stop })
    }

    /// Where gRPC is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the instance calls itself.
    pub fn name(&self) -> &str {
        &self.instance.name
    }

    /// Whether it has read all that etcd holds, hears of changes, and serves.
    pub fn is_ready(&self) -> bool {
        self.instance.groups.is_current() && !self.serving.0.is_finished()
    }

    /// Whether it leads.
    pub fn is_leader(&self) -> bool {
        self.instance.is_leader()
    }

    /// What is counted and measured, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        self.instance.groups.metrics().render(&self.instance)
    }

    /// Ends it: leaves the leadership to another at once, then tells the consumers to go elsewhere.
    pub async fn stop(mut self) {
        tracing::info!(name = self.instance.name, "the assigner stops");
        // First, because whoever comes next can plan while this one says goodbye to its consumers.
        if tokio::time::timeout(RESIGN_MAX, self.election.resign()).await.is_err() {
            tracing::warn!("could not tell etcd that the leadership is free; it is when the lease ends");
        }
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.serving.0).await {
            tracing::error!(%error, "gRPC was not served to the end");
        }
        self.tasks.shutdown().await;
    }
}

impl Instance {
    /// Whether this instance leads.
    pub(crate) fn is_leader(&self) -> bool {
        matches!(*self.leadership.borrow(), Leadership::Leading { .. })
    }

    /// What the instance that leads calls itself, if there is one.
    pub(crate) fn leader_name(&self) -> Option<String> {
        match &*self.leadership.borrow() {
            Leadership::Leading { .. } => Some(self.name.clone()),
            Leadership::Following { leader } => {
                let leader: Leader = serde_json::from_slice(leader.as_ref()?).ok()?;
                Some(leader.name)
            }
        }
    }
}

async fn bind(settings: &Settings) -> Result<(TcpListener, SocketAddr), StartError> {
    let host = settings.bind_host.trim_start_matches('[').trim_end_matches(']');
    let failed = |source| StartError::Bind { address: format!("{host}:{}", settings.bind_port), source };
    let listener = TcpListener::bind((host, settings.bind_port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn candidacy(settings: &Settings, name: &str) -> Candidacy {
    let leader = Leader { version: coordination::handoff::VALUE_VERSION, name: name.to_owned() };
    Candidacy {
        key: Key::Leader.encode(&settings.etcd_prefix, None),
        value: serde_json::to_vec(&leader).expect("a number and a text are JSON").into(),
        ttl: settings.leader_lease_ttl,
        keep_alive_interval: settings.leader_keepalive_interval,
        retry_interval: settings.election_retry_interval,
    }
}

/// Several instances may run on one machine, so the machine's name is not enough.
fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String =
        host.trim().chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    let host = if host.is_empty() { "assigner" } else { &host };
    format!("{host}-{:08x}", rand::random::<u32>())
}

/// Who does not see what etcd holds cannot lead, though it may be able to renew the lease of a leader.
async fn watch_fitness(instance: Arc<Instance>, fitness: watch::Sender<bool>) {
    let patience = instance.settings.leader_lease_ttl;
    loop {
        let is_fit = instance.groups.behind() <= patience;
        fitness.send_if_modified(|known| std::mem::replace(known, is_fit) != is_fit);
        tokio::time::sleep(FITNESS_INTERVAL.min(patience / 2)).await;
    }
}

/// A bug in one task must not leave an instance that looks alive and does nothing.
async fn keep_running<F, T>(what: &'static str, start: F)
where
    F: Fn() -> T,
    T: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut task = JoinSet::new();
        task.spawn(start());
        if let Some(Err(error)) = task.join_next().await {
            tracing::error!(%error, "the task `{what}` broke; it is started again");
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_made_up_is_a_legal_one() {
        let settings = Settings { assigner_name: default_name(), ..Settings::default() };
        assert_eq!(settings.check(), []);
        assert_ne!(default_name(), default_name());
    }
}
