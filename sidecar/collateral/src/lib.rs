//! Collateral from the services of its vendors: AMD's key distribution service (KDS), Intel's provisioning certification
//! service (PCS) or a cache of it (PCCS), and the cache of Azure's hosts (THIM).
//!
//! Invariant: what [`Fetcher::fetch`] returns is what was asked for, signed under the vendors' pinned roots, and not over.
//! Nothing rests on the connection that it came by: vendors sign what they hand out, so a cache may be asked over plain
//! HTTP, and whoever sits on the way can only withhold.
//!
//! Every answer is bounded in time and size, redirects are not followed, one piece is asked for once however many wait
//! for it, and each service is asked no faster than it wants to be. Deliberately absent: the wall clock (callers say what
//! time it is), any verdict on evidence, and any way to configure roots.

mod address;
mod answer;
mod client;
mod error;
mod pace;
mod service;
mod tls;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use sealane_attestation::{PieceId, VendorRoots, VerifiedPiece};
use sealane_types::UnixSeconds;

use address::Address;
use client::Client;
use pace::Pace;
use service::{Request, Service};

pub use address::InvalidAddress;
pub use error::{FetchError, SourceError};

/// AMD's service.
pub const KDS: &str = "https://kdsintf.amd.com";
/// Intel's service.
pub const PCS: &str = "https://api.trustedservices.intel.com";
/// Where Intel keeps the revocation list of its root, which its service does not answer.
pub const INTEL_ROOT_LIST: &str = "https://certificates.trustedservices.intel.com";

/// Pieces of which it is remembered why they could not be had.
const FAILURES_MAX: usize = 256;

/// Which services are asked.
#[derive(Debug, Clone)]
pub struct Sources {
    /// AMD's, or a proxy that answers like it.
    pub kds: String,
    /// Intel's, or a cache that answers like it.
    pub pcs: String,
    /// The host's own cache on Azure, such as `http://169.254.169.254`, asked first for the chip of this machine.
    pub thim: Option<String>,
    /// PEM of the authorities that sign the services' certificates, in place of the system's.
    pub authorities: Option<String>,
}

impl Default for Sources {
    fn default() -> Self {
        Self { kds: KDS.to_owned(), pcs: PCS.to_owned(), thim: None, authorities: None }
    }
}

/// What a fetch came to; callers that wait for one piece share it.
pub type Fetched = Result<Arc<VerifiedPiece>, Arc<FetchError>>;

/// Asks services for pieces. Clones share everything.
#[derive(Clone)]
pub struct Fetcher(Arc<Inner>);

struct Inner {
    client: Client,
    services: Vec<(Service, Address)>,
    roots: VendorRoots,
    paces: Mutex<HashMap<Service, Pace>>,
    under_way: Mutex<HashMap<PieceId, Shared<BoxFuture<'static, Fetched>>>>,
    failed: Mutex<HashMap<PieceId, (Instant, Arc<FetchError>)>>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("services", &self.0.services).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// # Errors
    /// [`SourceError`] when an address is none, or there is no authority to verify an https:// service by.
    pub fn new(sources: &Sources, roots: VendorRoots) -> Result<Self, SourceError> {
        let Sources { kds, pcs, thim, authorities } = sources;
        let pcs_address: Address = pcs.parse()?;
        // Caches answer the root's list themselves.
        let root_list: Address = if pcs == PCS { INTEL_ROOT_LIST.parse()? } else { pcs_address.clone() };
        let root_service = if pcs == PCS { Service::IntelRootList } else { Service::Pcs };
        let mut services = vec![(Service::Kds, kds.parse()?), (Service::Pcs, pcs_address)];
        if root_service == Service::IntelRootList {
            services.push((root_service, root_list));
        }
        if let Some(thim) = thim {
            services.insert(0, (Service::Thim, thim.parse()?));
        }
        let secure = services.iter().any(|(_, address)| address.is_secure());
        let client = Client::new(secure, authorities.as_deref())?;
        let (paces, under_way, failed) = Default::default();
        Ok(Self(Arc::new(Inner { client, services, roots, paces, under_way, failed })))
    }

    /// The piece with this name. Everyone who asks while it is fetched waits for the same answer, and whoever gives up
    /// waiting ends nothing for the others. A piece that could not be had is not asked for again at once.
    ///
    /// # Errors
    /// [`FetchError`].
    pub async fn fetch(&self, id: PieceId, now: UnixSeconds) -> Fetched {
        if let Some(error) = self.0.failed_lately(&id) {
            return Err(error);
        }
        let shared = {
            let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = || Arc::clone(&self.0).begin(id, now);
            under_way.entry(id).or_insert_with(begin).clone()
        };
        shared.await
    }
}

/// A fetch that has begun; the next one of its piece may begin once this is gone.
struct UnderWay {
    inner: Arc<Inner>,
    id: PieceId,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Inner {
    /// Starts a task of its own, so that it goes on when the first who asked does not.
    fn begin(self: Arc<Self>, id: PieceId, now: UnixSeconds) -> Shared<BoxFuture<'static, Fetched>> {
        let inner = Arc::clone(&self);
        self.run(id, async move {
            let fetched = inner.ask(id, now).await.map(Arc::new).map_err(Arc::new);
            if let Err(error) = &fetched {
                inner.remember(id, error);
            }
            fetched
        })
    }

    fn run(
        self: Arc<Self>,
        id: PieceId,
        fetch: impl Future<Output = Fetched> + Send + 'static,
    ) -> Shared<BoxFuture<'static, Fetched>> {
        let task = tokio::spawn(async move {
            // From inside of the task: one that never runs would be dropped by whoever holds the lock.
            let _under_way = UnderWay { inner: self, id };
            fetch.await
        });
        let done = task.map(|done| done.unwrap_or_else(|_| Err(Arc::new(FetchError::Interrupted))));
        done.boxed().shared()
    }

    /// Asks each service that may have it, until one does.
    async fn ask(&self, id: PieceId, now: UnixSeconds) -> Result<VerifiedPiece, FetchError> {
        let mut last = FetchError::NoService { id };
        for (service, address) in &self.services {
            let Some(request) = Request::new(*service, &id) else { continue };
            match self.ask_one(*service, address, &request, id, now).await {
                Ok(piece) => return Ok(piece),
                Err(error) => {
                    tracing::warn!(%id, service = service.as_str(), "not fetched: {error}");
                    last = error;
                }
            }
        }
        Err(last)
    }

    async fn ask_one(
        &self,
        service: Service,
        address: &Address,
        request: &Request,
        id: PieceId,
        now: UnixSeconds,
    ) -> Result<VerifiedPiece, FetchError> {
        let wait = self.pace(service, |pace| pace.turn(Instant::now()))?;
        tokio::time::sleep(wait).await;
        let answer = self.client.get(address, request).await;
        let after = answer.as_ref().err().and_then(FetchError::retry_after);
        let well =
            answer.as_ref().is_ok_and(|_| true) || answer.as_ref().is_err_and(FetchError::is_an_answer);
        self.pace(service, |pace| pace.answered(Instant::now(), well, after));
        let piece = request.read(&answer?)?;
        let verified = self.roots.verify(piece, now).map_err(FetchError::Refused)?;
        if verified.id() != id {
            return Err(FetchError::Another { asked: Box::new(id), found: Box::new(verified.id()) });
        }
        if verified.term().until <= now {
            return Err(FetchError::Expired { id });
        }
        Ok(verified)
    }

    fn pace<T>(&self, service: Service, with: impl FnOnce(&mut Pace) -> T) -> T {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        with(paces.entry(service).or_insert_with(|| Pace::new(service.interval())))
    }

    fn failed_lately(&self, id: &PieceId) -> Option<Arc<FetchError>> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, error) = failed.get(id)?;
        if Instant::now() < *until {
            return Some(Arc::clone(error));
        }
        failed.remove(id);
        None
    }

    fn remember(&self, id: PieceId, error: &Arc<FetchError>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        failed.retain(|_, (until, _)| now < *until);
        if failed.len() < FAILURES_MAX {
            failed.insert(id, (now + error.not_again_for(), Arc::clone(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fetch_that_breaks_down_keeps_nobody_from_the_next_one() {
        let nowhere = || "http://127.0.0.1:1".to_owned();
        let sources = Sources { kds: nowhere(), pcs: nowhere(), thim: None, authorities: None };
        let fetcher = Fetcher::new(&sources, VendorRoots::pinned()).unwrap();
        let id = PieceId::QeIdentity;
        let inner = Arc::clone(&fetcher.0);
        let broken = {
            let mut under_way = inner.under_way.lock().unwrap();
            let broken = Arc::clone(&inner).run(id, async { panic!("a fault of ours") });
            under_way.insert(id, broken.clone());
            broken
        };
        assert!(matches!(broken.await, Err(error) if matches!(*error, FetchError::Interrupted)));
        assert!(inner.under_way.lock().unwrap().is_empty());
    }
}
