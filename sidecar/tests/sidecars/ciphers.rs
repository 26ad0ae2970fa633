//! Every cipher that a policy can list.

use sealane_types::Cipher;
use serde_json::json;

use crate::client::cross;
use crate::support::{Plan, document, signed};

#[tokio::test]
async fn tensors_cross_under_every_cipher_that_a_policy_lists() {
    for cipher in Cipher::ALL.iter().copied() {
        let mut policy = document(1);
        // It alone, so that no other one can be taken.
        policy["floors"] = json!({"ciphers": [cipher.to_string()]});
        let (chain, cipher) = (signed(&policy, &[1, 2]), Some(cipher));
        let to = Plan { cipher, chain: chain.clone(), ..Plan::receiver() }.start();
        // Whoever dials offers what its session names and nothing else.
        let from = Plan { cipher, chain, ..Plan::sender(&[to.address]) }.start();
        cross(&from, &to, &[0, 1, 1_536, 8 << 20]).await;
    }
}
