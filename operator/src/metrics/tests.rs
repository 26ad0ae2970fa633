use super::*;

/// One of everything. A metric that is not touched here is in no exposition, and so not in the documentation either.
fn touched() -> Metrics {
    let metrics = Metrics::default();
    metrics.started(Role::Webhook);
    metrics.injected(Injection::Injected);
    metrics.reviewed(Webhook::Pod, Verdict::Allowed);
    metrics.reconciled(Outcome::Success, Duration::from_millis(3));
    metrics.status_written("Peer", StatusWrite::Written);
    metrics.registered(Outcome::Failure);
    metrics.attached(2);
    metrics.pushed(3);
    metrics.applied(Duration::from_millis(20));
    metrics.leading(true);
    metrics.certificate(Some(1_800_000_000));
    metrics.ran(RunEnd::Failed);
    metrics.benchmark("bench/nightly", 2, Some(1_800_000_000));
    metrics
}

#[test]
fn everything_is_exposed_under_the_prefix() {
    let text = touched().expose().unwrap();
    for line in [
        concat!(
            "sealane_operator_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\",role=\"Webhook\"} 1"
        ),
        "sealane_operator_injections_total{outcome=\"Injected\"} 1",
        "sealane_operator_reviews_total{webhook=\"Pod\",verdict=\"Allowed\"} 1",
        "sealane_operator_reconciles_total{outcome=\"Success\"} 1",
        "sealane_operator_reconcile_seconds_count 1",
        "sealane_operator_status_writes_total{kind=\"Peer\",outcome=\"Written\"} 1",
        "sealane_operator_attachments_total{outcome=\"Failure\"} 1",
        "sealane_operator_attached_sidecars 2",
        "sealane_operator_push_seconds_count 1",
        "sealane_operator_leader 1",
        "sealane_operator_certificate_expires_timestamp_seconds{} 1800000000.0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_benchmark_that_is_gone_has_no_series() {
    let metrics = touched();
    let line = "sealane_operator_benchmark_regressions{benchmark=\"bench/nightly\"} 2";
    assert!(metrics.expose().unwrap().contains(line));
    metrics.benchmark_gone("bench/nightly");
    assert!(!metrics.expose().unwrap().contains("nightly"));
    let metrics = touched();
    metrics.no_benchmarks();
    assert!(!metrics.expose().unwrap().contains("nightly"));
}

#[tokio::test]
async fn the_queue_of_the_term_is_shown_and_nothing_after_it() {
    let metrics = Metrics::default();
    let queue = Arc::new(Queue::default());
    metrics.watch(&queue);
    queue.request("due", Duration::ZERO);
    queue.request("later", Duration::from_secs(3600));
    assert!(metrics.expose().unwrap().contains("sealane_operator_queue_depth 1\n"));
    drop(queue);
    assert!(metrics.expose().unwrap().contains("sealane_operator_queue_depth 0\n"));
}

#[test]
fn the_documentation_lists_every_metric_and_no_other() {
    let metrics = touched();
    // Forgetting one here is an error of the compiler, and `touched` is beside it.
    let Metrics {
        registry: _,
        build: _,
        injections: _,
        reviews: _,
        reconciles: _,
        reconcile_seconds: _,
        queue_depth: _,
        status_writes: _,
        attachments: _,
        attached: _,
        pushes: _,
        push_seconds: _,
        leader: _,
        certificate_expires: _,
        benchmark_runs: _,
        benchmark_regressions: _,
        benchmark_success: _,
        queue: _,
    } = &metrics;
    let page = include_str!("../../../docs/metrics.md");
    let documented: Vec<_> = page.lines().filter(|line| line.starts_with("| `sealane_operator_")).collect();
    let exposed = rows(&metrics.expose().unwrap());
    assert_eq!(documented, exposed, "docs/metrics.md should hold exactly these rows, in this order");
}

/// The rows of the documentation that an exposition makes: name, type, labels and help text.
fn rows(exposition: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut help = "";
    for line in exposition.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap().1;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let suffix = if kind == "counter" { "_total" } else { "" };
            let labels = labels(exposition, name);
            rows.push(format!("| `{name}{suffix}` | {kind} | {labels} | {help} |"));
        }
    }
    rows
}

fn labels(exposition: &str, name: &str) -> String {
    // A gauge has no suffix, a counter one, and a histogram several.
    let ends = ["", "_total", "_sum"];
    let of_it = |line: &&str| {
        let rest = line.strip_prefix(name).unwrap_or("?");
        ends.iter().any(|end| rest.strip_prefix(end).is_some_and(|rest| rest.starts_with([' ', '{'])))
    };
    let sample = exposition.lines().find(of_it).unwrap();
    let inside =
        sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    let names = inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
    let shown: Vec<_> = names.filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
    shown.join(" ")
}
