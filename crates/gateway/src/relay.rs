//! Waking many connections of one thread with one call to the system.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Connections whose answers have become ready on another thread.
///
/// A sync of the disk readies hundreds of answers at once. Waking each connection from the thread that synced would
/// interrupt the connections' own thread as often; so they are written down here, and only the first of them wakes it.
/// There the rest is a push to a queue of its own.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ready: Vec<Waker>,
    /// Who wakes those in `ready`, while it sleeps.
    sleeping: Option<Waker>,
}

impl Relay {
    /// A waker that goes through here, for one connection. It knows the connection's own once that was polled.
    pub(crate) fn waker(self: &Arc<Self>) -> Arc<Relayed> {
        Arc::new(Relayed { relay: Arc::clone(self), own: OnceLock::new() })
    }

    fn ready(&self, waker: Waker) {
        let mut state = self.state.lock();
        state.ready.push(waker);
        let sleeping = state.sleeping.take();
        drop(state);
        if let Some(sleeping) = sleeping {
            sleeping.wake();
        }
    }

    /// Wakes who is ready, for ever. Runs on the thread of the connections.
    pub(crate) fn run(self: Arc<Self>) -> Running {
        Running { relay: self, batch: Vec::new() }
    }
}

/// The one that wakes.
pub(crate) struct Running {
    relay: Arc<Relay>,
    /// Kept, so that it need not grow again.
    batch: Vec<Waker>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { relay, batch } = &mut *self;
        let mut state = relay.state.lock();
        if state.ready.is_empty() {
            state.sleeping = Some(context.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut state.ready, batch);
        drop(state);
        for waker in batch.drain(..) {
            waker.wake();
        }
        // Looks again when those have had their turn, instead of being woken for each that comes meanwhile.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The waker of one connection, by way of its thread's relay.
#[derive(Debug)]
pub(crate) struct Relayed {
    relay: Arc<Relay>,
    own: OnceLock<Waker>,
}

impl Relayed {
    /// Takes note of the connection's own waker, which stays the same as long as its task lives.
    pub(crate) fn stands_for(&self, own: &Waker) {
        self.own.get_or_init(|| own.clone());
    }
}

impl Wake for Relayed {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Nobody has this waker before the connection was polled.
        if let Some(own) = self.own.get() {
            self.relay.ready(own.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Count {
        fn get(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn many_are_woken_and_the_thread_only_once() {
        let relay = Arc::new(Relay::default());
        let thread = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&thread));
        let mut context = Context::from_waker(&waker);
        let mut running = pin!(Arc::clone(&relay).run());
        assert_eq!(running.as_mut().poll(&mut context), Poll::Pending);

        let connections: Vec<_> = (0..100).map(|_| Arc::new(Count::default())).collect();
        for connection in &connections {
            let relayed = relay.waker();
            relayed.stands_for(&Waker::from(Arc::clone(connection)));
            Waker::from(relayed).wake();
        }
        assert_eq!(thread.get(), 1);
        assert!(
            connections.iter().all(|connection| connection.get() == 0),
            "not from a thread that is not theirs"
        );
        assert_eq!(running.as_mut().poll(&mut context), Poll::Pending);
        assert!(connections.iter().all(|connection| connection.get() == 1));
        assert_eq!(thread.get(), 2, "it wants another turn before it sleeps");
        assert_eq!(running.as_mut().poll(&mut context), Poll::Pending);

        let relayed = relay.waker();
        relayed.stands_for(&Waker::from(Arc::clone(&connections[0])));
        Waker::from(relayed).wake();
        assert_eq!(thread.get(), 3, "it sleeps again, and is woken again");
    }

    #[test]
    fn a_connection_that_was_never_polled_is_left_alone() {
        let relay = Arc::new(Relay::default());
        Waker::from(relay.waker()).wake();
        assert!(relay.state.lock().ready.is_empty());
    }
}
