//! Every cipher that a policy can list.

use sealane_types::Cipher;
use serde_json::json;

use crate::client::cross;
use crate::support::{Plan, document, signed};

#[tokio::test]
async fn tensors_cross_under_every_cipher_that_a_policy_lists() {
    let mut policy = document(1);
    let words: Vec<_> = Cipher::ALL.iter().map(ToString::to_string).collect();
    policy["floors"] = json!({"ciphers": words});
    for cipher in Cipher::ALL.iter().copied().map(Some) {
        let chain = signed(&policy, &[1, 2]);
        let to = Plan { cipher, chain: chain.clone(), ..Plan::receiver() }.start();
        // Whoever dials offers what its session names and nothing else.
        let from = Plan { cipher, chain, ..Plan::sender(&[to.address]) }.start();
        cross(&from, &to, &[0, 1, 1_536, 8 << 20]).await;
    }
}
