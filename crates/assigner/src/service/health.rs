//! The health service of gRPC.

use std::time::Duration;

use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::groups::Groups;

use super::stopped;

/// The names under which the health can be asked for: all, and each service.
const NAMES: [&str; 3] = ["", "kafka_assigner.v1.KafkaAssigner", "kafka_assigner.v1.KafkaAssignerAdmin"];

/// How often it is looked whether the mirror is current. Those who ask do so every few seconds.
const INTERVAL: Duration = Duration::from_millis(250);

/// Says for ever whether this instance serves: not before it has read etcd, not while it hears nothing of it, and not
/// once it is about to stop.
pub(super) async fn report(health: HealthReporter, groups: Groups, stop: watch::Receiver<bool>) {
    let mut told = None;
    let mut is_stopping = false;
    loop {
        let is_serving = groups.is_current() && !is_stopping;
        if told != Some(is_serving) {
            let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
            for name in NAMES {
                health.set_service_status(name, status).await;
            }
            told = Some(is_serving);
        }
        if is_stopping {
            std::future::pending::<()>().await;
        }
        tokio::select! {
            () = stopped(stop.clone()) => is_stopping = true,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
