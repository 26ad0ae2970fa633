//! The data port: what greets as a further link, from somebody who knows no connection.

use std::sync::{Arc, LazyLock};

use sealane_protocol::Moment;
use sealane_protocol::connection::{JoinRequest, LINK_GREETING_BYTES, LinkTerms, Local, joins};
use sealane_protocol::record::Rekey;
use sealane_support::pair::{Pair, Recipe};
use sealane_support::world::Counter;

/// Of a connection that nobody else knows.
static TERMS: LazyLock<Arc<LinkTerms>> = LazyLock::new(|| {
    let linked = |local: &mut Local| local.links = true;
    let recipe = Recipe { initiator: Box::new(linked), responder: Box::new(linked), ..Recipe::default() };
    Pair::connected_of(recipe).responder.connection.link_terms().unwrap()
});

pub(super) fn run(data: &[u8]) {
    let told = joins(data);
    for length in 0..data.len().min(LINK_GREETING_BYTES) {
        let before = joins(&data[..length]);
        assert!(before.is_none() || before == told, "more bytes say otherwise");
    }
    let Some(greeting) = data.first_chunk::<LINK_GREETING_BYTES>() else { return };
    let Ok(request) = JoinRequest::parse(greeting) else { return };
    assert_eq!(told, Some(true));
    let admitted = TERMS.admit(&request, Rekey::default(), &mut Counter(1), Moment::from_micros(0));
    assert!(admitted.is_err(), "nobody knows the secret of this connection");
}

/// What genuine sides say, of every suite.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../vectors/keys.json")).unwrap();
    let greeting =
        |case: &serde_json::Value| hex::decode(case["join"]["greeting"].as_str().unwrap()).unwrap();
    vectors["cases"].as_array().unwrap().iter().map(greeting).collect()
}
