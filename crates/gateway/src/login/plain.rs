//! PLAIN: the client tells its password, and what is kept of it is derived anew.

use std::sync::Arc;

use bytes::Bytes;
use sasl::scram::Variant;
use sasl::{plain, verify_password};
use tokio::sync::Semaphore;
use tokio::task;

use super::{Denied, Desk, Failure, Heard, SOMEONE_ELSE};

/// What Kafka says to a wrong password.
const WRONG: &str = "Authentication failed: Invalid username or password";

pub(super) async fn hear(message: &[u8], desk: &Desk) -> Result<Heard, Denied> {
    let told = plain::parse(message).map_err(|refused| {
        let failure = Failure::new(None, &refused);
        match refused {
            plain::Refused::SomeoneElse => failure.saying(SOMEONE_ELSE),
            _ => failure,
        }
    })?;
    let (user, password) = (told.user, told.password.to_owned());
    let known = desk.look_up(desk.login(user).map_err(|failure| failure.saying(WRONG))?).await?;
    let credential = Variant::ALL.into_iter().find_map(|variant| known.credential(variant));
    // Whoever does not exist takes as long.
    let credential = credential.unwrap_or_else(|| known.decoy(Variant::Sha256));
    let is_right = in_turn(&desk.shared.hashing, move || verify_password(&credential, &password)).await;
    match known.identity() {
        // A thread that failed has found nothing right.
        Some(who) if is_right.unwrap_or(false) => {
            Ok(Heard::Known { message: Bytes::new(), who, expires_ms: None })
        }
        _ => Err(Failure::new(Some(user), &"the user or the password is wrong").saying(WRONG).into()),
    }
}

/// Does `work` on a thread of its own when fewer than so many others do; `None` when it failed.
///
/// The turn ends with the work. A client that is gone before would else let the next one begin beside it.
async fn in_turn<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = Arc::clone(turns).acquire_owned().await.ok()?;
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn work_that_nobody_waits_for_any_more_keeps_its_turn_until_it_is_done() {
        let turns = Arc::new(Semaphore::new(1));
        let (end, ended) = mpsc::channel();
        {
            let mut working = pin!(in_turn(&turns, move || ended.recv()));
            assert!(working.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(turns.available_permits(), 0);
        end.send(()).expect("it works");
        assert_eq!(in_turn(&turns, || 7).await, Some(7));
    }
}
