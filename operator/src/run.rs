//! Puts the parts together: what every replica does, and what the leader does besides.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, Admin};
use crate::certificates::Certificates;
use crate::config::Config;
use crate::lead::{Leader, bind_any};
use crate::lease::{self, Campaign};
use crate::metrics::Metrics;
use crate::tls::Tls;
use crate::webhook::{self, Cluster, Mutator, Validator, Webhooks};

/// After the signal to stop, everything has this long.
const STOP_TIME: Duration = Duration::from_secs(15);
/// Pause before another term after one that failed.
const TERM_PAUSE: Duration = Duration::from_secs(2);
const LEASE_TIME: Duration = Duration::from_secs(5);

/// Runs the operator until it is told to stop.
///
/// # Errors
/// What kept it from starting, or a part that cannot go on.
pub async fn run(config: Config) -> anyhow::Result<()> {
    // Several dependencies ask for the process's default; an earlier answer is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = Client::try_default().await.context("no way to the API server")?;
    let config = Arc::new(config);
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    stop_on_signal(&stop)?;
    let leader = serve_replica(&client, &config, &stop, &mut tasks).await?;
    let campaign = if config.role.leads() {
        lease::take_label(&client, &config).await.context("cannot patch the operator's own pod")?;
        let Campaign { leading, task } =
            lease::campaign(&client, &config).await.context("cannot use the Lease")?;
        tasks.spawn(terms(leader, leading, stop.clone()));
        Some(task)
    } else {
        None
    };

    let outcome = tokio::select! {
        () = stop.cancelled() => Ok(()),
        Some(ended) = tasks.join_next() => match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(panicked) => Err(panicked.into()),
        },
    };
    stop.cancel();
    let rest = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIME, rest).await.is_err() {
        tracing::warn!("stopping took too long; the rest is dropped");
    }
    // The receiver went with the terms, so the lease is being given back.
    if let Some(task) = campaign {
        let _ = tokio::time::timeout(LEASE_TIME, task).await;
    }
    outcome
}

/// Starts what every replica does: certificates, health and metrics, and webhooks where its role has them.
async fn serve_replica(
    client: &Client,
    config: &Arc<Config>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<Leader> {
    let metrics = Arc::new(Metrics::default());
    metrics.started(config.role);
    let certificates =
        Certificates::new(client.clone(), config.namespace.as_str()).named(&config.webhook_names);
    let (resolver, authorities) = (certificates.resolver(), certificates.bundle());
    if config.role.admits() {
        let tls = match &config.webhook_client_ca {
            Some(authorities) => resolver.server_for(authorities.verifier()?, b"http/1.1")?,
            None => resolver.server(b"http/1.1")?,
        };
        let listener = bind_any(config.webhook_port, TcpListener::bind).await?;
        let (cluster, watching) = Cluster::new(client.clone());
        tasks.spawn(until_stopped(watching, stop.clone()));
        let mutator = Mutator::new(cluster, Arc::clone(config), authorities.clone(), Arc::clone(&metrics));
        let service = Arc::new(Webhooks::new(mutator, Validator::new(client.clone())));
        let (sources, stopped) = (config.webhook_sources.clone(), stop.clone());
        tasks.spawn(async move {
            webhook::serve(listener, Tls::new(tls), sources, service, stopped).await;
            Ok(())
        });
    }
    let health = bind_any(config.admin_port, TcpListener::bind).await?;

    let admin = Admin { resolver: Arc::clone(&resolver), authorities, metrics: Arc::clone(&metrics) };
    tasks.spawn(until_stopped(async move { certificates.run().await }, stop.clone()));
    let stopped = stop.clone();
    tasks.spawn(async move {
        admin::serve(health, admin, stopped).await;
        Ok(())
    });
    Ok(Leader { client: client.clone(), config: Arc::clone(config), resolver, metrics })
}

async fn until_stopped(work: impl Future<Output = ()>, stop: CancellationToken) -> anyhow::Result<()> {
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
    Ok(())
}

/// Leads whenever the lease says so.
async fn terms(
    leader: Leader,
    mut leading: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            won = leading.wait_for(|leading| *leading) => if won.is_err() { bail!("the lease is not watched any more") },
        }
        tracing::info!("this replica leads");
        leader.metrics.leading(true);
        let term = stop.child_token();
        let led = async {
            let led = leader.lead(term.clone()).await;
            term.cancel();
            led
        };
        let lost = async {
            tokio::select! {
                _ = leading.wait_for(|leading| !leading) => term.cancel(),
                () = term.cancelled() => {}
            }
        };
        let (led, ()) = tokio::join!(led, lost);
        leader.metrics.leading(false);
        tracing::info!("this replica leads no longer");
        if let Err(error) = led {
            tracing::error!(error = format!("{error:#}"), "the term ended early");
            tokio::time::sleep(TERM_PAUSE).await;
        }
    }
}

fn stop_on_signal(stop: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    Ok(())
}
