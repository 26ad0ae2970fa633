//! Metrics, rendered for each request, of which few pages are held at once: whoever asks and does not read keeps a page for as
//! long as its connection lasts.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

/// Pages that may be read at once; whoever asks for one more gets the newest of these.
const PAGES_MAX: usize = 8;
/// How old that may be: whoever asks takes it for the present.
const AGE_MAX: Duration = Duration::from_secs(5);

/// For whoever asks while others do not read what they asked for.
const BUSY: &str = "too many are reading metrics and do not go on\n";
/// OpenMetrics 1.0, section 4.2.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Pages of metrics that somebody reads, the newest last.
#[derive(Debug, Default)]
pub struct MetricsPages(Mutex<Vec<Page>>);

#[derive(Debug)]
struct Page {
    made: Instant,
    text: Weak<String>,
}

impl MetricsPages {
    /// The answer to a request for metrics: what `render` returns in the form of OpenMetrics, or, while eight pages are being
    /// read, the newest of them, or 503 where that is older than 5 s.
    pub fn answer<E: Display>(&self, render: impl FnOnce() -> Result<String, E>) -> Response {
        match self.get(render) {
            Ok(Some(text)) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
            Ok(None) => (StatusCode::SERVICE_UNAVAILABLE, BUSY).into_response(),
            Err(error) => {
                tracing::error!(%error, "metrics cannot be rendered");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// What `make` returns, or, while [`PAGES_MAX`] are being read, the newest of them; None where that is too old.
    fn get<E>(&self, make: impl FnOnce() -> Result<String, E>) -> Result<Option<Bytes>, E> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| page.text.strong_count() > 0);
        if pages.len() >= PAGES_MAX {
            let newest = pages.last().filter(|page| page.made.elapsed() < AGE_MAX);
            return Ok(newest
                .and_then(|page| page.text.upgrade())
                .map(|text| Bytes::from_owner(Shared(text))));
        }
        let text = Arc::new(make()?);
        pages.push(Page { made: Instant::now(), text: Arc::downgrade(&text) });
        Ok(Some(Bytes::from_owner(Shared(text))))
    }
}

struct Shared(Arc<String>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_are_held_and_each_is_new_until_then() {
        let (pages, mut made) = (MetricsPages::default(), 0);
        let mut get = || {
            let page = pages.get(|| {
                made += 1;
                Ok::<_, ()>(made.to_string())
            });
            page.unwrap().map(|page| (String::from_utf8(page.to_vec()).unwrap(), page))
        };
        let held: Vec<_> = (0..100).map(|_| get().unwrap()).collect();
        let numbers: Vec<_> = held.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(numbers[..9], ["1", "2", "3", "4", "5", "6", "7", "8", "8"]);
        assert_eq!(numbers[99], "8");
        tokio::time::advance(AGE_MAX).await;
        assert!(get().is_none(), "figures of the past are not given out as those of the present");
        assert_eq!(pages.answer(|| Ok::<_, String>(String::new())).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(held);
        assert_eq!(get().unwrap().0, "9", "they are made again once nobody reads those");
        assert_eq!(pages.answer(|| Err("broken")).status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
