//! One term of leadership: caches, reconciliation and control channel start together and end together.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use sealane_operator_api::well_known::CONTROL_PORT;
use tokio::net::TcpListener;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::advice::Advice;
use crate::certificates::Resolver;
use crate::config::Config;
use crate::control::{self, Listener, Registry, Server};
use crate::metrics::Metrics;
use crate::queue::Queue;
use crate::{benchmark, lease, reconcile, watch};

/// How long streams may take to end when the term does.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// What every term is made of.
#[derive(Clone)]
pub struct Leader {
    pub client: Client,
    pub config: Arc<Config>,
    pub resolver: Arc<Resolver>,
    pub metrics: Arc<Metrics>,
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader").finish_non_exhaustive()
    }
}

impl Leader {
    /// Leads until `term` is cancelled.
    ///
    /// # Errors
    /// What kept the control channel from being served.
    pub async fn lead(&self, term: CancellationToken) -> anyhow::Result<()> {
        let (registry, queue) = (Arc::new(Registry::default()), Arc::new(Queue::default()));
        self.metrics.watch(&queue);
        // Dropped at the end of the term, and every task with it.
        let mut tasks = JoinSet::new();
        let (stores, watching) = watch::start(&self.client, &queue);
        tasks.spawn(watching);
        tokio::select! {
            () = stores.ready() => {}
            () = term.cancelled() => return Ok(()),
        }
        let benchmarks = self.config.benchmarks.clone();
        let unread = if benchmarks.is_some() { Advice::pending() } else { Advice::default() };
        let (advise, advice) = channel::channel(Arc::new(unread));
        tasks.spawn(watch::advised(stores.clone(), advice.clone(), Arc::clone(&queue)));
        let context = reconcile::Context::new(
            self.client.clone(),
            stores,
            Arc::clone(&registry),
            Arc::clone(&self.metrics),
            advice,
            &self.config.pod_name,
        );
        tasks.spawn(reconcile::run(Arc::new(context), Arc::clone(&queue)));
        if let Some(settings) = benchmarks {
            let (client, pod) = (self.client.clone(), self.config.pod_name.clone());
            tasks.spawn(benchmark::run(client, settings, pod, Arc::clone(&self.metrics), advise));
        }
        let served = self.serve(&registry, &queue, &term).await;
        registry.close();
        if let Err(error) = lease::take_label(&self.client, &self.config).await {
            tracing::warn!(%error, "cannot take the leader label off; the next leader does");
        }
        self.metrics.attached(0);
        // Before its series go, whoever makes them.
        tasks.shutdown().await;
        self.metrics.no_benchmarks();
        served
    }

    async fn serve(
        &self,
        registry: &Arc<Registry>,
        queue: &Arc<Queue>,
        term: &CancellationToken,
    ) -> anyhow::Result<()> {
        let tls = self.resolver.server(b"h2")?;
        let listener = Listener::new(bind_any(CONTROL_PORT, TcpListener::bind).await?, tls);
        lease::put_label(&self.client, &self.config).await.context("cannot label the leader's pod")?;
        let server = Server::new(
            self.client.clone(),
            Arc::clone(registry),
            Arc::clone(queue),
            Arc::clone(&self.metrics),
        );
        let mut serving = std::pin::pin!(control::serve(listener, server, term.clone()));
        tokio::select! {
            served = &mut serving => served.context("the control channel failed"),
            () = term.cancelled() => {
                registry.close();
                // Connections are told to go away; what is left after the time is dropped.
                let _ = tokio::time::timeout(CLOSE_TIME, serving).await;
                Ok(())
            }
        }
    }
}

/// Binds `port` on every address: IPv6 takes IPv4 too, and where there is no IPv6, IPv4 alone.
///
/// # Errors
/// The port cannot be bound.
pub async fn bind_any<L, F>(port: u16, bind: impl Fn(SocketAddr) -> F) -> anyhow::Result<L>
where
    F: Future<Output = std::io::Result<L>>,
{
    let any6 = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
    let any4 = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, port));
    match bind(any6).await {
        Ok(listener) => Ok(listener),
        Err(_) => bind(any4).await.with_context(|| format!("cannot listen on port {port}")),
    }
}
