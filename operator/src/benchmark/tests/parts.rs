//! What becomes of the nodes of a run, and of its Jobs and pods.

use super::*;

/// What becomes of node `a` when its Job ends like this.
fn fate(end: impl FnOnce(&mut World)) -> (NodePhase, String) {
    let mut world = World::new(pools_by_label());
    world.step();
    world.step();
    end(&mut world);
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    (nodes[0].phase, nodes[0].message.clone().unwrap_or_default())
}

#[test]
fn what_is_not_signed_for_this_node_and_run_is_no_result() {
    let forged = |said: fn(&World) -> String| {
        let (phase, message) = fate(|world| world.end("a", Some(said(world)), None));
        assert_eq!(phase, NodePhase::Failed);
        assert!(message.starts_with("what its pod said is ignored"), "{message}");
        message
    };
    forged(|_| "all is well".to_owned());
    let message = forged(|world| {
        let place = place("01234567-1", "x", "a");
        let other = RunKey::new(Zeroizing::new([world.keys + 7; 32]));
        other.seal(summary(place, 100.0)).unwrap().to_string()
    });
    assert!(message.contains("not signed"), "{message}");
    // The other node's figures, and those of an earlier run.
    forged(|world| world.result("b", 100.0));
    forged(|world| {
        let place = place("01234567-0", "x", "a");
        world.key().seal(summary(place, 100.0)).unwrap().to_string()
    });
}

#[test]
fn a_wrong_result_fails_its_node_and_is_kept() {
    let mut world = World::new(pools_by_label());
    world.step();
    world.step();
    let place = place("01234567-1", "x", "a");
    let wrong =
        Summary { sound: false, failures: vec!["stream: wrong bytes".to_owned()], ..summary(place, 1.0) };
    let said = world.key().seal(wrong).unwrap().to_string();
    world.end("a", Some(said), Some("BackoffLimitExceeded"));
    let Step::Advance(Advance { nodes, results, .. }) = world.step() else { panic!() };
    assert_eq!(
        (nodes[0].phase, nodes[0].message.as_deref()),
        (NodePhase::Failed, Some("stream: wrong bytes"))
    );
    assert!(results[0].sealed.is_some());
}

#[test]
fn nodes_that_leave_and_pods_that_vanish_end_their_part() {
    let (phase, message) = fate(|world| world.end("a", None, Some("PodFailurePolicy: DisruptionTarget")));
    assert_eq!((phase, message.as_str()), (NodePhase::Failed, "PodFailurePolicy: DisruptionTarget"));
    let (phase, message) = fate(|world| world.nodes.retain(|node| node.name != "a"));
    assert_eq!(
        (phase, message.as_str()),
        (NodePhase::Failed, "node a left the cluster in the middle of the run")
    );
    // The cache may know of the Job's end before it knows of the pod's.
    let (phase, _) = fate(|world| world.end("a", None, None));
    assert_eq!(phase, NodePhase::Running);
    let (phase, _) = fate(|world| {
        world.end("a", None, None);
        world.now = world.now.checked_add(SignedDuration::from_secs(31)).unwrap();
    });
    assert_eq!(phase, NodePhase::Failed);
    let (phase, message) = fate(|world| {
        let waits = Some("Unschedulable: no room".to_owned());
        world.jobs[0].pod = Some(MeasuringPod { waits, said: None, address: None });
    });
    assert_eq!((phase, message.as_str()), (NodePhase::Running, "Unschedulable: no room"));
}

#[test]
fn what_a_pod_waited_for_is_told_although_its_job_deleted_it() {
    let unscheduled = || Some("Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.".to_owned());
    let mut world = World::new(pools_by_label());
    world.step();
    world.step();
    world.jobs[0].pod = Some(MeasuringPod { waits: unscheduled(), said: None, address: None });
    world.step();
    world.end("a", None, Some("DeadlineExceeded: Job was active longer than specified deadline"));
    world.jobs[0].pod = None;
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    let message = nodes[0].message.clone().unwrap();
    for part in ["DeadlineExceeded", "2 Insufficient cpu"] {
        assert!(message.contains(part), "{message}");
    }
    // One that ran and took too long waited for nothing.
    let (_, message) = fate(|world| world.end("a", None, Some("DeadlineExceeded: too long")));
    assert_eq!(message, "DeadlineExceeded: too long");
}

#[test]
fn a_run_of_which_a_node_failed_has_failed_and_leaves_the_figures_of_before() {
    let mut world = World::new(pools_by_label());
    world.whole_run(4.0);
    world.generation = 2;
    world.step();
    world.step();
    let said = world.result("a", 1.0);
    world.end("a", Some(said), None);
    world.end("b", None, Some("DeadlineExceeded: too long"));
    world.step();
    let Step::Finish(Finish { outcome, message }) = world.step() else { panic!() };
    assert_eq!(outcome, RunOutcome::Failed);
    assert_eq!(message.unwrap(), "1 of 2 nodes failed; b: DeadlineExceeded: too long");
    assert_eq!(world.reason(COMPLETE), "RunFailed");
    let (status, reason, message) = world.condition(READY);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "RunFailed"));
    assert!(message.ends_with("(docs/reasons.md#runfailed)"), "{message}");
    assert_eq!(world.status.pools[0].figures[0].value, "4.00 GB/s");
    assert_eq!(world.status.runs.len(), 2);
    // What was measured of it can be read all the same.
    let run = &world.status.runs[0];
    assert_eq!(world.records.summaries(&run.id, &run.key, 1).unwrap().len(), 1);
}

#[test]
fn a_job_that_was_deleted_is_not_made_again() {
    let mut world = World::new(json!({}));
    world.step();
    world.step();
    world.jobs.clear();
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((nodes[0].phase, start.len()), (NodePhase::Running, 0), "the cache may be behind");
    world.now = world.now.checked_add(SignedDuration::from_secs(31)).unwrap();
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    assert_eq!(nodes[0].message.as_deref(), Some("its Job was deleted"));
}

#[test]
fn a_benchmark_that_was_changed_measures_nothing_more_of_its_old_run() {
    let mut world = World::new(json!({}));
    world.step();
    world.generation = 2;
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((nodes[0].phase, start.len()), (NodePhase::Failed, 0));
}

#[test]
fn more_nodes_than_a_run_measures_are_told() {
    let mut world = World::new(json!({"nodePools": {"nodesPerPool": 16, "key": "pool"}}));
    world.nodes = (0..140)
        .map(|number| {
            node(
                &format!("n{number:03}"),
                &[("pool", ["a", "b", "c", "d", "e", "f", "g", "h", "i"][number % 9])],
            )
        })
        .collect();
    world.step();
    assert_eq!(world.status.active.as_ref().unwrap().nodes.len(), 128);
    assert_eq!(world.condition(DEGRADED).2, "a run has 128 nodes and pairs at most: 12 are left out");
}

#[test]
fn a_measuring_pod_has_no_privilege_and_goes_with_its_benchmark() {
    let mut world = World::new(json!({
        "nodePools": {"key": "pool", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        "suites": ["Crypto", "Stream"], "compareWith": ["Plaintext", "Rustls"], "resources": {"requests": {"cpu": "2"}},
        "env": [{"name": "OPENSSL_ia32cap", "value": "~0x2"}, {"name": "SEALANE_BENCH_RUN", "value": "mine"}],
    }));
    world.step();
    let run = world.status.active.clone().unwrap();
    let runner = Runner {
        image: "bench:1".to_owned(),
        pull_policy: "Never".to_owned(),
        pull_secrets: vec!["r".to_owned()],
    };
    let job = job(OWNER, &world.spec, (&run, &run.nodes[0], Role::Alone), &runner);
    let _: k8s_openapi::api::batch::v1::Job = serde_json::from_value(job.clone()).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let compared = ["--compare-with", "plaintext,rustls"];
    assert_eq!(
        container["args"],
        json!(["run", "--quick", "--suite", "crypto,stream", compared[0], compared[1]])
    );
    let variables: Vec<&Value> = container["env"].as_array().unwrap().iter().collect();
    assert_eq!(variables[0], &json!({"name": "OPENSSL_ia32cap", "value": "~0x2"}));
    // Whatever else is given, the operator's own counts.
    let last = variables.iter().rfind(|one| one["name"] == "SEALANE_BENCH_RUN");
    assert_eq!(last.unwrap()["value"], run.id);
    let key = variables.iter().find(|one| one["name"] == "SEALANE_BENCH_KEY").unwrap();
    assert_eq!(key["valueFrom"]["secretKeyRef"]["name"], run.secret);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert_eq!((&pod["automountServiceAccountToken"], &pod["hostNetwork"]), (&json!(false), &json!(false)));
    assert_eq!(pod["tolerations"][0]["key"], "gpu");
    assert_eq!(container["resources"]["requests"]["cpu"], "2");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], UID);
    assert!(job["metadata"]["name"].as_str().unwrap().len() <= 63);
    let secret = secret(OWNER, &run.id, &run.secret, &world.key().to_hex());
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], UID);
}
