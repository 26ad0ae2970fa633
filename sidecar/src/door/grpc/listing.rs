//! The sessions of the pod, looked at for all clients that watch them at once.

use std::sync::Arc;

use futures::Stream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::limits;
use crate::handoff::{SessionView, Sessions};

#[derive(Debug)]
pub(super) struct Listing {
    sessions: Arc<dyn Sessions>,
    views: watch::Sender<Vec<SessionView>>,
    /// Somebody watches.
    watched: Notify,
}

impl Listing {
    pub(super) fn new(sessions: Arc<dyn Sessions>) -> Self {
        Self { sessions, views: watch::Sender::default(), watched: Notify::new() }
    }

    /// The sessions now.
    pub(super) fn now(&self) -> Vec<SessionView> {
        self.sessions.list()
    }

    /// The sessions now, and again after every change, until the sidecar drains. [`Listing::look`] must run.
    pub(super) fn watch(
        &self,
        draining: CancellationToken,
    ) -> impl Stream<Item = Vec<SessionView>> + Send + use<> {
        let mut views = self.views.subscribe();
        self.refresh();
        self.watched.notify_one();
        views.mark_changed();
        futures::stream::unfold((views, draining), |(mut views, draining)| async move {
            tokio::select! {
                biased;
                changed = views.changed() => changed.ok()?,
                () = draining.cancelled() => return None,
            }
            let now = views.borrow_and_update().clone();
            Some((now, (views, draining)))
        })
    }

    /// Looks for changes as long as anybody watches. Readiness changes in many places, for which there is no one
    /// signal; looking costs microseconds. Never returns.
    pub(super) async fn look(&self) {
        loop {
            if self.views.receiver_count() == 0 {
                self.watched.notified().await;
            }
            tokio::time::sleep(limits::WATCH_INTERVAL).await;
            self.refresh();
        }
    }

    fn refresh(&self) {
        let now = self.sessions.list();
        self.views.send_if_modified(|views| {
            let changed = *views != now;
            *views = now;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;

    use super::*;
    use crate::desired::Direction;
    use crate::handoff::SessionKind;

    #[derive(Debug, Default)]
    struct Changing {
        views: Mutex<Vec<SessionView>>,
        looked: AtomicUsize,
    }

    impl Sessions for Changing {
        fn list(&self) -> Vec<SessionView> {
            self.looked.fetch_add(1, Ordering::Relaxed);
            self.views.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn many_who_watch_cost_one_look() {
        const WATCHERS: usize = 100;
        let sessions = Arc::new(Changing::default());
        let listing = Listing::new(Arc::clone(&sessions) as Arc<_>);
        let draining = CancellationToken::new();
        let mut watchers: Vec<_> = (0..WATCHERS).map(|_| Box::pin(listing.watch(draining.clone()))).collect();
        for watcher in &mut watchers {
            assert_eq!(watcher.next().await.unwrap(), []);
        }
        let before = sessions.looked.load(Ordering::Relaxed);
        let view = SessionView {
            name: "activations".parse().unwrap(),
            direction: Direction::Sending,
            kind: SessionKind::Stream,
            standing: Ok(()),
        };
        sessions.views.lock().unwrap().push(view.clone());
        let told = async {
            for watcher in &mut watchers {
                assert_eq!(watcher.next().await.unwrap(), std::slice::from_ref(&view));
            }
        };
        tokio::select! {
            biased;
            () = told => {}
            () = listing.look() => {}
        }
        assert_eq!(sessions.looked.load(Ordering::Relaxed) - before, 1);
        draining.cancel();
        assert_eq!(watchers[0].next().await, None);
    }
}
