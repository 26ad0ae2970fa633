//! A word from outside that ends connections.

use std::sync::{Arc, OnceLock};

use sealane_types::Reason;
use tokio::sync::Notify;

/// Asks whoever holds a clone to end, for good: the first reason stays. An idle connection keeps one, so it is small.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    reason: OnceLock<Reason>,
    news: Notify,
}

impl Stop {
    pub(crate) fn ask(&self, reason: Reason) {
        // Whoever asked before was heard.
        let _ = self.0.reason.set(reason);
        self.0.news.notify_waiters();
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.0.reason.get().copied()
    }

    /// Resolves once it was asked for.
    pub(crate) async fn asked(&self) -> Reason {
        loop {
            // From here on it hears of news, so none is missed between the look and the wait.
            let news = self.0.news.notified();
            if let Some(reason) = self.reason() {
                return reason;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everyone_hears_the_first_reason_whenever_they_listen() {
        let stop = Stop::default();
        let waiting =
            [stop.clone(), stop.clone()].map(|stop| tokio::spawn(async move { stop.asked().await }));
        tokio::task::yield_now().await;
        assert_eq!(stop.reason(), None);
        stop.ask(Reason::SessionDeleted);
        stop.ask(Reason::Draining);
        for one in waiting {
            assert_eq!(one.await.unwrap(), Reason::SessionDeleted);
        }
        assert_eq!(stop.clone().asked().await, Reason::SessionDeleted);
    }
}
