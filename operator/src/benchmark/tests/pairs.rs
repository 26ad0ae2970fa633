//! Pairs: a server, its client, and what becomes of both.

use sealane_operator_api::{ActiveNode, Placement};
use sealane_results::Site;

use super::transports::row;
use super::*;

/// A run whose nodes by themselves have been measured, which the next step sees; the pair is next.
fn at_the_pair() -> World {
    let mut world = World::new(json!({"nodePools": {"key": "pool"}, "pairs": ["AcrossPools"]}));
    let Step::Begin(Begin { parts, .. }) = world.step() else { panic!("no run") };
    assert_eq!(parts.len(), 3);
    let Step::Advance(Advance { start, nodes, .. }) = world.step() else { panic!() };
    assert_eq!(start.len(), 2);
    assert_eq!(nodes[2].phase, NodePhase::Waiting);
    for node in ["a", "b"] {
        let said = world.result(node, 4.0);
        world.end(node, Some(said), None);
    }
    world
}

fn pair(world: &World) -> ActiveNode {
    world.status.active.as_ref().unwrap().nodes[2].clone()
}

/// The pair's server listens, and its client has begun.
fn measuring() -> World {
    let mut world = at_the_pair();
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!((start.len(), start[0].1), (1, Role::Server));
    let server = pair(&world).server.unwrap().job;
    let Step::Advance(Advance { start, nodes, .. }) = world.step() else { panic!() };
    assert!(start.is_empty(), "its pod does not run yet");
    assert_eq!(nodes[2].message.as_deref(), Some("its server on node b: its Job has no pod yet"));
    world.listen(&server);
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!((start.len(), start[0].1), (1, Role::Client));
    assert_eq!(start[0].0.server.as_ref().unwrap().address.as_deref(), Some("10.0.0.7:14720"));
    world
}

fn client_says(world: &World, server: Option<Site>) -> String {
    let place = Place { server, ..place(&world.status.active.as_ref().unwrap().id, "x", "a") };
    world.key().seal(summary(place, 3.0)).unwrap().to_string()
}

fn there() -> Option<Site> {
    Some(Site { pool: "y".to_owned(), node: "b".to_owned() })
}

#[test]
fn a_server_begins_then_its_client_and_both_end() {
    let mut world = measuring();
    let said = client_says(&world, there());
    world.end("a", Some(said), None);
    let Step::Advance(Advance { results, .. }) = world.step() else { panic!() };
    assert_eq!(results[0].server, there());
    let server = pair(&world).server.unwrap().job;
    assert!(world.jobs.iter().any(|job| job.name == server && job.is_active()));
    assert!(matches!(world.step(), Step::Finish(Finish { outcome: RunOutcome::Succeeded, .. })));
    assert!(!world.jobs.iter().any(|job| job.name == server), "a server without a client is deleted");
    let found = &world.status.pairs;
    assert_eq!((found.len(), found[0].name.as_str()), (1, "x → y"));
    assert_eq!(
        (found[0].placement, found[0].figures[0].value.as_str()),
        (Placement::AcrossPools, "3.00 GB/s")
    );
    assert_eq!(world.status.pools.len(), 2, "a pair is no pool");
    assert_eq!(world.status.runs[0].nodes, "3/3");
}

#[test]
fn carriers_are_compared_between_nodes_and_one_that_takes_privileges_is_not_recommended() {
    let mut world = measuring();
    let place = Place { server: there(), ..place(&world.status.active.as_ref().unwrap().id, "x", "a") };
    let mut said = summary(place, 3.0);
    said.rows.extend([row("Tcp+Aes256Gcm", 1.0), row("Udp+Aes256Gcm", 1.5), row("AfXdp+Aes256Gcm", 9.0)]);
    let said = world.key().seal(said).unwrap().to_string();
    world.end("a", Some(said), None);
    world.step();
    assert!(matches!(world.step(), Step::Finish(_)));
    let recommended = world.status.pairs[0].known.recommended.clone().unwrap();
    assert_eq!((recommended.carrier.as_str(), recommended.cipher.as_str()), ("Udp", "Aes256Gcm"));
}

#[test]
fn a_result_of_one_node_is_none_of_the_pair() {
    for server in [None, Some(Site { pool: "y".to_owned(), node: "c".to_owned() })] {
        let mut world = measuring();
        let said = client_says(&world, server);
        world.end("a", Some(said), None);
        let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
        assert_eq!(nodes[2].phase, NodePhase::Failed);
        assert!(nodes[2].message.as_ref().unwrap().starts_with("what its pod said is ignored"));
    }
}

#[test]
fn a_server_that_ends_early_ends_its_part() {
    let mut world = at_the_pair();
    world.step();
    world.end("b", None, Some("DeadlineExceeded: too long"));
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    assert_eq!(nodes[2].message.as_deref(), Some("its server on node b: DeadlineExceeded: too long"));
    assert!(matches!(world.step(), Step::Finish(Finish { outcome: RunOutcome::Failed, .. })));
    assert!(world.status.runs[0].message.as_ref().unwrap().contains("a → b"));
}

#[test]
fn an_operator_that_starts_between_server_and_client_goes_on() {
    let mut world = at_the_pair();
    let before = world.status.clone();
    let once = world.step();
    // The server's Job was made, and the status was not written.
    world.status = before;
    let again = world.step();
    assert!(matches!(again, Step::Advance(Advance { start, .. }) if start.is_empty()), "{once:?}");
    let server = pair(&world).server.unwrap().job;
    world.listen(&server);
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!(start[0].1, Role::Client);
}

#[test]
fn other_runs_in_either_pool_are_waited_for() {
    let mut world = at_the_pair();
    world.nodes.push(node("c", &[("pool", "y")]));
    world.busy.insert("c".to_owned());
    let Step::Advance(Advance { nodes, start, .. }) = world.step() else { panic!() };
    assert_eq!((start.len(), nodes[2].phase), (0, NodePhase::Waiting));
    assert!(nodes[2].message.as_ref().unwrap().contains("measures node c"));
    world.busy.clear();
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!(start.len(), 1);
}

#[test]
fn a_node_of_either_end_that_leaves_ends_the_part() {
    for gone in ["a", "b"] {
        let mut world = measuring();
        world.nodes.retain(|node| node.name != gone);
        let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
        assert_eq!(nodes[2].message, Some(format!("node {gone} left the cluster in the middle of the run")));
    }
}

#[test]
fn client_and_server_are_told_what_they_need_and_no_more() {
    let world = measuring();
    let run = world.status.active.as_ref().unwrap();
    let runner = Runner { image: "i".to_owned(), pull_policy: "Never".to_owned(), pull_secrets: Vec::new() };
    let made = |role| job(OWNER, &world.spec, (run, &run.nodes[2], role), &runner);
    let (client, server) = (made(Role::Client), made(Role::Server));
    let container = |job: &Value| job["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(container(&server)["args"], json!(["serve"]));
    assert_eq!(container(&client)["args"], json!(["run", "--quick", "--suite", "transport", "--alone"]));
    let names = |job: &Value| -> Vec<String> {
        let environment = container(job)["env"].as_array().cloned().unwrap();
        environment.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&server), ["SEALANE_BENCH_KEY"]);
    assert!(names(&client).contains(&"SEALANE_BENCH_SERVER".to_owned()));
    assert_eq!(client["metadata"]["annotations"]["sealane.dev/node"], "a");
    assert_eq!(server["metadata"]["annotations"]["sealane.dev/node"], "b");
    assert_ne!(client["metadata"]["name"], server["metadata"]["name"]);
}

#[test]
fn what_held_for_a_server_has_to_hold_for_its_client() {
    let serving = || {
        let mut world = at_the_pair();
        world.step();
        let server = pair(&world).server.unwrap().job;
        world.listen(&server);
        world
    };
    let mut changed = serving();
    changed.generation = 2;
    let Step::Advance(Advance { nodes, start, .. }) = changed.step() else { panic!() };
    assert_eq!((start.len(), nodes[2].phase), (0, NodePhase::Failed), "it would follow another spec");
    let mut busy = serving();
    busy.busy.insert("a".to_owned());
    let Step::Advance(Advance { nodes, start, .. }) = busy.step() else { panic!() };
    assert_eq!((start.len(), nodes[2].phase), (0, NodePhase::Running), "it keeps its nodes, and waits");
    busy.busy.clear();
    let Step::Advance(Advance { start, .. }) = busy.step() else { panic!() };
    assert_eq!(start[0].1, Role::Client);
}

#[test]
fn a_client_that_was_given_up_is_deleted_before_its_node_is_measured_again() {
    let mut world = measuring();
    world.nodes.retain(|node| node.name != "b");
    let Step::Advance(Advance { nodes, .. }) = world.step() else { panic!() };
    assert_eq!(nodes[2].phase, NodePhase::Failed);
    let client = pair(&world).job;
    assert!(world.jobs.iter().any(|job| job.name == client && job.is_active()));
    world.step();
    assert!(!world.jobs.iter().any(|job| job.name == client));
}

#[test]
fn a_node_is_free_when_the_job_of_an_earlier_run_has_left_it() {
    let mut world = World::new(pools_by_label());
    world.step();
    world.jobs.push(job_of("01234567-0", "earlier", "a"));
    // Its deletion takes a while.
    let (Step::Advance(advance), _) = decide(&world.situation()) else { panic!() };
    assert_eq!((advance.start.len(), advance.nodes[0].phase), (1, NodePhase::Waiting));
    assert_eq!(advance.nodes[0].message.as_deref(), Some("node a is being measured"));
    world.jobs.clear();
    let Step::Advance(Advance { start, .. }) = world.step() else { panic!() };
    assert_eq!(start.len(), 2);
}
