//! The pure steps together: a namespace in, configurations and statuses out.

mod choices;
mod clocks;
mod configurations;
mod external;
mod forwards;
mod peers;
mod policies;
mod sessions;
mod work;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// `Type=Status Reason` of one condition.
fn condition(conditions: &[Condition], type_: &str) -> String {
    let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    format!("{} {}", found.status, found.reason)
}

fn message(conditions: &[Condition], type_: &str) -> String {
    conditions.iter().find(|condition| condition.type_ == type_).unwrap().message.clone()
}
